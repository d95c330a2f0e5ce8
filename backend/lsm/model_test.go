package lsm

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/heap"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// pair is an LSM and a heap that are given the same operations.
type pair struct {
	r     *rig
	other backend.Keyed
	kinds []backend.StateID // value, list, map: the same ids in both
}

// open begins the LSM's next attempt; the heap goes on.
func (p *pair) open(handles ...backend.StateHandle) {
	p.r.open(handles...)
	p.kinds = p.kinds[:0]
	for _, spec := range []backend.StateSpec{backend.Spec("v", backend.Value), backend.Spec("l", backend.List), backend.Spec("m", backend.Map)} {
		a, err := p.r.k.Register(spec)
		ok(err)
		b, err := p.other.Register(spec)
		ok(err)
		if a != b {
			panic(fmt.Errorf("ids %d and %d", a, b))
		}
		p.kinds = append(p.kinds, a)
	}
}

// read compares an element of the value and the map state.
func (p *pair) read(a backend.Addr) {
	if a.State == p.kinds[1] {
		return
	}
	got, there, err := p.r.k.Get(a)
	ok(err)
	want, is, err := p.other.Get(a)
	ok(err)
	if there != is || !bytes.Equal(got, want) {
		panic(fmt.Errorf("%v: %x %v, want %x %v", a, got, there, want, is))
	}
}

// change makes one random change on both, to an element that it reads before.
func (p *pair) change(rng *rand.Rand) {
	a := backend.Addr{
		State: p.kinds[rng.IntN(3)], Group: keygroup.ID(rng.IntN(testGroups)), Key: fmt.Appendf(nil, "%c%03d", 'a'+rng.IntN(4), rng.IntN(400)),
	}
	p.read(a)
	n := rng.IntN(300)
	if rng.IntN(50) == 0 {
		n += rowMost // too large for a row
	}
	value := make([]byte, n)
	for i := range value {
		value[i] = byte(rng.Uint32())
	}
	list := a.State == p.kinds[1]
	for _, k := range []backend.Keyed{p.r.k, p.other} {
		switch {
		case list && len(value)%10 < 8:
			_, err := k.Append(a, value)
			ok(err)
		case !list && len(value)%10 < 7:
			ok(k.Put(a, value))
		case a.State != p.kinds[0] && len(value)%10 == 9:
			prefix := a
			prefix.Key = a.Key[:1+len(value)%3]
			if len(value) < 20 {
				prefix.Key = nil
			}
			ok(k.DeletePrefix(prefix))
		default:
			ok(k.Delete(a))
		}
	}
}

// TestAgainstHeap drives both through random changes with flushes and compactions in the background, and restores.
func TestAgainstHeap(t *testing.T) {
	againstHeap(t, Options{MemtableBytes: 256 << 10, RowBytes: 300 << 10, FileBytes: 64 << 10, CountEvery: 1})
}

// TestAgainstHeapLazy: the same holds while tables of what was restored are still in the store.
func TestAgainstHeapLazy(t *testing.T) {
	againstHeap(t, Options{MemtableBytes: 256 << 10, RowBytes: 300 << 10, FileBytes: 64 << 10, CountEvery: 1, Lazy: true, farTail: 1 << 10})
}

func againstHeap(t *testing.T, o Options) {
	t.Helper()
	far := 0
	inWorld(t, world.NewReal(1), store.NewMem(), o, func(r *rig) {
		worker := backendtest.NewWorker(r.ctx, r.w, store.NewMem(), "heap", 1)
		heaps, err := heap.New(heap.Options{}).ForWorker(worker.Ctx, worker.Env)
		ok(err)
		p := &pair{r: r}
		p.other, err = heaps.Open(r.ctx, backend.OpenOptions{Operator: "count", Subtask: "count-0", Range: keygroup.Range{To: testGroups}})
		ok(err)
		p.open()
		for id := uint64(1); id < 7; id++ {
			for range 6000 {
				p.change(r.rng)
			}
			if got, want := content(r.k), content(p.other); got != want {
				t.Fatalf("checkpoint %d: state differs", id)
			}
			if got, want := r.k.Gauges(), p.other.Gauges(); got != want {
				t.Errorf("checkpoint %d: gauges %+v, want %+v", id, got, want)
			}
			c := r.persist(id)
			ok(r.k.Completed(r.ctx, id, id-1))
			if id%2 == 1 {
				r.close()
				p.open(c.Handle)
				if r.k.far != nil {
					far++
				}
			}
		}
		r.close()
		ok(p.other.Close(r.ctx))
		ok(worker.Stop(r.ctx))
	})
	if o.Lazy != (far > 0) {
		t.Errorf("%d restores left tables in the store, lazy: %v", far, o.Lazy)
	}
}

// TestEstimatesStayClose: with one write of 32 looked at, gauges are within a few percent.
func TestEstimatesStayClose(t *testing.T) {
	inWorld(t, world.NewReal(1), store.NewMem(), Options{}, func(r *rig) {
		r.open()
		live := map[int]int{}
		for range 200_000 {
			i := r.rng.IntN(20_000)
			if r.rng.IntN(4) == 0 {
				ok(r.k.Delete(r.addr(i)))
				delete(live, i)
				continue
			}
			n := 20 + r.rng.IntN(60)
			r.put(i, n)
			live[i] = n
		}
		want := backend.Gauges{Elements: int64(len(live))}
		for i, n := range live { // order-free: a sum
			want.LiveBytes += int64(n + len(r.addr(i).Key))
		}
		got := r.k.Gauges()
		if off(got.Elements, want.Elements) > 0.1 || off(got.LiveBytes, want.LiveBytes) > 0.1 {
			t.Errorf("gauges %+v, want about %+v", got, want)
		}
		t.Logf("%d elements of %d bytes, estimated as %d of %d", want.Elements, want.LiveBytes, got.Elements, got.LiveBytes)
		r.close()
	})
}

func off(got, want int64) float64 {
	d := float64(got-want) / float64(want)
	return max(d, -d)
}

// TestSimulatedDatabaseRepeats: the same operations leave the same objects at the same virtual time, whatever the machine
// does beside it.
func TestSimulatedDatabaseRepeats(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	run := func() string {
		bucket, w := store.NewMem(), world.NewSim(world.SimOptions{Seed: 7})
		out := ""
		inWorld(t, w, bucket, Options{FileBytes: 64 << 10}, func(r *rig) {
			r.open()
			var p backend.Persisted
			for id := uint64(1); id < 12; id++ {
				for range 500 {
					if i := r.rng.IntN(3000); r.rng.IntN(5) == 0 {
						ok(r.k.Delete(r.addr(i)))
					} else {
						r.put(i, r.rng.IntN(200)+r.rng.IntN(2000)*(r.rng.IntN(40)/39))
					}
				}
				if id == 6 {
					r.put(1, 400<<10) // larger than the first memtables
				}
				if m := r.k.db.Metrics(); m.MemTable.Count > 1 || m.Compact.NumInProgress > 0 {
					t.Errorf("%d memtables, %d compactions: the database works by itself", m.MemTable.Count, m.Compact.NumInProgress)
				}
				p = r.persist(id)
				ok(r.k.Completed(r.ctx, id, id-1))
				if id%5 == 0 {
					r.close()
					r.open(p.Handle)
				}
			}
			out = fmt.Sprintln(w.Now(), r.k.Gauges(), p)
			r.close()
		})
		return out + objectsOf(t, bucket)
	}
	first := run()
	for _, procs := range []int{1, 2, 16} {
		runtime.GOMAXPROCS(procs)
		stop := make(chan struct{})
		go func() { // something else that wants to run
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					_ = fmt.Sprint(i)
				}
			}
		}()
		again := run()
		if close(stop); again != first {
			t.Fatalf("with %d processors the run is another one:\n%s\n%s", procs, first, again)
		}
	}
}

func objectsOf(t *testing.T, b *store.Mem) (list string) {
	for a, err := range b.List(context.Background(), "", "") {
		body, gerr := b.Get(context.Background(), a.Key)
		if err != nil || gerr != nil {
			t.Fatal(err, gerr)
		}
		list += fmt.Sprintln(a.Key, len(body), castagnoli(body))
	}
	return list
}
