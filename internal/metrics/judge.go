package metrics

import (
	"fmt"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
)

// Judge holds the expectations of the run's plan against its figures, in the order of the plan. It always answers: a metric
// that this program does not know is unknown too.
func Judge(d *Data) (all []results.Expectation) {
	for _, e := range d.Plan.Expect {
		all = append(all, judge(d, e))
	}
	return all
}

func judge(d *Data, e plan.Expectation) results.Expectation {
	x := results.Expectation{Phase: e.Phase, Metric: e.Metric, Text: e.Text, Op: e.Op, Bound: e.Value, Outcome: results.Unknown}
	m, err := Lookup(e.Metric)
	if err != nil {
		x.Reason = err.Error()
		return x
	}
	x.Unit, x.About, x.Simulated = string(m.Unit), m.About, d.Plan.Simulated() && m.Timed()
	p, began := d.Phase(e.Phase)
	switch {
	case m.Measured && d.Plan.Simulated():
		x.Reason = "not measured in the simulated world"
		return x
	case !began || !p.Ended:
		x.Reason = fmt.Sprintf("phase %s was not carried through", e.Phase)
		return x
	}
	f := m.Figure(d, e.Phase)
	x.N, x.Need = f.N, f.Need
	switch {
	case f.OK():
		x.Value, x.Outcome = results.Some(f.Value), results.Missed
		if Holds(f.Value, e.Op, e.Value) {
			x.Outcome = results.Met
		}
		return x
	case f.N == 0 && e.Unset && !m.Measured: // what could not be measured may still have happened
		x.Outcome = results.Met
	default:
		x.Outcome = results.Missed
	}
	x.Reason = f.Warning
	return x
}
