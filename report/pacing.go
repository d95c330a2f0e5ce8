package report

import (
	"fmt"
	"slices"
	"time"

	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/stats"
)

// busyReason is why a trigger is skipped that comes while as many checkpoints as may be are under way.
const busyReason = "max-concurrent"

// pacing says what bounds the checkpoints a second of an arm: its interval, or what a checkpoint takes.
type pacing struct {
	interval float64      // milliseconds; 0: the plan is not known
	median   stats.Figure // of the durations, in milliseconds
	busy     int          // triggers that were skipped since a checkpoint was under way
}

func (a *arm) pacing(w window) pacing {
	var p pacing
	if a.plan != nil {
		p.interval = float64(a.plan.Job.Checkpoint.Interval) / float64(time.Millisecond)
	}
	var took []float64
	for _, r := range a.runs {
		for i := range r.Checkpoints {
			switch c := &r.Checkpoints[i]; {
			case !w.has(c.Phase):
			case c.Status == skipped && c.Reason == busyReason:
				p.busy++
			case c.Status == completed && c.Duration.Set:
				took = append(took, c.Duration.Value)
			}
		}
	}
	p.median = middle(took)
	return p
}

// middle is the median of any number of values: it decides a question and is not shown as a figure to be compared.
func middle(values []float64) stats.Figure {
	if len(values) == 0 {
		return stats.None(0, "no checkpoint completed")
	}
	sorted := slices.Sorted(slices.Values(values))
	return stats.Figure{Value: sorted[(len(sorted)-1)/2], N: len(sorted)}
}

// slow tells whether checkpoints hold each other up: they take longer than their interval, and triggers were skipped for it. Where several
// may be under way none need be.
func (p pacing) slow() bool {
	return p.interval > 0 && p.median.OK() && p.median.Value > p.interval && p.busy > 0
}

// perSecond is completed checkpoints a second of the window's phases that were carried through.
func (a *arm) perSecond(w window) stats.Figure {
	n, seconds := 0, 0.0
	for _, r := range a.runs {
		for _, p := range r.data.Phases {
			if !w.has(p.Name) || !p.Ended {
				continue
			}
			seconds += p.To - p.From
			for i := range r.Checkpoints {
				if c := &r.Checkpoints[i]; c.Status == completed && c.Phase == p.Name {
					n++
				}
			}
		}
	}
	if seconds == 0 {
		return stats.None(0, "no phase was carried through")
	}
	return metrics.PerSecond(n, seconds)
}

// pacingRows are how often checkpoints complete and what bounds that.
func (t *table) pacingRows() {
	r := t.figure(row{label: "checkpoints a second", name: "checkpoints a second", unit: unitRate, better: higher}, func(a *arm) stats.Figure { return a.perSecond(t.window) })
	var interval, own []string
	for _, a := range t.arms {
		switch p := a.pacing(t.window); {
		case p.interval <= 0 || !p.median.OK():
		case p.slow():
			own = append(own, a.short)
		default:
			interval = append(interval, a.short)
		}
	}
	switch {
	case len(own) == 0 && len(interval) > 0:
		r.note = "limited by interval"
	case len(own) > 0 && len(interval) == 0:
		r.note = "limited by what a checkpoint takes"
	case len(own) > 0:
		r.note = fmt.Sprintf("limited by interval: %s; by what a checkpoint takes: %s", list(interval), list(own))
	}
}

// pacingWarnings name the arms of which checkpoints take longer than their interval.
func (t *table) pacingWarnings() (all []string) {
	for _, a := range t.arms {
		if p := a.pacing(t.window); p.slow() {
			all = append(all, fmt.Sprintf("checkpoints of %s take longer than their interval of %s (median %s): %s that came meanwhile were skipped",
				a.name, formatMillis(p.interval), unitMillis.format(p.median.Value, t.sim), plural(p.busy, "trigger")))
		}
	}
	return all
}

// partRows are what a checkpoint holds that it does not use, and what it takes to describe it.
func (t *table) partRows() {
	add := func(r row, column func(*results.CheckpointRow) results.Opt) {
		r.stat, r.better = "p50", lower
		shown := t.figure(r, func(a *arm) stats.Figure { return stats.Quantile(a.sample(t.window, column), 0.5) })
		if !slices.ContainsFunc(shown.figures, func(f stats.Figure) bool { return f.N > 0 }) {
			t.rows = t.rows[:len(t.rows)-1] // results of before have no such column
		}
	}
	add(row{label: "  dead bytes beside it", name: "dead bytes p50", unit: unitBytes, sub: true}, func(c *results.CheckpointRow) results.Opt { return c.Dead })
	add(row{label: "metadata size", name: "metadata size p50", unit: unitBytes}, func(c *results.CheckpointRow) results.Opt { return c.Metadata })
}
