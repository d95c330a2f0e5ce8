package stats

import (
	"cmp"
	"fmt"
	"slices"
)

// RankSum is the test of Mann and Whitney of whether values of b are larger than those of a, exact for any number of them
// and with any ties, with the Hodges–Lehmann estimate of the shift from a to b (the median of all differences) and its
// interval for a level in (0, 1). The interval takes the ranks of samples without ties. Time grows with the fourth power of
// the number of values, a second at a hundred a side. The samples are not changed; an error says that one is empty or holds
// what is no finite number.
func RankSum(a, b []float64, level float64) (Shift, error) {
	for _, s := range [][]float64{a, b} {
		if f := check(s); !f.OK() {
			return Shift{N: len(a) + len(b)}, fmt.Errorf("%w: %s", errNoShift, f.Warning)
		}
	}
	ranks, w := jointRanks(a, b)
	differences := make([]float64, 0, len(a)*len(b))
	for _, y := range b {
		for _, x := range a {
			differences = append(differences, y-x)
		}
	}
	if f := check(differences); !f.OK() {
		return Shift{N: len(a) + len(b)}, fmt.Errorf("%w: the values are too large", errNoShift)
	}
	least := len(b) * (len(b) + 1) / 2
	s := Shift{N: len(a) + len(b), Statistic: float64(w)/2 - float64(least), P: twoSided(draws(ranks, len(b)), w)}
	plain := make([]int, len(a)+len(b))
	for i := range plain {
		plain[i] = i + 1
	}
	return s.between(differences, draws(plain, len(b))[least:], level)
}

// jointRanks are twice the ranks in both samples together, ties sharing their mean, and twice the sum of those of b.
func jointRanks(a, b []float64) (ranks []int, ofB int) {
	type ranked struct {
		v     float64
		fromB bool
	}
	var all []ranked
	for _, v := range a {
		all = append(all, ranked{v, false})
	}
	for _, v := range b {
		all = append(all, ranked{v, true})
	}
	slices.SortFunc(all, func(x, y ranked) int { return cmp.Compare(x.v, y.v) })
	for i := 0; i < len(all); {
		k := i
		for k < len(all) && all[k].v == all[i].v {
			k++
		}
		for _, r := range all[i:k] {
			ranks = append(ranks, i+1+k)
			if r.fromB {
				ofB += i + 1 + k
			}
		}
		i = k
	}
	return ranks, ofB
}

// draws is the distribution of the sum of k of the ranks, all choices alike: the probability of each sum from 0 on.
func draws(ranks []int, k int) []float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	p := make([][]float64, k+1) // by number chosen, then sum; after i ranks p[j] holds choices of j of them
	for j := range p {
		p[j] = make([]float64, total+1)
	}
	p[0][0] = 1
	top := 0
	for i, r := range ranks {
		top += r
		// Of i+1 ranks each j-subset holds the newest with probability j/(i+1), so that every p[j] stays a distribution.
		for j := min(k, i+1); j >= 0; j-- {
			with := float64(j) / float64(i+1)
			for s := top; s >= 0; s-- {
				v := p[j][s] * (1 - with)
				if j > 0 && s >= r {
					v += p[j-1][s-r] * with
				}
				p[j][s] = v
			}
		}
	}
	return p[k]
}
