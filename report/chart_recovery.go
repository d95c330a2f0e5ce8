package report

import (
	"fmt"
	"image/color"
	"strings"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/results"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Geometry of the bars, in points.
const (
	barHeight = 11
	barPitch  = 32
	groupHead = 18
	maxBars   = 24
)

// segment is a step of a recovery.
type segment struct {
	name   string
	colour color.Color
	of     func(r *results.RecoveryRow) results.Opt
}

// segments are the steps in their order. Their colours are none of the first four arms'.
func segments() []segment {
	return []segment{
		{"detect", rgb(0x9AA3AD), func(r *results.RecoveryRow) results.Opt { return r.Detect }},
		{"restart", rgb(0x56B4E9), func(r *results.RecoveryRow) results.Opt { return r.Restart }},
		{"base", rgb(0x0072B2), func(r *results.RecoveryRow) results.Opt { return r.RestoreBase }},
		{"replay", rgb(0x7A5FA8), func(r *results.RecoveryRow) results.Opt { return r.Replay }},
		{"first output", rgb(0xE3D26F), func(r *results.RecoveryRow) results.Opt { return r.FirstOutput }},
		{"caught up", rgb(0xA5D6C5), func(r *results.RecoveryRow) results.Opt {
			if !r.Recovery.Set || !r.Outage.Set {
				return results.Opt{}
			}
			return results.Some(max(0, r.Recovery.Value-r.Outage.Value))
		}},
	}
}

// bar is one recovery of the chart.
type bar struct {
	row    results.RecoveryRow
	label  string
	colour color.Color // of its arm
	group  string      // set on the first bar of a cause
	y      float64     // of its upper edge, in points from the top
}

// bars lists all recoveries: by cause, then by disturbance, then by arm, so that what belongs together stands together.
func bars(all []*arm) (list []bar, height float64, left int) {
	var everywhere window
	for _, a := range all {
		for _, r := range a.runs {
			for _, row := range r.Recoveries {
				if !everywhere.has(row.Phase) {
					everywhere = append(everywhere, row.Phase)
				}
			}
		}
	}
	for _, cause := range causes(all, everywhere) {
		group := cause
		for _, id := range ids(all, cause) {
			for i, a := range all {
				for _, row := range a.recoveries(everywhere, cause) {
					if row.ID != id {
						continue
					}
					if len(list) == maxBars {
						left++
						continue
					}
					if group != "" {
						height += groupHead
					}
					list = append(list, bar{row: row, label: barLabel(row, a), colour: armColour(all, i), group: group, y: height})
					height += barPitch
					group = ""
				}
			}
		}
	}
	return list, height, left
}

func barLabel(row results.RecoveryRow, a *arm) string {
	id := row.ID
	if id == "" {
		id = fmt.Sprintf("attempt %d", row.Attempt)
	}
	return clip(oneLine(id), 24) + " · " + clip(oneLine(a.short), 24)
}

// ids are the disturbances with that cause, in order of appearance.
func ids(all []*arm, cause string) (list []string) {
	seen := map[string]bool{}
	for _, a := range all {
		for _, r := range a.runs {
			for _, row := range r.Recoveries {
				if row.Cause == cause && !seen[row.ID] {
					seen[row.ID] = true
					list = append(list, row.ID)
				}
			}
		}
	}
	return list
}

// recoveryChart is a stacked bar for each recovery.
func recoveryChart(inv *Invocation) *figure {
	all := inv.arms()
	f := &figure{title: "Recoveries, step by step", about: "One stacked bar for each recovery, grouped by cause and arm: detect, restart, load the base, replay the log, first output, caught up."}
	list, height, left := bars(all)
	total := 0.0
	for i := range list {
		total = max(total, length(&list[i].row))
	}
	caption := []string{"1 recovery"}
	if n := len(list) + left; n != 1 {
		caption[0] = formatCount(int64(n)) + " recoveries"
	}
	if left > 0 {
		caption = append(caption, fmt.Sprintf("the first %d shown", maxBars))
	}
	if d := inv.Manifest.Detection; d != "" {
		caption = append(caption, "detection: "+oneLine(d))
	}
	for i := range list {
		if list[i].row.Cause == history.CauseRescale {
			caption = append(caption, "a rescale's detect is the wait for its checkpoint")
			break
		}
	}
	f.caption = strings.Join(append([]string{inv.head()}, caption...), " · ")
	if len(list) == 0 {
		f.empty = "Nothing to show: " + noRecoveries(inv)
		return f
	}
	ticks := milliSteps(8)
	y := axis{max: height, ticks: barTicks(list, height), plain: true}
	p := newPanel(axis{label: "time since the fault took effect or the rescale was asked for", max: ticks.round(total), ticks: ticks}, y)
	p.Y.LineStyle.Width, p.Y.Tick.Length, p.Y.Tick.LineStyle.Width = 0, 0, 0
	p.Add(layer(func(c draw.Canvas, p *plot.Plot) { drawBars(c, p, list, height, inv.simulated()) }))
	for _, s := range segments() {
		f.legend = append(f.legend, legendItem{s.name, swatch(s.colour)})
	}
	f.panels, f.height = append(f.panels, p), vg.Length(height)+44
	return f
}

// barTicks name the bars.
func barTicks(list []bar, height float64) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for _, b := range list {
		ticks = append(ticks, plot.Tick{Value: height - b.y - barHeight/2, Label: b.label})
	}
	return ticks
}

// length is how long all known steps took together, in milliseconds.
func length(r *results.RecoveryRow) (ms float64) {
	for _, s := range segments() {
		if v := s.of(r); v.Set && v.Value > 0 {
			ms += sane(v.Value)
		}
	}
	return ms
}

func drawBars(c draw.Canvas, p *plot.Plot, list []bar, height float64, sim bool) {
	tx, ty := p.Transforms(&c)
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		c.StrokeLine2(line(gridGrey(), 0.8), tx(t.Value), c.Min.Y, tx(t.Value), c.Max.Y)
	}
	for i := range list {
		b := &list[i]
		top, bottom := ty(height-b.y), ty(height-b.y-barHeight)
		if b.group != "" {
			c.FillText(lettering(10, ink(), true), vg.Point{X: c.Min.X + 2, Y: top + 4}, clip(oneLine(b.group), 60))
		}
		at := 0.0
		for _, s := range segments() {
			v := s.of(&b.row)
			if !v.Set || v.Value <= 0 {
				continue
			}
			c.FillPolygon(s.colour, box(tx(at), bottom, tx(at+sane(v.Value)), top))
			at += sane(v.Value)
		}
		c.FillPolygon(b.colour, box(c.Min.X-4, bottom, c.Min.X-0.5, top))
		c.FillText(lettering(8.5, dim(), false), vg.Point{X: c.Min.X + 2, Y: bottom - 9.5}, barText(&b.row, sim))
	}
}

// barText says in figures what a bar shows, small steps too.
func barText(r *results.RecoveryRow, sim bool) string {
	took := func(o results.Opt) string { return unitMillis.format(o.Value, sim) }
	var parts []string
	if r.Recovery.Set {
		parts = append(parts, took(r.Recovery)+" in all")
	} else {
		parts = append(parts, "not caught up")
	}
	if r.RestoreBase.Set {
		parts = append(parts, fmt.Sprintf("base %s in %s", formatBytes(r.BaseBytes.Value), took(r.RestoreBase)))
		if r.Replayed.Value > 0 || r.DeltaBytes.Value > 0 {
			parts = append(parts, fmt.Sprintf("replay %s, %s changes, in %s", formatBytes(r.DeltaBytes.Value), formatCount(int64(r.Replayed.Value)), took(r.Replay)))
		}
	} else {
		parts = append(parts, "not restored")
	}
	if r.Reprocessed.Set {
		parts = append(parts, plural(int(r.Reprocessed.Value), "source record")+" again")
	}
	return strings.Join(parts, " · ")
}

// noRecoveries says why there are none.
func noRecoveries(inv *Invocation) string {
	planned := 0
	for _, r := range inv.Runs {
		if r.Plan != nil {
			planned += len(r.Plan.Faults) + len(r.Plan.Rescales)
		}
	}
	if planned == 0 {
		return "no recovery, since the plans have neither faults nor rescales."
	}
	return "no attempt failed and no rescale was carried out."
}
