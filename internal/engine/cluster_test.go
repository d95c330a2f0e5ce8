package engine

import (
	"context"
	"testing"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
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

func TestStopAtAnyMomentLeavesNothing(t *testing.T) {
	for seed := range uint64(25) {
		simulate(t, seed, func(ctx context.Context, w world.World) {
			s := newSite(t, w, withChangelog)
			s.submit(ctx)
			if err := w.Sleep(ctx, time.Duration(w.Rand("test").Int64N(int64(900*time.Millisecond)))); err != nil {
				t.Fatal(err)
			}
			if seed%5 == 0 {
				_ = s.e.KillWorker(ctx, "worker-1", true)
			}
			s.stop(ctx)
			if st := s.e.Status(); st.State != "finished" {
				t.Errorf("seed %d: status %+v", seed, st)
			}
			if s.cfg.Collect.Result().Pending != 0 {
				t.Errorf("seed %d: transactions are pending", seed)
			}
			s.checkLeftovers(ctx)
			for _, h := range s.e.mu.hosts {
				if n := h.domain.Procs(); n != 0 {
					t.Errorf("seed %d: %s has %d processes left", seed, h.name, n)
				}
			}
			if n := s.e.mu.coordinator.end.domain.Procs(); n != 0 {
				t.Errorf("seed %d: the coordinator has %d processes left", seed, n)
			}
		})
	}
}

func TestStopIsIdempotent(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		s := newSite(t, w)
		if err := s.e.Stop(ctx); err != nil {
			t.Errorf("without a job: %v", err)
		}
		if err := s.e.Submit(ctx); err == nil {
			t.Error("submitted after the stop")
		}
	})
	simulate(t, 1, func(ctx context.Context, w world.World) {
		s := newSite(t, w)
		s.submit(ctx)
		if err := s.e.Submit(ctx); err == nil {
			t.Error("submitted twice")
		}
		for range 2 {
			s.stop(ctx)
		}
		if _, err := s.e.Checkpoint(ctx); err == nil {
			t.Error("a stopped job takes checkpoints")
		}
		if err := s.e.ReviveWorker(ctx, "worker-0"); err == nil {
			t.Error("a worker was revived after the stop")
		}
	})
}

// TestStopSourcesEndsTheInputWhereItStands: also when the attempt fails between that and the last checkpoint.
func TestStopSourcesEndsTheInputWhereItStands(t *testing.T) {
	simulateSeeds(t, 4, func(ctx context.Context, w world.World, t testing.TB) {
		s := newSite(t, w, withChangelog)
		s.submit(ctx)
		if err := w.Sleep(ctx, 1100*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if err := s.e.StopSources(ctx); err != nil {
			t.Fatal(err)
		}
		stopped := s.e.Emitted()
		if err := s.e.KillWorker(ctx, "worker-0", true); err != nil {
			t.Fatal(err)
		}
		s.until(ctx, "another attempt", func() bool { return s.e.Status().Attempt == 2 && s.e.Status().State == "running" })
		s.until(ctx, "the end of the input", s.e.Progress().Finished)
		if _, err := s.e.Checkpoint(ctx); err != nil {
			t.Fatal(err)
		}
		s.stop(ctx)
		s.checkStore(ctx)
		got := s.cfg.Collect.Result()
		if e := s.e.Emitted(); got.Records != e || e-stopped > 64*3 || got.DuplicateCount != 0 {
			t.Errorf("committed %d of %d records, %d when the sources were stopped", got.Records, e, stopped)
		}
	})
}

// TestChaos does what a run does to a job, at random.
func TestChaos(t *testing.T) {
	seeds := uint64(15)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		simulate(t, 1000+seed, func(ctx context.Context, w world.World) { chaos(ctx, t, w) })
	}
}

func chaos(ctx context.Context, t testing.TB, w world.World) {
	rnd := w.Rand("test/chaos")
	change := func(c *Config) {
		c.Settings.Checkpoint.Retain = 1 + rnd.IntN(3)
		c.Settings.Checkpoint.MaxConcurrent = 1 + rnd.IntN(2)
		c.Settings.Checkpoint.Interval = plan.Duration(50+rnd.IntN(200)) * plan.Duration(time.Millisecond)
		c.Settings.Checkpoint.Timeout = plan.Duration(time.Second)
		if rnd.IntN(4) > 0 {
			withChangelog(c)
		}
	}
	s := newSite(t, w, change)
	heal := func() {}
	if rnd.IntN(2) == 0 {
		lost := s.inj.Add(store.Rule{Name: "lost", Ops: []string{history.OpPut}, Share: 0.1, Status: 500})
		slow := s.inj.Add(store.Rule{Name: "slow", Share: 0.1, Status: 503})
		heal = func() { lost(); slow() }
	}
	s.submit(ctx)
	for range 6 {
		if err := w.Sleep(ctx, time.Duration(rnd.Int64N(int64(700*time.Millisecond)))); err != nil {
			t.Fatal(err)
		}
		switch rnd.IntN(4) {
		case 0, 1:
			name := workerName(rnd.IntN(3))
			if s.e.WorkerUp(name) {
				_ = s.e.KillWorker(ctx, name, rnd.IntN(2) == 0)
			} else {
				_ = s.e.ReviveWorker(ctx, name)
			}
		case 2:
			_ = s.e.FailTask(ctx, "any", "chaos")
		case 3:
			p := 1 + rnd.IntN(6)
			limited, cancel := w.WithTimeout(ctx, 2*time.Second)
			_ = s.e.Rescale(limited, p, []string{"latest", RescalePrevious}[rnd.IntN(2)])
			cancel()
		}
	}
	heal()
	for _, name := range s.e.Workers() {
		if !s.e.WorkerUp(name) {
			if err := s.e.ReviveWorker(ctx, name); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.finish(ctx)
}

// TestSameSeedSameJob: the same seed gives the same history, and a flipped choice of the scheduler shows.
func TestSameSeedSameJob(t *testing.T) {
	history := func(flip int64) string {
		w := world.NewSim(world.SimOptions{Seed: 5, FlipChoice: flip})
		var text string
		if err := w.Run(func(ctx context.Context) error {
			s := newSite(t, w, withChangelog)
			s.submit(ctx)
			if err := w.Sleep(ctx, 800*time.Millisecond); err != nil {
				return err
			}
			if err := s.e.KillWorker(ctx, "worker-1", true); err != nil {
				return err
			}
			s.finish(ctx)
			text = s.tail(1 << 20)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return text
	}
	one, two := history(0), history(0)
	if one != two {
		t.Error("the same seed gave two histories")
	}
	for flip := int64(50); one == history(flip); flip += 50 {
		if flip > 1000 {
			t.Fatal("no other choice of the scheduler gives another history")
		}
	}
}

// TestRealWorld runs the same text with goroutines.
func TestRealWorld(t *testing.T) {
	w := world.NewReal(1)
	if err := w.Run(func(ctx context.Context) error {
		s := newSite(t, w, withChangelog, func(c *Config) {
			c.Settings.Checkpoint.Interval = plan.Duration(50 * time.Millisecond)
			c.Settings.RestartDelay = plan.Duration(time.Millisecond)
		})
		s.src.total, s.src.gap = 20_000, 20*time.Microsecond
		s.submit(ctx)
		s.until(ctx, "two checkpoints", func() bool { return len(s.kinds(history.CheckpointCompleted)) >= 2 })
		if err := s.e.KillWorker(ctx, "worker-1", true); err != nil {
			return err
		}
		if err := s.e.ReviveWorker(ctx, "worker-1"); err != nil {
			return err
		}
		s.until(ctx, "another attempt", func() bool { return s.e.Status().Attempt == 2 && s.e.Status().State == "running" })
		if err := s.e.Rescale(ctx, 3, "latest"); err != nil {
			return err
		}
		if m := s.e.Metrics(); len(m.Subtasks) == 0 {
			t.Error("no metrics")
		}
		s.finish(ctx)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestDiskOutlivesTheWorker: a crash loses what was not synced, and everything when the disk is lost.
func TestDiskOutlivesTheWorker(t *testing.T) {
	for _, lose := range []bool{false, true} {
		simulate(t, 1, func(ctx context.Context, w world.World) {
			s := newSite(t, w)
			s.submit(ctx)
			s.running(ctx)
			disk := s.e.mu.hosts[1].domain.Disk()
			if err := disk.WriteFile("kept", []byte("synced")); err != nil {
				t.Fatal(err)
			}
			if err := s.e.KillWorker(ctx, "worker-1", lose); err != nil {
				t.Fatal(err)
			}
			if err := s.e.ReviveWorker(ctx, "worker-1"); err != nil {
				t.Fatal(err)
			}
			names, err := s.e.mu.hosts[1].domain.Disk().List("")
			if err != nil || (len(names) == 0) != lose {
				t.Errorf("lose %v: the disk has %v, %v", lose, names, err)
			}
			s.finish(ctx)
		})
	}
}
