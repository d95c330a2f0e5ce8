package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/heap"
	"statebench.dev/bench/backend/lsm"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/world"
)

// backends are those that a job can be started with.
func backends() map[string]backend.Factory {
	on := func(nested backend.Factory, name string) backend.Factory {
		return changelog.New(changelog.Options{Nested: nested, NestedName: name, Materialize: 300 * time.Millisecond, Preemptive: 4 << 10,
			BatchDelay: 2 * time.Millisecond, BatchSize: 1 << 16, InFlight: 1 << 20})
	}
	h, l := heap.New(heap.Options{ObjectBytes: 4 << 10}), lsm.New(lsm.Options{})
	return map[string]backend.Factory{
		"heap": changelog.Off(h), "heap-on": on(h, heap.Name), "lsm": changelog.Off(l), "lsm-on": on(l, lsm.Name),
	}
}

// savepointsHold: what lies under the prefix of savepoints is what those in the log name, whole and intact; and no checkpoint names any.
func (s *site) savepointsHold(ctx context.Context) (n int) {
	s.t.Helper()
	log, err := checkpoint.OpenLog(ctx, s.w, s.mem, "test")
	if err != nil {
		s.t.Fatal(err)
	}
	named := map[string]checkpoint.ObjectUse{}
	for _, r := range log.State().Savepoints {
		done, err := checkpoint.Read(ctx, s.mem, r.Metadata)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, o := range append(done.Metadata.Objects(), done.Object) {
			if id, ok := checkpoint.SavepointOf(o.Key); !ok || id != r.ID {
				s.t.Errorf("savepoint %d names %s", r.ID, o.Key)
			}
			named[o.Key] = o
		}
	}
	for a, err := range s.mem.List(ctx, checkpoint.SavepointPrefix, "") {
		if err != nil {
			s.t.Fatal(err)
		}
		body, _ := s.mem.Get(ctx, a.Key)
		if o, ok := named[a.Key]; !ok || o.CRC32C != store.CRC32C(body) {
			s.t.Errorf("%s is named by no savepoint, or is not what it names", a.Key)
		}
		delete(named, a.Key)
	}
	for key := range named {
		s.t.Errorf("%s is missing", key)
	}
	for _, c := range s.refs {
		for _, o := range c.Added {
			if backend.OfSavepoint(o.Key) {
				s.t.Errorf("checkpoint %d names %s", c.Checkpoint, o.Key)
			}
		}
	}
	return len(log.State().Savepoints)
}

// stopJob stops the job, again when a fault was in the way.
func (s *site) stopJob(ctx context.Context, form string) uint64 {
	s.t.Helper()
	for range 20 {
		id, err := s.e.StopJob(ctx, form)
		if err == nil {
			return id
		}
		if !strings.Contains(err.Error(), "aborted") {
			s.t.Fatal(err)
		}
	}
	s.t.Fatalf("the job cannot be stopped\n%s", s.tail(40))
	return 0
}

func (s *site) startJob(ctx context.Context, from string, p int, b backend.Factory) uint64 {
	s.t.Helper()
	id, err := s.e.StartJob(ctx, StartOptions{From: from, Parallelism: p, Backend: b})
	if err != nil {
		s.t.Fatalf("start: %v\n%s", err, s.tail(40))
	}
	return id
}

func (s *site) sleep(ctx context.Context, d time.Duration) {
	s.t.Helper()
	if err := s.w.Sleep(ctx, d); err != nil {
		s.t.Fatal(err)
	}
}

// TestStopAndStart takes a job through several lives: with and without a changelog, from one backend to another, with either form
// and by cancelling, at other parallelisms. Its output is what it would have been in one life.
func TestStopAndStart(t *testing.T) {
	all := backends()
	for i, c := range []struct{ from, to, form string }{
		{"heap", "heap", backend.Native}, {"heap", "heap", backend.Canonical}, {"heap", "heap", ""},
		{"heap", "heap-on", backend.Native}, {"heap", "heap-on", backend.Canonical}, {"heap", "heap-on", ""},
		{"heap-on", "heap", backend.Native}, {"heap-on", "heap", backend.Canonical}, {"heap-on", "heap", ""},
		{"heap-on", "heap-on", backend.Native}, {"heap-on", "heap-on", backend.Canonical}, {"heap-on", "heap-on", ""},
		{"lsm", "lsm", backend.Native}, {"lsm", "lsm-on", backend.Native}, {"lsm-on", "lsm", backend.Native}, {"lsm-on", "lsm-on", backend.Native},
		{"lsm", "lsm-on", ""}, {"lsm-on", "lsm", ""}, {"lsm", "lsm", ""},
		{"heap", "lsm", backend.Canonical}, {"heap-on", "lsm", backend.Canonical}, {"heap", "lsm-on", backend.Canonical},
		{"lsm", "heap", backend.Canonical}, {"lsm-on", "heap-on", backend.Canonical}, {"lsm", "lsm", backend.Canonical},
	} {
		if testing.Short() && i%6 != 0 { // the race detector multiplies what an LSM tree costs
			continue
		}
		t.Run(fmt.Sprintf("%s to %s %s", c.from, c.to, c.form), func(t *testing.T) {
			simulate(t, uint64(i), func(ctx context.Context, w world.World) {
				s := newSite(t, w, func(cfg *Config) { cfg.Backend = all[c.from] })
				s.submit(ctx)
				from, taken := plan.FromSavepoint, 2
				if c.form == "" {
					from, taken = plan.FromCheckpoint, 0
				}
				for life, p := range []int{3, 1} {
					s.sleep(ctx, 700*time.Millisecond)
					stopped := s.stopJob(ctx, c.form)
					if st := s.e.Status(); st.State != "stopped" || c.form != "" && st.LastCompleted != 0 {
						t.Errorf("status %+v", st)
					}
					s.checkLeftovers(ctx)
					s.sleep(ctx, 300*time.Millisecond)
					to := all[c.to]
					if life == 1 {
						to = all[c.from]
					}
					started := s.startJob(ctx, from, p, to)
					if c.form != "" && started != stopped {
						t.Errorf("started from %d, stopped with %d", started, stopped)
					}
					if st := s.e.Status(); st.Parallelism != p {
						t.Errorf("status %+v", st)
					}
				}
				s.finish(ctx)
				if n := s.savepointsHold(ctx); n != taken {
					t.Errorf("%d savepoints, want %d", n, taken)
				}
				if st := s.e.Status(); st.Attempt != 3 {
					t.Errorf("status %+v", st)
				}
			})
		})
	}
}

// TestWorkerCrashAtEachStageOfASavepoint kills a worker in the middle of every stage of a savepoint, one that the job goes on
// after and one that it is stopped with. Nothing is left of what was aborted, and the job is stopped and started in the end.
func TestWorkerCrashAtEachStageOfASavepoint(t *testing.T) {
	all := backends()
	for i, point := range checkpointPoints() {
		if strings.Contains(point, "-drop-") || strings.Contains(point, "-delete-") {
			continue // a savepoint has no such stage; the stop has, for the checkpoints that it drops
		}
		for _, stop := range []bool{false, true} {
			if testing.Short() && (i%4 != 0 || stop == (i%8 == 0)) {
				continue
			}
			t.Run(fmt.Sprintf("%s stop %t", point, stop), func(t *testing.T) {
				simulate(t, uint64(i), func(ctx context.Context, w world.World) {
					s := newSite(t, w, func(cfg *Config) {
						cfg.Settings.Checkpoint.Interval = plan.Duration(10 * time.Second)
						cfg.Backend = all[[]string{"heap-on", "lsm-on", "heap", "lsm"}[i%4]]
					})
					s.src.total = 1200
					s.submit(ctx)
					s.running(ctx)
					s.sleep(ctx, 200*time.Millisecond)
					if _, err := s.e.Checkpoint(ctx); err != nil {
						t.Fatal(err)
					}
					killed := world.NewLatch(w)
					armed := s.arm(point, 1, func(ctx context.Context, h failpoint.Hit) error {
						killed.Open()
						return s.e.KillWorker(ctx, "worker-1", true)
					})
					form := []string{backend.Canonical, backend.Native}[i/2%2]
					var err error
					if stop {
						_, err = s.e.StopJob(ctx, form)
					} else {
						_, err = s.e.Savepoint(ctx, form)
					}
					s.until(ctx, "the kill at "+point, killed.Opened)
					s.sleep(ctx, 100*time.Millisecond)
					if err := s.e.ReviveWorker(ctx, "worker-1"); err != nil {
						t.Fatal(err)
					}
					aborted := s.kinds(history.SavepointAborted)
					if completed := s.kinds(history.SavepointCompleted); len(aborted)+len(completed) != 1 || (err == nil) != (len(completed) == 1) {
						t.Errorf("%d savepoints were aborted, %d completed: %v", len(aborted), len(completed), err)
					}
					for _, e := range aborted {
						if e.Reason == "" {
							t.Error("aborted without a reason")
						}
					}
					if !stop || err != nil {
						s.running(ctx)
						s.stopJob(ctx, form)
					}
					s.startJob(ctx, plan.FromSavepoint, 4, nil)
					s.finish(ctx)
					s.savepointsHold(ctx)
					if armed.Triggered() != 1 {
						t.Errorf("triggered %d times", armed.Triggered())
					}
				})
			})
		}
	}
}

// TestErrorAtEachStageOfASavepoint: the savepoint is aborted, unless it was decided already, and the job goes on in the same attempt or
// in the next one.
func TestErrorAtEachStageOfASavepoint(t *testing.T) {
	for i, point := range checkpointPoints() {
		if strings.Contains(point, "-drop-") || strings.Contains(point, "-delete-") {
			continue
		}
		t.Run(point, func(t *testing.T) {
			simulate(t, uint64(i), func(ctx context.Context, w world.World) {
				s := newSite(t, w, withChangelog, func(cfg *Config) { cfg.Settings.Checkpoint.Interval = plan.Duration(10 * time.Second) })
				s.src.total = 1000
				s.submit(ctx)
				s.running(ctx)
				armed := s.arm(point, 1, func(context.Context, failpoint.Hit) error { return errPlanned })
				_, err := s.e.StopJob(ctx, backend.Canonical)
				if armed.Triggered() != 1 {
					t.Errorf("triggered %d times", armed.Triggered())
				}
				if err != nil {
					before := s.e.Progress().Emitted()
					s.until(ctx, "the sources to go on", func() bool { return s.e.Progress().Emitted() > before })
					s.stopJob(ctx, backend.Canonical)
				}
				s.startJob(ctx, plan.FromSavepoint, 0, nil)
				s.finish(ctx)
				s.savepointsHold(ctx)
			})
		})
	}
}

// TestB08SecondRestoreBeforeTheFirstMaterialization: after a start the first checkpoints have a base that no materialization made. A
// crash before the first one completes goes back to where the job started, one after it to that checkpoint.
func TestB08SecondRestoreBeforeTheFirstMaterialization(t *testing.T) {
	all := backends()
	for _, c := range []struct{ from, form string }{
		{"heap", backend.Native}, {"heap", backend.Canonical}, {"heap", ""}, {"lsm", backend.Native}, {"lsm", backend.Canonical}, {"lsm", ""},
	} {
		if testing.Short() && c.from == lsm.Name {
			continue
		}
		t.Run(c.from+" "+c.form, func(t *testing.T) {
			simulateSeeds(t, 3, func(ctx context.Context, w world.World, t testing.TB) {
				s := newSite(t, w, func(cfg *Config) { cfg.Backend = all[c.from] })
				s.src.total = 2000
				s.submit(ctx)
				s.sleep(ctx, 500*time.Millisecond)
				stopped := s.stopJob(ctx, c.form)
				from := plan.FromSavepoint
				if c.form == "" {
					from = plan.FromCheckpoint
				}
				nested := map[string]backend.Factory{"heap": heap.New(heap.Options{}), "lsm": lsm.New(lsm.Options{})}[c.from]
				base := s.startJob(ctx, from, 3, changelog.New(changelog.Options{Nested: nested, NestedName: c.from, Materialize: time.Hour}))
				crash := func() {
					if err := s.e.KillWorker(ctx, "worker-1", true); err != nil {
						t.Fatal(err)
					}
					s.sleep(ctx, 50*time.Millisecond)
					if err := s.e.ReviveWorker(ctx, "worker-1"); err != nil {
						t.Fatal(err)
					}
					s.running(ctx)
				}
				crash()
				if started := s.kinds(history.AttemptStarted); c.form != "" && started[len(started)-1].Checkpoint != stopped {
					t.Errorf("restored %d, want the savepoint %d\n%s", started[len(started)-1].Checkpoint, stopped, s.tail(30))
				}
				s.until(ctx, "checkpoints", func() bool { return s.e.Status().LastCompleted > base+1 })
				crash()
				if started := s.kinds(history.AttemptStarted); started[len(started)-1].Checkpoint <= base {
					t.Errorf("restored %d again", started[len(started)-1].Checkpoint)
				}
				s.finish(ctx)
				s.savepointsHold(ctx)
			})
		})
	}
}

// TestSavepointDisturbsNoCheckpoint: the checkpoint after a savepoint is as small as those before it, and has the same base.
func TestSavepointDisturbsNoCheckpoint(t *testing.T) {
	all := backends()
	for _, name := range []string{"heap-on", "lsm", "lsm-on"} {
		for _, form := range []string{backend.Canonical, backend.Native} {
			if testing.Short() && (name != "heap-on" || form == backend.Native) {
				continue
			}
			sizes := map[bool][]int64{}
			for _, with := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %s %t", name, form, with), func(t *testing.T) {
					simulate(t, 1, func(ctx context.Context, w world.World) {
						s := newSite(t, w, func(cfg *Config) {
							cfg.Backend = all[name]
							if nested, on := strings.CutSuffix(name, "-on"); on {
								f := map[string]backend.Factory{"heap": heap.New(heap.Options{}), "lsm": lsm.New(lsm.Options{})}[nested]
								cfg.Backend = changelog.New(changelog.Options{Nested: f, NestedName: nested, MaterializeOff: true})
							}
							cfg.Settings.Checkpoint.Interval = 0
						})
						s.src.keys = 3000
						s.submit(ctx)
						s.running(ctx)
						for i := range 6 {
							s.until(ctx, "records", func() bool { return s.e.Progress().Emitted() >= int64(i+1)*900 })
							if with && i == 3 {
								if _, err := s.e.Savepoint(ctx, form); err != nil {
									t.Fatal(err)
								}
							}
							if _, err := s.e.Checkpoint(ctx); err != nil {
								t.Fatal(err)
							}
						}
						for _, e := range s.kinds(history.CheckpointCompleted) {
							sizes[with] = append(sizes[with], e.Sizes.Checkpointed)
						}
						s.finish(ctx)
						s.savepointsHold(ctx)
					})
				})
			}
			for i := 3; i < 6; i++ {
				if a, b := sizes[false][i], sizes[true][i]; float64(b) > 1.25*float64(a)+2000 {
					t.Errorf("%s %s: checkpoint %d has %d bytes, without the savepoint before it %d", name, form, i, b, a)
				}
			}
		}
	}
}

func TestStopAndStartAreRefused(t *testing.T) {
	all := backends()
	simulate(t, 1, func(ctx context.Context, w world.World) {
		s := newSite(t, w)
		s.submit(ctx)
		refused := func(err error, what string) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("error %v, want one about %q", err, what)
			}
		}
		start := func(o StartOptions) error { _, err := s.e.StartJob(ctx, o); return err }
		refused(start(StartOptions{From: plan.FromSavepoint}), "not stopped")
		_, err := s.e.Savepoint(ctx, "odd")
		refused(err, "odd")
		_, err = s.e.StopJob(ctx, "odd")
		refused(err, "odd")
		if _, err := s.e.Savepoint(ctx, backend.Canonical); err != nil {
			t.Fatal(err)
		}
		s.until(ctx, "a checkpoint", func() bool { return s.e.Status().LastCompleted > 0 })
		s.stopJob(ctx, "")
		refused(start(StartOptions{From: plan.FromSavepoint}), "committed")
		refused(start(StartOptions{From: plan.FromCheckpoint, Parallelism: 7}), "parallelism")
		refused(start(StartOptions{From: "nowhere"}), "nowhere")
		_, err = s.e.StopJob(ctx, "")
		refused(err, "stopped")
		s.startJob(ctx, plan.FromCheckpoint, 0, nil)
		s.sleep(ctx, 100*time.Millisecond)
		s.stopJob(ctx, backend.Native)
		refused(start(StartOptions{From: plan.FromCheckpoint}), "no checkpoint")
		refused(start(StartOptions{From: plan.FromSavepoint, Backend: all["lsm"]}), "heap")
		if st := s.e.Status(); st.State != "failed" || !strings.Contains(st.Error, "another backend") {
			t.Errorf("status %+v", st)
		}
		s.stop(ctx)
	})
}

// TestStopWhileStopped: the run may end in any state of the job.
func TestStopWhileStopped(t *testing.T) {
	for seed := range uint64(12) {
		simulate(t, seed, func(ctx context.Context, w world.World) {
			s := newSite(t, w, withChangelog)
			s.submit(ctx)
			s.sleep(ctx, 400*time.Millisecond)
			form := []string{"", backend.Canonical}[seed%2]
			ended := world.NewGroup(w)
			ended.Go(ctx, "stop-job", func(ctx context.Context) error {
				if _, err := s.e.StopJob(ctx, form); err == nil && seed%3 == 0 {
					_, _ = s.e.StartJob(ctx, StartOptions{From: map[string]string{"": plan.FromCheckpoint, backend.Canonical: plan.FromSavepoint}[form]})
				}
				return nil
			})
			s.sleep(ctx, time.Duration(w.Rand("test").Int64N(int64(200*time.Millisecond))))
			s.stop(ctx)
			if err := ended.Wait(ctx); err != nil {
				t.Error(err)
			}
			if n := s.cfg.Collect.Result().Pending; n != 0 {
				t.Errorf("seed %d: %d transactions are pending\n%s", seed, n, s.tail(30))
			}
			s.checkLeftovers(ctx)
			s.savepointsHold(ctx)
		})
	}
}
