package lsm

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// logged is a subtask of a changelog around this backend, beside a model of its state.
type logged struct {
	r      *rig
	inj    *store.Injector
	worker *backendtest.Worker
	b      backend.Backend
	loop   *backendtest.Loop
	k      backend.Keyed
	stats  backend.RestoreStats
	model  map[string]string
	as     map[uint64]map[string]string // at each barrier
}

func (l *logged) open(attempt uint64, handles []backend.StateHandle) {
	r := l.r
	l.worker = backendtest.NewWorker(r.ctx, r.w, store.WithFaults(r.bucket, l.inj, r.w), "worker-0", attempt)
	f := changelog.New(changelog.Options{Nested: New(r.o), NestedName: Name, Materialize: 10 * time.Millisecond, Preemptive: 64 << 10})
	var err error
	l.b, err = f.ForWorker(l.worker.Ctx, l.worker.Env)
	ok(err)
	l.loop = backendtest.NewLoop(l.worker.Ctx, r.w)
	l.k, err = l.b.Open(l.worker.Ctx, backend.OpenOptions{Operator: "count", Subtask: "count-0", Range: keygroup.Range{To: testGroups},
		Handles: handles, Loop: l.loop, Restored: &l.stats})
	ok(err)
	r.state, err = l.k.Register(backend.Spec("v", backend.Value))
	ok(err)
	for i := range loggedKeys {
		l.read(i)
	}
}

func (l *logged) close() {
	ok(l.k.Close(l.worker.Ctx))
	ok(l.loop.Close(l.r.ctx))
	ok(l.b.Close(l.worker.Ctx))
	ok(l.worker.Stop(l.r.ctx))
}

const loggedKeys = 2000

func (l *logged) read(i int) {
	value, there, err := l.k.Get(l.r.addr(i))
	if want, is := l.model[fmt.Sprint(i)]; err != nil || there != is || string(value) != want {
		panic(fmt.Errorf("element %d has %d bytes (%v, %v), want %d (%v)", i, len(value), there, err, len(want), is))
	}
}

// change makes n random changes: mostly values that rows hold, some that are too large, some deletions.
func (l *logged) change(n int) {
	rng := l.r.rng
	for n := range n {
		i := rng.IntN(loggedKeys)
		l.read(i)
		value := make([]byte, rng.IntN(400))
		if rng.IntN(100) == 0 {
			value = make([]byte, rowMost+rng.IntN(100))
		}
		for j := range value {
			value[j] = byte(rng.Uint32())
		}
		if rng.IntN(30) == 0 {
			delete(l.model, fmt.Sprint(i))
			ok(l.k.Delete(l.r.addr(i)))
		} else {
			l.model[fmt.Sprint(i)] = string(value)
			ok(l.k.Put(l.r.addr(i), value))
		}
		if n%500 == 0 {
			ok(l.loop.Sleep(l.worker.Ctx, time.Millisecond))
		}
	}
}

// barrier begins checkpoint id.
func (l *logged) barrier(id uint64) backend.Snapshot {
	s, err := l.k.Snapshot(l.worker.Ctx, id)
	ok(err)
	l.as[id] = maps.Clone(l.model)
	return s
}

// finish persists a checkpoint and completes it, or aborts it if that fails.
func (l *logged) finish(s backend.Snapshot, id, subsumed uint64) (handles []backend.StateHandle, err error) {
	p, err := s.Persist(l.worker.Ctx)
	s.Release()
	if err != nil {
		ok(l.k.Aborted(l.worker.Ctx, id))
		return nil, err
	}
	ok(l.k.Completed(l.worker.Ctx, id, subsumed))
	return []backend.StateHandle{p.Handle}, nil
}

// TestDeferredChangesReachTheLog restores checkpoints of a changelog around this backend: with rows that have no room for all
// that changes between two of them, early uploads, materializations, two checkpoints at a time, and uploads that fail. Each
// has the state as of its barrier, whatever changed before it was uploaded.
func TestDeferredChangesReachTheLog(t *testing.T) {
	o := Options{MemtableBytes: 200 << 10, RowBytes: 300 << 10, FileBytes: 64 << 10, CountEvery: 1}
	inWorlds(t, o, func(r *rig) {
		l := &logged{r: r, inj: store.NewInjector(r.w), model: map[string]string{}, as: map[uint64]map[string]string{}}
		var handles []backend.StateHandle
		id, newest, replayed, failed := uint64(0), uint64(0), int64(0), 0
		for attempt := uint64(1); attempt < 5; attempt++ {
			l.open(attempt, handles)
			replayed += l.stats.ReplayedChanges
			for range 2 {
				l.change(1000)
				heal := l.inj.Add(store.Rule{Ops: []string{"put"}, Prefix: "log/", Status: 503})
				l.change(2000)
				first := l.barrier(id + 1)
				l.change(2000)
				second := l.barrier(id + 2)
				l.change(2000)
				l.change(500)
				_, err := l.finish(first, id+1, newest)
				if err == nil { // all of it was uploaded early
					newest = id + 1
				} else if failed++; !errors.Is(err, store.ErrThrottled) {
					panic(err)
				}
				heal()
				l.change(2000)
				handles, err = l.finish(second, id+2, newest)
				ok(err)
				id += 2
				newest = id
			}
			l.change(1000)
			l.close()
			l.model = maps.Clone(l.as[newest])
		}
		if replayed == 0 || failed == 0 {
			t.Errorf("%d changes were replayed from the log, %d uploads failed", replayed, failed)
		}
	})
}

// TestDeferredSize compares what Deferred tells with what Changed hands out, and that with the last values.
func TestDeferredSize(t *testing.T) {
	inWorld(t, world.NewReal(1), store.NewMem(), Options{RowBytes: 1 << 20, CountEvery: 1}, func(r *rig) {
		r.open()
		for i := range 50 {
			r.put(i, 100)
		}
		r.k.Defer()
		for round := range 20 {
			last := map[string]string{}
			for range 300 {
				a := r.addr(r.rng.IntN(100))
				value := make([]byte, r.rng.IntN(300))
				for j := range value {
					value[j] = byte(r.rng.Uint32())
				}
				var deferred bool
				var err error
				if r.rng.IntN(4) == 0 {
					deferred, err = r.k.DeleteLater(a)
					last[string(a.Key)] = "gone"
				} else {
					deferred, err = r.k.PutLater(a, value)
					last[string(a.Key)] = string(value)
				}
				if ok(err); !deferred {
					t.Fatal("a small value is not deferred")
				}
			}
			told, urgent := r.k.Deferred()
			size := int64(0)
			ok(r.k.Changed(func(a backend.Addr, value []byte, gone bool) error {
				want, there := last[string(a.Key)]
				if delete(last, string(a.Key)); !there || gone != (want == "gone") || !gone && string(value) != want {
					t.Errorf("round %d: %s is handed out with %d bytes (gone: %v), want %d (there: %v)", round, a.Key, len(value), gone, len(want), there)
				}
				size += int64(len(a.Key)+len(value)) + noteCost
				return nil
			}))
			if told != size || urgent || len(last) > 0 {
				t.Errorf("round %d: %d bytes are told (urgent: %v), %d handed out, %d elements missing", round, told, urgent, size, len(last))
			}
			if told, _ := r.k.Deferred(); told != 0 {
				t.Errorf("round %d: %d bytes are told after all was handed out", round, told)
			}
		}
		r.close()
	})
}

// TestReadsKeepTheLimit: while changes wait for the log, which keeps the rows from making room, reads add no more of them.
func TestReadsKeepTheLimit(t *testing.T) {
	const limit = 256 << 10
	inWorld(t, world.NewReal(1), store.NewMem(), Options{RowBytes: limit, MemtableBytes: 128 << 10, CountEvery: 1}, func(r *rig) {
		r.open()
		for i := range 5000 {
			r.put(i, 200)
		}
		r.k.Defer()
		_, err := r.k.PutLater(r.addr(0), []byte("changed"))
		ok(err)
		for i := range 10000 {
			value, there, err := r.k.Get(r.addr(i))
			if ok(err); there != (i < 5000) || i > 0 && there && len(value) != 200 {
				t.Fatalf("element %d has %d bytes (there: %v)", i, len(value), there)
			}
		}
		if size := r.k.rows.size(); size > limit+rowChunk+limit/8 {
			t.Errorf("the rows take %d bytes, limit %d", size, limit)
		}
		if _, urgent := r.k.Deferred(); !urgent {
			t.Error("rows that are full do not ask for the log to take what waits for it")
		}
		ok(r.k.Changed(func(backend.Addr, []byte, bool) error { return nil }))
		r.put(1, 200)
		for i := range 5000 {
			_, err := r.k.PutLater(r.addr(10000+i), make([]byte, 200))
			ok(err)
			if _, urgent := r.k.Deferred(); urgent {
				ok(r.k.Changed(func(backend.Addr, []byte, bool) error { return nil }))
			}
			if size := r.k.rows.size(); size > limit+rowChunk {
				t.Fatalf("the rows take %d bytes by what was written, limit %d", size, limit)
			}
		}
		r.close()
	})
}
