package report

import (
	"fmt"

	"statebench.dev/bench/internal/results"

	"gonum.org/v1/plot/vg/draw"
)

// part is one of the byte figures that a checkpoint consists of.
type part struct {
	label string
	of    func(c *results.CheckpointRow) results.Opt
}

// parts are base and delta, each in full and what a checkpoint adds to it.
func parts() []part {
	return []part{
		{"base, full", func(c *results.CheckpointRow) results.Opt { return c.Base }},
		{"base, new", func(c *results.CheckpointRow) results.Opt { return c.Materialized }},
		{"delta, full", func(c *results.CheckpointRow) results.Opt { return c.Delta }},
		{"checkpointed", func(c *results.CheckpointRow) results.Opt { return c.Checkpointed }},
	}
}

// partsChart has a panel for each part over run time, and a line for each arm in each.
func partsChart(inv *Invocation) *figure {
	all := inv.arms()
	f := &figure{title: "Base and delta, full and new", about: "Four panels over run time, a line an arm: the base that each checkpoint names, what of it was new, the log on top of it, and what the checkpoint was the first to name of the log (without a changelog: of the snapshot)."}
	var n []string
	found := false
	for _, a := range all {
		of := 0
		if r := a.shown(); r != nil {
			of = len(r.part(parts()[0]))
		}
		found = found || of > 0
		n = append(n, fmt.Sprintf("%s (%s)", formatCount(int64(of)), a.name))
		f.legend = append(f.legend, legendItem{a.name, stroke(line(armColour(all, len(f.legend)), 1.6))})
	}
	f.caption = inv.caption(list(n)+" completed checkpoints", "new: what the checkpoint was the first to name")
	if !found {
		f.empty, f.legend = "Nothing to show: no completed checkpoint with sizes.", nil
		return f
	}
	end := runTime(shownRuns(all))
	for k, of := range parts() {
		high := 0.0
		lines := make([][]point, len(all))
		for i, a := range all {
			if r := a.shown(); r != nil {
				lines[i] = r.part(of)
			}
			for _, p := range lines[i] {
				high = max(high, p.y)
			}
		}
		label := ""
		if k == len(parts())-1 {
			label = "run time"
		}
		ticks := byteSteps(4)
		p := newPanel(axis{label: label, max: end, ticks: secondSteps(12)}, axis{label: of.label, max: ticks.round(max(high, 1)), ticks: ticks})
		for i := range all {
			c := armColour(all, i)
			p.Add(polyline(reduce(lines[i], 0, end, figureWidth), line(c, 1.6)), dots(lonely(lines[i]), draw.GlyphStyle{Color: c, Radius: 2.4, Shape: draw.CircleGlyph{}}))
		}
		f.panels = append(f.panels, p)
		f.height += 110
	}
	return f
}

// part is a figure of each completed checkpoint at its trigger.
func (r *Run) part(of part) (points []point) {
	for i := range r.Checkpoints {
		c := &r.Checkpoints[i]
		if v := of.of(c); c.Status == completed && c.Trigger.Set && v.Set {
			points = append(points, point{sane(c.Trigger.Value), sane(v.Value)})
		}
	}
	return points
}
