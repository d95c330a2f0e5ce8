package stats

import (
	"cmp"
	"math"
	"slices"
)

// Span is a stretch of time in which a quantity grew with the clock, from Low to High: its length is High - Low. The age
// of the newest completed checkpoint is a row of such spans.
type Span struct{ Low, High float64 }

// TimeWeighted is the q-quantile (0 < q < 1) of the quantity over all instants of the spans: at a random instant it is
// below the result with probability q. Every instant counts, so a slow arm does not weigh less for having fewer spans.
// N is the number of spans. It warns when the spans have no length or one is no finite number.
func TimeWeighted(spans []Span, q float64) Figure {
	type edge struct {
		at    float64
		delta int // spans that are open from here on
	}
	var edges []edge
	var total float64
	for _, s := range spans {
		if math.IsNaN(s.Low) || math.IsNaN(s.High) || math.IsInf(s.Low, 0) || math.IsInf(s.High, 0) {
			return None(len(spans), "a span is no finite number")
		}
		if s.High > s.Low {
			total += s.High - s.Low
			edges = append(edges, edge{s.Low, 1}, edge{s.High, -1})
		}
	}
	if total <= 0 || math.IsInf(total, 0) {
		return None(len(spans), "no time to look at")
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	want, below, open, at := q*total, 0.0, 0, edges[0].at
	for _, e := range edges {
		grown := float64(open) * (e.at - at)
		if open > 0 && below+grown >= want {
			return Figure{Value: at + (want-below)/float64(open), N: len(spans)}
		}
		below += grown
		open, at = open+e.delta, e.at
	}
	return Figure{Value: at, N: len(spans)}
}
