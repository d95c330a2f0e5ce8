package store_test

import (
	"context"
	"strconv"
	"testing"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

func benchPut(b *testing.B, size int, wrap func(store.Bucket, world.World) store.Bucket) {
	w := world.NewReal(1)
	body := make([]byte, size)
	keys := make([]string, 1024)
	for i := range keys {
		keys[i] = "log/1/worker-0/" + strconv.Itoa(i) + ".seg"
	}
	err := w.Run(func(ctx context.Context) error {
		m := store.NewMem()
		bucket := wrap(m, w)
		b.SetBytes(int64(size))
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			key := keys[i%len(keys)]
			if err := bucket.Put(ctx, key, body, store.PutOptions{}); err != nil {
				return err
			}
			if i%len(keys) == len(keys)-1 {
				m.Delete(ctx, keys)
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

func plain(b store.Bucket, _ world.World) store.Bucket { return b }

func traced(b store.Bucket, w world.World) store.Bucket {
	return store.WithTrace(b, func(history.Request) {}, w)
}

func stacked(b store.Bucket, w world.World) store.Bucket {
	b = traced(store.WithFaults(b, store.NewInjector(w), w), w)
	return store.WithFence(store.WithRetry(b, store.DefaultRetryPolicy(), w), nil)
}

func BenchmarkMemPut100(b *testing.B)   { benchPut(b, 100, plain) }
func BenchmarkMemPut64K(b *testing.B)   { benchPut(b, 64<<10, plain) }
func BenchmarkTracePut100(b *testing.B) { benchPut(b, 100, traced) }
func BenchmarkTracePut64K(b *testing.B) { benchPut(b, 64<<10, traced) }
func BenchmarkStackPut100(b *testing.B) { benchPut(b, 100, stacked) }
