package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/stats"
)

// Why a trigger is skipped that comes while as many checkpoints as may be are under way, or too shortly after the end of one.
const (
	busyReason  = "max-concurrent"
	pauseReason = "min-pause"
)

// pacing says what bounds the checkpoints a second of an arm: its interval, its pause, or what a checkpoint takes.
type pacing struct {
	interval float64      // milliseconds; 0: the plan is not known
	pause    float64      // least time between two, in milliseconds
	median   stats.Figure // of the durations, in milliseconds
	busy     int          // triggers that were skipped since a checkpoint was under way
	paused   int          // triggers that were skipped since one had ended shortly before
}

func (a *arm) pacing(w window) pacing {
	var p pacing
	if a.plan != nil {
		p.interval = float64(a.plan.Job.Checkpoint.Interval) / float64(time.Millisecond)
		p.pause = float64(a.plan.Job.Checkpoint.MinPause) / float64(time.Millisecond)
	}
	var took []float64
	for _, r := range a.runs {
		for i := range r.Checkpoints {
			switch c := &r.Checkpoints[i]; {
			case !w.has(c.Phase):
			case c.Status == skipped && c.Reason == busyReason:
				p.busy++
			case c.Status == skipped && c.Reason == pauseReason:
				p.paused++
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

// held tells whether the pause after a checkpoint holds the next one up, rather than the checkpoint itself does.
func (p pacing) held() bool {
	return p.interval > 0 && p.median.OK() && p.median.Value+p.pause > p.interval && p.paused > 0 && (!p.slow() || p.paused > p.busy)
}

// limits are what can bound the checkpoints a second, in the order in which a note names them.
var limits = [...]string{"interval", "minPause", "what a checkpoint takes"} // read-only: names

// limit is the index in limits of what bounds an arm, which is known to have a plan and completed checkpoints.
func (p pacing) limit() int {
	switch {
	case p.held():
		return 1
	case p.slow():
		return 2
	}
	return 0
}

// perSecond is completed checkpoints a second of the window's phases that were carried through.
func (a *arm) perSecond(w window) stats.Figure {
	n, seconds := 0, 0.0
	for _, c := range a.carried(w) {
		n, seconds = n+c.checkpoints, seconds+c.phase.To-c.phase.From
	}
	if seconds == 0 {
		return stats.None(0, "no phase was carried through")
	}
	return metrics.PerSecond(n, seconds)
}

// pacingRows are how often checkpoints complete and what bounds that.
func (t *table) pacingRows() {
	r := t.figure(row{label: "checkpoints a second", name: "checkpoints a second", unit: unitRate, better: higher}, func(a *arm) stats.Figure { return a.perSecond(t.window) })
	var by [len(limits)][]string
	known := 0
	for _, a := range t.arms {
		if p := a.pacing(t.window); p.interval > 0 && p.median.OK() {
			by[p.limit()] = append(by[p.limit()], a.short)
			known++
		}
	}
	var parts []string
	for i, arms := range by {
		switch {
		case len(arms) == 0:
		case len(arms) == known:
			parts = append(parts, "by "+limits[i])
		default:
			parts = append(parts, "by "+limits[i]+": "+list(arms))
		}
	}
	if known > 0 {
		r.note = "limited " + strings.Join(parts, "; ")
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
