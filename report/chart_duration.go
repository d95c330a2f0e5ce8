package report

import (
	"fmt"
	"strings"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/stats"

	"gonum.org/v1/plot/vg/draw"
)

// minMedian is the number of checkpoints in a phase from which on its median line is drawn, beside all its points.
const minMedian = 5

// durations are the checkpoints of a run as the chart shows them.
type durations struct {
	counted, discarded, aborted []point // run time of the trigger, milliseconds
	skipped                     []float64
	medians                     [][]point
	completed                   int
}

// shown is the run of an arm that charts over time show: its first.
func (a *arm) shown() *Run {
	if len(a.runs) == 0 {
		return nil
	}
	return a.runs[0]
}

// shownRuns are the runs that charts over time show.
func shownRuns(all []*arm) (runs []*Run) {
	for _, a := range all {
		if r := a.shown(); r != nil {
			runs = append(runs, r)
		}
	}
	return runs
}

func (r *Run) durations() (d durations) {
	byPhase := map[string][]float64{}
	for _, c := range r.Checkpoints {
		p := point{sane(c.Trigger.Value), sane(c.Duration.Value)}
		switch {
		case c.Status == completed && c.Trigger.Set && c.Duration.Set:
			d.completed++
			if c.Discard {
				d.discarded = append(d.discarded, p)
				continue
			}
			d.counted = append(d.counted, p)
			byPhase[c.Phase] = append(byPhase[c.Phase], p.y)
		case c.Status == aborted && c.Trigger.Set && c.Duration.Set:
			d.aborted = append(d.aborted, p)
		case c.Status == skipped && c.Planned.Set:
			d.skipped = append(d.skipped, sane(c.Planned.Value))
		}
	}
	for _, ph := range r.story.phases {
		if values := byPhase[ph.name]; len(values) >= minMedian {
			if m := stats.Middle(values); m.OK() {
				d.medians = append(d.medians, []point{{ph.from, m.Value}, {ph.to, m.Value}})
			}
		}
	}
	return d
}

// runTime is the end of the time axis: the verify phase, which follows the job, is left out.
func runTime(runs []*Run) float64 {
	end := 0.0
	for _, r := range runs {
		for _, p := range openPhases(r) {
			end = max(end, p.to)
		}
	}
	if end <= 0 {
		return 1
	}
	return end
}

// openPhases are the phases of a run but for verify.
func openPhases(r *Run) (list []phaseSpan) {
	for _, p := range r.story.phases {
		verify := false
		for _, q := range r.Plan.Phases {
			verify = verify || q.Name == p.name && q.Until == plan.UntilVerified
		}
		if !verify {
			list = append(list, p)
		}
	}
	return list
}

// durationChart is checkpoint duration over run time.
func durationChart(inv *Invocation) *figure {
	all := inv.arms()
	runs := shownRuns(all)
	f := &figure{title: "Checkpoint duration", height: 290, about: "Duration of each checkpoint over run time on a logarithmic axis, all arms."}
	var sets []durations
	low, high := 0.0, 0.0
	for _, r := range runs {
		d := r.durations()
		sets = append(sets, d)
		for _, list := range [][]point{d.counted, d.discarded, d.aborted} {
			for _, p := range list {
				if p.y > 0 && (low == 0 || p.y < low) {
					low = p.y
				}
				high = max(high, p.y)
			}
		}
	}
	f.caption = durationCaption(inv, runs, sets)
	if high <= 0 {
		f.empty = "Nothing to show: " + noCheckpoints(runs, sets)
		return f
	}
	from, to := logRange(low, high)
	end := runTime(runs)
	p := newPanel(axis{label: "run time", max: end, ticks: secondSteps(12)}, axis{label: "duration (log)", min: from, max: to, log: true, ticks: logMillis{}})
	shaded := merged(runs)
	headroom(p, false, shaded)
	p.Add(bands(shaded))
	if len(runs) > 0 {
		p.Add(phaseNames(openPhases(runs[0])))
	}
	k := 0
	for i, a := range all {
		if a.shown() == nil {
			continue
		}
		d, c := sets[k], armColour(all, i)
		k++
		disc := draw.GlyphStyle{Color: c, Radius: 2.4, Shape: draw.CircleGlyph{}}
		ring := draw.GlyphStyle{Color: c, Radius: 2.2, Shape: draw.RingGlyph{}}
		cross := draw.GlyphStyle{Color: c, Radius: 3.4, Shape: draw.CrossGlyph{}}
		for _, m := range d.medians {
			p.Add(polyline(m, line(c, 1.6)))
		}
		p.Add(dots(reduce(d.discarded, 0, end, figureWidth), ring), dots(reduce(d.counted, 0, end, figureWidth), disc),
			dots(reduce(d.aborted, 0, end, figureWidth), cross), ticksOnAxis(d.skipped, line(c, 1.6), 10, 18))
		f.legend = append(f.legend, legendItem{a.name, glyph(disc)})
	}
	f.panels = append(f.panels, p)
	f.legend = append(f.legend, durationLegend(sets)...)
	return f
}

// durationLegend explains the marks that are there.
func durationLegend(sets []durations) (items []legendItem) {
	var medians, discarded, aborted, skipped bool
	for _, d := range sets {
		medians, discarded = medians || len(d.medians) > 0, discarded || len(d.discarded) > 0
		aborted, skipped = aborted || len(d.aborted) > 0, skipped || len(d.skipped) > 0
	}
	if medians {
		items = append(items, legendItem{"median of a phase", stroke(line(dim(), 1.6))})
	}
	if discarded {
		items = append(items, legendItem{"not in statistics", glyph(draw.GlyphStyle{Color: dim(), Radius: 2.2, Shape: draw.RingGlyph{}})})
	}
	if aborted {
		items = append(items, legendItem{"aborted", glyph(draw.GlyphStyle{Color: dim(), Radius: 3.4, Shape: draw.CrossGlyph{}})})
	}
	if skipped {
		items = append(items, legendItem{"skipped trigger", upright()})
	}
	return items
}

func durationCaption(inv *Invocation, runs []*Run, sets []durations) string {
	var n []string
	for i, r := range runs {
		n = append(n, fmt.Sprintf("%s (%s)", formatCount(int64(sets[i].completed)), r.Entry.Arm))
	}
	return inv.caption(list(n)+" completed checkpoints", fmt.Sprintf("median line in phases with %d checkpoints or more", minMedian), "shaded: fault or rescale in force")
}

// caption names what every chart must: world, store and profile; then its own parts. Charts over time show one repetition.
func (inv *Invocation) caption(parts ...string) string {
	if inv.Manifest.Repetitions > 1 {
		parts = append(parts, fmt.Sprintf("repetition 1 of %d", inv.Manifest.Repetitions))
	}
	return strings.Join(append([]string{inv.head()}, parts...), " · ")
}

// noCheckpoints says why there are no durations.
func noCheckpoints(runs []*Run, sets []durations) string {
	if len(runs) == 0 {
		return "nothing was run."
	}
	var parts []string
	for i, r := range runs {
		parts = append(parts, fmt.Sprintf("%s with %d aborted and %d skipped ones", r.Entry.Name, len(sets[i].aborted), len(sets[i].skipped)))
	}
	return "no checkpoint completed, " + list(parts) + "."
}
