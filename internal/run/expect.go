package run

import (
	"slices"

	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
)

// Expectations holds what the plan of a stored run expects against the run's figures, from its files alone. A run of which
// nothing is expected has none. Errors wrap results.ErrDamaged.
func Expectations(dir results.Dir, name string) ([]results.Expectation, error) {
	p, _, err := results.ReadPlan(dir.Run(name).Path(results.PlanFile))
	if err != nil || len(p.Expect) == 0 {
		return nil, err
	}
	d, err := metrics.Read(dir.Run(name))
	if err != nil {
		return nil, err
	}
	return metrics.Judge(d), nil
}

// expect judges the expectations of a run that has just ended and stores the answers. Where its files cannot be read the run
// is inconclusive already.
func (v *Invocation) expect(dir results.Dir, p *plan.Plan, entry *results.RunEntry) error {
	if len(p.Expect) == 0 {
		return nil
	}
	all, err := Expectations(dir, entry.Name)
	if err != nil {
		if entry.Error == "" {
			entry.Error = err.Error()
		}
		return nil
	}
	entry.Expect = results.Met
	if Misses(all) > 0 {
		entry.Expect = results.Missed
	}
	return results.WriteJSON(dir.Run(entry.Name).Path(results.ExpectFile), all)
}

// Misses counts the expectations that were not met.
func Misses(all []results.Expectation) (n int) {
	for _, x := range all {
		if x.Outcome == results.Missed {
			n++
		}
	}
	return n
}

// missed tells whether an invocation has a run that missed an expectation.
func missed(m *results.Manifest) bool {
	return slices.ContainsFunc(m.Runs, func(r results.RunEntry) bool { return r.Expect == results.Missed })
}
