package dstl_test

import (
	"context"
	"encoding/binary"
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// BenchmarkWriterAppend is Append through the whole log in the real world: 8-byte keys, 100-byte values, framed and put
// into a bucket in memory by another process.
func BenchmarkWriterAppend(b *testing.B) {
	w := world.NewReal(1)
	err := w.Run(func(ctx context.Context) error {
		worker := backendtest.NewWorker(ctx, w, discard{store.NewMem()}, "worker-0", 1)
		log, err := dstl.New(worker.Env, dstl.Options{})
		if err != nil {
			return err
		}
		wr, err := log.Writer(dstl.WriterOptions{Subtask: "count-0", Range: keygroup.Range{To: 64}})
		if err != nil {
			return err
		}
		value, key := make([]byte, 100), make([]byte, 8)
		b.ReportAllocs()
		x := uint64(1)
		for b.Loop() {
			x = x*6364136223846793005 + 1442695040888963407
			binary.BigEndian.PutUint64(key, x>>20)
			value[x>>60] = byte(x >> 50)
			if err := wr.Append(dstl.OpPut, backend.Addr{Group: keygroup.ID(x >> 58), Key: key}, 0, value); err != nil {
				return err
			}
			for wr.Blocked() {
				if _, err := world.Wait(ctx, w, world.Never, wr.Unblocked()); err != nil {
					return err
				}
			}
		}
		if err := wr.Close(); err != nil {
			return err
		}
		if err := log.Close(ctx); err != nil {
			return err
		}
		return worker.Stop(ctx)
	})
	if err != nil {
		b.Fatal(err)
	}
}

// discard is a bucket that keeps nothing.
type discard struct{ store.Bucket }

func (discard) Put(context.Context, string, []byte, store.PutOptions) error { return nil }
