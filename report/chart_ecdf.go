package report

import (
	"fmt"
	"math"
	"slices"

	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/stats"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"
)

// maxSpan is how far apart the ends of the axis may be; what is less stands at its lower end, as no time at all does.
const maxSpan = 1e5

// ecdfChart is the share of checkpoints that took no longer than a duration, a line an arm, over the compared phases.
func ecdfChart(inv *Invocation) *figure {
	all := inv.arms()
	w, _ := comparedWindow(phases(all))
	f := &figure{title: "Checkpoint duration, distribution", height: 270,
		about: "Share of the completed checkpoints that took no longer than a duration, on a logarithmic axis; a line an arm. Further left is faster, steeper is steadier."}
	duration := func(c *results.CheckpointRow) results.Opt { return c.Duration }
	var n []string
	low, high := 0.0, 0.0
	samples := make([][]float64, len(all))
	for i, a := range all {
		for _, v := range a.sample(w, duration) {
			v = sane(v)
			samples[i] = append(samples[i], v)
			if v > 0 && (low == 0 || v < low) {
				low = v
			}
			high = max(high, v)
		}
		slices.Sort(samples[i])
		n = append(n, fmt.Sprintf("%s (%s)", formatCount(int64(len(samples[i]))), a.name))
	}
	parts := []string{inv.head(), list(n) + " completed checkpoints", "phases " + list(w), "marks: p50, p90, p99 where there are samples enough"}
	if inv.Manifest.Repetitions > 1 {
		parts = append(parts, fmt.Sprintf("%d repetitions put together, the band spans each on its own", inv.Manifest.Repetitions))
	}
	f.caption = dotted(parts...)
	if high <= 0 {
		f.empty = "Nothing to show: no checkpoint completed in a phase that counts."
		return f
	}
	from, to := logRange(max(low, high/maxSpan), high)
	p := newPanel(axis{label: "duration (log)", min: from, max: to, log: true, ticks: logMillis{}}, axis{label: "share of checkpoints", max: 1, ticks: shareTicks()})
	p.Add(layer(func(c draw.Canvas, p *plot.Plot) {
		tx, _ := p.Transforms(&c)
		for _, t := range (logMillis{}).Ticks(from, to) {
			if t.Label != "" && t.Value > from {
				c.StrokeLine2(line(gridGrey(), 0.8), tx(t.Value), c.Min.Y, tx(t.Value), c.Max.Y)
			}
		}
	}))
	for i, a := range all {
		if len(samples[i]) == 0 {
			continue
		}
		colour := armColour(all, i)
		if lower, upper := envelope(a, w, duration, from, to); lower != nil {
			p.Add(area(lower, upper, faint(colour, 0.22)))
		}
		p.Add(polyline(staircase(samples[i], from, to), line(colour, 1.6)), dots(percentiles(samples[i]), draw.GlyphStyle{Color: colour, Radius: 3, Shape: draw.CircleGlyph{}}))
		f.legend = append(f.legend, legendItem{a.name, stroke(line(colour, 1.6))})
	}
	f.panels = append(f.panels, p)
	return f
}

// staircase is the empirical distribution of sorted samples as a line from the left edge to the right. Of very many samples
// it keeps as many as can be seen.
func staircase(sorted []float64, from, to float64) []point {
	line := []point{{from, 0}}
	every := max(1, len(sorted)/(2*figureWidth))
	below := 0.0
	for i, v := range sorted {
		share := float64(i+1) / float64(len(sorted))
		if i%every == 0 || i == len(sorted)-1 {
			line = append(line, point{v, below}, point{v, share})
			below = share
		}
	}
	return append(line, point{to, 1})
}

// percentiles are the marks on a line.
func percentiles(sorted []float64) (marks []point) {
	for _, q := range []float64{0.5, 0.9, 0.99} {
		if f := stats.Quantile(sorted, q); f.OK() {
			marks = append(marks, point{f.Value, math.Ceil(q*float64(len(sorted))-1e-9) / float64(len(sorted))})
		}
	}
	return marks
}

// envelope is the lowest and the highest share that a single repetition gives at each of a row of durations; nil with fewer
// than two that have checkpoints.
func envelope(a *arm, w window, column func(*results.CheckpointRow) results.Opt, from, to float64) (lower, upper []point) {
	var reps [][]float64
	for _, r := range a.runs {
		one := &arm{runs: []*Run{r}}
		if v := one.sample(w, column); len(v) > 0 {
			slices.Sort(v)
			reps = append(reps, v)
		}
	}
	if len(reps) < 2 {
		return nil, nil
	}
	const columns = 240
	for i := range columns + 1 {
		x := from * math.Pow(to/from, float64(i)/columns)
		least, most := 1.0, 0.0
		for _, v := range reps {
			n, _ := slices.BinarySearchFunc(v, x, func(have, want float64) int {
				if have <= want {
					return -1
				}
				return 1
			})
			share := float64(n) / float64(len(v))
			least, most = min(least, share), max(most, share)
		}
		lower, upper = append(lower, point{x, least}), append(upper, point{x, most})
	}
	return lower, upper
}

// shareTicks mark shares in steps of a fifth.
func shareTicks() plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for i := 0; i <= 10; i++ {
		t := plot.Tick{Value: float64(i) / 10}
		if i%2 == 0 {
			t.Label = fmt.Sprintf("%d %%", i*10)
		}
		ticks = append(ticks, t)
	}
	return ticks
}
