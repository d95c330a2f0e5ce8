package engine

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/heap"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/world"
)

// TestB21EachAttemptUsesTheSavepoint: the first two attempts after a start cannot read the savepoint's state. The third one can, and none
// of them starts from anything else.
func TestB21EachAttemptUsesTheSavepoint(t *testing.T) {
	for _, form := range []string{backend.Canonical, backend.Native} {
		t.Run(form, func(t *testing.T) {
			simulateSeeds(t, 3, func(ctx context.Context, w world.World, t testing.TB) {
				s := newSite(t, w, func(c *Config) { c.Backend = backends()["heap-on"] })
				s.submit(ctx)
				s.sleep(ctx, 700*time.Millisecond)
				stopped := s.stopJob(ctx, form)
				const rule = "no-state"
				heal := s.inj.Add(store.Rule{Name: rule, Ops: []string{history.OpGet}, Prefix: checkpoint.SavepointFolder(stopped) + "count-", Status: 500})
				s.on(history.AttemptFailed, len(s.kinds(history.AttemptFailed))+2, func(context.Context, *history.Event) { heal() })
				before := len(s.kinds(history.AttemptStarted))
				s.startJob(ctx, plan.FromSavepoint, 3, nil)
				started := s.kinds(history.AttemptStarted)[before:]
				if len(started) != 3 || s.inj.Hits(rule) == 0 {
					t.Errorf("%d attempts after %d errors\n%s", len(started), s.inj.Hits(rule), s.tail(30))
				}
				for _, e := range started {
					if e.Checkpoint != stopped {
						t.Errorf("attempt %d was started from %d, want the savepoint %d", e.Attempt, e.Checkpoint, stopped)
					}
				}
				s.finish(ctx)
				s.savepointsHold(ctx)
			})
		})
	}
}

// TestB22NothingIsNumberedTwice: after failures, a new leader and another life of the job each checkpoint has an id above all before it,
// and no key of the store is used for two objects.
func TestB22NothingIsNumberedTwice(t *testing.T) {
	simulateSeeds(t, 5, func(ctx context.Context, w world.World, t testing.TB) {
		puts := map[string]int{}
		s := newSite(t, w, func(c *Config) {
			c.Backend = backends()[[]string{"heap", "heap-on"}[w.Rand("test").IntN(2)]]
			c.Bucket = store.WithHooks(c.Bucket, store.Hooks{Begin: func(_ context.Context, call store.Call) {
				if call.Op == history.OpPut {
					puts[call.Key]++
				}
			}})
		})
		var restored []uint64 // and the id that the next checkpoint had
		again := func() {
			a := s.kinds(history.AttemptStarted)
			n := len(s.kinds(history.CheckpointTriggered))
			s.until(ctx, "the next checkpoint", func() bool { return len(s.kinds(history.CheckpointTriggered)) > n })
			restored = append(restored, a[len(a)-1].Checkpoint, s.kinds(history.CheckpointTriggered)[n].Checkpoint)
		}
		s.submit(ctx)
		s.until(ctx, "four checkpoints", func() bool { return s.e.Status().LastCompleted >= 4 })
		if err := s.e.FailTask(ctx, "count-0", "planned"); err != nil {
			t.Fatal(err)
		}
		s.until(ctx, "the next attempt", func() bool { return len(s.kinds(history.AttemptRunning)) == 2 })
		again()
		s.stopJob(ctx, "")
		s.startJob(ctx, plan.FromCheckpoint, 3, nil)
		again()
		s.replaceLeader(ctx)
		s.until(ctx, "an attempt of the next leader", func() bool { return len(s.kinds(history.AttemptRunning)) == 4 })
		again()
		s.until(ctx, "the end of the input", func() bool { return s.e.Progress().Finished() })
		if _, err := s.e.Checkpoint(ctx); err != nil {
			t.Fatal(err)
		}
		if err := s.e.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		s.checkOutput()
		last := uint64(0)
		for _, e := range s.kinds(history.CheckpointTriggered) {
			if e.Checkpoint <= last {
				t.Errorf("checkpoint %d was triggered after %d", e.Checkpoint, last)
			}
			last = e.Checkpoint
		}
		for i := 0; i < len(restored); i += 2 {
			if restored[i] < 4 || restored[i+1] <= restored[i] {
				t.Errorf("restored checkpoint %d, the next one was %d", restored[i], restored[i+1])
			}
		}
		for key, n := range puts {
			if n != 1 {
				t.Errorf("%s was put %d times", key, n)
			}
		}
		if n := s.mem.Stats().Overwrites; n != 0 || len(puts) < 20 {
			t.Errorf("%d overwrites in %d puts", n, len(puts))
		}
	})
}

// panicky is a backend that panics while it restores, in its own process or in another one that it waits for, or before, when the worker
// makes it.
type panicky struct {
	backend.Factory
	beside, before bool
	armed          *bool
}

func (p panicky) ForWorker(ctx context.Context, e backend.WorkerEnv) (backend.Backend, error) {
	if *p.armed && p.before {
		panic("decoder of " + e.Worker)
	}
	b, err := p.Factory.ForWorker(ctx, e)
	return panickyBackend{b, p, e.World}, err
}

type panickyBackend struct {
	backend.Backend
	p panicky
	w world.World
}

func (b panickyBackend) Open(ctx context.Context, o backend.OpenOptions) (backend.Keyed, error) {
	if !*b.p.armed || len(o.Handles) == 0 {
		return b.Backend.Open(ctx, o)
	}
	if !b.p.beside {
		panic("decoder of " + o.Subtask)
	}
	g := world.NewGroup(b.w)
	g.Go(ctx, "decode", func(context.Context) error { panic("decoder of " + o.Subtask) })
	return nil, g.Wait(ctx)
}

// TestB23ErrorsOfARestoreEndTheJob: whatever goes wrong in each restore, the job is given up in time and says why.
func TestB23ErrorsOfARestoreEndTheJob(t *testing.T) {
	for _, c := range []struct{ what, want string }{
		{"403", "access denied"}, {"panic", "decoder of count-"}, {"panic beside", "decoder of count-"},
		{"panic before", "panicked while it started"},
	} {
		for name, nested := range map[string]backend.Factory{"heap": heap.New(heap.Options{}), "heap-on": backends()["heap-on"]} {
			t.Run(c.what+" "+name, func(t *testing.T) {
				simulateSeeds(t, 2, func(ctx context.Context, w world.World, t testing.TB) {
					armed := false
					s := newSite(t, w, func(cfg *Config) {
						cfg.Settings.Restart = plan.Restart{Strategy: plan.RestartFixed, Attempts: 3}
						cfg.Backend = panicky{Factory: nested, beside: c.what == "panic beside", before: c.what == "panic before", armed: &armed}
					})
					s.submit(ctx)
					s.until(ctx, "checkpoints with a base", func() bool {
						return s.e.Status().LastCompleted >= 3 && len(s.stored(ctx, checkpoint.BasePrefix)) > 0
					})
					if c.what == "403" {
						s.inj.Add(store.Rule{Name: c.what, Ops: []string{history.OpGet}, Prefix: checkpoint.BasePrefix, Status: 403})
						s.inj.Add(store.Rule{Name: c.what + " log", Ops: []string{history.OpGet}, Prefix: checkpoint.LogPrefix, Status: 403})
					} else {
						armed = true
					}
					if err := s.e.FailTask(ctx, "count-1", "planned"); err != nil {
						t.Fatal(err)
					}
					s.until(ctx, "the end of the job", func() bool { return s.e.Status().State == "failed" })
					why := s.e.Status().Error
					if !strings.Contains(why, c.want) || !strings.Contains(why, "fixed-delay") {
						t.Errorf("the job failed: %s", why)
					}
					failed := s.kinds(history.AttemptFailed)
					if len(failed) != 4 || !slices.ContainsFunc(failed, func(e history.Event) bool { return strings.Contains(e.Error, c.want) }) {
						t.Errorf("failed: %+v", failed)
					}
					s.stop(ctx)
				})
			})
		}
	}
}

// TestB16ScaleOutCopiesNothing: a base is restored by four subtasks. Their first checkpoints put next to nothing and name what the one
// had, and once they have materialized they name no more than before. (The LSM tree fetches whole files of a state this small.)
func TestB16ScaleOutCopiesNothing(t *testing.T) {
	for _, name := range []string{"heap-on", "lsm", "lsm-on"} {
		if testing.Short() && name != "heap-on" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			simulate(t, 1, func(ctx context.Context, w world.World) {
				s := newSite(t, w, func(c *Config) {
					c.Backend = backends()[name]
					c.Settings.Parallelism = 1
					c.Settings.Checkpoint.Interval = 0
				})
				s.src.keys, s.src.total, s.src.gap = 3000, 2000, time.Millisecond/4
				s.submit(ctx)
				take := func() history.Sizes {
					id, err := s.e.Checkpoint(ctx)
					if err != nil {
						t.Fatal(err)
					}
					all := s.kinds(history.CheckpointCompleted)
					if e := all[len(all)-1]; e.Checkpoint != id {
						t.Fatalf("checkpoint %d is not the newest", id)
					}
					return *all[len(all)-1].Sizes
				}
				s.until(ctx, "state", func() bool { return s.e.Progress().Finished() })
				for range 2 {
					s.sleep(ctx, 700*time.Millisecond) // with a changelog: materialized, and no log left
					take()
				}
				one := take()
				if err := s.e.Rescale(ctx, 4, RescalePrevious); err != nil {
					t.Fatal(err)
				}
				var read int64
				restored := s.kinds(history.RestoreLoaded)
				for _, e := range restored[len(restored)-4:] {
					read += e.Bytes
				}
				first := take()
				s.sleep(ctx, 700*time.Millisecond)
				later := take()
				if one.Delta != 0 || one.Full < 40_000 || read == 0 || name == "heap-on" && read > one.Full*12/10 {
					t.Errorf("%d bytes read to restore %+v", read, one)
				}
				if first.Checkpointed > one.Full/20 || first.Full > one.Full*11/10 || later.Full > one.Full*11/10 {
					t.Errorf("from %+v to %+v and then %+v", one, first, later)
				}
				s.finish(ctx)
			})
		})
	}
}
