package run

import (
	"math"
	"runtime/metrics"
	"syscall"

	"statebench.dev/bench/internal/results"
)

// processFigures reads what this process and the store's use. In the simulated world nothing of it is written: it would
// be the simulator's own cost, not the job's.
type processFigures struct {
	r       *run
	samples []metrics.Sample
}

func newProcessFigures(r *run) processFigures {
	f := processFigures{r: r}
	for _, name := range []string{"/memory/classes/heap/objects:bytes",
		"/cpu/classes/gc/total:cpu-seconds", "/sched/goroutines:goroutines"} {
		f.samples = append(f.samples, metrics.Sample{Name: name})
	}
	return f
}

func (f *processFigures) fill(row *results.SeriesRow) {
	if f.r.plan.Simulated() {
		return
	}
	metrics.Read(f.samples)
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) == nil {
		row.CPU = results.Some(float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9)
	}
	if usage := f.r.store.desc.Usage; usage != nil {
		if u, err := usage(); err == nil {
			row.StoreCPU = results.Some(u.CPU.Seconds())
		}
	}
	row.Heap, row.GC, row.Goroutines = value(f.samples[0]), value(f.samples[1]), value(f.samples[2])
}

func value(s metrics.Sample) results.Opt {
	switch s.Value.Kind() {
	case metrics.KindUint64:
		return results.Some(float64(s.Value.Uint64()))
	case metrics.KindFloat64:
		if v := s.Value.Float64(); !math.IsNaN(v) {
			return results.Some(v)
		}
	}
	return results.Opt{}
}
