package explore

import (
	"fmt"
	"slices"

	"statebench.dev/bench/internal/failpoint"
)

// Often is how many times each kind of fault of the walk is to be proven at each stage.
const Often = 5

// Pass adds a run's passages of failpoints.
func (c *Coverage) Pass(points map[string]int64) {
	if c.passed == nil {
		c.passed = map[string]int64{}
	}
	for p, n := range points { // order-free: sums
		c.passed[p] += n
	}
}

// Pairs are how many pairs of the walk's faults and stages were proven often, and how many there are.
func (c *Coverage) Pairs() (often, of int) {
	for _, kind := range Faults() {
		for _, stage := range Stages() {
			if of++; c.Hits(kind, stage) >= Often {
				often++
			}
		}
	}
	return often, of
}

// Points are how many failpoints were passed, and how many there are.
func (c *Coverage) Points() (passed, of int) { return len(c.passed), len(points()) }

func points() []string { return slices.Concat(failpoint.Points(), failpoint.StoragePoints()) }

// Holes names what was not covered: pairs that were not proven often, with how often they were, and failpoints that no run passed.
func (c *Coverage) Holes() (holes []string) {
	for _, stage := range Stages() {
		for _, kind := range Faults() {
			if n := c.Hits(kind, stage); n < Often {
				holes = append(holes, fmt.Sprintf("%s at %s: %d", kind, stage, n))
			}
		}
	}
	for _, p := range points() {
		if c.passed[p] == 0 {
			holes = append(holes, p+": never passed")
		}
	}
	return holes
}
