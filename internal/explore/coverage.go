package explore

import (
	"fmt"
	"slices"
	"strings"

	"statebench.dev/bench/internal/plan"
)

// Coverage counts, over many plans, which faults were proven at which checkpoint stage.
type Coverage struct {
	Plans, Rescales, Checkpoints int
	hits                         map[[2]string]int // fault kind, stage ("elsewhere" for other triggers)
	passed                       map[string]int64  // failpoint: passages
}

// Elsewhere is the column of faults that were triggered by something other than a stage.
const Elsewhere = "elsewhere"

// Add counts a plan whose faults all were proven.
func (c *Coverage) Add(p *plan.Plan, checkpoints int) {
	if c.hits == nil {
		c.hits = map[[2]string]int{}
	}
	c.Plans++
	c.Rescales += len(p.Rescales)
	c.Checkpoints += checkpoints
	for _, f := range p.Faults {
		stage := f.At.Event
		if !slices.Contains(Stages(), stage) {
			stage = Elsewhere
		}
		c.hits[[2]string{f.Kind, stage}]++
	}
}

// Hits is how often a fault of the kind was proven at the stage.
func (c *Coverage) Hits(kind, stage string) int { return c.hits[[2]string{kind, stage}] }

// Table prints the counts, a line a stage.
func (c *Coverage) Table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d plans, %d rescales, %d completed checkpoints\n%-28s", c.Plans, c.Rescales, c.Checkpoints, "checkpoint stage")
	kinds := append(Faults(), MoreFaults()...)
	for _, k := range Containers() { // where there were any
		if slices.ContainsFunc(append(Stages(), Elsewhere), func(stage string) bool { return c.Hits(k, stage) > 0 }) {
			kinds = append(kinds, k)
		}
	}
	for _, k := range kinds {
		fmt.Fprintf(&b, "%18s", k)
	}
	for _, s := range append(Stages(), Elsewhere) {
		fmt.Fprintf(&b, "\n%-28s", s)
		for _, k := range kinds {
			fmt.Fprintf(&b, "%18d", c.Hits(k, s))
		}
	}
	return b.String() + "\n"
}
