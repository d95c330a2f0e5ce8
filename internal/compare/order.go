package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/seed"
)

// The orders of the variants within pairs.
const (
	// RandomPairs draws the order of each pair from the seed, each one equally often.
	RandomPairs = "random-pairs"
	// Alternate turns the order round from pair to pair: A B, B A, A B.
	Alternate = "alternate"
)

// Orders lists them.
func Orders() []string { return []string{RandomPairs, Alternate} }

// Order arranges plans so that the runs of one repetition follow one another, in an order that is balanced: over all
// repetitions each variant comes before each other one as often as behind it, but for an odd last one. The plans are not
// changed; s is the seed that random orders are drawn from.
func Order(plans []plan.Plan, order string, s uint64) []plan.Plan {
	var arms []string
	var reps []int
	for i := range plans {
		if !slices.Contains(arms, plans[i].Arm) {
			arms = append(arms, plans[i].Arm)
		}
		if !slices.Contains(reps, plans[i].Rep) {
			reps = append(reps, plans[i].Rep)
		}
	}
	rng := rand.New(rand.NewPCG(seed.Hash(s, "order of pairs"), 1))
	orders := make([][]string, 0, len(reps)+1)
	for len(orders) < len(reps) { // each order with its reverse
		there := slices.Clone(arms)
		if order == RandomPairs {
			rng.Shuffle(len(there), func(i, k int) { there[i], there[k] = there[k], there[i] })
		}
		back := slices.Clone(there)
		slices.Reverse(back)
		orders = append(orders, there, back)
	}
	orders = orders[:len(reps)]
	if order == RandomPairs {
		rng.Shuffle(len(orders), func(i, k int) { orders[i], orders[k] = orders[k], orders[i] })
	}
	var out []plan.Plan
	for i, rep := range reps {
		for _, arm := range orders[i] {
			for k := range plans {
				if plans[k].Rep == rep && plans[k].Arm == arm {
					out = append(out, plans[k])
				}
			}
		}
	}
	return out
}

// The least that a comparison measures.
const (
	warmFor         = 20 * time.Second
	warmCycles      = 3 // of materialization
	warmCheckpoints = 5
	measuredFor     = 30 * time.Second
	measuredCycles  = 6
)

// Lengthen makes the phases of plans long enough to be compared: what is discarded last before the first measured phase, and
// each measured phase, whose length becomes a whole number of materialization cycles, because the log grows from one to the
// next and a window that ends in between leans to one side. All arms get the same length, by the longest cycle of any. Faults
// stay where they are. It returns the new plans and what was changed, in words; phases that end by themselves stay, and so do
// those in records of a source without a rate, whose time nobody knows.
func Lengthen(plans []plan.Plan) (out []plan.Plan, changes []string) {
	out = slices.Clone(plans)
	var cycle time.Duration
	for i := range plans {
		if b := plans[i].Backend.Changelog; b.Enabled {
			cycle = max(cycle, plan.D(b.Materialize))
		}
	}
	for i := range out {
		p := &out[i]
		p.Phases = slices.Clone(p.Phases)
		interval := plan.D(p.Job.Checkpoint.Interval)
		warm, window := max(warmFor, warmCycles*cycle, warmCheckpoints*interval), max(measuredFor, measuredCycles*cycle)
		for k := range p.Phases {
			ph := &p.Phases[k]
			least := window
			whole := cycle
			if ph.Discard {
				least, whole = warm, 0
				if k+1 < len(p.Phases) && p.Phases[k+1].Discard {
					continue // a fill phase
				}
			}
			if text := lengthen(ph, p.Workload.Rate, least, whole); text != "" && !slices.Contains(changes, text) {
				changes = append(changes, text)
			}
		}
	}
	return out, changes
}

// lengthen changes one phase and says how; empty: it did not.
func lengthen(ph *plan.Phase, rate float64, least, whole time.Duration) string {
	up := func(now time.Duration) time.Duration {
		now = max(now, least)
		if whole > 0 {
			now = time.Duration(math.Ceil(float64(now)/float64(whole)-1e-6)) * whole
		}
		return now
	}
	switch {
	case ph.Until != "" || len(ph.Steps) > 0:
		return ""
	case ph.For > 0:
		if want := up(plan.D(ph.For)); want > plan.D(ph.For) {
			was := ph.For
			ph.For = plan.Duration(want)
			return fmt.Sprintf("phase %s lasts %s instead of %s", ph.Name, ph.For, was)
		}
	case ph.Records > 0 && rate > 0:
		now := time.Duration(float64(ph.Records) / rate * float64(time.Second))
		if want := int64(math.Ceil(up(now).Seconds() * rate)); want > ph.Records {
			was := ph.Records
			ph.Records = want
			return fmt.Sprintf("phase %s takes %d records instead of %d", ph.Name, want, was)
		}
	case ph.Records > 0:
		return fmt.Sprintf("phase %s is as long as written: the source has no rate", ph.Name)
	}
	return ""
}
