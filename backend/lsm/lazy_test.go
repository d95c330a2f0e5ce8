package lsm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// gated is a bucket whose tables can be read by short ranges alone until its gate is open: a restore that goes on beside the
// loop does not end before.
type gated struct {
	store.Bucket
	gate   *world.Latch
	ranges atomic.Int64 // bytes that came by them
}

// shortRange is what the database itself reads at a time: it reads ahead of an index.
const shortRange = 600 << 10

func (g *gated) Get(ctx context.Context, key string) ([]byte, error) {
	if strings.HasSuffix(key, tableExt) {
		if err := g.gate.Wait(ctx); err != nil {
			return nil, err
		}
	}
	return g.Bucket.Get(ctx, key)
}

func (g *gated) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	if n > shortRange {
		if err := g.gate.Wait(ctx); err != nil {
			return nil, err
		}
	}
	g.ranges.Add(n)
	return g.Bucket.GetRange(ctx, key, off, n)
}

// farOptions make tables of 1 MiB, which are read by short ranges.
func farOptions() Options { return Options{Lazy: true, farTail: 8 << 10, FileBytes: 1 << 20} }

const farKeys = 4000 // of 1000 bytes

// fillFar writes the state that the tests below restore, in one layer, and returns its checkpoint.
func fillFar(r *rig) backend.Persisted {
	r.open()
	for i := range farKeys {
		r.put(i, 1000)
	}
	ok(r.k.flush(r.ctx))
	ok(r.k.compact(r.ctx))
	return r.persist(1)
}

// get reads key i.
func (r *rig) get(k *keyed, i int) string {
	v, there, err := k.Get(r.addr(i))
	ok(err)
	if !there {
		panic(fmt.Errorf("key %d is missing", i))
	}
	return string(v)
}

func (r *rig) gate() *gated {
	g := &gated{Bucket: r.bucket, gate: world.NewLatch(r.w)}
	r.bucket = g
	return g
}

// TestLazyRestore: a subtask reads, writes and takes a checkpoint before its tables are here; the checkpoint uploads none of
// them again; no byte comes twice, but some.
func TestLazyRestore(t *testing.T) {
	inWorlds(t, farOptions(), func(r *rig) {
		p := fillFar(r)
		values := []string{r.get(r.k, 7), r.get(r.k, 2222)}
		r.close()
		g := r.gate()
		r.open(p.Handle)
		if got := []string{r.get(r.k, 7), r.get(r.k, 2222)}; !slices.Equal(got, values) {
			t.Error("values read by ranges differ")
		}
		if n := g.ranges.Load(); n == 0 || n > p.Checkpointed/2 || r.k.far.done.Opened() {
			t.Errorf("%d bytes of %d were read for two keys", n, p.Checkpointed)
		}
		r.put(7, 10)
		second := r.persist(2)
		if common(p, second) != len(tables(p)) || second.Objects != 2 {
			t.Errorf("objects %v, then %v, of which %d were put", tables(p), tables(second), second.Objects)
		}
		if work, _ := r.k.Prepare(); work != nil {
			t.Error("the tree is merged before it is here")
		}
		g.gate.Open()
		ok(r.k.Local(r.ctx))
		all := r.k.far.bytes.Load()
		if all < p.Checkpointed*9/10 || all > p.Checkpointed*11/10+g.ranges.Load() { // tables that wait at the gate come as a whole
			t.Errorf("%d bytes were read of %d", all, p.Checkpointed)
		}
		if got := r.get(r.k, 2222); got != values[1] || len(r.get(r.k, 7)) != 10 {
			t.Error("values read locally differ")
		}
		want := content(r.k)
		r.close()
		if e := localEvents(r); len(e) != 1 || e[0].Actor != "count-0" || e[0].Bytes <= 0 || e[0].Bytes > all {
			t.Errorf("events %+v", e)
		}
		r.open(second.Handle)
		if content(r.k) != want {
			t.Error("the second checkpoint has another state")
		}
		r.close()
	})
}

func localEvents(r *rig) (all []history.Event) {
	for _, e := range r.worker.Events() {
		if e.Kind == history.RestoreLocal {
			all = append(all, e)
		}
	}
	return all
}

// TestLazyScans: in the real world all that the database reads comes by ranges, its compactions' too.
func TestLazyScans(t *testing.T) {
	o := farOptions()
	o.Folder = t.TempDir()
	inWorld(t, world.NewReal(1), store.NewMem(), o, func(r *rig) {
		p := fillFar(r)
		want := content(r.k)
		r.close()
		g := r.gate()
		g.gate.Open()
		r.open(p.Handle)
		ok(r.k.compact(r.ctx))
		if content(r.k) != want {
			t.Error("state differs")
		}
		ok(r.k.Local(r.ctx))
		if content(r.k) != want {
			t.Error("state differs in the end")
		}
		r.close()
	})
}

// TestLazyRescale: each of two subtasks reads its own half, in both directions.
func TestLazyRescale(t *testing.T) {
	inWorlds(t, farOptions(), func(r *rig) {
		p := fillFar(r)
		want := content(r.k)
		r.close()
		r.open(p.Handle) // for its worker
		ok(r.k.Close(r.ctx))
		var halves []backend.StateHandle
		got := ""
		for i, rng := range []keygroup.Range{{To: testGroups / 2}, {From: testGroups / 2, To: testGroups}} {
			k := r.subtask(fmt.Sprintf("count-%d", i+1), rng, p.Handle)
			s, err := k.Snapshot(r.worker.Ctx, 2)
			ok(err)
			q, err := s.Persist(r.worker.Ctx)
			ok(err)
			s.Release()
			if q.Objects != 1 {
				t.Errorf("%d objects put", q.Objects)
			}
			halves = append(halves, q.Handle)
			got += content(k)
			ok(k.Local(r.ctx))
			needed := int64(0)
			for _, ref := range q.Handle.Base {
				needed += ref.Bytes
			}
			// In the real world a scan reads ranges of tables that are on their way as a whole.
			if n := k.far.bytes.Load(); n > needed*11/10 && r.w.Simulated() || n > 2*needed || needed > p.Checkpointed*9/10 {
				t.Errorf("%d bytes read, %d of %d needed for a half", n, needed, p.Checkpointed)
			}
			ok(k.Close(r.ctx))
		}
		r.close()
		if got != want {
			t.Error("halves differ")
		}
		r.open(halves...)
		if content(r.k) != want {
			t.Error("state differs")
		}
		r.close()
	})
}

// TestLazyReadsNothingThatWasDeleted: when a checkpoint of the subtask's own has completed, objects that it does not name may
// be deleted, while those that it names are still being read.
func TestLazyReadsNothingThatWasDeleted(t *testing.T) {
	inWorlds(t, farOptions(), func(r *rig) {
		p := fillFar(r)
		r.close()
		g := r.gate()
		r.open(p.Handle)
		if !r.w.Simulated() { // there compactions wait until all is here
			for i := range farKeys {
				if int(r.addr(i).Group) < testGroups/2 {
					r.put(i, 1000)
				}
			}
			ok(r.k.flush(r.ctx))
			g.gate.Open() // compactions read long ranges
			ok(r.k.db.Compact(r.ctx, groupKey(0), groupKey(testGroups/2), false))
		}
		second := r.persist(2)
		ok(r.k.Completed(r.ctx, 2, 1))
		deleted := 0
		for _, key := range tables(p) {
			if !slices.Contains(tables(second), key) {
				deleted++
				ok(r.bucket.Delete(r.ctx, []string{key})[0].Err)
			}
		}
		if (deleted > 0) != !r.w.Simulated() {
			t.Errorf("%d of %d objects deleted", deleted, len(tables(p)))
		}
		g.gate.Open()
		ok(r.k.Local(r.ctx))
		want := content(r.k)
		r.close()
		r.open(second.Handle)
		if content(r.k) != want {
			t.Error("state differs")
		}
		r.close()
	})
}

// TestLazyTableThatIsGone: a table that the database needs no more may be deleted while it is read.
func TestLazyTableThatIsGone(t *testing.T) {
	inSim(t, farOptions(), func(r *rig) {
		p := fillFar(r)
		r.close()
		g := r.gate()
		r.open(p.Handle)
		r.get(r.k, 1) // the restore waits at the gate
		for _, key := range tables(p) {
			ok(r.bucket.Delete(r.ctx, []string{key})[0].Err)
		}
		r.k.bucket.retain(nil)
		g.gate.Open()
		ok(r.k.Local(r.ctx))
		r.close()
	})
}

// TestLazyRestoreFails: what cannot be read fails the subtask, and names the object.
func TestLazyRestoreFails(t *testing.T) {
	inWorlds(t, farOptions(), func(r *rig) {
		p := fillFar(r)
		r.close()
		g := r.gate()
		r.open(p.Handle)
		lost := tables(p)[0]
		ok(r.bucket.Delete(r.ctx, []string{lost})[0].Err)
		g.gate.Open()
		err := r.k.Local(r.ctx)
		if !errors.Is(err, store.ErrNotExist) || !strings.Contains(fmt.Sprint(err), lost) {
			t.Errorf("error %v", err)
		}
		if failed := r.loop.Failed(); failed == nil || !strings.Contains(failed.Error(), lost) {
			t.Errorf("the subtask failed with %v", failed)
		}
		r.close()
		if e := localEvents(r); len(e) > 0 {
			t.Errorf("events %+v", e)
		}
	})
}

// TestLazyLeavesSavepointsOfUsers: these may be deleted once the job runs, so they are read before.
func TestLazyLeavesSavepointsOfUsers(t *testing.T) {
	inSim(t, farOptions(), func(r *rig) {
		fillFar(r)
		want := content(r.k)
		s, err := r.k.Savepoint(r.worker.Ctx, backend.SavepointOptions{ID: 2, Form: backend.Native, Names: func(n uint64) string { return fmt.Sprintf("savepoint/2/count-0/%d", n) }})
		ok(err)
		p, err := s.Persist(r.worker.Ctx)
		ok(err)
		s.Release()
		r.close()
		r.open(p.Handle)
		if r.k.remote() {
			t.Error("a savepoint is read after the start")
		}
		for _, key := range tables(p) {
			ok(r.bucket.Delete(r.ctx, []string{key})[0].Err)
		}
		if content(r.k) != want {
			t.Error("state differs")
		}
		r.close()
	})
}
