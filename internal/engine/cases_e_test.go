package engine

import (
	"context"
	"testing"
	"time"

	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// TestE11WhatNeverBeganIsNoFailure (docs/known-faults.md): triggers that come while the job waits for slots are counted as skipped, two checkpoints
// that fail later as aborted, and neither as the other.
func TestE11WhatNeverBeganIsNoFailure(t *testing.T) {
	simulateSeeds(t, 3, func(ctx context.Context, w world.World, t testing.TB) {
		s := newSite(t, w, func(c *Config) { c.Settings.Parallelism = 6 })
		counts := func() (skipped, aborted, triggered int) {
			return len(s.kinds(history.CheckpointSkipped)), len(s.kinds(history.CheckpointAborted)), len(s.kinds(history.CheckpointTriggered))
		}
		s.submit(ctx)
		s.until(ctx, "a checkpoint", func() bool { return s.e.Status().LastCompleted > 0 })
		if err := s.e.KillWorker(ctx, "worker-2", false); err != nil {
			t.Fatal(err)
		}
		s.until(ctx, "the wait for slots", func() bool { return s.e.Status().State == "restoring" })
		skipped, aborted, triggered := counts()
		s.until(ctx, "five triggers", func() bool { return len(s.kinds(history.CheckpointSkipped)) == skipped+5 })
		if n, m, k := counts(); n != skipped+5 || m != aborted || k != triggered {
			t.Errorf("%d skipped, %d aborted, %d triggered while the job waits; before %d, %d, %d", n, m, k, skipped, aborted, triggered)
		}
		for _, e := range s.kinds(history.CheckpointSkipped)[skipped:] {
			if e.Reason != SkippedNotRunning || e.Checkpoint != 0 {
				t.Errorf("skipped: %+v", e)
			}
		}
		if err := s.e.ReviveWorker(ctx, "worker-2"); err != nil {
			t.Fatal(err)
		}
		s.running(ctx)
		skipped, aborted, _ = counts()
		_, err := s.cfg.Failpoints.Arm(failpoint.CheckpointUploadBegin, failpoint.When{Actor: "count-3", Times: 2}, func(context.Context, failpoint.Hit) error { return errPlanned })
		if err != nil {
			t.Fatal(err)
		}
		s.until(ctx, "two failures", func() bool { return len(s.kinds(history.CheckpointAborted)) == aborted+2 })
		before := s.e.Status().LastCompleted
		s.until(ctx, "a later checkpoint", func() bool { return s.e.Status().LastCompleted > before })
		s.sleep(ctx, 10*time.Millisecond)
		if n, m, _ := counts(); n != skipped || m != aborted+2 {
			t.Errorf("%d more skipped, %d more aborted; want 0 and 2", n-skipped, m-aborted)
		}
		s.finish(ctx)
	})
}
