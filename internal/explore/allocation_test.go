package explore_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/engine"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/run"
	"statebench.dev/bench/internal/sinks"
	"statebench.dev/bench/internal/world"
)

// bare runs a plan's job on the bare engine: nobody looks.
func bare(t testing.TB, w world.World, p plan.Plan, change func(*engine.Config), during func(ctx context.Context, e *engine.Engine) error) {
	t.Helper()
	err := w.Run(func(ctx context.Context) error {
		load, err := run.OpenWorkload(deps(), &p)
		if err != nil {
			return err
		}
		factory, err := run.OpenBackend(deps(), &p)
		if err != nil {
			return err
		}
		ignore := func(context.Context, history.Event) {}
		c := engine.Config{
			World: w, Job: load.Job(), Settings: p.Job, Workers: p.Workers, Total: p.TotalRecords(), Backend: factory,
			Bucket: store.WithRetry(store.NewMem(), store.DefaultRetryPolicy(), w), Failpoints: failpoint.New(), Record: ignore,
		}
		c.Collect = sinks.NewCollect(sinks.Options{World: w, Partitions: c.Job.Nodes[0].Source.Partitions(), MaxParallelism: p.Job.MaxParallelism, Record: ignore})
		if change != nil {
			change(&c)
		}
		e, err := engine.New(c)
		if err != nil {
			return err
		}
		if err := during(ctx, e); err != nil {
			return err
		}
		return e.Stop(ctx)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRecordsDoNotAllocate: in steady state a record costs at most a hundredth of an allocation from source to sink, with
// values, maps, windows and timers, on both arms. Checkpoints, which allocate, are a virtual second apart.
func TestRecordsDoNotAllocate(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector allocates by itself")
	}
	const from, to = 400_000, 1_000_000
	for _, changelog := range []bool{false, true} {
		t.Run(fmt.Sprintf("changelog=%t", changelog), func(t *testing.T) {
			p := simulated(changelog, 0, to+100_000)
			p.Workload.Options = []byte(`{"partitions":4,"keys":{"count":1000},"second":"map"}`)
			p = resolved(t, p)
			var before, after runtime.MemStats
			reached := func(_ context.Context, emitted int64) {
				if emitted >= from && before.Mallocs == 0 {
					runtime.ReadMemStats(&before)
				}
				if emitted >= to && after.Mallocs == 0 {
					runtime.ReadMemStats(&after)
				}
			}
			w := world.NewSim(world.SimOptions{Seed: 1})
			bare(t, w, p, func(c *engine.Config) { c.Reached = reached }, func(ctx context.Context, e *engine.Engine) error {
				if err := e.Submit(ctx); err != nil {
					return err
				}
				return drained(ctx, w, e, p.TotalRecords())
			})
			each := float64(after.Mallocs-before.Mallocs) / (to - from)
			t.Logf("%.5f allocations a record", each)
			if each > 0.01 {
				t.Errorf("%.5f allocations a record", each)
			}
		})
	}
}
