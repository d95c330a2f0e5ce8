package engine

import (
	"context"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/world"
)

// lateSavepoint brings the job to where the log is about to decide on the savepoint that it is being stopped with, does what is
// to happen then, and lets the savepoint complete.
func lateSavepoint(ctx context.Context, s *site, then func(ctx context.Context) error) {
	s.submit(ctx)
	s.running(ctx)
	if _, err := s.e.Checkpoint(ctx); err != nil {
		s.t.Fatal(err)
	}
	armed := s.arm(failpoint.CheckpointMetadataBegin, 1, func(ctx context.Context, _ failpoint.Hit) error {
		if err := then(ctx); err != nil {
			return err
		}
		return s.w.Sleep(ctx, 500*time.Millisecond)
	})
	if _, err := s.e.StopJob(ctx, backend.Canonical); err == nil {
		s.t.Error("the job was stopped")
	}
	s.until(ctx, "the savepoint", func() bool { return len(s.kinds(history.SavepointCompleted)) == 1 })
	s.sleep(ctx, 100*time.Millisecond)
	if armed.Triggered() != 1 || len(s.kinds(history.JobStopped)) != 0 {
		s.t.Errorf("triggered %d times, the job stopped\n%s", armed.Triggered(), s.tail(20))
	}
}

// TestJobThatFailedIsNotStopped: the savepoint completes, and what the job retained stays.
func TestJobThatFailedIsNotStopped(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		s := newSite(t, w, withChangelog, func(c *Config) {
			c.Settings.Restart = plan.Restart{Strategy: plan.RestartNone}
			c.Settings.Checkpoint.Interval = plan.Duration(10 * time.Second)
		})
		lateSavepoint(ctx, s, func(ctx context.Context) error { return s.e.FailTask(ctx, s.cfg.Job.Nodes[1].ID+"-0", "planned") })
		if st := s.e.Status(); st.State != "failed" || !strings.Contains(st.Error, "allows no restart") {
			t.Errorf("status %+v", st)
		}
		log, err := checkpoint.OpenLog(ctx, w, s.mem, "test")
		if err != nil {
			t.Fatal(err)
		}
		if n := len(log.State().Retained); n != 1 {
			t.Errorf("%d checkpoints are retained", n)
		}
		s.stop(ctx)
	})
}
