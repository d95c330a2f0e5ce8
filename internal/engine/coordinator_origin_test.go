package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/world"
)

// origins are the objects of what the stopped job can be started from: those of all retained checkpoints, or of the last savepoint.
func (s *site) origins(ctx context.Context, savepoint bool) map[string]checkpoint.ObjectUse {
	s.t.Helper()
	log, err := checkpoint.OpenLog(ctx, s.w, s.mem, "test")
	if err != nil {
		s.t.Fatal(err)
	}
	list := log.State().Retained
	if savepoint {
		all := log.State().Savepoints
		list = all[len(all)-1:]
	}
	named := map[string]checkpoint.ObjectUse{}
	for _, r := range list {
		done, err := checkpoint.Read(ctx, s.mem, r.Metadata)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, o := range append(done.Metadata.Objects(), done.Object) {
			named[o.Key] = o
		}
	}
	if len(named) < 2 {
		s.t.Fatalf("%d objects to start from", len(named))
	}
	return named
}

// intact tells how many of the objects are there as they were.
func (s *site) intact(ctx context.Context, objects map[string]checkpoint.ObjectUse) (n int) {
	for key, o := range objects { // order-free: counts
		if body, err := s.mem.Get(ctx, key); err == nil && store.CRC32C(body) == o.CRC32C {
			n++
		}
	}
	return n
}

// naming counts, for each completed checkpoint from the n-th on, the objects among those given that it names.
func (s *site) naming(objects map[string]checkpoint.ObjectUse, n int) (counts []int) {
	live := map[string]bool{}
	for i, c := range s.refs {
		for _, o := range c.Added {
			live[o.Key] = true
		}
		for _, key := range c.Dropped {
			delete(live, key)
		}
		if i < n {
			continue
		}
		count := 0
		for key := range live { // order-free: counts
			if _, ok := objects[key]; ok {
				count++
			}
		}
		counts = append(counts, count)
	}
	return counts
}

// nextLeader kills the coordinator and lets a new life take over. It does not know what checkpoints named that were dropped before it.
func (s *site) nextLeader(ctx context.Context, life uint64) {
	log, err := checkpoint.OpenLog(ctx, s.w, s.mem, "test")
	if err != nil {
		s.t.Fatal(err)
	}
	if state := log.State(); len(state.Released) == 0 && !slices.ContainsFunc(state.Retained, func(r checkpoint.Retained) bool { return strings.HasPrefix(r.Metadata, checkpoint.MetadataPrefix) }) {
		live := map[string]bool{}
		for _, c := range s.refs {
			for _, o := range c.Added {
				live[o.Key] = true
			}
			for _, key := range c.Dropped {
				delete(live, key)
			}
		}
		last := &s.refs[len(s.refs)-1]
		last.Dropped = append(slices.Clone(last.Dropped), slices.Sorted(maps.Keys(live))...)
	}
	s.e.mu.coordinator.end.domain.Kill()
	d := s.w.NewDomain(fmt.Sprintf("%s#%d", coordinatorName, life), world.DomainOptions{})
	next := newCoordinator(s.e.cfg, s.e.transport, s.e.network, s.e.view, d, coordinatorName, life)
	s.e.mu.coordinator = next
	s.e.lead.Go(d.Enter(s.e.mu.ctx), coordinatorName, next.run)
}

// restores are the checkpoints that the attempts from the n-th on began from.
func (s *site) restores(n int) (ids []uint64) {
	for _, e := range s.kinds(history.AttemptStarted)[n:] {
		ids = append(ids, e.Checkpoint)
	}
	return ids
}

// TestModesOfAStart starts a job in each mode from a checkpoint with a log and from savepoints. Before its first checkpoint the job is
// stopped and started from the same again, its leader dies, and a worker. The output is that of one life. What is not
// claimed stays as it is, and what is claimed goes when nothing needs it.
func TestModesOfAStart(t *testing.T) {
	all := backends()
	n := 0
	for _, name := range []string{"heap-on", "lsm-on", "lsm", "heap"} {
		for _, form := range []string{"", backend.Native, backend.Canonical} {
			for _, mode := range []string{plan.ModeClaim, plan.ModeNoClaim, plan.ModeLegacy} {
				if n++; testing.Short() && (name != "heap-on" && n%5 != 0) {
					continue
				}
				t.Run(name+" "+form+" "+mode, func(t *testing.T) {
					simulate(t, uint64(n), func(ctx context.Context, w world.World) { startIn(ctx, t, w, all[name], form, mode) })
				})
			}
		}
	}
}

func startIn(ctx context.Context, t *testing.T, w world.World, b backend.Factory, form, mode string) {
	s := newSite(t, w, without, func(cfg *Config) { cfg.Backend = b })
	s.submit(ctx)
	checkpoints := func() {
		s.running(ctx)
		for range 4 {
			s.sleep(ctx, 150*time.Millisecond)
			if _, err := s.e.Checkpoint(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	checkpoints()
	s.stopJob(ctx, form)
	from := plan.FromCheckpoint
	if form != "" {
		from = plan.FromSavepoint
	}
	objects, before, attempts := s.origins(ctx, form != ""), len(s.refs), len(s.kinds(history.AttemptStarted))
	start := func(from, mode string, p int) uint64 {
		id, err := s.e.StartJob(ctx, StartOptions{From: from, Mode: mode, Parallelism: p})
		if err != nil {
			t.Fatalf("start: %v\n%s", err, s.tail(40))
		}
		return id
	}
	origin := start(from, mode, 3)
	s.stopJob(ctx, "")
	start(plan.FromCheckpoint, "", 2)
	s.nextLeader(ctx, 2)
	s.until(ctx, "the next leader's attempt", func() bool { return len(s.kinds(history.AttemptRunning)) == attempts+3 })
	_, where := s.e.view.placement()
	if err := s.e.KillWorker(ctx, where[0], true); err != nil {
		t.Fatal(err)
	}
	s.sleep(ctx, 10*time.Millisecond)
	if err := s.e.ReviveWorker(ctx, where[0]); err != nil {
		t.Fatal(err)
	}
	s.until(ctx, "the next attempt", func() bool { return len(s.kinds(history.AttemptRunning)) == attempts+4 })
	if ids := s.restores(attempts); slices.ContainsFunc(ids, func(id uint64) bool { return id != origin }) || len(s.refs) > before {
		t.Errorf("attempts began from %d, want %d each; %d checkpoints completed\n%s", ids, origin, len(s.refs)-before, s.tail(30))
	}
	checkpoints()
	s.finish(ctx)
	names := s.naming(objects, before)
	there := s.intact(ctx, objects) // what a retained checkpoint names is, whoever owns it
	if mode == plan.ModeClaim && there == len(objects) || mode != plan.ModeClaim && there != len(objects) {
		t.Errorf("of %d objects that the job was started from %d are there", len(objects), there)
	}
	named := slices.Max(names) > 0
	switch {
	case mode == plan.ModeNoClaim && named:
		t.Errorf("checkpoints name so many objects of the user: %v", names)
	case mode != plan.ModeNoClaim && form != backend.Canonical && !named && !strings.HasSuffix(t.Name(), "/heap__"+mode) && !strings.HasSuffix(t.Name(), "/heap_native_"+mode):
		t.Error("no checkpoint names an object that the job was started from")
	}
}

// digests are those of what attempt restored, in order.
func (s *site) digests(attempt uint64) (all []history.GroupDigest) {
	for _, e := range s.kinds(history.RestoreDone) {
		if e.Attempt == attempt {
			all = append(all, e.Digests...)
		}
	}
	slices.SortFunc(all, func(a, b history.GroupDigest) int {
		return strings.Compare(fmt.Sprintf("%s %s %05d", a.Operator, a.State, a.Group), fmt.Sprintf("%s %s %05d", b.Operator, b.State, b.Group))
	})
	return all
}

// TestA02SharedFilesOfParentSurvive: job A is cancelled; job B starts from its checkpoint in legacy mode, fails and loses its leader before its
// first checkpoint, overwrites all keys and takes five checkpoints. Then job C starts from A's checkpoint, as A's log has it.
func TestA02SharedFilesOfParentSurvive(t *testing.T) {
	all := backends()
	for i, name := range []string{"heap-on", "lsm-on", "lsm"} {
		t.Run(name, func(t *testing.T) {
			var origin uint64
			var want []history.GroupDigest
			var kept map[string][]byte
			simulate(t, uint64(i), func(ctx context.Context, w world.World) {
				s := newSite(t, w, without, func(cfg *Config) { cfg.Backend, cfg.Digests = all[name], true })
				s.submit(ctx)
				s.running(ctx)
				s.sleep(ctx, 500*time.Millisecond)
				if _, err := s.e.Checkpoint(ctx); err != nil {
					t.Fatal(err)
				}
				s.stopJob(ctx, "")
				objects, log := s.origins(ctx, false), s.entries(ctx)
				var err error
				if origin, err = s.e.StartJob(ctx, StartOptions{From: plan.FromCheckpoint, Mode: plan.ModeLegacy}); err != nil {
					t.Fatal(err)
				}
				first := s.e.Status().Attempt
				if err := s.e.FailTask(ctx, s.cfg.Job.Nodes[1].ID+"-0", "planned"); err != nil {
					t.Fatal(err)
				}
				s.until(ctx, "the failure", func() bool { return len(s.kinds(history.AttemptFailed)) == 1 })
				s.nextLeader(ctx, 2)
				s.until(ctx, "the next leader's attempt", func() bool { return s.e.Status().Attempt > attemptsPerTerm })
				s.running(ctx)
				for range 5 {
					s.sleep(ctx, 200*time.Millisecond)
					if _, err := s.e.Checkpoint(ctx); err != nil {
						t.Fatal(err)
					}
				}
				s.finish(ctx)
				if n := s.intact(ctx, objects); n != len(objects) {
					t.Fatalf("of %d objects of the parent %d are as they were", len(objects), n)
				}
				want, kept = s.digests(first), s.keep(ctx, append(log, slices.Sorted(maps.Keys(objects))...))
			})
			simulate(t, uint64(i), func(ctx context.Context, w world.World) {
				c := newSite(t, w, without, func(cfg *Config) { cfg.Backend, cfg.Digests = all[name], true })
				for _, key := range slices.Sorted(maps.Keys(kept)) {
					if err := c.mem.Put(ctx, key, kept[key], store.PutOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				c.submit(ctx)
				c.until(ctx, "the end of the input", func() bool { return c.e.Progress().Finished() && c.e.Status().State == "running" })
				if _, err := c.e.Checkpoint(ctx); err != nil {
					t.Fatal(err)
				}
				if got := c.restores(0); got[0] != origin {
					t.Errorf("the third job began from %d, want %d", got[0], origin)
				}
				got := c.digests(c.kinds(history.AttemptStarted)[0].Attempt)
				if len(want) == 0 || !slices.Equal(want, got) {
					t.Errorf("the third job restored %d groups of state, the second one %d, or others", len(got), len(want))
				}
				c.stop(ctx)
			})
		})
	}
}

// entries are the keys of the coordinator log.
func (s *site) entries(ctx context.Context) (keys []string) {
	for a, err := range s.mem.List(ctx, checkpoint.EntryPrefix, "") {
		if err != nil {
			s.t.Fatal(err)
		}
		keys = append(keys, a.Key)
	}
	return keys
}

// keep are those objects as they are now. The metadata of checkpoints names no transaction: another job's output is not in this one's sink.
func (s *site) keep(ctx context.Context, keys []string) map[string][]byte {
	kept := map[string][]byte{}
	for _, key := range keys {
		var err error
		if kept[key], err = s.mem.Get(ctx, key); err != nil {
			s.t.Fatal(err)
		}
		if !strings.HasPrefix(key, checkpoint.MetadataPrefix) {
			continue
		}
		m, err := checkpoint.Decode(kept[key])
		if err != nil {
			s.t.Fatal(err)
		}
		for i := range m.Subtasks {
			m.Subtasks[i].Transactions = nil
		}
		kept[key] = checkpoint.Encode(m)
	}
	return kept
}

// TestA06ClaimedStateIsNotKeptTooLong: a job claims what it starts from. Once its first checkpoints are subsumed nothing of that is left, and
// when the job is stopped for good, by a savepoint, nothing but that is in the store.
func TestA06ClaimedStateIsNotKeptTooLong(t *testing.T) {
	all := backends()
	for i, name := range []string{"heap-on", "heap", "lsm-on", "lsm"} {
		for _, form := range []string{"", backend.Native, backend.Canonical} {
			if testing.Short() && i > 1 {
				continue
			}
			t.Run(name+" "+form, func(t *testing.T) {
				simulate(t, uint64(i), func(ctx context.Context, w world.World) {
					s := newSite(t, w, func(cfg *Config) { cfg.Backend = all[name] })
					s.src.total = 6000
					s.submit(ctx)
					s.sleep(ctx, 700*time.Millisecond)
					s.stopJob(ctx, form)
					from := map[bool]string{true: plan.FromCheckpoint, false: plan.FromSavepoint}[form == ""]
					objects := s.origins(ctx, form != "")
					origin, err := s.e.StartJob(ctx, StartOptions{From: from, Mode: plan.ModeClaim})
					if err != nil {
						t.Fatal(err)
					}
					s.until(ctx, "the end of the claimed state", func() bool {
						return s.intact(ctx, objects) == 0 || strings.HasPrefix(name, "lsm") && s.e.Status().LastCompleted > origin+6
					})
					if name == "lsm" && form != backend.Canonical { // tables stay as long as no compaction has replaced them
						for key := range objects { // order-free: each alone
							if strings.HasPrefix(key, checkpoint.MetadataPrefix) || strings.Contains(key, "/meta-") {
								if _, err := s.mem.Stat(ctx, key); err == nil {
									t.Errorf("%s is there still", key)
								}
							}
						}
					}
					last := s.stopJob(ctx, backend.Canonical)
					for a, err := range s.mem.List(ctx, "", "") {
						if err != nil {
							t.Fatal(err)
						}
						if !strings.HasPrefix(a.Key, checkpoint.EntryPrefix) && !strings.HasPrefix(a.Key, checkpoint.SavepointFolder(last)) {
							t.Errorf("%s was left", a.Key)
						}
					}
					s.stop(ctx)
				})
			})
		}
	}
}
