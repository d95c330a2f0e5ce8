package engine

import (
	"context"
	"testing"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

func TestJobRunsCheckpointsAndLeavesNothing(t *testing.T) {
	for name, change := range map[string]func(*Config){"heap": func(*Config) {}, "changelog": withChangelog} {
		t.Run(name, func(t *testing.T) {
			simulateSeeds(t, 3, func(ctx context.Context, w world.World, t testing.TB) {
				s := newSite(t, w, change)
				s.submit(ctx)
				s.finish(ctx)
				if n := len(s.kinds(history.CheckpointCompleted)); n < 10 {
					t.Errorf("only %d checkpoints completed\n%s", n, s.tail(50))
				}
				if st := s.e.Status(); st.State != "finished" || st.Pending != 0 {
					t.Errorf("status %+v", st)
				}
			})
		})
	}
}

func TestWorkerCrashRecoversExactlyOnce(t *testing.T) {
	for name, change := range map[string]func(*Config){"heap": func(*Config) {}, "changelog": withChangelog} {
		t.Run(name, func(t *testing.T) {
			simulateSeeds(t, 3, func(ctx context.Context, w world.World, t testing.TB) {
				s := newSite(t, w, change)
				s.submit(ctx)
				for i, name := range []string{"worker-0", "worker-1", "worker-0"} {
					if err := w.Sleep(ctx, 700*time.Millisecond); err != nil {
						t.Fatal(err)
					}
					if err := s.e.KillWorker(ctx, name, i%2 == 0); err != nil {
						t.Fatal(err)
					}
					if err := w.Sleep(ctx, 100*time.Millisecond); err != nil {
						t.Fatal(err)
					}
					if err := s.e.ReviveWorker(ctx, name); err != nil {
						t.Fatal(err)
					}
				}
				s.finish(ctx)
				if n := len(s.kinds(history.WorkerDown)); n != 3 {
					t.Errorf("%d workers went down, want 3", n)
				}
				if s.e.Status().Attempt < 3 {
					t.Errorf("status %+v", s.e.Status())
				}
			})
		})
	}
}
