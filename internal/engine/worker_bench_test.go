package engine

import (
	"context"
	"runtime"
	"syscall"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/backend/heap"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/sinks"
	"statebench.dev/bench/internal/world"
)

// keeper replaces the value of the record's key and emits how long the old one was.
type keeper struct {
	state *backend.ValueState[[]byte]
	out   graph.Record
}

func (k *keeper) Open(_ context.Context, o graph.OperatorContext) (err error) {
	k.state, err = backend.NewValue(o.State(), "last", backend.Bytes{})
	return err
}

func (k *keeper) Process(_ context.Context, r *graph.Record, out graph.Collector) error {
	old, _, err := k.state.Get()
	if err != nil {
		return err
	}
	k.out.Value = backend.AppendInt64(k.out.Value[:0], int64(len(old)))
	if err := k.state.Set(r.Value); err != nil {
		return err
	}
	k.out.Key, k.out.Hash, k.out.Due, k.out.Partition, k.out.Index = r.Key, r.Hash, r.Due, r.Partition, r.Index
	return out.Collect(&k.out)
}

func (k *keeper) OnTimer(context.Context, int64, []byte, graph.Collector) error { return nil }

// BenchmarkPipeline is source, hash exchange, a value of 100 bytes a key for a million keys, sink: at parallelism 2, in the
// real world, as fast as it goes, without checkpoints. One operation is one record. With a changelog, segments go to a
// bucket that keeps nothing.
func BenchmarkPipeline(b *testing.B) {
	for _, v := range []struct {
		name   string
		change func(*Config)
	}{{"heap", func(*Config) {}}, {"changelog", logged}} {
		b.Run(v.name, func(b *testing.B) {
			w := world.NewReal(1)
			if err := w.Run(func(ctx context.Context) error { benchmark(ctx, b, w, 500_000, v.change); return nil }); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkSimulated is the same with fewer keys in the simulated world.
func BenchmarkSimulated(b *testing.B) {
	w := world.NewSim(world.SimOptions{Seed: 1})
	if err := w.Run(func(ctx context.Context) error { benchmark(ctx, b, w, 50_000, func(*Config) {}); return nil }); err != nil {
		b.Fatal(err)
	}
}

// void is a bucket that keeps nothing.
type void struct{ store.Bucket }

func (void) Put(context.Context, string, []byte, store.PutOptions) error { return nil }

func logged(c *Config) {
	c.Bucket = void{c.Bucket}
	c.Backend = changelog.New(changelog.Options{Nested: heap.New(heap.Options{}), MaterializeOff: true})
}

func processorTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchmark(ctx context.Context, b *testing.B, w world.World, keys int64, change func(*Config)) {
	src := &numbers{parts: 2, keys: keys, total: int64(b.N+1)/2 + keys, value: 100}
	r := newRig(b, w, src, func() graph.Operator { return &keeper{} }, 2)
	r.cfg.Collect = sinks.NewCollect(sinks.Options{World: w, Partitions: src.parts, MaxParallelism: r.cfg.Settings.MaxParallelism})
	change(r.cfg)
	r.start(ctx, "worker-0")
	r.start(ctx, "worker-1")
	r.launch(ctx, 2, "worker-0", "worker-1")
	wait := func(until func() bool) {
		for !until() {
			if err := w.Sleep(ctx, time.Millisecond); err != nil {
				b.Fatal(err)
			}
		}
	}
	wait(func() bool { return r.net.progress.Emitted() > 2*keys }) // every key has its value
	from := r.net.progress.Emitted()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	used := processorTime(b)
	b.ResetTimer()
	wait(func() bool { return r.net.progress.Finished() })
	b.StopTimer()
	used = processorTime(b) - used
	runtime.ReadMemStats(&after)
	n := float64(r.net.progress.Emitted() - from)
	b.ReportMetric(n/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(used)/n, "cpu-ns/record")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/n, "allocs/record")
	r.cancel(ctx)
}
