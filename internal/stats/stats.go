// Package stats turns samples into figures, or into the reason why there is none.
//
// A percentile is an observed value (nearest rank) and is given only with enough samples around it: ten beyond it, that is
// 10/(1-q) in all, so 20 for the median and 1,000 for the 99th percentile. What cannot be trusted is a Figure that carries
// a warning in place of a number, so that a report prints the reason where the number would stand. Percentiles are never
// averaged: merge the samples and ask again.
package stats

import (
	"fmt"
	"math"
	"strconv"

	"github.com/montanaflynn/stats"
)

// Figure is a number with the size of the sample it comes from, or the reason why there is no number.
type Figure struct {
	// Value is the number; it means nothing when Warning is not empty.
	Value float64
	// N is the number of samples.
	N int
	// Need is the number of samples that the figure takes, 0 where any number will do.
	Need int
	// Warning says why there is no number; empty: there is one.
	Warning string
}

// OK tells whether there is a number.
func (f Figure) OK() bool { return f.Warning == "" }

// None is the absence of a number, for the given reason.
func None(n int, reason string) Figure { return Figure{N: n, Warning: reason} }

// Needed is how many samples percentile q takes, with 0 < q < 1: ten on its thinner side, as the median has ten on each.
func Needed(q float64) int {
	thin := min(q, 1-q)
	if thin <= 0 || math.IsNaN(thin) {
		return math.MaxInt
	}
	return int(math.Ceil(10/thin - 1e-6)) // 10/(1-0.99) is a little above 1,000 in floating point
}

// Quantile is the q-quantile (0 < q < 1) of the samples by nearest rank: a value that was observed. With fewer than
// Needed(q) samples, or with one that is no finite number, it warns. The samples are not changed.
func Quantile(samples []float64, q float64) Figure {
	if f := check(samples); !f.OK() {
		return f
	}
	n, need := len(samples), Needed(q)
	if n < need {
		return Figure{N: n, Need: need, Warning: fmt.Sprintf("too few samples (%s of %s needed)", count(n), count(need))}
	}
	v, err := stats.PercentileNearestRank(samples, q*100)
	if err != nil {
		return None(n, err.Error())
	}
	return Figure{Value: v, N: n, Need: need}
}

// Middle is the median by nearest rank without a minimum of samples: a line to guide the eye in a picture that shows every
// sample beside it, never a figure on its own.
func Middle(samples []float64) Figure {
	f := check(samples)
	if !f.OK() {
		return f
	}
	v, err := stats.PercentileNearestRank(samples, 50)
	if err != nil {
		return None(len(samples), err.Error())
	}
	f.Value = v
	return f
}

// Mean is the arithmetic mean of the samples. It warns when there are none, or one is no finite number.
func Mean(samples []float64) Figure {
	if f := check(samples); !f.OK() {
		return f
	}
	v, err := stats.Mean(samples)
	if err != nil {
		return None(len(samples), err.Error())
	}
	return Figure{Value: v, N: len(samples)}
}

// Ratio is f in relation to base. It warns when either has no number or base is not positive.
func Ratio(f, base Figure) Figure {
	n := min(f.N, base.N)
	switch {
	case !f.OK():
		return None(n, f.Warning)
	case !base.OK():
		return None(n, base.Warning)
	case base.Value <= 0:
		return None(n, "nothing to relate to")
	}
	r := f.Value / base.Value
	if math.IsInf(r, 0) {
		return None(n, "the ratio is too large")
	}
	return Figure{Value: r, N: n}
}

func check(samples []float64) Figure {
	if len(samples) == 0 {
		return None(0, "no samples")
	}
	bad := 0
	for _, v := range samples {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			bad++
		}
	}
	if bad > 0 {
		return None(len(samples), fmt.Sprintf("%s of %s samples are no finite numbers", count(bad), count(len(samples))))
	}
	return Figure{N: len(samples)}
}

// count writes n with a comma at the thousands.
func count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
