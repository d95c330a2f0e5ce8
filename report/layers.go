package report

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// headroom makes room above the data area for labels of bands, and for a heading where there is one.
func headroom(p *plot.Plot, heading bool, list []band) {
	p.Title.Text = " "
	p.Title.TextStyle.Font.Size = 1
	p.Title.Padding = vg.Length(labelRows(list))*bandRow + 2
	if heading {
		p.Title.Padding += headingRow
	}
}

const (
	bandRow    = 11
	headingRow = 15
	// fewBands fit in one row of labels.
	fewBands = 3
)

// labelRows is the number of rows that the labels of bands take above the data area.
func labelRows(list []band) int {
	switch n := len(list); {
	case n == 0:
		return 0
	case n <= fewBands:
		return 1
	}
	return 2
}

// heading writes a name over a panel.
func heading(name string, c color.Color, list []band) layer {
	return func(canvas draw.Canvas, _ *plot.Plot) {
		s := lettering(11, ink(), true)
		s.YAlign = text.YCenter
		at := vg.Point{X: canvas.Min.X, Y: canvas.Max.Y + vg.Length(labelRows(list))*bandRow + 2 + headingRow/2}
		canvas.FillPolygon(c, box(at.X, at.Y-4, at.X+8, at.Y+4))
		canvas.FillText(s, vg.Point{X: at.X + 13, Y: at.Y}, name)
	}
}

// bands shades the time of faults and rescales, with their ids above the data area in staggered rows. It comes before
// the layers with data.
func bands(list []band) layer {
	return func(c draw.Canvas, p *plot.Plot) {
		tx, _ := p.Transforms(&c)
		ends := make([]vg.Length, labelRows(list)) // of the last label in each row
		s := lettering(9, dim(), false)
		for _, b := range list {
			from, to := max(tx(b.from), c.Min.X), min(tx(b.to), c.Max.X)
			if from > c.Max.X || to < c.Min.X {
				continue
			}
			to = max(to, from+2)
			tint := faultTint()
			if b.rescale {
				tint = rescaleTint()
			}
			c.FillPolygon(tint, box(from, c.Min.Y, to, c.Max.Y))
			c.StrokeLine2(line(axisGrey(), 0.6, 2, 2), from, c.Min.Y, from, c.Max.Y)
			label := clip(oneLine(b.id), 40)
			w := s.Width(label)
			at := min(from, c.Max.X-w)
			for row := range ends {
				if ends[row] == 0 || at > ends[row]+6 {
					c.FillText(s, vg.Point{X: at, Y: c.Max.Y + 3 + vg.Length(row)*bandRow}, label)
					ends[row] = at + w
					break
				}
			}
		}
	}
}

// merged joins bands of one name in several runs where they overlap, so that one band stands for all of them.
func merged(runs []*Run) (list []band) {
	for _, r := range runs {
	next:
		for _, b := range r.story.bands {
			for i := range list {
				if o := &list[i]; o.id == b.id && o.rescale == b.rescale && b.from <= o.to && o.from <= b.to {
					o.from, o.to = min(o.from, b.from), max(o.to, b.to)
					continue next
				}
			}
			list = append(list, b)
		}
	}
	slices.SortStableFunc(list, func(a, b band) int {
		switch {
		case a.from < b.from:
			return -1
		case a.from > b.from:
			return 1
		}
		return 0
	})
	return list
}

// phaseNames writes the names of phases along the lower edge, with a tick where each begins.
func phaseNames(list []phaseSpan) layer {
	return func(c draw.Canvas, p *plot.Plot) {
		tx, _ := p.Transforms(&c)
		s := lettering(8.5, dim(), false)
		for i, ph := range list {
			from, to := tx(ph.from), tx(ph.to)
			if i > 0 {
				c.StrokeLine2(line(axisGrey(), 0.8), from, c.Min.Y, from, c.Min.Y+9)
			}
			if s.Width(ph.name)+6 < to-from {
				c.FillText(s, vg.Point{X: from + 3, Y: c.Min.Y + 2}, ph.name)
			}
		}
	}
}

// dots draws points with a mark; those outside of the axes are drawn at their edge.
func dots(points []point, style draw.GlyphStyle) layer {
	return func(c draw.Canvas, p *plot.Plot) {
		tx, ty := transforms(&c, p)
		for _, q := range points {
			c.DrawGlyphNoClip(style, vg.Point{X: clamp(tx(q.x), c.Min.X, c.Max.X), Y: clamp(ty(q.y), c.Min.Y, c.Max.Y)})
		}
	}
}

// ticksOnAxis draws short strokes that stand on the lower edge.
func ticksOnAxis(at []float64, style draw.LineStyle, from, to vg.Length) layer {
	return func(c draw.Canvas, p *plot.Plot) {
		tx, _ := p.Transforms(&c)
		last := math.Inf(-1)
		for _, v := range at {
			if x := tx(v); x >= c.Min.X && x <= c.Max.X && float64(x)-last > 0.5 {
				c.StrokeLine2(style, x, c.Min.Y+from, x, c.Min.Y+to)
				last = float64(x)
			}
		}
	}
}

// triangles draws small triangles that stand on the lower edge, at most one each few points.
func triangles(at []float64, fill color.Color) layer {
	return func(c draw.Canvas, p *plot.Plot) {
		tx, _ := p.Transforms(&c)
		last := vg.Length(-1e9)
		for _, v := range at {
			x := tx(v)
			if x < c.Min.X || x > c.Max.X || x-last < 2 {
				continue
			}
			last = x
			c.FillPolygon(fill, triangle(vg.Point{X: x, Y: c.Min.Y + 3}))
		}
	}
}

func triangle(at vg.Point) []vg.Point {
	return []vg.Point{{X: at.X - 3.5, Y: at.Y - 3}, {X: at.X + 3.5, Y: at.Y - 3}, {X: at.X, Y: at.Y + 4}}
}

// transforms place values on the data area; a logarithmic axis takes what is not above its lower end for that.
func transforms(c *draw.Canvas, p *plot.Plot) (tx, ty func(float64) vg.Length) {
	tx, ty = p.Transforms(c)
	return fromLowerEnd(&p.X, tx), fromLowerEnd(&p.Y, ty)
}

func fromLowerEnd(a *plot.Axis, place func(float64) vg.Length) func(float64) vg.Length {
	if _, log := a.Scale.(plot.LogScale); !log {
		return place
	}
	return func(v float64) vg.Length { return place(max(v, a.Min)) }
}

// polyline connects points.
func polyline(points []point, style draw.LineStyle) layer {
	return func(c draw.Canvas, p *plot.Plot) {
		tx, ty := transforms(&c, p)
		var pts []vg.Point
		for _, q := range points {
			pts = append(pts, vg.Point{X: tx(q.x), Y: ty(q.y)})
		}
		if len(pts) > 1 {
			c.StrokeLines(style, c.ClipLinesXY(pts)...)
		}
	}
}

// area fills between two series with the same x.
func area(lower, upper []point, fill color.Color) layer {
	return func(c draw.Canvas, p *plot.Plot) {
		if len(upper) < 2 || len(lower) != len(upper) {
			return
		}
		tx, ty := p.Transforms(&c)
		var pts []vg.Point
		for _, q := range upper {
			pts = append(pts, vg.Point{X: tx(q.x), Y: ty(q.y)})
		}
		for _, q := range slices.Backward(lower) {
			pts = append(pts, vg.Point{X: tx(q.x), Y: ty(q.y)})
		}
		c.FillPolygon(fill, c.ClipPolygonXY(pts))
	}
}

func clamp(v, low, high vg.Length) vg.Length { return min(max(v, low), high) }
