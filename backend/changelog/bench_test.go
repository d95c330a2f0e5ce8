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
	w := world.NewReal(1)
	err := w.Run(func(ctx context.Context) error {
		worker := backendtest.NewWorker(ctx, w, discard{store.NewMem()}, "worker-0", 1)
		back, err := f.ForWorker(worker.Ctx, worker.Env)
		if err != nil {
			return err
		}
		loop := backendtest.NewLoop(worker.Ctx, w)
		k, err := back.Open(worker.Ctx, backend.OpenOptions{Operator: "n", Subtask: "n-0", Range: keygroup.Range{To: 64}, Loop: loop})
		if err != nil {
			return err
		}
		id, err := k.Register(backend.StateSpec{Name: "n", Type: backend.Value, Access: backend.Point})
		if err != nil {
			return err
		}
		value, key := make([]byte, 100), make([]byte, 8)
		th, throttles := k.(backend.Throttler)
		b.ReportAllocs()
		x := uint64(1)
		for b.Loop() {
			x = x*6364136223846793005 + 1442695040888963407
			n := (x >> 33) % 100_000
			binary.BigEndian.PutUint64(key, n)
			value[x>>60] = byte(x >> 50)
			if err := k.Put(backend.Addr{State: id, Group: keygroup.ID(n % 64), Key: key}, value); err != nil {
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
