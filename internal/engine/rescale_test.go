package engine

import (
	"context"
	"testing"
	"time"

	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

func TestRescaleKeepsEveryKey(t *testing.T) {
	for name, change := range map[string]func(*Config){"heap": func(*Config) {}, "changelog": withChangelog} {
		t.Run(name, func(t *testing.T) {
			simulateSeeds(t, 3, func(ctx context.Context, w world.World, t testing.TB) {
				s := newSite(t, w, change)
				s.submit(ctx)
				s.running(ctx)
				for i, p := range []int{5, 1, 3, 3, 6, 2} {
					if err := w.Sleep(ctx, 300*time.Millisecond); err != nil {
						t.Fatal(err)
					}
					from := "latest"
					if i%3 == 2 {
						from = RescalePrevious
					}
					before := len(s.kinds(history.CheckpointCompleted))
					if err := s.e.Rescale(ctx, p, from); err != nil {
						t.Fatal(err)
					}
					if st := s.e.Status(); st.Parallelism != p || st.State != "running" {
						t.Errorf("status %+v after a rescale to %d", st, p)
					}
					if fresh := len(s.kinds(history.CheckpointCompleted)) > before; from == "latest" && !fresh {
						t.Errorf("the rescale to %d took no fresh checkpoint", p)
					}
				}
				s.finish(ctx)
				if begun, done := s.kinds(history.RescaleBegin), s.kinds(history.RescaleDone); len(begun) != 6 || len(done) != 6 || done[1].From != 5 || done[1].Count != 1 {
					t.Errorf("begun %+v, done %+v", begun, done)
				}
			})
		})
	}
}

func TestRescaleIsRefused(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		s := newSite(t, w)
		if err := s.e.Rescale(ctx, 2, "latest"); err == nil {
			t.Error("rescaled before the job was submitted")
		}
		s.submit(ctx)
		s.running(ctx)
		for _, p := range []int{0, -1, 7, 33} {
			if err := s.e.Rescale(ctx, p, "latest"); err == nil {
				t.Errorf("rescaled to %d with 6 slots", p)
			}
		}
		s.finish(ctx)
	})
}

// TestRescaleSurvivesFailures: a worker dies while the fresh checkpoint is taken, or while the new attempt restores.
func TestRescaleSurvivesFailures(t *testing.T) {
	for _, point := range []string{failpoint.CheckpointPrecommitBegin, failpoint.CheckpointEntryBegin, failpoint.CheckpointNotifyEnd} {
		t.Run(point, func(t *testing.T) {
			simulateSeeds(t, 3, func(ctx context.Context, w world.World, t testing.TB) {
				s := newSite(t, w, withChangelog)
				s.submit(ctx)
				s.until(ctx, "two checkpoints", func() bool { return len(s.kinds(history.CheckpointCompleted)) == 2 })
				s.arm(point, 1, func(ctx context.Context, h failpoint.Hit) error { return s.e.KillWorker(ctx, "worker-0", true) })
				if err := s.e.Rescale(ctx, 4, "latest"); err != nil {
					t.Fatal(err)
				}
				if st := s.e.Status(); st.Parallelism != 4 {
					t.Errorf("status %+v", st)
				}
				s.finish(ctx)
			})
		})
	}
}

func TestRescaleDuringFailover(t *testing.T) {
	simulateSeeds(t, 3, func(ctx context.Context, w world.World, t testing.TB) {
		s := newSite(t, w, withChangelog)
		s.submit(ctx)
		s.until(ctx, "two checkpoints", func() bool { return len(s.kinds(history.CheckpointCompleted)) == 2 })
		if err := s.e.KillWorker(ctx, "worker-1", true); err != nil {
			t.Fatal(err)
		}
		if err := s.e.Rescale(ctx, 3, "latest"); err != nil {
			t.Fatal(err)
		}
		s.finish(ctx)
	})
}
