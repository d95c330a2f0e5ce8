package run_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/embedded"
	"statebench.dev/bench/backend/store/provision"
	"statebench.dev/bench/backend/store/provision/minio"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// What the writer and the raw puts are compared at.
const (
	depth   = 4       // puts under way
	segment = 4 << 20 // bytes of a segment, about
	volume  = 192 << 20
	writers = 2
)

// BenchmarkLogWriter is a log with two subtasks against raw puts, side by side: the same bucket, client options and retries, the
// same number of objects of the same sizes, the same number under way. The writer's time begins with the first append and ends
// when all is durable, so that coalescing, framing and checksums are in it; its values do not compress. A pair is measured in
// either order in turn. BENCH_STORES=minio adds a server in a container.
func BenchmarkLogWriter(b *testing.B) {
	specs := []string{provision.KindEmbedded}
	if os.Getenv("BENCH_STORES") == provision.KindMinIO {
		specs = append(specs, provision.KindMinIO)
	}
	for _, spec := range specs {
		b.Run(spec, func(b *testing.B) {
			w := world.NewReal(1)
			if err := w.Run(func(ctx context.Context) error { return compareWriter(ctx, b, w, spec) }); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func compareWriter(ctx context.Context, b *testing.B, w world.World, spec string) error {
	raw, _, err := provision.Open(ctx, w, spec, provision.Options{
		Embedded: embedded.Options{Args: []string{}, Env: []string{child + "=1"}},
		MinIO: func(ctx context.Context) (provision.Server, error) {
			s, err := minio.Start(ctx, minio.Options{Guard: minio.GuardOptions{Args: []string{}, Env: []string{child + "=guard"}}})
			if err != nil {
				return nil, err
			}
			return s, nil
		},
	})
	if err != nil {
		return err
	}
	bucket := store.WithRetry(raw, store.DefaultRetryPolicy(), w)
	sizes, _, err := throughLog(ctx, w, bucket, 0) // warms up, and says what the raw puts are to be like
	if err != nil {
		return err
	}
	var logged, put time.Duration
	var bytes, count int64
	for n := uint64(1); b.Loop(); n++ {
		for i := range uint64(2) {
			if i == n%2 {
				var took time.Duration
				if took, err = rawPuts(ctx, w, bucket, sizes, n); err != nil {
					return err
				}
				put += took
				continue
			}
			objects, took, err := throughLog(ctx, w, bucket, n)
			if err != nil {
				return err
			}
			logged += took
			for _, size := range objects {
				bytes += size
				count++
			}
			sizes = objects
		}
	}
	total := float64(bytes)
	b.ReportMetric(total/logged.Seconds()/1e6, "log-MB/s")
	b.ReportMetric(total/put.Seconds()/1e6, "raw-MB/s")
	b.ReportMetric(put.Seconds()/logged.Seconds(), "log/raw")
	b.ReportMetric(total/float64(count)/(1<<20), "MiB/segment")
	return bucket.Close()
}

// throughLog appends and persists volume bytes and returns the sizes of the objects and the time.
func throughLog(ctx context.Context, w world.World, bucket store.Bucket, n uint64) (sizes []int64, took time.Duration, err error) {
	worker := backendtest.NewWorker(ctx, w, bucket, "worker-0", n+1)
	log, err := dstl.New(worker.Env, dstl.Options{Preemptive: segment / writers, BatchSize: segment, InFlight: depth * (segment + segment/8)})
	if err != nil {
		return nil, 0, err
	}
	values := make([]byte, 1<<20)
	rng := rand.New(rand.NewPCG(n, 0))
	for i := 0; i < len(values); i += 8 {
		binary.LittleEndian.PutUint64(values[i:], rng.Uint64())
	}
	began := w.Now()
	g := world.NewGroup(w)
	for i := range writers {
		wr, err := log.Writer(dstl.WriterOptions{Subtask: fmt.Sprint("count-", i), Range: keygroup.Range{To: 64}})
		if err != nil {
			return nil, 0, err
		}
		g.Go(worker.Ctx, "subtask", func(ctx context.Context) error { return fillLog(ctx, w, wr, values) })
	}
	if err := g.Wait(ctx); err != nil {
		return nil, 0, err
	}
	took = w.Now() - began
	var keys []string
	for _, e := range worker.Events() {
		if e.Kind == history.LogFlushEnd {
			sizes, keys = append(sizes, e.Bytes), append(keys, e.Text)
		}
	}
	if err := log.Close(ctx); err != nil {
		return nil, 0, err
	}
	for _, d := range bucket.Delete(ctx, keys) {
		if d.Err != nil {
			return nil, 0, d.Err
		}
	}
	return sizes, took, worker.Stop(ctx)
}

// fillLog is a subtask that appends its part of volume and persists it.
func fillLog(ctx context.Context, w world.World, wr dstl.Writer, values []byte) error {
	const size = 1000
	key := make([]byte, 8)
	for i := range uint64(volume / writers / size) {
		binary.BigEndian.PutUint64(key, i)
		at := int(i*size) % (len(values) - size)
		if err := wr.Append(dstl.OpPut, backend.Addr{Group: keygroup.ID(i % 64), Key: key}, 0, values[at:at+size]); err != nil {
			return err
		}
		for wr.Blocked() {
			if _, err := world.Wait(ctx, w, world.Never, wr.Unblocked()); err != nil {
				return err
			}
		}
	}
	if _, err := wr.Cut(0, 1); err != nil {
		return err
	}
	if _, err := wr.Persist(ctx, 0, 1); err != nil {
		return err
	}
	if err := wr.Confirm(ctx, 1, 0); err != nil {
		return err
	}
	return wr.Close()
}

// rawPuts puts objects of the given sizes, depth of them at a time.
func rawPuts(ctx context.Context, w world.World, bucket store.Bucket, sizes []int64, n uint64) (took time.Duration, err error) {
	queue := world.NewQueue[int](w, world.Unbounded)
	var keys []string
	largest := int64(0)
	for i, size := range sizes {
		queue.TryPut(i)
		keys = append(keys, fmt.Sprintf("raw/%d/%d", n, i))
		largest = max(largest, size)
	}
	queue.Close()
	bodies := make([][]byte, depth)
	for i := range bodies {
		bodies[i] = make([]byte, largest)
		rng := rand.New(rand.NewPCG(n, uint64(i)))
		for j := 0; j+8 <= len(bodies[i]); j += 8 {
			binary.LittleEndian.PutUint64(bodies[i][j:], rng.Uint64())
		}
	}
	began := w.Now()
	g := world.NewGroup(w)
	for _, body := range bodies {
		g.Go(ctx, "put", func(ctx context.Context) error {
			for {
				i, ok := queue.TryTake()
				if !ok {
					return nil
				}
				if err := bucket.Put(ctx, keys[i], body[:sizes[i]], store.PutOptions{}); err != nil {
					return err
				}
			}
		})
	}
	err = g.Wait(ctx)
	took = w.Now() - began
	for _, d := range bucket.Delete(ctx, keys) {
		if err == nil {
			err = d.Err
		}
	}
	return took, err
}
