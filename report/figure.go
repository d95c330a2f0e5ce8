package report

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Size of a figure in points, and the resolution of its PNG.
const (
	figureWidth = 720
	figureDPI   = 144
	margin      = 12
)

// figure is a chart with everything around it: title, legend, panels one below the other, caption.
type figure struct {
	title   string
	about   string // what it shows, for those who cannot see it
	legend  []legendItem
	panels  []*plot.Plot
	height  vg.Length // of the panels together
	caption string
	sim     bool
	empty   string // why there is nothing to show; then there are no panels
}

// legendItem is a mark and what it stands for.
type legendItem struct {
	text string
	draw func(c draw.Canvas, at vg.Point) // centred on at, within 9 points
}

// picture is a figure drawn as SVG. Its PNG is drawn on demand, since that takes ten times as long.
type picture struct {
	name, title, about string
	svg                []byte
	figure             *figure
}

// draw renders the charts that the plans ask for.
func (inv *Invocation) draw() ([]picture, error) {
	var all []picture
	for _, name := range inv.charts() {
		f := inv.figure(name)
		f.sim = inv.simulated()
		svg, err := f.svg()
		if err != nil {
			return nil, fmt.Errorf("draw %s: %w", name, err)
		}
		all = append(all, picture{name: name, title: f.title, about: f.about, svg: svg, figure: f})
	}
	return all, nil
}

func (inv *Invocation) figure(name string) *figure {
	switch name {
	case chartDuration:
		return durationChart(inv)
	case chartSizes:
		return sizesChart(inv)
	case chartECDF:
		return ecdfChart(inv)
	case chartAge:
		return ageChart(inv)
	case chartParts:
		return partsChart(inv)
	case chartCurve:
		return curveChart(inv)
	case chartUploads:
		return uploadsChart(inv)
	default:
		return recoveryChart(inv)
	}
}

func (f *figure) svg() ([]byte, error) {
	c := vgsvg.New(figureWidth, f.size())
	f.drawOn(draw.New(c))
	var b bytes.Buffer
	_, err := c.WriteTo(&b)
	return b.Bytes(), err
}

// png draws the figure of a picture again, as pixels.
func (p picture) png() ([]byte, error) {
	c := vgimg.NewWith(vgimg.UseWH(figureWidth, p.figure.size()), vgimg.UseDPI(figureDPI))
	p.figure.drawOn(draw.New(c))
	var b bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: c}).WriteTo(&b); err != nil {
		return nil, fmt.Errorf("draw %s: %w", p.name, err)
	}
	return b.Bytes(), nil
}

func titleStyle() text.Style   { return lettering(13, ink(), true) }
func legendStyle() text.Style  { return lettering(10, ink(), false) }
func captionStyle() text.Style { return lettering(9, dim(), false) }

const (
	legendLine  = 15
	captionLine = 12
	emptyHeight = 90
)

// size is the height of the whole figure.
func (f *figure) size() vg.Length {
	h := f.height
	if f.empty != "" {
		h = emptyHeight
	}
	return 2*margin + 20 + legendLine*vg.Length(len(f.legendRows())) + h + 8 + captionLine*vg.Length(len(wrap(captionStyle(), f.caption, figureWidth-2*margin)))
}

func (f *figure) drawOn(c draw.Canvas) {
	c.SetColor(paper())
	c.Fill(c.Rectangle.Path())
	c = draw.Crop(c, margin, -margin, margin, -margin)
	style := titleStyle()
	style.YAlign = text.YTop
	c.FillText(style, vg.Point{X: c.Min.X, Y: c.Max.Y}, f.title)
	if f.sim {
		s := lettering(18, mark(), true)
		s.XAlign, s.YAlign = text.XRight, text.YTop
		c.FillText(s, vg.Point{X: c.Max.X, Y: c.Max.Y + 3}, "simulated")
	}
	top := c.Max.Y - 20
	for _, row := range f.legendRows() {
		x := c.Min.X
		for _, item := range row {
			s := legendStyle()
			s.YAlign = text.YCenter
			item.draw(c, vg.Point{X: x + 6, Y: top - legendLine/2})
			c.FillText(s, vg.Point{X: x + 16, Y: top - legendLine/2}, item.text)
			x += 16 + s.Width(item.text) + 14
		}
		top -= legendLine
	}
	lines := wrap(captionStyle(), f.caption, c.Max.X-c.Min.X)
	for i, l := range lines {
		c.FillText(captionStyle(), vg.Point{X: c.Min.X, Y: c.Min.Y + 2 + captionLine*vg.Length(len(lines)-1-i)}, l)
	}
	area := c
	area.Max.Y = top - 2
	area.Min.Y = c.Min.Y + captionLine*vg.Length(len(lines)) + 6
	f.drawPanels(area)
}

func (f *figure) drawPanels(c draw.Canvas) {
	if f.empty != "" {
		s := lettering(11, dim(), false)
		s.XAlign, s.YAlign = text.XCenter, text.YCenter
		c.StrokeLines(line(gridGrey(), 0.8), []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}, c.Min})
		lines := wrap(s, f.empty, c.Max.X-c.Min.X-2*margin)
		for i, l := range lines {
			at := c.Center()
			at.Y += 14 * (vg.Length(len(lines)-1)/2 - vg.Length(i))
			c.FillText(s, at, l)
		}
		return
	}
	grid := make([][]*plot.Plot, len(f.panels))
	for i, p := range f.panels {
		grid[i] = []*plot.Plot{p}
	}
	for i, row := range plot.Align(grid, draw.Tiles{Rows: len(grid), Cols: 1, PadY: 6}, c) {
		f.panels[i].Draw(row[0])
	}
}

// legendRows breaks the legend into rows that fit.
func (f *figure) legendRows() (rows [][]legendItem) {
	room := vg.Length(figureWidth - 2*margin)
	var x vg.Length
	for _, item := range f.legend {
		w := 16 + legendStyle().Width(item.text) + 14
		if len(rows) == 0 || x+w > room+14 {
			rows, x = append(rows, nil), 0
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], item)
		x += w
	}
	return rows
}

// wrap breaks text into lines of the given width.
func wrap(s text.Style, words string, room vg.Length) (lines []string) {
	current := ""
	for _, w := range strings.Fields(words) {
		next := strings.TrimSpace(current + " " + w)
		if current != "" && s.Width(next) > room {
			lines = append(lines, current)
			next = w
		}
		current = next
	}
	if current != "" {
		lines = append(lines, current)
	}
	return lines
}

// Marks of legends.

func swatch(c color.Color) func(draw.Canvas, vg.Point) {
	return func(canvas draw.Canvas, at vg.Point) {
		canvas.FillPolygon(c, box(at.X-5, at.Y-4, at.X+5, at.Y+4))
	}
}

func stroke(style draw.LineStyle) func(draw.Canvas, vg.Point) {
	return func(canvas draw.Canvas, at vg.Point) {
		canvas.StrokeLine2(style, at.X-7, at.Y, at.X+6, at.Y)
	}
}

func upright() func(draw.Canvas, vg.Point) {
	return func(canvas draw.Canvas, at vg.Point) {
		canvas.StrokeLine2(line(dim(), 1.6), at.X, at.Y-4, at.X, at.Y+4)
	}
}

func glyph(style draw.GlyphStyle) func(draw.Canvas, vg.Point) {
	return func(canvas draw.Canvas, at vg.Point) { canvas.DrawGlyphNoClip(style, at) }
}

func box(x0, y0, x1, y1 vg.Length) []vg.Point {
	return []vg.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}}
}

// point is a datum: run time in seconds and a value.
type point struct{ x, y float64 }

// sane keeps a value within what a picture can be drawn of, whatever a damaged file says.
func sane(v float64) float64 { return min(max(v, -1e15), 1e15) }

// reduce keeps, for each of the columns between from and to, the lowest and the highest point in their order. Short series
// stay as they are. Dense zigzags take a rasteriser minutes and show no more.
func reduce(points []point, from, to float64, columns int) []point {
	if len(points) <= 2*columns || to <= from {
		return points
	}
	var out []point
	for i := 0; i < len(points); {
		column := math.Floor((points[i].x - from) / (to - from) * float64(columns))
		low, high := i, i
		for ; i < len(points) && math.Floor((points[i].x-from)/(to-from)*float64(columns)) == column; i++ {
			if points[i].y < points[low].y {
				low = i
			}
			if points[i].y > points[high].y {
				high = i
			}
		}
		out = append(out, points[min(low, high)])
		if low != high {
			out = append(out, points[max(low, high)])
		}
	}
	return out
}
