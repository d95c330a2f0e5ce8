//go:build mutants

package engine

import (
	"context"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// TestMutantDeleteOnSubsumeIsSeen: without a look at the registry, objects of retained checkpoints go.
func TestMutantDeleteOnSubsumeIsSeen(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		s := newSite(t, w, withChangelog)
		if err := s.cfg.Failpoints.ArmMutant(mutantDeleteOnSubsume); err != nil {
			t.Fatal(err)
		}
		s.submit(ctx)
		s.until(ctx, "a retained checkpoint that misses objects", func() bool { return s.missing(ctx) > 0 })
		if err := s.e.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
}

// missing counts the objects that retained checkpoints name and the store does not have.
func (s *site) missing(ctx context.Context) (n int) {
	log, err := checkpoint.OpenLog(ctx, s.w, s.mem, "test")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range log.State().Retained {
		done, err := checkpoint.Read(ctx, s.mem, r.Metadata)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, o := range done.Metadata.Objects() {
			if _, err := s.mem.Stat(ctx, o.Key); err != nil {
				n++
			}
		}
	}
	return n
}

// TestMutantAcceptZombieIsSeen: an acknowledgement on its way from a worker that died counts, and what its attempt left behind stays.
func TestMutantAcceptZombieIsSeen(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		s := newSite(t, w, withChangelog)
		if err := s.cfg.Failpoints.ArmMutant(mutantAcceptZombie); err != nil {
			t.Fatal(err)
		}
		s.submit(ctx)
		s.arm(failpoint.CheckpointAckEnd, 12, func(ctx context.Context, _ failpoint.Hit) error { return s.e.KillWorker(ctx, "worker-0", true) })
		s.until(ctx, "another attempt", func() bool { return s.e.Status().Attempt == 2 && s.e.Status().State == "running" })
		if err := w.Sleep(ctx, 500*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if err := s.e.Stop(ctx); err != nil {
			t.Error(err)
		}
		zombies := 0
		fenced := false
		for _, e := range s.events {
			fenced = fenced || e.Kind == history.AttemptFailed
			if fenced && e.Kind == history.CheckpointAckTaken && e.Attempt == 1 && e.Reason == "" {
				zombies++
			}
		}
		left := 0
		for _, prefix := range checkpoint.AttemptPrefixes(1) {
			for range s.mem.List(ctx, prefix, "") {
				left++
			}
		}
		if zombies == 0 && left == 0 {
			t.Error("nothing of the bug can be seen")
		}
	})
}

// TestMutantsOfTheJoinAreSeen: a broadcast record that some subtasks do not get, and a watermark that is not the least over both
// inputs, show in the output of most schedules.
func TestMutantsOfTheJoinAreSeen(t *testing.T) {
	for _, name := range []string{"", mutantDropBroadcast, mutantFirstWatermark} {
		t.Run(name, func(t *testing.T) {
			seen := 0
			for seed := range uint64(6) {
				simulate(t, seed, func(ctx context.Context, w world.World) {
					s := newJoinSite(t, w)
					if name != "" {
						if err := s.cfg.Failpoints.ArmMutant(name); err != nil {
							t.Fatal(err)
						}
					}
					s.submit(ctx)
					s.until(ctx, "the end of the input", func() bool { return s.e.Progress().Finished() })
					if err := s.e.StopSources(ctx); err != nil {
						t.Fatal(err)
					}
					if _, err := s.e.Checkpoint(ctx); err != nil {
						t.Fatal(err)
					}
					if err := s.e.Stop(ctx); err != nil {
						t.Fatal(err)
					}
					if len(s.wrongOutput()) > 0 {
						seen++
					}
				})
			}
			if (name == "") != (seen == 0) || name != "" && seen < 3 {
				t.Errorf("wrong output in %d of 6 schedules", seen)
			}
		})
	}
}

// TestMutantDropBroadcastFailsTheRestore: copies that went apart are refused.
func TestMutantDropBroadcastFailsTheRestore(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		s := newJoinSite(t, w)
		if err := s.cfg.Failpoints.ArmMutant(mutantDropBroadcast); err != nil {
			t.Fatal(err)
		}
		failing(s, 30) // a record that was dropped is forgotten soon
		s.submit(ctx)
		s.until(ctx, "the end of the job", func() bool { return s.e.Status().State == "failed" })
		if why := s.e.Status().Error; !strings.Contains(why, "broadcast state of join-") {
			t.Error(why)
		}
		if err := s.e.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
}
