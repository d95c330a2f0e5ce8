package engine

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/heap"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/world"
)

// The tests of this file are named after the cases of docs/known-faults.md.

// passer hands records on; snapshot is its part in a checkpoint.
type passer struct {
	snapshot func(ctx context.Context) error
}

func (p *passer) Open(context.Context, graph.OperatorContext) error { return nil }
func (p *passer) Process(_ context.Context, r *graph.Record, out graph.Collector) error {
	return out.Collect(r)
}
func (p *passer) OnTimer(context.Context, int64, []byte, graph.Collector) error { return nil }
func (p *passer) SnapshotOperatorState(ctx context.Context) ([][]byte, error) {
	return [][]byte{[]byte("part")}, p.snapshot(ctx)
}
func (p *passer) RestoreOperatorState(context.Context, [][]byte) error { return nil }
func (p *passer) Redistribution() graph.Redistribution                 { return graph.Split }

// replaceLeader kills the coordinator and starts its next life.
func (s *site) replaceLeader(ctx context.Context) {
	s.e.mu.coordinator.end.domain.Kill()
	d := s.w.NewDomain("coordinator-0#2", world.DomainOptions{})
	next := newCoordinator(s.e.cfg, s.e.transport, s.e.network, s.e.view, d, coordinatorName, 2)
	s.e.mu.coordinator = next
	s.e.lead.Go(d.Enter(s.e.mu.ctx), coordinatorName, next.run)
}

// retained is the newest checkpoint that the log retains.
func (s *site) retained(ctx context.Context) *checkpoint.Completed {
	s.t.Helper()
	all := s.allRetained(ctx)
	return all[len(all)-1]
}

// stored lists the keys with a prefix.
func (s *site) stored(ctx context.Context, prefix string) (keys []string) {
	s.t.Helper()
	for a, err := range s.mem.List(ctx, prefix, "") {
		if err != nil {
			s.t.Fatal(err)
		}
		keys = append(keys, a.Key)
	}
	return keys
}

// TestA09LastOperatorOfAChainFailsItsSnapshot: three operators in one loop; what the first has stored by then goes again, and the
// next checkpoint completes.
func TestA09LastOperatorOfAChainFailsItsSnapshot(t *testing.T) {
	for name, change := range map[string]func(*Config){"heap": func(*Config) {}, "changelog": withChangelog} {
		t.Run(name, func(t *testing.T) {
			simulateSeeds(t, 3, func(ctx context.Context, w world.World, t testing.TB) {
				var s *site
				before, during, calls := 0, 0, 0
				keyed := func(ctx context.Context) int {
					return len(s.stored(ctx, checkpoint.BasePrefix)) + len(s.stored(ctx, checkpoint.LogPrefix))
				}
				third := func(ctx context.Context) error {
					if calls++; calls != 7 {
						return nil
					}
					before = keyed(ctx)
					// The first one's part is under way beside the loop.
					if err := w.Sleep(ctx, 100*time.Millisecond); err != nil {
						return err
					}
					during = keyed(ctx)
					return errPlanned
				}
				src := &numbers{parts: 3, keys: 200, total: 3000, value: 8, gap: time.Millisecond}
				s = newSite(t, w, change, func(c *Config) {
					c.Job = countJob(src, plainCounter)
					c.Job.Nodes = append(c.Job.Nodes[:2:2],
						graph.Node{ID: "second", Operator: func() graph.Operator { return &passer{func(context.Context) error { return nil }} }},
						graph.Node{ID: "third", Operator: func() graph.Operator { return &passer{third} }}, c.Job.Nodes[2])
					c.Job.Edges = []graph.Edge{c.Job.Edges[0], {From: "count", To: "second", Exchange: graph.Forward},
						{From: "second", To: "third", Exchange: graph.Forward}, {From: "third", To: "out", Exchange: graph.Forward}}
				})
				s.submit(ctx)
				s.until(ctx, "another attempt", func() bool { return len(s.kinds(history.AttemptRunning)) == 2 })
				at := s.e.Status().LastCompleted
				s.until(ctx, "a later checkpoint", func() bool { return s.e.Status().LastCompleted > at })
				s.until(ctx, "the failed attempt's objects to go", func() bool { return s.unnamed(ctx, checkpoint.AttemptPrefixes(1)...) == 0 })
				if s.e.Progress().Finished() {
					t.Error("they went at the end only")
				}
				s.finish(ctx)
				failed := s.kinds(history.AttemptFailed)
				if during <= before || len(failed) != 1 || !strings.HasPrefix(failed[0].Actor, "third-") {
					t.Errorf("%d objects before the failing snapshot, %d in it; failures %+v", before, during, failed)
				}
			})
		})
	}
}

// lateDeletes is a bucket in which a delete has its effect a while after it was asked for, whatever becomes of who asked.
type lateDeletes struct {
	store.Bucket
	w     world.World
	root  context.Context
	after time.Duration
	// asked is called when a delete was asked for, landed when it had its effect.
	asked, landed func(keys []string)
}

func (b *lateDeletes) Delete(ctx context.Context, keys []string) (out []store.Deleted) {
	b.asked(keys)
	done := world.NewLatch(b.w)
	b.w.Go(b.root, "late-delete", func(ctx context.Context) error {
		err := b.w.Sleep(ctx, b.after)
		out = b.Bucket.Delete(ctx, keys)
		b.landed(keys)
		done.Open()
		return err
	})
	if _, err := world.Wait(ctx, b.w, world.Never, done); err != nil {
		out = nil
		for _, key := range keys {
			out = append(out, store.Deleted{Key: key, Err: err})
		}
	}
	return out
}

// sharesWithEarlier tells whether the newest checkpoint names objects that an earlier one named.
func (s *site) sharesWithEarlier(ctx context.Context) bool {
	s.mu.Lock()
	if len(s.refs) == 0 { // an upload that became useless is deleted before anything completed
		s.mu.Unlock()
		return false
	}
	earlier := map[string]bool{}
	for _, c := range s.refs[:len(s.refs)-1] {
		for _, o := range c.Added {
			earlier[o.Key] = true
		}
	}
	s.mu.Unlock()
	return slices.ContainsFunc(s.retained(ctx).Metadata.Objects(), func(o checkpoint.ObjectUse) bool { return earlier[o.Key] })
}

// TestA10DeletesLandAfterTheNextLeaderTookOver: a checkpoint is dropped, the coordinator dies while the deletes are under way, and
// they have their effect when the next one has restored a checkpoint that shares objects with the dropped one.
func TestA10DeletesLandAfterTheNextLeaderTookOver(t *testing.T) {
	simulateSeeds(t, 5, func(ctx context.Context, w world.World, t testing.TB) {
		late := &lateDeletes{w: w, root: ctx, after: 1500 * time.Millisecond}
		s := newSite(t, w, withChangelog, func(c *Config) {
			c.Settings.Checkpoint.Retain = 1
			late.Bucket, c.Bucket = c.Bucket, late
		})
		doomed, landed := "", time.Duration(0) // a key that goes with a checkpoint which shares objects with the next one
		late.asked = func(keys []string) {
			if doomed == "" && s.sharesWithEarlier(ctx) {
				doomed = keys[0]
			}
		}
		late.landed = func(keys []string) {
			if keys[0] == doomed && landed == 0 {
				landed = w.Now()
			}
		}
		s.submit(ctx)
		s.until(ctx, "a delete", func() bool { return doomed != "" })
		s.replaceLeader(ctx)
		s.until(ctx, "the next attempt", func() bool { return len(s.kinds(history.AttemptRunning)) == 2 })
		s.until(ctx, "the deletes", func() bool { return landed > 0 })
		if running := s.kinds(history.AttemptRunning)[1].At; landed <= running {
			t.Errorf("deletes landed at %v, the next attempt ran from %v", landed, running)
		}
		if err := s.e.FailTask(ctx, "count-1", "planned"); err != nil {
			t.Fatal(err)
		}
		s.until(ctx, "a third attempt", func() bool { return len(s.kinds(history.AttemptRunning)) == 3 })
		s.until(ctx, "the end of the input", func() bool { return s.e.Progress().Finished() })
		if _, err := s.e.Checkpoint(ctx); err != nil {
			t.Fatal(err)
		}
		s.stop(ctx)
		s.checkOutput()
		s.checkLeftovers(ctx)
	})
}

// TestA14FoldersAreNothing: markers as consoles make them for folders, and objects of nobody beside ours, disturb no checkpoint, no
// restart of the coordinator and no clean-up.
func TestA14FoldersAreNothing(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		s := newSite(t, w, withChangelog)
		ours := []string{"base/1/", "base/1/count-0/", "log/1/", "base/1/stray", "log/1/worker-0/stray.txt"}
		others := []string{"meta/", "coord/", "savepoint/", "base/", "log/", "base/x/stray", "meta/stray"}
		for _, key := range append(ours, others...) {
			if err := s.mem.Put(ctx, key, nil, store.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		s.submit(ctx)
		s.until(ctx, "three checkpoints", func() bool { return len(s.kinds(history.CheckpointCompleted)) >= 3 })
		s.replaceLeader(ctx)
		s.until(ctx, "the next attempt", func() bool { return len(s.kinds(history.AttemptRunning)) == 2 })
		s.until(ctx, "the end of the input", func() bool { return s.e.Progress().Finished() })
		if _, err := s.e.Checkpoint(ctx); err != nil {
			t.Fatal(err)
		}
		if err := s.e.CleanUp(ctx); err != nil {
			t.Errorf("clean-up: %v", err)
		}
		s.stop(ctx)
		s.checkOutput()
		for _, d := range s.mem.Delete(ctx, others) {
			if d.Err != nil {
				t.Error(d.Err)
			}
		}
		if n := s.mem.Stats().UnknownDeletes; n != 0 {
			t.Errorf("%d objects were deleted that were not there, or were not ours to delete", n)
		}
		s.checkLeftovers(ctx) // nothing of the first attempt, strays included
	})
}

// TestA15UploadsSlowerThanTheTimeoutLeaveNothing: twenty checkpoints expire while their uploads are under way, then some complete.
func TestA15UploadsSlowerThanTheTimeoutLeaveNothing(t *testing.T) {
	for name, change := range map[string]func(*Config){"heap": func(*Config) {}, "changelog": withChangelog} {
		t.Run(name, func(t *testing.T) {
			simulate(t, 2, func(ctx context.Context, w world.World) {
				s := newSite(t, w, change, func(c *Config) {
					c.Settings.Checkpoint.Timeout = plan.Duration(150 * time.Millisecond)
					c.Settings.Checkpoint.TolerableFailures = new(100)
				})
				s.src.total = 8000
				var heal []func()
				for _, prefix := range []string{checkpoint.LogPrefix, checkpoint.BasePrefix} {
					heal = append(heal, s.inj.Add(store.Rule{Name: prefix, Ops: []string{history.OpPut}, Prefix: prefix, Delay: 180 * time.Millisecond}))
				}
				s.submit(ctx)
				s.until(ctx, "twenty expired checkpoints", func() bool { return s.reasons(history.CheckpointAborted)[ReasonExpired] >= 20 })
				if n := len(s.kinds(history.CheckpointCompleted)); n > 3 {
					t.Errorf("%d checkpoints completed", n)
				}
				for _, f := range heal {
					f()
				}
				s.until(ctx, "five more", func() bool { return len(s.kinds(history.CheckpointCompleted)) >= 5 })
				if name == "heap" { // a log has objects that no checkpoint names yet
					s.until(ctx, "what expired to go", func() bool { return s.unnamed(ctx, checkpoint.BasePrefix, checkpoint.MetadataPrefix) == 0 })
				}
				if s.e.Progress().Finished() {
					t.Error("it went at the end only")
				}
				if _, err := s.e.StopJob(ctx, ""); err != nil {
					t.Fatal(err)
				}
				s.stop(ctx)
				s.checkStore(ctx)
			})
		})
	}
}

// TestA16EachObjectIsDeletedOnce: four subtasks on one worker share segments; each object is asked to be deleted once, and was there.
func TestA16EachObjectIsDeletedOnce(t *testing.T) {
	simulateSeeds(t, 3, func(ctx context.Context, w world.World, t testing.TB) {
		deletes := map[string]int{}
		s := newSite(t, w, withChangelog, func(c *Config) {
			c.Settings.Parallelism, c.Workers.Count, c.Workers.Slots = 4, 1, 4
			c.Bucket = store.WithHooks(c.Bucket, store.Hooks{Begin: func(_ context.Context, call store.Call) {
				if call.Op == history.OpDelete {
					deletes[call.Key]++
				}
			}})
		})
		owners := map[string]int{}
		s.watch = append(s.watch, func(ctx context.Context, e *history.Event) {
			if e.Kind != history.CheckpointCompleted {
				return
			}
			done, err := checkpoint.Read(ctx, s.mem, checkpoint.MetadataKey(e.Checkpoint, 1))
			if err != nil {
				t.Error(err)
				return
			}
			of := map[string]int{}
			for i := range done.Metadata.Subtasks {
				for _, o := range (&checkpoint.Metadata{Subtasks: done.Metadata.Subtasks[i : i+1]}).Objects() {
					of[o.Key]++
				}
			}
			for key, n := range of {
				owners[key] = max(owners[key], n)
			}
		})
		s.submit(ctx)
		s.finish(ctx)
		shared := 0
		for key, n := range deletes {
			if n != 1 {
				t.Errorf("%s was deleted %d times", key, n)
			}
			if strings.HasPrefix(key, checkpoint.LogPrefix) && owners[key] == 4 {
				shared++
			}
		}
		if shared == 0 || s.mem.Stats().UnknownDeletes != 0 {
			t.Errorf("%d objects of four subtasks were deleted, %d deletes of nothing", shared, s.mem.Stats().UnknownDeletes)
		}
	})
}

// TestA19CleanUpBesideSlowUploads: the job's own clean-up runs again and again while objects are under way, or are there and not
// acknowledged yet. It removes none of them.
func TestA19CleanUpBesideSlowUploads(t *testing.T) {
	simulateSeeds(t, 3, func(ctx context.Context, w world.World, t testing.TB) {
		unacknowledged, seen := 0, 0
		s := newSite(t, w, withChangelog, func(c *Config) {
			c.Bucket = store.WithHooks(c.Bucket, store.Hooks{
				Begin: func(_ context.Context, call store.Call) {
					if call.Op == history.OpList && unacknowledged > 0 {
						seen++
					}
				},
				End: func(ctx context.Context, call store.Call, err error) {
					if call.Op != history.OpPut || err != nil || strings.HasPrefix(call.Key, checkpoint.EntryPrefix) {
						return
					}
					unacknowledged++
					_ = w.Sleep(ctx, 60*time.Millisecond)
					unacknowledged--
				},
			})
		})
		s.submit(ctx)
		s.running(ctx)
		killed := false
		for !s.e.Progress().Finished() {
			if w.Now() > time.Minute {
				t.Fatalf("no end of the input; status %+v\n%s", s.e.Status(), s.tail(20))
			}
			if err := s.e.CleanUp(ctx); err != nil {
				t.Errorf("clean-up: %v", err)
			}
			s.sleep(ctx, 20*time.Millisecond)
			if !killed && s.e.Status().LastCompleted >= 3 { // so that there are attempts of which something may be removed
				killed = true
				if err := s.e.KillWorker(ctx, "worker-1", true); err != nil {
					t.Fatal(err)
				}
				s.running(ctx)
			}
		}
		if seen < 20 || !killed {
			t.Errorf("%d listings beside objects that nobody named yet", seen)
		}
		s.finish(ctx)
		if n := s.mem.Stats().UnknownDeletes; n != 0 {
			t.Errorf("%d deletes of nothing", n)
		}
	})
}

// TestA12SharedObjectsOutliveTheUnreadable: of three retained checkpoints that share objects the middle one does not read, or neither does
// the newest. What is older is restored, and no object of any of them goes until it is dropped in its turn.
func TestA12SharedObjectsOutliveTheUnreadable(t *testing.T) {
	for _, bad := range [][]int{{1}, {1, 2}} {
		simulateSeeds(t, 3, func(ctx context.Context, w world.World, t testing.TB) {
			s := newSite(t, w, func(c *Config) {
				c.Settings.Checkpoint.Retain = 3
				c.Backend = changelog.New(changelog.Options{Nested: heap.New(heap.Options{}), NestedName: heap.Name, Materialize: 1500 * time.Millisecond})
			})
			s.submit(ctx)
			var all []*checkpoint.Completed
			s.until(ctx, "three checkpoints that share objects", func() bool {
				if s.e.Status().LastCompleted < 5 {
					return false
				}
				all = s.allRetained(ctx)
				return len(all) == 3 && shared(all) > 0
			})
			for _, i := range bad {
				s.damage(ctx, all[i].Object.Key)
			}
			if err := s.e.FailTask(ctx, "count-0", "planned"); err != nil {
				t.Fatal(err)
			}
			s.until(ctx, "another attempt", func() bool { return len(s.kinds(history.AttemptRunning)) == 2 })
			want := all[2].Metadata.ID
			if len(bad) == 2 {
				want = all[0].Metadata.ID
			}
			if got := s.kinds(history.AttemptRunning)[1].Checkpoint; got != want {
				t.Errorf("restored checkpoint %d, want %d\n%s", got, want, s.tail(30))
			}
			for _, c := range all {
				for _, o := range c.Metadata.Objects() {
					if body, err := s.mem.Get(ctx, o.Key); err != nil || store.CRC32C(body) != o.CRC32C {
						t.Errorf("%s of checkpoint %d: %v", o.Key, c.Metadata.ID, err)
					}
				}
			}
			if len(bad) == 1 {
				s.finish(ctx)
				return
			}
			// What the unreadable ones committed comes out again: to go back behind them is the lesser evil.
			s.until(ctx, "later checkpoints", func() bool { return s.e.Status().LastCompleted >= all[2].Metadata.ID+4 })
			s.stop(ctx)
			s.checkStore(ctx)
		})
	}
}

// allRetained are the checkpoints that the log retains.
func (s *site) allRetained(ctx context.Context) (all []*checkpoint.Completed) {
	s.t.Helper()
	log, err := checkpoint.OpenLog(ctx, s.w, s.mem, "test")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range log.State().Retained {
		done, err := checkpoint.Read(ctx, s.mem, r.Metadata)
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, done)
	}
	return all
}

// unnamed counts the objects under some prefixes that no retained checkpoint names.
func (s *site) unnamed(ctx context.Context, prefixes ...string) (n int) {
	s.t.Helper()
	named := map[string]bool{}
	for _, c := range s.allRetained(ctx) {
		named[c.Object.Key] = true
		for _, o := range c.Metadata.Objects() {
			named[o.Key] = true
		}
	}
	for _, prefix := range prefixes {
		for _, key := range s.stored(ctx, prefix) {
			if !named[key] {
				n++
			}
		}
	}
	return n
}

// shared counts the objects that all of the checkpoints name.
func shared(all []*checkpoint.Completed) (n int) {
	uses := map[string]int{}
	for _, c := range all {
		for _, o := range c.Metadata.Objects() {
			if uses[o.Key]++; uses[o.Key] == len(all) {
				n++
			}
		}
	}
	return n
}
