package heap

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

const (
	benchKeys   = 1 << 20
	benchGroups = 128
)

// inRealWorld runs f with an open subtask of all key groups.
func inRealWorld(tb testing.TB, o Options, f func(ctx context.Context, k *keyed)) {
	tb.Helper()
	w := world.NewReal(1)
	err := w.Run(func(ctx context.Context) error {
		worker := backendtest.NewWorker(ctx, w, store.NewMem(), "worker-0", 1)
		b, err := New(o).ForWorker(worker.Ctx, worker.Env)
		if err != nil {
			return err
		}
		k, err := b.Open(worker.Ctx, backend.OpenOptions{Operator: "count", Subtask: "count-0", Range: keygroup.Range{To: benchGroups}})
		if err != nil {
			return err
		}
		f(worker.Ctx, k.(*keyed))
		return k.Close(ctx)
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// load writes n keys of 8 bytes with values of 100 bytes, half of them random, in random order of key groups.
func load(tb testing.TB, k *keyed, t backend.Type, n int) (id backend.StateID, put func(i uint64)) {
	tb.Helper()
	id, err := k.Register(backend.Spec(t.String(), t))
	if err != nil {
		tb.Fatal(err)
	}
	key, value := make([]byte, 8), make([]byte, 100)
	r := rand.New(rand.NewPCG(1, 2))
	put = func(i uint64) {
		binary.BigEndian.PutUint64(key, i)
		for at := 0; at < 50; at += 8 {
			binary.LittleEndian.PutUint64(value[at:], r.Uint64())
		}
		g := keygroup.Of(keygroup.HashInt64(int64(i)), benchGroups)
		if err := k.Put(backend.Addr{State: id, Group: g, Key: key}, value); err != nil {
			tb.Fatal(err)
		}
	}
	for i := range uint64(n) {
		put(i)
	}
	return id, put
}

func BenchmarkUpdate(b *testing.B) {
	for _, t := range []backend.Type{backend.Value, backend.Map} {
		b.Run(t.String(), func(b *testing.B) {
			inRealWorld(b, Options{}, func(_ context.Context, k *keyed) {
				_, put := load(b, k, t, benchKeys)
				r := rand.New(rand.NewPCG(3, 4))
				b.ReportAllocs()
				for b.Loop() {
					put(r.Uint64N(benchKeys))
				}
			})
		})
	}
}

func BenchmarkGet(b *testing.B) {
	for _, t := range []backend.Type{backend.Value, backend.Map} {
		b.Run(t.String(), func(b *testing.B) {
			inRealWorld(b, Options{}, func(_ context.Context, k *keyed) {
				id, _ := load(b, k, t, benchKeys)
				r := rand.New(rand.NewPCG(3, 4))
				key := make([]byte, 8)
				b.ReportAllocs()
				for b.Loop() {
					i := r.Uint64N(benchKeys)
					binary.BigEndian.PutUint64(key, i)
					if _, ok, _ := k.Get(backend.Addr{State: id, Group: keygroup.Of(keygroup.HashInt64(int64(i)), benchGroups), Key: key}); !ok {
						b.Fatal("key is gone")
					}
				}
			})
		})
	}
}

// BenchmarkUpdateTyped is an update through typed state: the read, decode, encode and write of a count.
func BenchmarkUpdateTyped(b *testing.B) {
	inRealWorld(b, Options{}, func(_ context.Context, k *keyed) {
		c := backend.NewContext(k)
		sum, err := backend.NewReducing(c, "sum", backend.Int64{}, func(a, b int64) int64 { return a + b })
		if err != nil {
			b.Fatal(err)
		}
		r := rand.New(rand.NewPCG(3, 4))
		key := make([]byte, 8)
		b.ReportAllocs()
		for b.Loop() {
			i := int64(r.Uint64N(benchKeys))
			binary.BigEndian.PutUint64(key, uint64(i))
			c.SetKey(keygroup.Of(keygroup.HashInt64(i), benchGroups), key)
			if err := sum.Add(1); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkSnapshot is the synchronous phase at a million keys, with everything changed since the last one.
func BenchmarkSnapshot(b *testing.B) {
	inRealWorld(b, Options{}, func(ctx context.Context, k *keyed) {
		load(b, k, backend.Value, benchKeys)
		for b.Loop() {
			s, err := k.Snapshot(ctx, 1)
			if err != nil {
				b.Fatal(err)
			}
			s.Release()
		}
	})
}

// BenchmarkUpdateDuringSnapshot is the price of copying what a live snapshot shares, over the first million updates.
func BenchmarkUpdateDuringSnapshot(b *testing.B) {
	inRealWorld(b, Options{}, func(ctx context.Context, k *keyed) {
		_, put := load(b, k, backend.Value, benchKeys)
		r := rand.New(rand.NewPCG(3, 4))
		var slowest time.Duration
		n := 0
		var s backend.Snapshot
		for b.Loop() {
			if n%benchKeys == 0 {
				if s != nil {
					s.Release()
				}
				s, _ = k.Snapshot(ctx, 1)
			}
			n++
			began := time.Now()
			put(r.Uint64N(benchKeys))
			slowest = max(slowest, time.Since(began))
		}
		b.ReportMetric(float64(slowest.Microseconds()), "slowest-µs")
	})
}

// BenchmarkPersist is the asynchronous phase of a million keys into a bucket in memory.
func BenchmarkPersist(b *testing.B) {
	inRealWorld(b, Options{}, func(ctx context.Context, k *keyed) {
		load(b, k, backend.Value, benchKeys)
		b.SetBytes(k.Gauges().LiveBytes)
		for b.Loop() {
			s, err := k.Snapshot(ctx, 1)
			if err != nil {
				b.Fatal(err)
			}
			p, err := s.Persist(ctx)
			if err != nil {
				b.Fatal(err)
			}
			s.Release()
			b.ReportMetric(float64(p.Checkpointed)/float64(k.Gauges().LiveBytes), "stored/live")
			var keys []string
			for _, ref := range p.Handle.Base {
				keys = append(keys, ref.Key)
			}
			k.b.e.Bucket.Delete(ctx, keys)
		}
	})
}

// BenchmarkRestore opens a million keys.
func BenchmarkRestore(b *testing.B) {
	inRealWorld(b, Options{}, func(ctx context.Context, k *keyed) {
		load(b, k, backend.Value, benchKeys)
		b.SetBytes(k.Gauges().LiveBytes)
		s, _ := k.Snapshot(ctx, 1)
		p, err := s.Persist(ctx)
		if err != nil {
			b.Fatal(err)
		}
		s.Release()
		for b.Loop() {
			again, err := k.b.Open(ctx, backend.OpenOptions{Operator: "count", Subtask: "count-0", Range: k.rng, Handles: []backend.StateHandle{p.Handle}})
			if err != nil {
				b.Fatal(err)
			}
			if err := again.Close(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCollect is a full garbage collection with a million keys alive, and their memory.
func BenchmarkCollect(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	inRealWorld(b, Options{}, func(_ context.Context, k *keyed) {
		load(b, k, backend.Value, benchKeys)
		runtime.GC()
		runtime.ReadMemStats(&after)
		for b.Loop() {
			runtime.GC()
		}
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/benchKeys, "B/key")
		runtime.KeepAlive(k)
	})
}
