package report

import (
	"image/color"
	"math"
	"strings"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Colours that carry no meaning of their own. The page replaces them in dark mode, so each is used for one purpose.
func ink() color.Color      { return rgb(0x22272E) } // text
func dim() color.Color      { return rgb(0x5C6570) } // captions, labels of bands
func axisGrey() color.Color { return rgb(0x8A929B) }
func gridGrey() color.Color { return rgb(0xE1E4E8) }
func paper() color.Color    { return rgb(0xFFFFFF) }
func mark() color.Color     { return rgb(0xD5D9DE) } // the word "simulated"
func faultTint() color.Color {
	return rgb(0xFAE6E1)
}
func rescaleTint() color.Color {
	return rgb(0xE4EEF6)
}

// themed lists the colours above that a dark page exchanges, with the names that report.css gives them.
func themed() [][2]string {
	return [][2]string{
		{"#22272E", "--plot-ink"}, {"#5C6570", "--plot-dim"}, {"#8A929B", "--plot-axis"}, {"#E1E4E8", "--plot-grid"},
		{"#FFFFFF", "--plot-paper"}, {"#D5D9DE", "--plot-mark"}, {"#FAE6E1", "--plot-fault"}, {"#E4EEF6", "--plot-rescale"},
	}
}

func rgb(hex uint32) color.Color {
	return color.RGBA{R: uint8(hex >> 16), G: uint8(hex >> 8), B: uint8(hex), A: 255}
}

// armColour is the colour of an arm everywhere: grey-blue for the baseline, then the Okabe-Ito palette from orange on.
func armColour(all []*arm, i int) color.Color {
	if all[i].baseline {
		return rgb(0x5F84A6)
	}
	palette := []uint32{0xE69F00, 0x009E73, 0xCC79A7, 0x0072B2, 0xD55E00, 0x56B4E9}
	n := 0
	for _, a := range all[:i] {
		if !a.baseline {
			n++
		}
	}
	return rgb(palette[n%len(palette)])
}

// faint is a colour through which what lies behind shows; share is how much of it covers.
func faint(c color.Color, share float64) color.Color {
	r, g, b, _ := c.RGBA()
	return color.NRGBA{R: uint8(r >> 8), G: uint8(g >> 8), B: uint8(b >> 8), A: uint8(math.Round(255 * share))}
}

// lettering is text of a size and colour.
func lettering(size vg.Length, c color.Color, bold bool) text.Style {
	s := text.Style{Color: c, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}, Handler: plot.DefaultTextHandler}
	if bold {
		s.Font.Weight = xfont.WeightBold
	}
	return s
}

func line(c color.Color, width vg.Length, dashes ...vg.Length) draw.LineStyle {
	return draw.LineStyle{Color: c, Width: width, Dashes: dashes}
}

// newPanel is a plot in the common style: grey axes, horizontal grid, no title.
func newPanel(x, y axis) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	for a, want := range map[*plot.Axis]axis{&p.X: x, &p.Y: y} { // order-free: each axis for itself
		a.Min, a.Max = want.min, want.max
		a.LineStyle = line(axisGrey(), 0.8)
		a.Tick.LineStyle = line(axisGrey(), 0.8)
		a.Tick.Length = 4
		a.Tick.Marker = want.ticks
		a.Tick.Label.Color, a.Tick.Label.Handler = ink(), plot.DefaultTextHandler
		a.Tick.Label.Font = lettering(10, ink(), false).Font
		a.Label.Text = want.label
		a.Label.TextStyle.Color = ink()
		a.Label.TextStyle.Font = lettering(11, ink(), false).Font
		a.Padding = 3
		if want.log {
			a.Scale = plot.LogScale{}
		}
	}
	if y.plain {
		return p
	}
	p.Add(layer(func(c draw.Canvas, p *plot.Plot) {
		_, ty := p.Transforms(&c)
		for _, t := range y.ticks.Ticks(y.min, y.max) {
			if at := ty(t.Value); t.Label != "" && at > c.Min.Y+1 {
				c.StrokeLine2(line(gridGrey(), 0.8), c.Min.X, at, c.Max.X, at)
			}
		}
	}))
	return p
}

// axis is one axis of a panel.
type axis struct {
	label    string
	min, max float64
	log      bool
	plain    bool // without grid lines
	ticks    plot.Ticker
}

// layer is a plotter: it draws on the data area.
type layer func(c draw.Canvas, p *plot.Plot)

// Plot draws the layer.
func (l layer) Plot(c draw.Canvas, p *plot.Plot) { l(c, p) }

// steps are the tick marks of a linear axis: the smallest of a rising list of steps that makes at most most of them.
type steps struct {
	most  int
	list  []float64
	label func(v float64) string
}

// Ticks returns the marks from min to max.
func (s steps) Ticks(min, max float64) (ticks []plot.Tick) {
	step := s.step(max - min)
	for i := 0; i <= s.most+1; i++ {
		v := (math.Ceil(min/step) + float64(i)) * step
		if v > max*(1+1e-9) {
			break
		}
		ticks = append(ticks, plot.Tick{Value: v, Label: s.label(v)})
	}
	return ticks
}

func (s steps) step(span float64) float64 {
	for _, st := range s.list {
		if span/st <= float64(s.most) {
			return st
		}
	}
	st := s.list[len(s.list)-1]
	for span/st > float64(s.most) {
		st *= 2
	}
	return st
}

// round is the end of an axis from zero that holds v: a whole number of steps.
func (s steps) round(v float64) float64 {
	if v <= 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return s.list[0]
	}
	step := s.step(v)
	return math.Ceil(v/step) * step
}

// secondSteps mark run time.
func secondSteps(most int) steps {
	return steps{most: most, list: []float64{0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400},
		label: func(v float64) string { return trimmed(v * 1000) }}
}

// milliSteps mark durations given in milliseconds, in 1-2-5 steps.
func milliSteps(most int) steps {
	s := steps{most: most, label: trimmed}
	for p := 1e-3; p < 1e4; p *= 10 {
		s.list = append(s.list, p, 2*p, 5*p)
	}
	s.list = append(s.list, 1e4, 1.5e4, 3e4, 6e4, 1.2e5, 3e5, 6e5, 1.8e6, 3.6e6)
	return s
}

// byteSteps mark sizes in powers of two.
func byteSteps(most int) steps {
	s := steps{most: most, label: func(v float64) string { return strings.Replace(trim(formatBytes(v)), "1024 ", "1,024 ", 1) }}
	for p := 1.0; p < 1e18; p *= 2 {
		s.list = append(s.list, p)
	}
	return s
}

// trimmed writes a duration in milliseconds for an axis: 2 s, not 2.00 s, and 60 s, not 1 min, up to two minutes.
func trimmed(ms float64) string {
	switch a := math.Abs(ms); {
	case a == 0:
		return "0"
	case a >= 180_000 && a < 7_200_000:
		return trim(digits(ms/60_000)) + " min"
	default:
		return trim(formatMillis(ms))
	}
}

// trim drops zeros behind the point.
func trim(s string) string {
	number, unit, _ := strings.Cut(s, " ")
	if strings.Contains(number, ".") {
		number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
	}
	return strings.TrimSpace(number + " " + unit)
}

// logMillis are the 1-2-5 marks of a logarithmic axis of durations. Over more than four decades only powers of ten are
// named, over more than twelve only some of them.
type logMillis struct{}

// Ticks returns the marks from min to max.
func (logMillis) Ticks(min, max float64) (ticks []plot.Tick) {
	low, high := math.Floor(math.Log10(min)), math.Ceil(math.Log10(max))
	every := math.Ceil((high - low) / 12)
	for e := low; e <= high; e++ {
		for _, m := range []float64{1, 2, 5} {
			v := m * math.Pow(10, e)
			if v < min*(1-1e-9) || v > max*(1+1e-9) {
				continue
			}
			label := trimmed(v)
			if m != 1 && high-low > 4 || math.Mod(e-low, every) != 0 {
				label = ""
			}
			ticks = append(ticks, plot.Tick{Value: v, Label: label})
		}
	}
	return ticks
}

// logRange is a range of 1-2-5 marks that holds low to high, both positive, and spans two marks at least.
func logRange(low, high float64) (from, to float64) {
	low, high = max(low, 1e-6), max(high, 1e-6)
	floor := func(v float64) float64 {
		p := math.Pow(10, math.Floor(math.Log10(v)))
		for _, m := range []float64{5, 2, 1} {
			if m*p <= v*(1+1e-9) {
				return m * p
			}
		}
		return p
	}
	from, to = floor(low*0.9), floor(high*1.1)
	for to < high*1.1 {
		to = floor(to * 2.6) // the next of 1, 2, 5
	}
	return from, to
}
