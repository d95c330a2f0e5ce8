package changelog_test

import (
	"context"
	"encoding/binary"
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/backend/heap"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// BenchmarkPut overwrites 100-byte values of 100,000 keys in the real world; the store keeps nothing.
func BenchmarkPut(b *testing.B) {
	nested := heap.New(heap.Options{})
	b.Run("heap", func(b *testing.B) { benchPut(b, nested) })
	b.Run("changelog", func(b *testing.B) {
		benchPut(b, changelog.New(changelog.Options{Nested: nested, MaterializeOff: true}))
	})
}

// discard is a bucket that keeps nothing.
type discard struct{ store.Bucket }

func (discard) Put(context.Context, string, []byte, store.PutOptions) error { return nil }

func benchPut(b *testing.B, f backend.Factory) {
	benchKeyed(b, f, func(k backend.Keyed) (func(x uint64, n int64) error, error) {
		id, err := k.Register(backend.StateSpec{Name: "n", Type: backend.Value, Access: backend.Point})
		value, key := make([]byte, 100), make([]byte, 8)
		return func(x uint64, _ int64) error {
			i := (x >> 33) % 100_000
			binary.BigEndian.PutUint64(key, i)
			value[x>>60] = byte(x >> 50)
			return k.Put(backend.Addr{State: id, Group: keygroup.ID(i % benchGroups), Key: key}, value)
		}, err
	})
}

// benchGroups is the number of key groups of benchKeyed.
const benchGroups = 64

// benchKeyed opens a subtask in the real world and times an operation on it, which gets a random number and one that grows.
// The subtask waits as it would in a job when the log holds it up.
func benchKeyed(b *testing.B, f backend.Factory, open func(k backend.Keyed) (op func(x uint64, n int64) error, err error)) {
	w := world.NewReal(1)
	err := w.Run(func(ctx context.Context) error {
		worker := backendtest.NewWorker(ctx, w, discard{store.NewMem()}, "worker-0", 1)
		back, err := f.ForWorker(worker.Ctx, worker.Env)
		if err != nil {
			return err
		}
		loop := backendtest.NewLoop(worker.Ctx, w)
		k, err := back.Open(worker.Ctx, backend.OpenOptions{Operator: "n", Subtask: "n-0", Range: keygroup.Range{To: benchGroups}, Loop: loop})
		if err != nil {
			return err
		}
		op, err := open(k)
		if err != nil {
			return err
		}
		th, throttles := k.(backend.Throttler)
		b.ReportAllocs()
		x, n := uint64(1), int64(0)
		for b.Loop() {
			x, n = x*6364136223846793005+1442695040888963407, n+1
			if err := op(x, n); err != nil {
				return err
			}
			for throttles && th.Blocked() {
				if err := loop.Until(worker.Ctx, th.Unblocked()); err != nil {
					return err
				}
			}
		}
		if err := k.Close(ctx); err != nil {
			return err
		}
		if err := loop.Close(ctx); err != nil {
			return err
		}
		if err := back.Close(ctx); err != nil {
			return err
		}
		return worker.Stop(ctx)
	})
	if err != nil {
		b.Fatal(err)
	}
}
