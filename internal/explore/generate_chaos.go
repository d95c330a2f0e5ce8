package explore

import (
	"fmt"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/seed"
)

// The shape of a chaos plan: so small that hundreds of them take a minute, and with much that goes wrong.
const (
	ChaosRate   = 400 // records a second at most
	ChaosFaults = 4   // at least
)

// Chaos returns chaos plan number n, n >= 0: the draws of Generate at ChaosRate records a second at most, with further faults
// where there are fewer than ChaosFaults. Like each of them it takes at least 60 seconds of virtual time and is rescaled.
func Chaos(n int) plan.Plan {
	l := simulated
	l.rateMost, l.faultsLeast = ChaosRate, ChaosFaults
	p := generate(n, l)
	p.Scenario = fmt.Sprintf("chaos-%d", n)
	return p
}

// thin bounds the load.
func (g *generator) thin() {
	if g.l.rateMost > 0 {
		g.p.Workload.Rate = min(g.p.Workload.Rate, g.l.rateMost)
	}
}

// atLeast draws faults of the walk's kinds, somewhere, until there are enough. Its draws have a stream of their own.
func (g *generator) atLeast() {
	g.r = seed.Stream(uint64(g.n), "explore/least")
	for len(g.p.Faults) < g.l.faultsLeast {
		g.fault(pick(g.r, Faults()...), g.anywhere())
	}
}
