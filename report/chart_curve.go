package report

import (
	"cmp"
	"fmt"
	"slices"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/metrics"

	"gonum.org/v1/plot/vg/draw"
)

// curve lists the recoveries of an arm as points: bytes of log that were read, and milliseconds of base and replay. Rescales and
// starts, which restore as well, are left out. They are sorted by the length of the log.
func (a *arm) curve() (points []point) {
	for _, r := range a.runs {
		for i := range r.Recoveries {
			row := &r.Recoveries[i]
			took := metrics.Restore(row)
			if row.Cause == history.CauseRescale || row.Cause == history.CauseStart || !took.Set || !row.DeltaBytes.Set {
				continue
			}
			points = append(points, point{sane(row.DeltaBytes.Value), sane(took.Value)})
		}
	}
	slices.SortFunc(points, func(p, q point) int { return cmp.Or(cmp.Compare(p.x, q.x), cmp.Compare(p.y, q.y)) })
	return points
}

// curveChart is how long a restore took against the log that it had to replay: a dot a recovery, a line an arm.
func curveChart(inv *Invocation) *figure {
	all := inv.arms()
	f := &figure{title: "Recovery against the length of the log", height: 270,
		about: "Base and replay of each recovery against the bytes of log that it read; a colour an arm. Its height at the left is the base, its slope the replay."}
	points := make([][]point, len(all))
	var n []string
	longest, slowest := 0.0, 0.0
	for i, a := range all {
		points[i] = a.curve()
		n = append(n, fmt.Sprintf("%s (%s)", formatCount(int64(len(points[i]))), a.name))
		for _, p := range points[i] {
			longest, slowest = max(longest, p.x), max(slowest, p.y)
		}
	}
	f.caption = dotted(inv.head(), list(n)+" recoveries that restored a checkpoint", "rescales left out")
	if slowest <= 0 {
		f.empty = "Nothing to show: " + noRecoveries(inv)
		return f
	}
	x, y := byteSteps(8), milliSteps(6)
	p := newPanel(axis{label: "log read", max: x.round(max(longest, 1)), ticks: x}, axis{label: "base + replay", max: y.round(slowest), ticks: y})
	for i, a := range all {
		colour := armColour(all, i)
		p.Add(polyline(points[i], line(colour, 1.2)), dots(points[i], draw.GlyphStyle{Color: colour, Radius: 3, Shape: draw.CircleGlyph{}}))
		f.legend = append(f.legend, legendItem{a.name, stroke(line(colour, 1.6))})
	}
	f.panels = append(f.panels, p)
	return f
}
