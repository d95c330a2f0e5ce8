package changelog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/backend/heap"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

const interval = 10 * time.Second

// rig is one worker over one store, in a simulated world.
type rig struct {
	t       *testing.T
	w       world.World
	ctx     context.Context
	mem     *store.Mem
	inj     *store.Injector
	attempt uint64
	worker  *backendtest.Worker
	b       backend.Backend
	told    func(e history.Event) // nil: nobody listens
}

// simulate runs f in a simulated world; a failed expectation panics.
func simulate(t *testing.T, f func(r *rig)) {
	t.Helper()
	simulateSeed(t, 7, f)
}

func simulateSeed(t *testing.T, seed uint64, f func(r *rig)) {
	t.Helper()
	w := world.NewSim(world.SimOptions{Seed: seed})
	err := w.Run(func(ctx context.Context) error {
		f(&rig{t: t, w: w, ctx: ctx, mem: store.NewMem(), inj: store.NewInjector(w)})
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func ok(err error) {
	if err != nil {
		panic(err)
	}
}

func want(cond bool, format string, args ...any) {
	if !cond {
		panic(fmt.Errorf(format, args...))
	}
}

// start begins an attempt on a new worker.
func (r *rig) start(f backend.Factory) {
	r.attempt++
	r.worker = backendtest.NewWorker(r.ctx, r.w, store.WithFaults(r.mem, r.inj, r.w), "worker-0", r.attempt)
	if emit := r.worker.Env.Emit; r.told != nil {
		r.worker.Env.Emit = func(ctx context.Context, e history.Event) {
			emit(ctx, e)
			r.told(e)
		}
	}
	var err error
	r.b, err = f.ForWorker(r.worker.Ctx, r.worker.Env)
	ok(err)
}

// end ends the attempt in good order.
func (r *rig) end(ks ...*sub) {
	for _, k := range ks {
		ok(k.Close(r.worker.Ctx))
		ok(k.loop.Close(r.ctx))
	}
	ok(r.b.Close(r.worker.Ctx))
	ok(r.worker.Stop(r.ctx))
}

// events lists those of a kind.
func (r *rig) events(kind history.Kind) (out []history.Event) {
	for _, e := range r.worker.Events() {
		if e.Kind == kind {
			out = append(out, e)
		}
	}
	return out
}

// keys lists the objects with the prefix.
func (r *rig) keys(prefix string) (keys []string) {
	for a, err := range r.mem.List(r.ctx, prefix, "") {
		ok(err)
		keys = append(keys, a.Key)
	}
	return keys
}

// sub is one subtask.
type sub struct {
	backend.Keyed
	r     *rig
	loop  *backendtest.Loop
	state backend.StateID
	stats backend.RestoreStats
	wrote int // values by write
}

// open opens subtask i of p with max parallelism 16.
func (r *rig) open(i, p int, handles ...backend.StateHandle) *sub {
	s := &sub{r: r, loop: backendtest.NewLoop(r.worker.Ctx, r.w)}
	var err error
	s.Keyed, err = r.b.Open(r.worker.Ctx, backend.OpenOptions{
		Operator: "count", Subtask: fmt.Sprint("count-", i), Index: i, Range: keygroup.RangeOf(i, p, 16), Handles: handles,
		Loop: s.loop, Restored: &s.stats,
	})
	ok(err)
	s.state, err = s.Register(backend.StateSpec{Name: "n", Type: backend.Value, Access: backend.Point})
	ok(err)
	return s
}

// fill puts value at a key of each key group.
func (s *sub) fill(value string) {
	for g := s.Range().From; g < s.Range().To; g++ {
		ok(s.Put(backend.Addr{State: s.state, Group: g, Key: []byte("key")}, []byte(value)))
	}
}

// holds wants value at the key of each key group.
func (s *sub) holds(value string) {
	for g := s.Range().From; g < s.Range().To; g++ {
		got, found, err := s.Get(backend.Addr{State: s.state, Group: g, Key: []byte("key")})
		ok(err)
		want(found && string(got) == value, "key group %d holds %q, want %q", g, got, value)
	}
}

// begin takes the synchronous part of a snapshot.
func (s *sub) begin(id uint64) backend.Snapshot {
	snap, err := s.Snapshot(s.r.worker.Ctx, id)
	ok(err)
	return snap
}

// persist takes the asynchronous part.
func (s *sub) persist(snap backend.Snapshot) backend.Persisted {
	p, err := snap.Persist(s.r.worker.Ctx)
	ok(err)
	snap.Release()
	return p
}

// checkpoint takes a whole one that completes and subsumes the one before it.
func (s *sub) checkpoint(id uint64) backend.Persisted {
	p := s.persist(s.begin(id))
	ok(s.Completed(s.r.worker.Ctx, id, id-1))
	return p
}

// sleep lets the loop take turns.
func (s *sub) sleep(d time.Duration) { ok(s.loop.Sleep(s.r.worker.Ctx, d)) }

func factory(o changelog.Options) backend.Factory {
	o.Nested, o.NestedName = heap.New(heap.Options{}), heap.Name
	if o.Materialize == 0 {
		o.Materialize = interval
	}
	return changelog.New(o)
}

func TestMaterializationIsFirstUsedByTheNextCheckpoint(t *testing.T) {
	simulate(t, func(r *rig) {
		r.start(factory(changelog.Options{}))
		s := r.open(0, 1)
		s.fill("one")
		first := s.checkpoint(1)
		want(len(first.Handle.Base) == 0 && len(first.Handle.Delta) == 1 && first.Handle.Backend == heap.Name, "first handle is %+v", first.Handle)
		want(first.Checkpointed == first.Handle.DeltaBytes() && first.Materialized == 0 && first.Objects == 1, "first figures are %+v", first)
		s.fill("two")
		early := s.begin(2)
		s.sleep(interval)
		want(len(r.events(history.MaterializationUploadEnd)) == 1, "%d materializations", len(r.events(history.MaterializationUploadEnd)))
		second := s.persist(early)
		want(second.Handle.Materialization == 0 && len(second.Handle.Base) == 0, "checkpoint from before the materialization has it: %+v", second.Handle)
		ok(s.Completed(r.worker.Ctx, 2, 1))
		s.fill("three")
		third := s.checkpoint(3)
		h := third.Handle
		want(h.Materialization == 1 && len(h.Base) == 1 && len(h.Delta) == 1 && h.Delta[0].From == 2, "third handle is %+v", h)
		want(third.Materialized == h.BaseBytes() && third.Checkpointed == h.DeltaBytes() && third.Objects == 2, "third figures are %+v", third)
		fourth := s.checkpoint(4)
		want(fourth.Materialized == 0 && fourth.Checkpointed == 0 && fourth.Objects == 0, "fourth figures are %+v", fourth)
		confirmed := r.events(history.MaterializationConfirmed)
		want(len(confirmed) == 1 && confirmed[0].Checkpoint == 3 && confirmed[0].Count == 1, "confirmed %+v", confirmed)
		r.end(s)
		for i, p := range []backend.Persisted{first, second, third, fourth} {
			r.start(factory(changelog.Options{}))
			s := r.open(0, 1, p.Handle)
			s.holds([]string{"one", "two", "three", "three"}[i])
			r.end(s)
		}
	})
}

func TestNoMaterializationUntilTheLastOneIsConfirmed(t *testing.T) {
	simulate(t, func(r *rig) {
		r.start(factory(changelog.Options{}))
		s := r.open(0, 1)
		for range 5 {
			s.fill("x")
			s.sleep(interval)
		}
		want(len(r.events(history.MaterializationBegin)) == 1, "%d materializations without a checkpoint", len(r.events(history.MaterializationBegin)))
		s.checkpoint(1)
		s.fill("y")
		s.sleep(interval)
		want(len(r.events(history.MaterializationBegin)) == 2, "%d materializations after one", len(r.events(history.MaterializationBegin)))
		s.checkpoint(2)
		s.sleep(5 * interval)
		want(len(r.events(history.MaterializationBegin)) == 2, "materialized although nothing changed")
		r.end(s)
	})
}

func TestGrownLogIsMaterializedOneSubtaskAtATime(t *testing.T) {
	simulate(t, func(r *rig) {
		r.start(factory(changelog.Options{Materialize: time.Hour, Growth: 2, GrowthFloor: 1}))
		a, b := r.open(0, 2), r.open(1, 2)
		begun := func() int { return len(r.events(history.MaterializationBegin)) }
		for id := uint64(1); begun() == 0; id++ {
			want(id < 10, "no materialization although the log has grown for %d checkpoints", id)
			for _, s := range []*sub{a, b} {
				s.fill("some value")
				s.checkpoint(id)
			}
			log, state := a.Gauges().LogBytes, a.Gauges().LiveBytes
			want((log > 2*state) == (begun() > 0), "checkpoint %d: %d materializations with %d bytes logged of %d", id, begun(), log, state)
		}
		want(begun() == 1, "%d materialize at the same time", begun())
		a.sleep(time.Second)
		b.fill("some value")
		b.checkpoint(100)
		want(begun() == 2, "%d materializations after the other has grown", begun())
		b.sleep(time.Second)
		r.end(a, b)
	})
}

// TestReplayBudget: a log that would take longer to replay than is wanted is materialized, by what the last restore took.
func TestReplayBudget(t *testing.T) {
	simulate(t, func(r *rig) {
		const budget = 20 * time.Microsecond // 2,000 bytes, as long as nothing was replayed
		r.start(factory(changelog.Options{Materialize: time.Hour, ReplayBudget: budget}))
		s := r.open(0, 1)
		begun := func() int { return len(r.events(history.MaterializationBegin)) }
		for id := uint64(1); begun() == 0; id++ {
			want(id < 100, "no materialization although the log has grown for %d checkpoints", id)
			s.fill("some value")
			s.checkpoint(id)
			log := s.Gauges().LogBytes
			want((10*time.Nanosecond*time.Duration(log) > budget) == (begun() > 0), "checkpoint %d: %d materializations with %d bytes logged", id, begun(), log)
		}
		r.end(s)
	})
}

// together is how many subtasks materialized at a time, at most, and how many did in all.
func (r *rig) together() (most, all int) {
	open := map[string]bool{}
	for _, e := range r.worker.Events() {
		switch e.Kind {
		case history.MaterializationBegin:
			all++
			open[e.Actor] = true
			most = max(most, len(open))
		case history.MaterializationUploadEnd, history.MaterializationFailed:
			delete(open, e.Actor)
		}
	}
	return most, all
}

// TestConcurrentMaterializations: no more subtasks of a worker materialize at a time than may, and each does in the end, also
// after ones that failed.
func TestConcurrentMaterializations(t *testing.T) {
	for _, limit := range []int{0, 1, 2} {
		simulate(t, func(r *rig) {
			r.inj.Add(store.Rule{Ops: []string{"put"}, Prefix: "base/", Delay: 4 * time.Second})
			r.inj.Add(store.Rule{Ops: []string{"put"}, Prefix: "base/", Request: 2, Status: 403})
			r.start(factory(changelog.Options{Materialize: 5 * time.Second, Concurrent: limit}))
			var subs []*sub
			for i := range 4 {
				subs = append(subs, r.open(i, 4))
			}
			for id := uint64(1); id < 60; id++ {
				for _, s := range subs {
					s.fill(fmt.Sprint("value ", id))
					s.checkpoint(id)
					s.sleep(time.Second / 4)
				}
			}
			most, all := r.together()
			if limit == 0 {
				want(most > 2 && r.skipped("crowded") == 0, "without a limit %d at a time, %d skipped", most, r.skipped("crowded"))
			} else {
				want(most == limit && r.skipped("crowded") > 0, "limit %d: %d at a time, %d skipped", limit, most, r.skipped("crowded"))
			}
			want(len(r.events(history.MaterializationFailed)) == 1, "%d failed", len(r.events(history.MaterializationFailed)))
			for _, s := range subs {
				want(s.Gauges().Materialized > 0, "limit %d: %d materializations, and none of a subtask", limit, all)
			}
			r.end(subs...)
		})
	}
}

func TestLogIsTruncatedBehindMaterializationAndSubsumption(t *testing.T) {
	simulate(t, func(r *rig) {
		r.start(factory(changelog.Options{}))
		s := r.open(0, 1)
		s.fill("one")
		s.checkpoint(1)
		running := s.begin(2)
		s.fill("two")
		s.sleep(interval)
		s.fill("three")
		s.checkpoint(3)
		want(len(r.events(history.LogTruncated)) == 0, "truncated although checkpoint 2 runs")
		p := s.persist(running)
		ok(s.Completed(r.worker.Ctx, 2, 1))
		want(len(p.Handle.Delta) == 1, "checkpoint 2 is %+v", p.Handle)
		s.checkpoint(4)
		cuts := r.events(history.LogTruncated)
		want(len(cuts) == 1 && cuts[0].To == 2 && cuts[0].Actor == "count-0", "truncations %+v", cuts)
		g := s.Gauges()
		want(g.Materialized == 1 && g.LogBytes > 0 && g.UnsentBytes == 0, "gauges %+v", g)
		r.end(s)
	})
}

func TestInheritedDeltasStayUntilTheFirstMaterialization(t *testing.T) {
	simulate(t, func(r *rig) {
		f := factory(changelog.Options{})
		r.start(f)
		s := r.open(0, 1)
		s.fill("one")
		h := s.checkpoint(1).Handle
		r.end(s)
		r.start(f)
		s = r.open(0, 1, h)
		want(s.stats.ReplayedChanges == 16 && s.stats.DeltaBytes > 0 && s.stats.BaseBytes == 0, "restore figures %+v", s.stats)
		s.holds("one")
		again := s.checkpoint(2)
		want(slices.Equal(again.Handle.Delta, h.Delta) && again.Checkpointed == 0, "inherited %+v, want %+v", again.Handle.Delta, h.Delta)
		s.sleep(interval) // nothing was changed, but there is a delta to get rid of
		last := s.checkpoint(3).Handle
		want(len(last.Delta) == 0 && last.Materialization == 1, "after the materialization: %+v", last)
		r.end(s)
		r.start(f)
		s = r.open(0, 1, last)
		s.holds("one")
		want(s.stats.ReplayedChanges == 0 && s.stats.BaseBytes > 0, "restore figures %+v", s.stats)
		r.end(s)
	})
}

// TestRescaleTwiceWhileOnlyOneMaterializes is the case in which an old log or base, read a second time, would win over a newer one.
func TestRescaleTwiceWhileOnlyOneMaterializes(t *testing.T) {
	simulate(t, func(r *rig) {
		f := factory(changelog.Options{})
		r.start(f)
		a := r.open(0, 1)
		a.fill("old")
		a.sleep(interval)
		a.fill("older log")
		h := a.checkpoint(1).Handle
		r.end(a)
		r.start(f)
		x, y := r.open(0, 2, h), r.open(1, 2, h)
		x.fill("new")
		y.fill("new")
		x.sleep(interval) // only the loop of x takes turns
		px, py := x.checkpoint(2).Handle, y.checkpoint(2).Handle
		want(px.Materialization == 2 && py.Materialization == 1, "materializations %d and %d", px.Materialization, py.Materialization)
		r.end(x, y)
		for _, handles := range [][]backend.StateHandle{{px, py}, {py, px}} {
			r.start(f)
			z := r.open(0, 1, handles...)
			z.holds("new")
			third := z.checkpoint(3).Handle
			r.end(z)
			r.start(f)
			for i := range 3 {
				u := r.open(i, 3, third)
				u.holds("new")
				ok(u.Close(r.worker.Ctx))
				ok(u.loop.Close(r.ctx))
			}
			r.end()
		}
	})
}

func TestOpensHandlesOfTheNestedBackend(t *testing.T) {
	simulate(t, func(r *rig) {
		r.start(heap.New(heap.Options{}))
		s := r.open(0, 1)
		s.fill("plain")
		h := s.checkpoint(41).Handle
		r.end(s)
		r.start(factory(changelog.Options{}))
		s = r.open(0, 1, h)
		s.holds("plain")
		s.fill("logged")
		p := s.checkpoint(42).Handle
		want(slices.Equal(p.Base, h.Base) && len(p.Delta) == 1, "handle %+v", p)
		s.sleep(interval)
		m := s.checkpoint(43).Handle
		want(m.Materialization == 42, "materialization %d, want the one after the nested backend's 41", m.Materialization)
		r.end(s)
		r.start(factory(changelog.Options{}))
		for _, h := range []backend.StateHandle{p, m} {
			s := r.open(0, 1, h)
			s.holds("logged")
			r.end(s)
			r.start(factory(changelog.Options{}))
		}
		r.end()
	})
}

func TestMaterializationFailuresAreTolerated(t *testing.T) {
	simulate(t, func(r *rig) {
		r.start(factory(changelog.Options{}))
		s := r.open(0, 1)
		remove := r.inj.Add(store.Rule{Ops: []string{"put"}, Prefix: "base/", Status: 503})
		s.fill("one")
		s.sleep(3 * interval)
		want(len(r.events(history.MaterializationFailed)) == 3, "%d failures", len(r.events(history.MaterializationFailed)))
		remove()
		s.sleep(interval)
		want(s.checkpoint(1).Handle.Materialization == 4, "materialization is %+v", r.events(history.MaterializationUploadEnd))
		r.inj.Add(store.Rule{Ops: []string{"put"}, Prefix: "base/", Status: 503})
		s.fill("two")
		err := s.loop.Sleep(r.worker.Ctx, 5*interval)
		want(errors.Is(err, store.ErrThrottled) && strings.Contains(err.Error(), "failure 4 in a row"), "the loop failed with %v", err)
		e := r.events(history.MaterializationFailed)
		want(len(e) == 7 && e[6].Injected && e[6].Error != "", "failures %+v", e)
		want(len(r.keys("base/")) == 1, "base objects %v", r.keys("base/"))
		r.end(s)
	})
}

func TestUnusedMaterializationIsDeletedAtTheEnd(t *testing.T) {
	simulate(t, func(r *rig) {
		r.start(factory(changelog.Options{}))
		s := r.open(0, 1)
		s.fill("one")
		h := s.checkpoint(1).Handle
		s.sleep(interval)
		want(len(r.keys("base/")) == 1, "base objects %v", r.keys("base/"))
		r.end(s)
		want(len(r.keys("base/")) == 0, "left: %v", r.keys("base/"))
		r.start(factory(changelog.Options{}))
		s = r.open(0, 1, h)
		s.holds("one")
		s.sleep(interval)
		used := s.begin(2)
		r.end(s)
		used.Release()
		want(len(r.keys("base/")) == 1, "a base that a checkpoint has started with was deleted")
	})
}

func TestOptionsValidate(t *testing.T) {
	err := changelog.Options{Materialize: -1, Tolerated: -1, BatchSize: -1}.Validate()
	for _, part := range []string{"nested", "interval", "tolerated", "batch size"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in %v", part, err)
		}
	}
}
