package report

import (
	"fmt"

	"statebench.dev/bench/internal/metrics"
)

// ages is the recovery-point age of a run over time, in milliseconds: it grows with the clock and falls when a checkpoint
// completes.
func (r *Run) ages(end float64) (series []point) {
	newest := metrics.Newest(r.Checkpoints)
	for i, from := range newest {
		to := end
		if i+1 < len(newest) {
			to = min(to, newest[i+1].At)
		}
		if from.At < to {
			series = append(series, point{sane(from.At), sane((from.At - from.Trigger) * 1000)}, point{sane(to), sane((to - from.Trigger) * 1000)})
		}
	}
	return series
}

// ageChart is the recovery-point age over run time, a panel an arm, all on the same axes.
func ageChart(inv *Invocation) *figure {
	all := inv.arms()
	runs := shownRuns(all)
	w, _ := comparedWindow(phases(all))
	f := &figure{title: "Recovery-point age", about: "How old the trigger of the newest completed checkpoint is at each moment: what a failure at that moment would throw back. One panel an arm."}
	end, high := runTime(runs), 0.0
	series := map[*Run][]point{}
	for _, r := range runs {
		series[r] = r.ages(end)
		for _, p := range series[r] {
			high = max(high, p.y)
		}
	}
	var figures []string
	for _, a := range all {
		if g := a.age(w, 0.99); g.OK() {
			figures = append(figures, fmt.Sprintf("%s (%s)", unitMillis.format(g.Value, inv.simulated()), a.name))
		}
	}
	if len(figures) > 0 {
		figures = []string{"p99w over the compared phases " + list(figures)}
	}
	f.caption = inv.caption(append(figures, "before the first checkpoint: the age of the run", "shaded: fault or rescale in force")...)
	if high <= 0 {
		f.empty = "Nothing to show: nothing was run."
		return f
	}
	ticks := milliSteps(4)
	k := 0
	for i, a := range all {
		r := a.shown()
		if r == nil {
			continue
		}
		k++
		label := ""
		if k == len(runs) {
			label = "run time"
		}
		p := newPanel(axis{label: label, max: end, ticks: secondSteps(12)}, axis{label: "age", max: ticks.round(high), ticks: ticks})
		headroom(p, true, r.story.bands)
		c := armColour(all, i)
		p.Add(heading(a.name, c, r.story.bands), bands(r.story.bands))
		p.Add(polyline(reduce(series[r], 0, end, figureWidth), line(c, 1.2)))
		f.panels = append(f.panels, p)
		f.height += 115
	}
	return f
}
