package changelog_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/world"
)

// The tests of cases_a_test.go and cases_b_test.go are named after the cases of docs/known-faults.md.

// beside is another worker of the same attempt, in the same process.
func (r *rig) beside(name string, f backend.Factory) *rig {
	o := *r
	o.worker = backendtest.NewWorker(r.ctx, r.w, r.mem, name, r.attempt)
	var err error
	o.b, err = f.ForWorker(o.worker.Ctx, o.worker.Env)
	ok(err)
	return &o
}

// together takes the checkpoint up to its acknowledgements in all subtasks of one worker at the same time.
func together(id uint64, subs ...*sub) []backend.Persisted {
	r := subs[0].r
	out, snaps := make([]backend.Persisted, len(subs)), make([]backend.Snapshot, len(subs))
	for i, s := range subs {
		snaps[i] = s.begin(id)
	}
	g := world.NewGroup(r.w)
	for i, s := range subs {
		g.Go(r.worker.Ctx, fmt.Sprint("persist-", i), func(context.Context) error { out[i] = s.persist(snaps[i]); return nil })
	}
	ok(g.Wait(r.ctx))
	return out
}

// metadata is that of a checkpoint with these handles.
func metadata(id uint64, ps ...backend.Persisted) *checkpoint.Metadata {
	m := &checkpoint.Metadata{ID: id, Term: 1}
	for i := range ps {
		m.Subtasks = append(m.Subtasks, checkpoint.SubtaskState{Operator: "count", Index: i, Keyed: &ps[i].Handle})
	}
	return m
}

// keysOf lists the objects of a list.
func keysOf(refs []backend.ObjectRef) (keys []string) {
	for _, o := range refs {
		keys = append(keys, o.Key)
	}
	return slices.Compact(slices.Sorted(slices.Values(keys)))
}

// drop deletes what the registry gives up below a checkpoint, and returns it.
func (r *rig) drop(reg *checkpoint.Registry, lowest uint64) (keys []string) {
	for _, u := range reg.UnregisterUnused(lowest) {
		keys = append(keys, u.Key)
	}
	for _, d := range r.mem.Delete(r.ctx, keys) {
		ok(d.Err)
	}
	want(r.mem.Stats().UnknownDeletes == 0, "an object was deleted twice: one of %v", keys)
	return keys
}

// TestA17EqualLocalNumbersAreDifferentObjects: two workers of one process each write their first segment; when one of them is
// subsumed the other is still there.
func TestA17EqualLocalNumbersAreDifferentObjects(t *testing.T) {
	simulate(t, func(r *rig) {
		f := factory(changelog.Options{})
		r.start(f)
		r2 := r.beside("worker-1", f)
		a, b := r.open(0, 2), r2.open(1, 2)
		a.fill("one")
		b.fill("one")
		reg := checkpoint.NewRegistry()
		pa, pb := a.checkpoint(1), b.checkpoint(1)
		ra, rb := pa.Handle.Delta[0], pb.Handle.Delta[0]
		want(ra.From == rb.From && ra.To == rb.To && ra.Offset == rb.Offset, "local numbers differ: %+v and %+v", ra, rb)
		want(ra.Key != rb.Key && ra.Log != rb.Log, "both are %s of %s", ra.Key, ra.Log)
		reg.Complete(metadata(1, pa, pb), checkpoint.ObjectUse{})
		a.sleep(interval)
		pa, pb = a.checkpoint(2), b.checkpoint(2)
		reg.Complete(metadata(2, pa, pb), checkpoint.ObjectUse{})
		gone := r.drop(reg, 2)
		want(slices.Equal(gone, []string{ra.Key}) && reg.Known(rb.Key), "dropped %v", gone)
		r.end(a)
		r2.end(b)
		r.start(f)
		a, b = r.open(0, 2, pa.Handle), r.open(1, 2, pb.Handle)
		a.holds("one")
		b.holds("one")
		r.end(a, b)
	})
}

// TestA18SegmentLivesWhileOneOfItsRangesIsNamed: an object with the changes of two subtasks is put for a checkpoint that is aborted,
// used by the next ones, and given up by one subtask before the other. A subtask without changes restores as empty.
func TestA18SegmentLivesWhileOneOfItsRangesIsNamed(t *testing.T) {
	simulate(t, func(r *rig) {
		f := factory(changelog.Options{BatchDelay: time.Second})
		r.start(f)
		a, b := r.open(0, 2), r.open(1, 2)
		reg := checkpoint.NewRegistry()
		done := func(id, subsumed uint64, ps []backend.Persisted) {
			reg.Complete(metadata(id, ps...), checkpoint.ObjectUse{})
			for _, s := range []*sub{a, b} {
				ok(s.Completed(r.worker.Ctx, id, subsumed))
			}
		}
		a.fill("one")
		first := together(1, a, b)
		want(len(first[0].Handle.Delta) == 1 && len(first[1].Handle.Delta) == 0, "checkpoint 1 is %+v", first)
		done(1, 0, first)
		a.fill("two")
		b.fill("two")
		second := together(2, a, b)
		shared := second[1].Handle.Delta[0].Key
		want(slices.Contains(keysOf(second[0].Handle.Delta), shared), "nothing is shared: %+v", second)
		for i, s := range []*sub{a, b} {
			reg.Register(&second[i].Handle, 2)
			ok(s.Aborted(r.worker.Ctx, 2))
		}
		b.fill("three")
		third := together(3, a, b)
		done(3, 1, third)
		want(len(r.drop(reg, 3)) == 0, "something was dropped that checkpoint 3 names")
		for i := range third {
			want(slices.Contains(keysOf(third[i].Handle.Delta), shared), "subtask %d does not name %s", i, shared)
		}
		other := r.beside("worker-1", f)
		ca, cb := other.open(0, 2, third[0].Handle), other.open(1, 2, third[1].Handle)
		ca.holds("two")
		cb.holds("three")
		other.end(ca, cb)
		a.sleep(interval) // a materializes, b does not
		fourth := together(4, a, b)
		done(4, 3, fourth)
		gone := r.drop(reg, 4)
		want(len(keysOf(fourth[0].Handle.Delta)) == 0 && len(gone) > 0 && !slices.Contains(gone, shared), "%v is gone with the half of it", gone)
		r.end(a, b)
		r.start(f)
		a, b = r.open(0, 2, fourth[0].Handle), r.open(1, 2, fourth[1].Handle)
		a.holds("two")
		b.holds("three")
		fifth := together(5, a, b)
		b.sleep(interval)
		sixth := together(6, a, b)
		for i, ps := range [][]backend.Persisted{fifth, sixth} {
			reg.Complete(metadata(uint64(5+i), ps...), checkpoint.ObjectUse{})
		}
		want(slices.Contains(r.drop(reg, 6), shared), "nobody names %s, and it is there", shared)
		r.end(a, b)
		r.start(f)
		empty := r.open(1, 2, first[1].Handle)
		want(empty.Gauges().Elements == 0 && empty.stats.DeltaBytes == 0, "the empty range has %d elements", empty.Gauges().Elements)
		r.end(empty)
	})
}
