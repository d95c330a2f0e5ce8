package embedded_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/storetest"
)

var benchSizes = []int{4 << 10, 64 << 10, 1 << 20, 16 << 20}

func BenchmarkPut(b *testing.B) {
	s := start(b)
	bucket := client(b, s, "bench", true)
	var n atomic.Int64
	for _, size := range benchSizes {
		body := storetest.Pattern(1, size)
		for _, workers := range []int{1, 8} {
			b.Run(fmt.Sprintf("size=%dKiB/workers=%d", size>>10, workers), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.SetParallelism(max(1, workers/2)) // times GOMAXPROCS
				put := func() {
					if err := bucket.Put(b.Context(), fmt.Sprint(n.Add(1)%64), body, store.PutOptions{}); err != nil {
						b.Fatal(err)
					}
				}
				if workers == 1 {
					for b.Loop() {
						put()
					}
					return
				}
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						put()
					}
				})
			})
		}
	}
	if u, err := s.Usage(); err == nil {
		b.Logf("server: %v of CPU, %d MiB", u.CPU, u.RSS>>20)
	}
}

func BenchmarkGet(b *testing.B) {
	bucket := client(b, start(b), "bench", true)
	for _, size := range benchSizes {
		key := fmt.Sprint(size)
		if err := bucket.Put(b.Context(), key, storetest.Pattern(1, size), store.PutOptions{}); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("size=%dKiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				if _, err := bucket.Get(b.Context(), key); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
