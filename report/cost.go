package report

import (
	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/stats"
)

// costs are what a store would bill an arm.
type costs struct{ hour, checkpoint, million stats.Figure }

// cost bills what the runs of an arm asked of the store in the window.
func (a *arm) cost(w window) costs {
	var cost, seconds float64
	var records int64
	for _, r := range a.runs {
		for _, p := range r.data.Phases {
			if t := r.data.Traffic[p.Name]; w.has(p.Name) && p.Ended && t != nil {
				cost += r.data.Prices().Cost(t.Usage)
				seconds, records = seconds+p.To-p.From, records+p.Records
			}
		}
	}
	if seconds == 0 {
		none := stats.None(0, "no phase was carried through")
		return costs{none, none, none}
	}
	return costs{metrics.CostPerHour(cost, seconds), metrics.CostPerCheckpoint(cost, a.checkpoints(w, completed)), metrics.CostPerMillion(cost, records)}
}

// Bill puts other prices in place of those that the plans name, in memory only. It is called before anything is rendered.
func (inv *Invocation) Bill(p plan.Prices) {
	for _, r := range inv.Runs {
		if r.Plan != nil {
			r.Plan.Store.Prices = &p
		}
	}
}
