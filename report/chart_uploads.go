package report

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"statebench.dev/bench/internal/history"

	"github.com/HdrHistogram/hdrhistogram-go"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"
)

// Causes of the puts of segments of the log: a first attempt or a retry, and a second attempt beside a slow one.
const (
	causeLog   = "log"
	causeHedge = "hedge"
)

// uploads are the puts of segments of about one size.
type uploads struct {
	count, bytes int64
	took         *hdrhistogram.Histogram // microseconds
}

// upload adds a put of a segment that succeeded and that no fault touched, by the power of two that its size is below.
func (t *traffic) upload(q *history.Request) {
	if q.Cause != causeLog && q.Cause != causeHedge || q.Op != history.OpPut || q.Error != "" || q.Injected || q.Open || q.Bytes <= 0 || q.Duration < 0 {
		return
	}
	class := bits.Len64(uint64(q.Bytes))
	u := t.uploads[class]
	if u == nil {
		u = &uploads{took: hdrhistogram.New(1, maxMicros, 3)}
		t.uploads[class] = u
	}
	u.count, u.bytes = u.count+1, u.bytes+q.Bytes
	_ = u.took.RecordValue(min(q.Duration.Microseconds(), maxMicros)) // it is in range
}

// minUploads is how many puts of a size make a dot.
const minUploads = 5

// uploadCurve is what a put of a segment took, and the bytes a second that makes, against its size: a point a class of sizes that there
// are enough of. all counts every put.
func (a *arm) uploadCurve() (took, speed []point, all int64) {
	classes := map[int]*uploads{}
	for _, r := range a.runs {
		for class, u := range r.traffic.uploads { // order-free: sums
			sum := classes[class]
			if sum == nil {
				sum = &uploads{took: hdrhistogram.New(1, maxMicros, 3)}
				classes[class] = sum
			}
			sum.count, sum.bytes = sum.count+u.count, sum.bytes+u.bytes
			sum.took.Merge(u.took)
		}
	}
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		u := classes[class]
		all += u.count
		if u.count < minUploads {
			continue
		}
		size, median := float64(u.bytes)/float64(u.count), float64(max(1, u.took.ValueAtQuantile(50)))
		took = append(took, point{size, median / 1000})
		speed = append(speed, point{size, size / median * 1e6})
	}
	return took, speed, all
}

// uploadsChart is what the log's writer gets from the store: how long a put of a segment takes by its size, and how fast one put is.
func uploadsChart(inv *Invocation) *figure {
	all := inv.arms()
	f := &figure{title: "Uploads of the log", height: 380,
		about: "Median time of a put of a segment of the log, and the bytes a second that makes for one put, against the size of the segment; a colour an arm, a dot a class of sizes."}
	took, speed := make([][]point, len(all)), make([][]point, len(all))
	var n []string
	largest, slowest, fastest := 0.0, 0.0, 0.0
	for i, a := range all {
		var count int64
		took[i], speed[i], count = a.uploadCurve()
		n = append(n, fmt.Sprintf("%s (%s)", formatCount(count), a.name))
		for k := range took[i] {
			largest, slowest, fastest = max(largest, took[i][k].x), max(slowest, took[i][k].y), max(fastest, speed[i][k].y)
		}
	}
	f.caption = dotted(inv.head(), list(n)+" puts of segments that no fault touched", fmt.Sprintf("a dot is of %d or more", minUploads))
	if slowest <= 0 {
		f.empty = "Nothing to show: there are too few puts of segments of a log."
		return f
	}
	x := byteSteps(8)
	panel := func(label string, ticks steps, top float64, points [][]point) *plot.Plot {
		p := newPanel(axis{label: "segment", max: x.round(max(largest, 1)), ticks: x}, axis{label: label, max: ticks.round(top), ticks: ticks})
		for i := range all {
			colour := armColour(all, i)
			p.Add(polyline(points[i], line(colour, 1.2)), dots(points[i], draw.GlyphStyle{Color: colour, Radius: 3, Shape: draw.CircleGlyph{}}))
		}
		return p
	}
	for i, a := range all {
		f.legend = append(f.legend, legendItem{a.name, stroke(line(armColour(all, i), 1.6))})
	}
	f.panels = append(f.panels, panel("median of a put", milliSteps(6), slowest, took), panel("a second, of one put", byteSteps(6), fastest, speed))
	return f
}
