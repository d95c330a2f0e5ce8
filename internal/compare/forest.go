package compare

import (
	"fmt"

	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/report"
)

// Forest is the comparison as a picture: the metrics with an interval of ratios.
func (c *Comparison) Forest() report.Forest {
	f := report.Forest{
		Title: fmt.Sprintf("%s: %s against %s", c.Scenario, c.B.Name, c.A.Name), Simulated: c.simulated(),
		Caption: fmt.Sprintf("%s · runs: %s · %s intervals", c.head(), c.runs(), percent(c.Level)),
	}
	for i := range c.Rows {
		r := &c.Rows[i]
		if r.Plain || !r.Bounded || r.Low <= -1 || r.rule.Class == Exact {
			continue
		}
		row := report.ForestRow{
			Group: "phase " + r.Phase, Label: r.Metric.Name, Verdict: string(r.Verdict), Floor: r.rule.Floor,
			Ratio: 1 + r.Estimate, Low: 1 + r.Low, High: 1 + r.High, Text: r.change(r.Estimate),
		}
		if r.Primary {
			row.Group, row.Label = "primary", r.Name()
		}
		if r.tested {
			row.Text += ", p " + probability(r.Adjusted)
		}
		if note := r.note(); note != "" {
			row.Text += ", " + note
		}
		for _, p := range r.Values {
			row.Dots = append(row.Dots, p.B/p.A)
		}
		if r.Metric.Better == metrics.Higher { // how many times worse
			row.Ratio, row.Low, row.High = 1/row.Ratio, 1/row.High, 1/row.Low
			for k, d := range row.Dots {
				row.Dots[k] = 1 / d
			}
		}
		f.Rows = append(f.Rows, row)
	}
	return f
}
