package report

import (
	"fmt"
	"image/color"

	"statebench.dev/bench/internal/results"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// sizes are the byte figures of a run over time.
type sizes struct {
	full, base, checkpointed, live []point
	materialized                   []float64
}

func (r *Run) sizes() (s sizes) {
	add := func(to *[]point, c *results.CheckpointRow, v results.Opt) {
		if v.Set {
			*to = append(*to, point{sane(c.Trigger.Value), sane(v.Value)})
		}
	}
	for i := range r.Checkpoints {
		c := &r.Checkpoints[i]
		if c.Status != completed || !c.Trigger.Set || !c.Full.Set || !c.Base.Set {
			continue
		}
		add(&s.full, c, c.Full)
		add(&s.base, c, c.Base)
		add(&s.checkpointed, c, c.Checkpointed)
	}
	end := runTime([]*Run{r})
	for _, row := range r.Series {
		if row.At <= end {
			s.live = append(s.live, point{sane(row.At), float64(row.Live)})
		}
	}
	s.materialized = r.story.materialized
	return s
}

// sizesChart is the saw-tooth of sizes, a panel an arm, all on the same axes.
func sizesChart(inv *Invocation) *figure {
	all := inv.arms()
	runs := shownRuns(all)
	f := &figure{title: "Sizes of checkpoints", about: "Full size of each checkpoint over run time, split into base and delta, with what it uploaded and the live state; one panel an arm."}
	var sets []sizes
	var n []string
	high, live := 0.0, false
	for _, r := range runs {
		s := r.sizes()
		sets = append(sets, s)
		n = append(n, fmt.Sprintf("%s (%s)", formatCount(int64(len(s.full))), r.Entry.Arm))
		for _, l := range [][]point{s.full, s.checkpointed, s.live} {
			for _, p := range l {
				high = max(high, p.y)
			}
		}
		live = live || len(s.live) > 1
	}
	f.caption = inv.caption(list(n)+" completed checkpoints", "full size = base + delta: all that a checkpoint names", "checkpointed: what it was the first to name", "shaded: fault or rescale in force")
	if !anySizes(sets) {
		f.empty = "Nothing to show: no completed checkpoint with sizes."
		return f
	}
	ticks := byteSteps(5)
	end, top := runTime(runs), ticks.round(high)
	k, materialized := 0, false
	for i, a := range all {
		r := a.shown()
		if r == nil {
			continue
		}
		s, c := sets[k], armColour(all, i)
		k++
		label := ""
		if k == len(sets) {
			label = "run time"
		}
		p := newPanel(axis{label: label, max: end, ticks: secondSteps(12)}, axis{label: "bytes", max: top, ticks: ticks})
		headroom(p, true, r.story.bands)
		p.Add(heading(a.name, c, r.story.bands), bands(r.story.bands))
		zero := make([]point, len(s.base))
		for i := range zero {
			zero[i].x = s.base[i].x
		}
		reduced := func(points []point) []point { return reduce(points, 0, end, figureWidth) }
		if len(s.full) <= 2*figureWidth { // areas need the same x in both series
			p.Add(area(zero, s.base, faint(c, 0.28)), area(s.base, s.full, faint(c, 0.6)))
		}
		p.Add(polyline(reduced(s.base), line(c, 1, 4, 2)), polyline(reduced(s.full), line(c, 1.6)),
			polyline(reduced(s.checkpointed), line(ink(), 1.2, 5, 2.5)), polyline(reduced(s.live), line(dim(), 1.4, 1, 2.5)),
			triangles(s.materialized, ink()))
		p.Add(dots(lonely(s.full), draw.GlyphStyle{Color: c, Radius: 2.4, Shape: draw.CircleGlyph{}}))
		f.panels = append(f.panels, p)
		f.height += 165
		materialized = materialized || len(s.materialized) > 0
	}
	f.legend = sizesLegend(live, materialized)
	return f
}

func anySizes(sets []sizes) bool {
	for _, s := range sets {
		if len(s.full) > 0 {
			return true
		}
	}
	return false
}

// lonely is a series of one point, which makes no line.
func lonely(points []point) []point {
	if len(points) == 1 {
		return points
	}
	return nil
}

func sizesLegend(live, materialized bool) []legendItem {
	neutral := rgb(0x5C6570)
	two := func(top, bottom color.Color) func(draw.Canvas, vg.Point) {
		return func(c draw.Canvas, at vg.Point) {
			c.FillPolygon(bottom, box(at.X-6, at.Y-5, at.X+6, at.Y+4))
			c.StrokeLine2(line(top, 1.6), at.X-6, at.Y+4, at.X+6, at.Y+4)
		}
	}
	items := []legendItem{
		{"full size (in the arm's colour)", stroke(line(neutral, 1.6))},
		{"base", swatch(faint(neutral, 0.28))},
		{"delta", two(neutral, faint(neutral, 0.6))},
		{"checkpointed", stroke(line(ink(), 1.2, 5, 2.5))},
	}
	if live {
		items = append(items, legendItem{"live state", stroke(line(dim(), 1.4, 1, 2.5))})
	}
	if materialized {
		items = append(items, legendItem{"materialization", func(c draw.Canvas, at vg.Point) { c.FillPolygon(ink(), triangle(at)) }})
	}
	return items
}
