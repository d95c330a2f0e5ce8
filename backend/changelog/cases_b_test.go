package changelog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/heap"
	"statebench.dev/bench/backend/lsm"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
)

// told is a nested backend that notes what it is told.
type told struct {
	backend.Factory
	snapshots, completed, subsumed []uint64
}

func (t *told) ForWorker(ctx context.Context, e backend.WorkerEnv) (backend.Backend, error) {
	b, err := t.Factory.ForWorker(ctx, e)
	return &toldBackend{b, t}, err
}

type toldBackend struct {
	backend.Backend
	t *told
}

func (b *toldBackend) Open(ctx context.Context, o backend.OpenOptions) (backend.Keyed, error) {
	k, err := b.Backend.Open(ctx, o)
	return &toldKeyed{k, b.t}, err
}

type toldKeyed struct {
	backend.Keyed
	t *told
}

func (k *toldKeyed) PutAt(a backend.Addr, pos uint64, value []byte) error {
	return k.Keyed.(backend.Positioned).PutAt(a, pos, value)
}

func (k *toldKeyed) Snapshot(ctx context.Context, id uint64) (backend.Snapshot, error) {
	k.t.snapshots = append(k.t.snapshots, id)
	return k.Keyed.Snapshot(ctx, id)
}

func (k *toldKeyed) Completed(ctx context.Context, id, subsumed uint64) error {
	k.t.completed, k.t.subsumed = append(k.t.completed, id), append(k.t.subsumed, subsumed)
	return k.Keyed.Completed(ctx, id, subsumed)
}

// TestB05NestedBackendIsToldMaterializations: materializations are numbered from 1, checkpoints from 10; the nested backend hears of
// the former only, of the one that the completed checkpoint contains. Where bases with several numbers meet, the next one is above
// them all.
func TestB05NestedBackendIsToldMaterializations(t *testing.T) {
	simulate(t, func(r *rig) {
		nested := &told{Factory: heap.New(heap.Options{})}
		f := changelog.New(changelog.Options{Nested: nested, NestedName: heap.Name, Materialize: interval})
		r.start(f)
		s := r.open(0, 2)
		for id := uint64(10); id <= 15; id++ {
			s.fill(fmt.Sprint("at ", id))
			if id%2 == 1 {
				s.sleep(interval)
			}
			if id == 15 {
				nested.completed, nested.subsumed = nil, nil
			}
			p := s.checkpoint(id)
			want(p.Handle.Checkpoint == id && p.Handle.Materialization == (id-9)/2, "checkpoint %d contains materialization %d", id, p.Handle.Materialization)
		}
		want(slices.Equal(nested.snapshots, []uint64{1, 2, 3}), "snapshots %v", nested.snapshots)
		want(slices.Equal(nested.completed, []uint64{3}) && slices.Max(nested.subsumed) < 3, "told that %v completed, %v subsumed", nested.completed, nested.subsumed)
		third := s.checkpoint(16).Handle
		other := r.open(1, 2)
		other.fill("other")
		var second backend.StateHandle
		for id := uint64(17); id <= 18; id++ {
			other.sleep(interval)
			other.fill("other")
			second = other.checkpoint(id).Handle
		}
		want(third.Materialization == 3 && second.Materialization == 2, "materializations %d and %d", third.Materialization, second.Materialization)
		r.end(s, other)
		for _, handles := range [][]backend.StateHandle{{second, third}, {third, second}} {
			r.start(f)
			both := r.open(0, 1, handles...)
			h := both.checkpoint(19).Handle
			want(h.Materialization == 3, "the restored parts are of %d", h.Materialization)
			both.fill("both")
			both.sleep(interval)
			h = both.checkpoint(20).Handle
			want(h.Materialization == 4, "the next one is %d", h.Materialization)
			both.holds("both")
			r.end(both)
		}
	})
}

// TestB06OffAfterOn: a job with a log and a materialization goes on without a changelog on an incremental backend. Its checkpoints
// name no segment and each of them restores.
func TestB06OffAfterOn(t *testing.T) {
	simulate(t, func(r *rig) {
		folder := lsm.Options{Folder: t.TempDir()}
		on := changelog.New(changelog.Options{Nested: lsm.New(folder), NestedName: lsm.Name, Materialize: interval})
		off := changelog.Off(lsm.New(folder))
		r.start(on)
		s := r.open(0, 1)
		var h backend.StateHandle
		for id := uint64(1); id <= 3; id++ {
			s.fill(fmt.Sprint("on ", id))
			if id == 2 {
				s.sleep(interval)
				s.fill("on 2 again")
			}
			h = s.checkpoint(id).Handle
		}
		want(h.Materialization == 1 && len(h.Base) > 0 && len(h.Delta) > 0, "checkpoint 3 is %+v", h)
		r.end(s)
		r.start(off)
		s = r.open(0, 1, h)
		s.holds("on 3")
		reg := checkpoint.NewRegistry()
		reg.Register(&h, 3)
		var taken []backend.StateHandle
		var sizes []int64
		for id := uint64(4); id <= 6; id++ {
			if id > 4 { // one key group of sixteen
				ok(s.Put(backend.Addr{State: s.state, Group: keygroup.ID(id), Key: []byte("key")}, []byte("off")))
			}
			p := s.checkpoint(id)
			want(len(p.Handle.Delta) == 0 && p.Handle.Materialization == 0, "checkpoint %d is %+v", id, p.Handle)
			want(!slices.ContainsFunc(p.Handle.Base, func(o backend.ObjectRef) bool { return strings.HasPrefix(o.Key, checkpoint.LogPrefix) }), "it names a segment")
			reg.Register(&p.Handle, id)
			taken, sizes = append(taken, p.Handle), append(sizes, int64(len(p.Handle.Base)))
		}
		want(slices.IsSorted(sizes), "the later checkpoints do not build upon the earlier ones: %v objects", sizes)
		r.end(s)
		for i, h := range taken {
			r.start(off)
			s := r.open(0, 1, h)
			for g := keygroup.ID(0); g < 16; g++ {
				wanted := "on 3"
				if g >= 5 && int(g) <= 4+i {
					wanted = "off"
				}
				got, _, err := s.Get(backend.Addr{State: s.state, Group: g, Key: []byte("key")})
				ok(err)
				want(string(got) == wanted, "checkpoint %d, key group %d holds %q, want %q", 4+i, g, got, wanted)
			}
			r.end(s)
		}
		old := keysOf(h.Delta)
		gone := r.drop(reg, 4)
		for _, key := range old { // the job owns them: the registry gives them up with the checkpoint of the first life
			want(slices.Contains(gone, key), "%s is kept", key)
		}
	})
}

// TestB07OnAfterOff: a checkpoint with the number 7 of a backend alone is opened with a changelog; materializations go on from there,
// over a failure too, and no number is used twice.
func TestB07OnAfterOff(t *testing.T) {
	simulate(t, func(r *rig) {
		nested := &told{Factory: heap.New(heap.Options{})}
		f := changelog.New(changelog.Options{Nested: nested, NestedName: heap.Name, Materialize: interval})
		r.start(heap.New(heap.Options{}))
		s := r.open(0, 1)
		s.fill("seven")
		h := s.checkpoint(7).Handle
		r.end(s)
		r.start(f)
		s = r.open(0, 1, h)
		s.fill("eight")
		s.sleep(interval)
		h = s.checkpoint(8).Handle
		want(h.Materialization == 8, "the first materialization is %d", h.Materialization)
		s.fill("lost")
		r.worker.Domain.Kill()
		ok(r.worker.Domain.Await(r.ctx))
		r.start(f)
		s = r.open(0, 1, h)
		s.holds("eight")
		s.fill("nine")
		s.sleep(interval)
		last := s.checkpoint(9).Handle
		want(last.Materialization == 9, "the second materialization is %d", last.Materialization)
		r.end(s)
		want(slices.Equal(nested.snapshots, []uint64{8, 9}), "the nested backend took %v", nested.snapshots)
		r.start(f)
		s = r.open(0, 1, last)
		s.holds("nine")
		r.end(s)
	})
}

// TestB10ScaleInKeepsEveryPart: four subtasks become one, on each backend; what the second part restores does not replace the first.
func TestB10ScaleInKeepsEveryPart(t *testing.T) {
	for name, f := range map[string]backend.Factory{
		"heap": heap.New(heap.Options{}), "lsm": lsm.New(lsm.Options{Folder: t.TempDir()}),
		"heap-on": factory(changelog.Options{}), "heap-on, log only": factory(changelog.Options{MaterializeOff: true}),
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(r *rig) {
				r.start(f)
				var subs []*sub
				var handles []backend.StateHandle
				for i := range 4 {
					s := r.open(i, 4)
					s.fill(fmt.Sprint("of ", i))
					s.sleep(interval)
					subs = append(subs, s)
				}
				for _, s := range subs {
					handles = append(handles, s.checkpoint(1).Handle)
				}
				r.end(subs...)
				for id := uint64(2); id <= 3; id++ { // from the four, and then from what the one names of theirs
					r.start(f)
					one := r.open(0, 1, handles...)
					want(one.Gauges().Elements == 16, "%d elements of 16", one.Gauges().Elements)
					for g := keygroup.ID(0); g < 16; g++ {
						got, _, err := one.Get(backend.Addr{State: one.state, Group: g, Key: []byte("key")})
						ok(err)
						want(string(got) == fmt.Sprint("of ", keygroup.SubtaskOf(g, 4, 16)), "key group %d holds %q", g, got)
					}
					handles = []backend.StateHandle{one.checkpoint(id).Handle}
					r.end(one)
				}
			})
		})
	}
}

// TestB11EachLogHasItsOwnStateNumbers: two subtasks know the same states by swapped numbers, and their logs are read by one.
func TestB11EachLogHasItsOwnStateNumbers(t *testing.T) {
	simulate(t, func(r *rig) {
		f := factory(changelog.Options{MaterializeOff: true})
		r.start(f)
		spec := func(name string) backend.StateSpec { return backend.Spec(name, backend.Value) }
		at := func(id backend.StateID, g keygroup.ID) backend.Addr {
			return backend.Addr{State: id, Group: g, Key: []byte("key")}
		}
		var subs []*sub
		var handles []backend.StateHandle
		numbers := map[string][]backend.StateID{}
		for i, names := range [][]string{{"a", "b"}, {"b", "a"}} {
			s := r.open(i, 2)
			subs = append(subs, s)
			for _, name := range names {
				id, err := s.Register(spec(name))
				ok(err)
				numbers[name] = append(numbers[name], id)
				for g := s.Range().From; g < s.Range().To; g++ {
					ok(s.Put(at(id, g), []byte(name)))
				}
			}
			handles = append(handles, s.checkpoint(1).Handle)
		}
		want(numbers["a"][0] == numbers["b"][1] && numbers["a"][0] != numbers["a"][1], "the numbers are not swapped: %v", numbers)
		r.end(subs...)
		r.start(f)
		one := r.open(0, 1, handles...)
		for _, name := range []string{"a", "b"} {
			id, err := one.Register(spec(name))
			ok(err)
			for g := keygroup.ID(0); g < 16; g++ {
				got, found, err := one.Get(at(id, g))
				ok(err)
				want(found && string(got) == name, "state %s, key group %d holds %q", name, g, got)
			}
		}
		r.end(one)
	})
}

// TestB26CutLogHandles: a log part of all key groups is cut for three subtasks and for a range that it does not reach. The subtasks let
// go of it one after the other, and the object goes with the last.
func TestB26CutLogHandles(t *testing.T) {
	simulate(t, func(r *rig) {
		f := factory(changelog.Options{})
		r.start(f)
		a, b := r.open(0, 2), r.open(1, 2)
		a.fill("first half")
		b.fill("second half")
		first, second := a.checkpoint(1), b.checkpoint(1)
		r.end(a, b)
		_, overlaps := first.Handle.Narrow(b.Range())
		want(!overlaps, "the first half reaches into %v", b.Range())
		r.start(f)
		none := r.open(1, 2, first.Handle)
		want(none.Gauges().Elements == 0 && none.stats.DeltaBytes == 0 && none.stats.ReplayedChanges == 0, "an empty cut gave %d elements", none.Gauges().Elements)
		r.end(none)
		r.start(f)
		whole := r.open(0, 1, first.Handle, second.Handle)
		whole.fill("whole")
		third := whole.checkpoint(2)
		log := third.Handle.Delta[len(third.Handle.Delta)-1]
		want(log.Groups == whole.Range(), "the log part is for %v", log.Groups)
		r.end(whole)
		r.start(f)
		var subs []*sub
		for i := range 3 {
			s := r.open(i, 3, third.Handle)
			s.holds("whole")
			want(int(s.Gauges().Elements) == s.Range().Len(), "subtask %d has %d elements in %v", i, s.Gauges().Elements, s.Range())
			subs = append(subs, s)
		}
		reg := checkpoint.NewRegistry()
		reg.Register(&third.Handle, 2)
		var last []backend.StateHandle
		for i, id := range []uint64{3, 4, 5} {
			subs[i].sleep(interval) // this one materializes and needs no log any more
			var ps []backend.Persisted
			last = nil
			for _, s := range subs {
				p := s.checkpoint(id)
				ps, last = append(ps, p), append(last, p.Handle)
			}
			reg.Complete(metadata(id, ps...), checkpoint.ObjectUse{})
			want(slices.Contains(r.drop(reg, id), log.Key) == (i == 2), "after %d of 3 have let go of it, %s is there: %t", i+1, log.Key, reg.Known(log.Key))
		}
		r.end(subs...)
		r.start(f)
		whole = r.open(0, 1, last...)
		whole.holds("whole")
		r.end(whole)
	})
}

// TestB19BackendAloneRefusesALog: a backend without a changelog is given a checkpoint with one. It says so before it reads anything,
// and what reads it.
func TestB19BackendAloneRefusesALog(t *testing.T) {
	for name, alone := range map[string]backend.Factory{heap.Name: heap.New(heap.Options{}), lsm.Name: lsm.New(lsm.Options{Folder: t.TempDir()})} {
		simulate(t, func(r *rig) {
			r.start(changelog.New(changelog.Options{Nested: alone, NestedName: name, Materialize: interval}))
			s := r.open(0, 1)
			s.fill("one")
			s.sleep(interval)
			s.fill("two")
			h := s.checkpoint(5).Handle
			want(len(h.Base) > 0 && len(h.Delta) > 0, "the handle is %+v", h)
			r.end(s)
			r.inj.Add(store.Rule{Name: "reads", Ops: []string{"get"}, Status: 500})
			r.start(alone)
			_, err := r.b.Open(r.worker.Ctx, backend.OpenOptions{Operator: "count", Subtask: "count-0", Range: h.Range, Handles: []backend.StateHandle{h}})
			want(errors.Is(err, backend.ErrForeign) && strings.Contains(err.Error(), "checkpoint 5 has changelog parts; it needs the changelog backend"), "error %v", err)
			want(r.inj.Hits("reads") == 0, "%s has read %d objects", name, r.inj.Hits("reads"))
			r.end()
		})
	}
}
