package report

import (
	"fmt"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Forest is the picture of a comparison: a row for each metric with its estimate and interval on an axis of ratios, the
// floor as a grey band. What is better lies to the left, whichever way the metric improves.
type Forest struct {
	// Title and Caption are one line each; the caption names world, store and profile.
	Title, Caption string
	// Simulated marks the picture.
	Simulated bool
	// Rows come from top to bottom; those behind the fortieth are counted, not drawn.
	Rows []ForestRow
}

// ForestRow is one metric.
type ForestRow struct {
	// Group stands above the first row of each group, Label beside the row, Text in small letters below its interval.
	Group, Label, Text string
	// Verdict is regression, improvement, equivalent or inconclusive.
	Verdict string
	// Ratio is how many times worse the second variant is, Low and High bound its interval; all are above zero. Below 1 it
	// is better.
	Ratio, Low, High float64
	// Floor is the share within which a difference does not matter.
	Floor float64
	// Dots are the ratios of the pairs.
	Dots []float64
}

// Geometry of the rows, in points.
const (
	forestPitch = 27
	forestHead  = 20
	maxForest   = 40
)

// verdictColour is none of the arms' but for the green of what is good.
func verdictColour(verdict string) color.Color {
	switch verdict {
	case "improvement":
		return rgb(0x009E73)
	case "regression":
		return rgb(0xD55E00)
	case "equivalent":
		return rgb(0x5C6570)
	default:
		return rgb(0x56B4E9)
	}
}

// Draw renders the forest as SVG and as PNG. The same rows give the same bytes.
func (f Forest) Draw() (svg, png []byte, err error) {
	fig := f.figure()
	fig.sim = f.Simulated
	if svg, err = fig.svg(); err != nil {
		return nil, nil, fmt.Errorf("draw forest: %w", err)
	}
	png, err = picture{name: "forest", figure: fig}.png()
	return svg, png, err
}

func (f Forest) figure() *figure {
	fig := &figure{title: oneLine(f.Title), about: "One row for each metric: how many times worse the second variant is, with its interval.", caption: oneLine(f.Caption)}
	if len(f.Rows) == 0 {
		fig.empty = "Nothing to show: no metric has an interval."
		return fig
	}
	rows := f.Rows
	if len(rows) > maxForest {
		fig.caption += fmt.Sprintf(" · the first %d of %d metrics", maxForest, len(rows))
		rows = rows[:maxForest]
	}
	low, high := 0.8, 1.25
	for _, r := range rows {
		low, high = min(low, extent(r.Low), extent(r.Ratio)), max(high, extent(r.High), extent(r.Ratio))
	}
	low, high = max(low/1.1, 1e-4), min(high*1.1, 1e4)
	height := 0.0
	at := make([]float64, len(rows))
	group := ""
	var ticks plot.ConstantTicks
	for i, r := range rows {
		if r.Group != group {
			group = r.Group
			height += forestHead
		}
		at[i] = height + forestPitch*0.4
		height += forestPitch
	}
	for i, r := range rows {
		ticks = append(ticks, plot.Tick{Value: height - at[i], Label: clip(oneLine(r.Label), 44)})
	}
	x := axis{label: "second variant over first, logarithmic: better to the left, worse to the right", min: low, max: high, log: true, ticks: ratioTicks{}}
	p := newPanel(x, axis{max: height, ticks: ticks, plain: true})
	p.Y.LineStyle.Width, p.Y.Tick.Length, p.Y.Tick.LineStyle.Width = 0, 0, 0
	p.Add(layer(func(c draw.Canvas, p *plot.Plot) { drawForest(c, p, rows, at, height) }))
	for _, v := range []string{"improvement", "regression", "equivalent", "inconclusive"} {
		fig.legend = append(fig.legend, legendItem{v, swatch(verdictColour(v))})
	}
	fig.legend = append(fig.legend, legendItem{"too small to matter", swatch(gridGrey())})
	fig.panels, fig.height = append(fig.panels, p), vg.Length(height)+44
	return fig
}

// extent keeps a ratio within what can be drawn.
func extent(v float64) float64 {
	if math.IsNaN(v) || v <= 0 {
		return 1e-4
	}
	return min(max(v, 1e-4), 1e4)
}

// drawForest draws the rows on their lines.
func drawForest(c draw.Canvas, p *plot.Plot, rows []ForestRow, at []float64, height float64) {
	tx, ty := p.Transforms(&c)
	x := func(v float64) vg.Length { return min(max(tx(extent(v)), c.Min.X), c.Max.X) }
	group := ""
	for i, r := range rows {
		y := ty(height - at[i])
		if r.Group != group {
			group = r.Group
			c.FillText(lettering(10, ink(), true), vg.Point{X: c.Min.X + 2, Y: y + 15}, clip(oneLine(group), 70))
		}
		c.FillPolygon(gridGrey(), box(x(1/(1+r.Floor)), y-8, x(1+r.Floor), y+8))
	}
	for _, t := range (ratioTicks{}).Ticks(p.X.Min, p.X.Max) {
		style := line(gridGrey(), 0.6)
		if t.Value == 1 {
			style = line(axisGrey(), 1)
		}
		c.StrokeLine2(style, tx(t.Value), c.Min.Y, tx(t.Value), c.Max.Y)
	}
	for i, r := range rows {
		y, colour := ty(height-at[i]), verdictColour(r.Verdict)
		for _, d := range r.Dots {
			c.DrawGlyphNoClip(draw.GlyphStyle{Color: faint(colour, 0.35), Radius: 1.6, Shape: draw.CircleGlyph{}}, vg.Point{X: x(d), Y: y + 4})
		}
		c.StrokeLine2(line(colour, 1.6), x(r.Low), y, x(r.High), y)
		for _, end := range []float64{r.Low, r.High} {
			c.StrokeLine2(line(colour, 1.6), x(end), y-3, x(end), y+3)
		}
		var shape draw.GlyphDrawer = draw.BoxGlyph{}
		if r.Verdict == "inconclusive" {
			shape = draw.SquareGlyph{}
		}
		c.DrawGlyphNoClip(draw.GlyphStyle{Color: colour, Radius: 3.2, Shape: shape}, vg.Point{X: x(r.Ratio), Y: y})
		s := lettering(8, dim(), false)
		words := clip(oneLine(r.Text), 90)
		from := x(r.Low)
		if w := s.Width(words); from+w > c.Max.X {
			s.XAlign, from = text.XRight, c.Max.X
		}
		c.FillText(s, vg.Point{X: from, Y: y - 12}, words)
	}
}

// ratioTicks mark a logarithmic axis of ratios around 1.
type ratioTicks struct{}

// Ticks returns the marks from min to max.
func (ratioTicks) Ticks(min, max float64) (ticks []plot.Tick) {
	marks := []float64{0.0001, 0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 1000, 10000}
	if max/min < 8 {
		marks = []float64{0.2, 0.25, 0.33, 0.5, 0.67, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 4, 5}
	}
	for _, v := range marks {
		if v >= min*(1-1e-9) && v <= max*(1+1e-9) {
			ticks = append(ticks, plot.Tick{Value: v, Label: strings.TrimSuffix(formatRatio(v), ".00")})
		}
	}
	return ticks
}
