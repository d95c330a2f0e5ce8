package explore_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/engine"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"
	"statebench.dev/bench/internal/world"
)

// saturated is a job in the real world that runs as fast as it can: parallelism 2, a changelog, a checkpoint a second.
func saturated(records int64) plan.Plan {
	p := simulated(true, 0, records)
	p.World = "real"
	p.Workers.Slots, p.Job.Parallelism = 1, 2
	p.Workload.Options = []byte(`{"partitions":2,"keys":{"count":200000},"values":{"size":"100B"},"second":"none","timerEvery":"0s"}`)
	p.Verify = plan.Verify{}
	p.Phases[0].Records = records
	return p
}

// span is the time and the processor time from the start of the job until its sources have emitted everything.
type span struct{ took, used time.Duration }

// withHarness runs p as a user does: recorder, object trace, hooks for triggers, failpoints, sampler, tables.
func withHarness(b *testing.B, p plan.Plan) (s span, judged time.Duration) {
	folder := b.TempDir()
	rd, err := results.Dir(folder).CreateRun("run-1")
	if err != nil {
		b.Fatal(err)
	}
	out, err := run.Run(deps(), p, rd, run.Options{Progress: func(e *history.Event) {
		switch {
		case e.Phase == "load" && e.Kind == history.PhaseBegin:
			s = span{e.At, cpu(b)}
		case e.Phase == "load" && e.Kind == history.PhaseEnd:
			s = span{e.At - s.took, cpu(b) - s.used}
		}
	}})
	if err != nil || out.Err != nil {
		b.Fatal(err, out.Err)
	}
	judged = cpu(b)
	if _, err := run.Judge(deps(), results.Dir(folder), "run-1", catalog.Checks()); err != nil {
		b.Fatal(err)
	}
	return s, cpu(b) - judged
}

// withoutHarness runs the same job on the same engine and nobody looks.
func withoutHarness(b *testing.B, p plan.Plan) (s span) {
	w := world.NewReal(p.Seed)
	bare(b, w, p, nil, func(ctx context.Context, e *engine.Engine) error {
		began := span{w.Now(), cpu(b)}
		if err := e.Submit(ctx); err != nil {
			return err
		}
		if err := drained(ctx, w, e, p.TotalRecords()); err != nil {
			return err
		}
		s = span{w.Now() - began.took, cpu(b) - began.used}
		return nil
	})
	return s
}

// drained waits until the sources have emitted total records.
func drained(ctx context.Context, w world.World, e *engine.Engine, total int64) error {
	for e.Progress().Emitted() < total {
		if err := w.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkHarnessCost runs the same job with and without everything that observes it, in pairs whose order alternates,
// and reports what the harness adds to the processor time of a record: the median of the pairs and their quartiles.
// Judging comes after the run and costs it nothing; its processor time is reported as a share of the run's.
func BenchmarkHarnessCost(b *testing.B) {
	byDefault(b)
	p := resolved(b, saturated(1_500_000))
	var cost, judging []float64
	var rate float64
	for i := 0; b.Loop(); i++ {
		var with, without span
		var judged time.Duration
		for k := range 2 {
			runtime.GC()
			if (i+k)%2 == 0 {
				with, judged = withHarness(b, p)
			} else {
				without = withoutHarness(b, p)
			}
		}
		cost = append(cost, 100*(float64(with.used)/float64(without.used)-1))
		judging = append(judging, 100*float64(judged)/float64(with.used))
		rate = math.Max(rate, float64(p.TotalRecords())/with.took.Seconds())
	}
	slices.Sort(cost)
	slices.Sort(judging)
	for _, q := range []int{25, 50, 75} {
		b.ReportMetric(cost[len(cost)*q/100], fmt.Sprintf("cost-%%-p%d", q))
	}
	b.ReportMetric(judging[len(judging)/2], "judging-%")
	b.ReportMetric(rate, "records/s")
}
