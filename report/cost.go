package report

import (
	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/stats"
)

// costs are what a store would bill an arm.
type costs struct{ hour, checkpoint, million stats.Figure }

// cost bills what the runs of an arm asked of the store in the window's phases that were carried through, over what those brought.
func (a *arm) cost(w window) costs {
	var cost, seconds float64
	var records int64
	n := 0
	for _, c := range a.carried(w) {
		if t := c.run.data.Traffic[c.phase.Name]; t != nil {
			cost += c.run.data.Prices().Cost(t.Usage)
			n, seconds, records = n+c.checkpoints, seconds+c.phase.To-c.phase.From, records+c.phase.Records
		}
	}
	if seconds == 0 {
		none := stats.None(0, "no phase was carried through")
		return costs{none, none, none}
	}
	return costs{metrics.CostPerHour(cost, seconds), metrics.CostPerCheckpoint(cost, n), metrics.CostPerMillion(cost, records)}
}

// Bill puts other prices in place of those that the plans name, in memory only. It is called before anything is rendered.
func (inv *Invocation) Bill(p plan.Prices) {
	for _, r := range inv.Runs {
		if r.Plan != nil {
			r.Plan.Store.Prices = &p
		}
	}
}
