package run

import (
	"slices"

	"statebench.dev/bench/internal/engine"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
)

// latencies add up, by phase, how late records reached the sink. The zero value is empty. One process uses it at a time.
type latencies struct {
	phases []*phaseLatencies // in order of their first records
}

type phaseLatencies struct {
	name   string
	counts map[int64]int64 // by the greatest latency that falls in, in microseconds
}

// add counts records for a phase.
func (l *latencies) add(phase string, records engine.Latencies) {
	if records.Count() == 0 {
		return
	}
	i := slices.IndexFunc(l.phases, func(p *phaseLatencies) bool { return p.name == phase })
	if i < 0 {
		i = len(l.phases)
		l.phases = append(l.phases, &phaseLatencies{name: phase, counts: map[int64]int64{}})
	}
	p := l.phases[i]
	records.Each(func(us, n int64) { p.counts[us] += n })
}

// write makes latencies.csv.
func (l *latencies) write(p *plan.Plan, path string) error {
	out, err := results.CreateCSV[results.LatencyRow](path)
	if err != nil {
		return err
	}
	for _, ph := range l.phases {
		var edges []int64
		for us := range ph.counts { // order-free: sorted below
			edges = append(edges, us)
		}
		slices.Sort(edges)
		for _, us := range edges {
			_ = out.Append(results.LatencyRow{Phase: ph.name, UpTo: float64(us), Count: ph.counts[us], Arm: p.Arm, World: p.World, Profile: p.Store.Profile})
		}
	}
	return out.Close()
}
