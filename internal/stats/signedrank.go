package stats

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/montanaflynn/stats"
)

// Shift is how far values lie from zero, or one sample from another, with what is known of it.
type Shift struct {
	// N is the number of differences, or of values of both samples together.
	N int
	// Estimate is that of Hodges and Lehmann, in the unit of the values.
	Estimate float64
	// Low and High bound the interval, both included. They are infinite where so few values can give none of the level.
	Low, High float64
	// Level is what the interval covers in truth: at least what was asked for, since ranks come in steps.
	Level float64
	// Statistic is the rank sum: W+ of the signed ranks, U of the values of the second sample.
	Statistic float64
	// P is the exact two-sided probability of a statistic at least this far from its middle, if there were no shift.
	P float64
}

// Excludes tells whether the interval does not hold v.
func (s Shift) Excludes(v float64) bool { return v < s.Low || v > s.High }

// errNoShift is returned for samples that no test can be made of.
var errNoShift = errors.New("no values") // read-only: an error

// SignedRank is Wilcoxon's signed-rank test of differences against zero, exact for any number of them, with the
// Hodges–Lehmann estimate (the median of all averages of two differences, of one with itself too) and its interval for a
// level in (0, 1).
//
// Zeros keep their ranks and count for neither side, ties share the mean of their ranks (Pratt); the distribution is that
// over all choices of signs of exactly these ranks, so that it is exact with them too. The statistic then counts the averages
// above zero, and those at zero half. The interval takes the ranks of a sample without ties, whose closed interval covers no
// less when there are some (Noether 1967). Time grows with the third power of the number, 5 ms at 200. d is not changed; an
// error says that it is empty or holds what is no finite number.
func SignedRank(d []float64, level float64) (Shift, error) {
	if f := check(d); !f.OK() {
		return Shift{N: len(d)}, fmt.Errorf("%w: %s", errNoShift, f.Warning)
	}
	n := len(d)
	ranks, w := signedRanks(d)
	walsh := make([]float64, 0, n*(n+1)/2)
	for i, x := range d {
		for _, y := range d[i:] {
			walsh = append(walsh, x/2+y/2) // the sum may be too large
		}
	}
	s := Shift{N: n, Statistic: float64(w) / 2, P: twoSided(flips(ranks), w)}
	plain := make([]int, n)
	for i := range plain {
		plain[i] = i + 1
	}
	return s.between(walsh, flips(plain), level)
}

// between sets estimate and interval from all differences of pairs and the distribution of the number of those on one side.
func (s Shift) between(all, counts []float64, level float64) (Shift, error) {
	slices.Sort(all)
	var err error
	if s.Estimate, err = stats.Median(all); err != nil {
		return s, err
	}
	s.Low, s.High, s.Level = math.Inf(-1), math.Inf(1), 1
	half, below := (1-level)/2, 0.0
	for c, p := range counts[:len(all)/2] {
		if below+p > half {
			break
		}
		below += p
		s.Low, s.High, s.Level = all[c], all[len(all)-1-c], 1-2*below
	}
	return s, nil
}

// signedRanks are twice the ranks of the absolute values, zeros left out, and twice the sum of those above zero.
func signedRanks(d []float64) (ranks []int, positive int) {
	sorted := slices.Clone(d)
	slices.SortFunc(sorted, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	for i := 0; i < len(sorted); {
		k := i
		for k < len(sorted) && math.Abs(sorted[k]) == math.Abs(sorted[i]) {
			k++
		}
		twice := i + 1 + k // of the mean of ranks i+1 to k
		for _, v := range sorted[i:k] {
			if v != 0 {
				ranks = append(ranks, twice)
			}
			if v > 0 {
				positive += twice
			}
		}
		i = k
	}
	return ranks, positive
}

// flips is the distribution of the sum of those ranks whose coin shows heads: the probability of each sum from 0 on.
func flips(ranks []int) []float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	p := make([]float64, total+1)
	p[0] = 1
	top := 0
	for _, r := range ranks {
		top += r
		for s := top; s >= 0; s-- {
			v := p[s] / 2
			if s >= r {
				v += p[s-r] / 2
			}
			p[s] = v
		}
	}
	return p
}

// twoSided is twice the smaller tail of a distribution at w, 1 at most.
func twoSided(p []float64, w int) float64 {
	low, high := 0.0, 0.0
	for _, v := range p[:w+1] {
		low += v
	}
	for i := len(p) - 1; i >= w; i-- {
		high += p[i]
	}
	return min(1, 2*min(low, high))
}

// LeastPairs is the smallest number of pairs of which SignedRank can give an interval of the level: 6 for 0.95, 8 for 0.99.
func LeastPairs(level float64) int {
	n := 1
	for math.Ldexp(2, -n) > 1-level && n < 60 {
		n++
	}
	return n
}
