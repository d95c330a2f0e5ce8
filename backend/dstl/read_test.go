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

// count is a Visitor that does nothing with what it gets.
type count struct{ n int64 }

func (c *count) States([]dstl.State) error { return nil }

func (c *count) Apply(*dstl.Change) error {
	c.n++
	return nil
}

// BenchmarkRead reads back 100,000 changes of 8 + 100 bytes, from a bucket in memory; one operation is one change.
func BenchmarkRead(b *testing.B) {
	const n = 100_000
	w := world.NewReal(1)
	err := w.Run(func(ctx context.Context) error {
		worker := backendtest.NewWorker(ctx, w, store.NewMem(), "worker-0", 1)
		log, err := dstl.New(worker.Env, dstl.Options{})
		if err != nil {
			return err
		}
		all := keygroup.Range{To: 64}
		wr, err := log.Writer(dstl.WriterOptions{Subtask: "count-0", Range: all})
		if err != nil {
			return err
		}
		value, key := make([]byte, 100), make([]byte, 8)
		for i := range n {
			binary.BigEndian.PutUint64(key, uint64(i))
			if err := wr.Append(dstl.OpPut, backend.Addr{Group: keygroup.ID(i % 64), Key: key}, 0, value); err != nil {
				return err
			}
		}
		p, err := wr.Persist(ctx, 0, 1)
		if err != nil {
			return err
		}
		b.ReportAllocs()
		b.ResetTimer()
		v := &count{}
		for v.n < int64(b.N) {
			if _, err := log.Read(ctx, p.Refs, all, v); err != nil {
				return err
			}
		}
		b.StopTimer()
		wr.Reset(1)
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
