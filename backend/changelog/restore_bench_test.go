package changelog_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/backend/heap"
	"statebench.dev/bench/backend/lsm"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// BenchmarkRestore restores a subtask of 250,000 values of 200 bytes with a log of 290,000 changes of random ones in ten change sets,
// in the real world, from a store in memory: at 14,500 records a second that is what 20 s leave. base is the same without a log.
func BenchmarkRestore(b *testing.B) {
	o := lsm.Options{MemoryFiles: true, CacheBytes: 128 << 20, RowBytes: 96 << 20, MemtableBytes: 64 << 20, FileBytes: 32 << 20, Uncompressed: true}
	for _, c := range []struct {
		name    string
		nested  backend.Factory
		format  string
		changes int
	}{
		{"lsm/base", lsm.New(o), lsm.Name, 0}, {"lsm/serial", serial{lsm.New(o)}, lsm.Name, 290_000}, {"lsm/beside", lsm.New(o), lsm.Name, 290_000},
		{"heap/base", heap.New(heap.Options{}), heap.Name, 0}, {"heap/serial", heap.New(heap.Options{}), heap.Name, 290_000},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := world.NewReal(1)
			err := w.Run(func(ctx context.Context) error { return benchRestore(ctx, b, w, c.nested, c.format, c.changes) })
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}

func benchRestore(ctx context.Context, b *testing.B, w world.World, nested backend.Factory, format string, changes int) error {
	const keys = 250_000
	mem, rng, value := store.NewMem(), rand.New(rand.NewPCG(1, 1)), make([]byte, 200)
	logged := changelog.New(changelog.Options{Nested: nested, NestedName: format, MaterializeOff: true, InFlight: 1 << 30})
	var handle backend.StateHandle
	put := func(k backend.Keyed, i int) error {
		id, err := k.Register(backend.Spec("n", backend.Value))
		if err != nil {
			return err
		}
		for j := 0; j < len(value); j += 8 {
			binary.BigEndian.PutUint64(value[j:], rng.Uint64())
		}
		return k.Put(backend.Addr{State: id, Group: keygroup.ID(i % benchGroups), Key: binary.BigEndian.AppendUint64(nil, uint64(i))}, value)
	}
	checkpoint := func(k backend.Keyed, id uint64) error {
		s, err := k.Snapshot(ctx, id)
		if err != nil {
			return err
		}
		p, err := s.Persist(ctx)
		s.Release()
		handle = p.Handle
		return errors.Join(err, k.Completed(ctx, id, id-1))
	}
	attempt := uint64(0)
	live := func(f backend.Factory, stats *backend.RestoreStats, work func(k backend.Keyed) error) error {
		attempt++
		worker := backendtest.NewWorker(ctx, w, mem, "worker-0", attempt)
		back, err := f.ForWorker(worker.Ctx, worker.Env)
		if err != nil {
			return err
		}
		loop := backendtest.NewLoop(worker.Ctx, w)
		o := backend.OpenOptions{Operator: "n", Subtask: "n-0", Range: keygroup.Range{To: benchGroups}, Loop: loop, Restored: stats}
		if attempt > 1 {
			o.Handles = []backend.StateHandle{handle}
		}
		k, err := back.Open(worker.Ctx, o)
		if err != nil {
			return err
		}
		b.StopTimer()
		defer b.StartTimer()
		return errors.Join(work(k), k.Close(ctx), loop.Close(ctx), back.Close(ctx), worker.Stop(ctx))
	}
	err := live(nested, nil, func(k backend.Keyed) error {
		for i := range keys {
			if err := put(k, i); err != nil {
				return err
			}
		}
		return checkpoint(k, 1)
	})
	if err == nil {
		err = live(logged, nil, func(k backend.Keyed) error {
			for set := range uint64(10) {
				for range changes / 10 {
					if err := put(k, rng.IntN(keys)); err != nil {
						return err
					}
				}
				if err := checkpoint(k, 2+set); err != nil {
					return err
				}
			}
			return nil
		})
	}
	var base, all float64
	n := 0
	for b.Loop() && err == nil {
		var stats backend.RestoreStats
		err = live(logged, &stats, func(backend.Keyed) error { return nil })
		base, all, n = base+stats.BaseTime.Seconds(), all+(stats.BaseTime+stats.ReplayTime).Seconds(), n+1
	}
	b.ReportMetric(1000*base/float64(n), "base-ms")
	b.ReportMetric(1000*all/float64(n), "restore-ms")
	return err
}
