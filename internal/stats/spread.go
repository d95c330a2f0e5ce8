package stats

import (
	"math"

	"github.com/montanaflynn/stats"
)

// Normal is the q-quantile of the standard normal distribution, 0 < q < 1.
func Normal(q float64) float64 { return math.Sqrt2 * math.Erfinv(2*q-1) }

// Spread is the robust standard deviation of the values: 1.4826 times the median distance from the median, which is the
// standard deviation of normal ones. Where more than half of them are equal it is the plain standard deviation, since that
// they differ at all must not be lost. It warns with fewer than two values.
func Spread(values []float64) Figure {
	f := check(values)
	if !f.OK() {
		return f
	}
	if f.N < 2 {
		return None(f.N, "one value has no spread")
	}
	mad, err := stats.MedianAbsoluteDeviation(values)
	if err != nil {
		return None(f.N, err.Error())
	}
	f.Value = mad / Normal(0.75)
	if f.Value == 0 {
		if f.Value, err = stats.StandardDeviationSample(values); err != nil {
			return None(f.N, err.Error())
		}
	}
	return f
}

// Median is the middle of the values, the mean of the two in the middle of an even number. It serves to put runs together,
// whose number is small by nature; a percentile of samples is Quantile's. It warns when there are none.
func Median(values []float64) Figure {
	f := check(values)
	if !f.OK() {
		return f
	}
	v, err := stats.Median(values)
	if err != nil {
		return None(f.N, err.Error())
	}
	f.Value = v
	return f
}

// power is the probability with which an effect of the detectable size is found.
const power = 0.8

// efficiency is how much wider intervals of signed ranks are than those of normal values' means.
const efficiency = 1.02

// factor is the detectable effect of n pairs in standard errors of a mean. Student's quantiles take the place of normal ones
// because the spread of a few pairs is not known well: without them an effect said to be found in 80 % of the cases is found
// in 67 % at 15 pairs.
func factor(n int, level float64) float64 {
	return efficiency * (student((1+level)/2, n-1) + student(power, n-1))
}

// student is the q-quantile of Student's distribution, by the first terms of its expansion in 1/degrees (Fisher and Cornish
// 1960), good to 1 % from 5 degrees on for what is asked of it here.
func student(q float64, degrees int) float64 {
	z, v := Normal(q), float64(max(degrees, 1))
	z3 := z * z * z
	z5 := z3 * z * z
	return z + (z3+z)/(4*v) + (5*z5+16*z3+3*z)/(96*v*v) + (3*z5*z*z+19*z5+17*z3-15*z)/(384*v*v*v)
}

// Detectable is the effect that n pairs whose differences have the given spread find with probability 0.8 by an interval of
// the level, in the unit of the spread.
func Detectable(spread float64, n int, level float64) float64 {
	return factor(n, level) * spread / math.Sqrt(float64(n))
}

// Reserve is how much of Detectable is there for the effect to be estimated above a bound, not only found, with probability
// 0.8: what has to lie between the bound and the effect.
func Reserve(spread float64, n int) float64 {
	return efficiency * student(power, n-1) * spread / math.Sqrt(float64(n))
}

// FromInterval is the standard deviation of the differences that an interval of the level, of n pairs and as wide as twice half,
// stands for. Where it is larger than Spread some differences lie far out.
func FromInterval(half float64, n int, level float64) float64 {
	return half * math.Sqrt(float64(n)) / (efficiency * student((1+level)/2, n-1))
}

// PairsFor is the number of pairs that find an effect with probability 0.8, at least LeastPairs of the level. It is
// math.MaxInt32 where no number of pairs would do.
func PairsFor(effect, spread float64, level float64) int {
	n := LeastPairs(level)
	for range 3 { // the factor hardly depends on n
		root := factor(n, level) * spread / effect
		need := math.Ceil(root*root - 1e-9)
		if math.IsNaN(need) || need > math.MaxInt32 {
			return math.MaxInt32
		}
		n = max(int(need), LeastPairs(level))
	}
	return n
}

// Segments into which Drift cuts a window, and the fewest values a segment may have.
const driftSegments = 25

// Drift tells how far the last third of a window lies from its first, as a share of the first, and whether that is more than
// noise: more than 5 % and than twice the spread (median distance from the median) of the medians of its 25 segments. values
// are those of the window in order of time. It is false for fewer values than segments, or a first third around 0.
func Drift(values []float64) (change float64, drifting bool) {
	if !check(values).OK() || len(values) < driftSegments {
		return 0, false
	}
	medians := make([]float64, driftSegments)
	for i := range medians {
		medians[i] = Median(values[i*len(values)/driftSegments : (i+1)*len(values)/driftSegments]).Value
	}
	third := driftSegments / 3
	first, last := Median(medians[:third]).Value, Median(medians[driftSegments-third:]).Value
	mad, err := stats.MedianAbsoluteDeviation(medians)
	if err != nil || first == 0 {
		return 0, false
	}
	apart := math.Abs(last - first)
	return (last - first) / math.Abs(first), apart > max(0.05*math.Abs(first), 2*mad)
}
