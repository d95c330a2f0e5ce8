package workloads

import "math"

// aliasTable draws from a fixed distribution in constant time (Walker's alias method, built as Vose describes): column i
// is kept with probability keep/2^32, else its alias is taken.
type aliasTable struct {
	columns []aliasColumn
}

type aliasColumn struct {
	keep, alias uint32
}

// newZipf makes the distribution in which rank r, from 0, of n has a weight of (r+1)^-s; 1 <= n < 1<<32, s > 0. It
// takes 8 bytes a rank.
func newZipf(n int64, s float64) *aliasTable {
	weights, sum := make([]float64, n), 0.0
	for r := range weights {
		weights[r] = math.Pow(float64(r+1), -s)
		sum += weights[r]
	}
	t := &aliasTable{columns: make([]aliasColumn, n)}
	small, large := make([]uint32, 0, n), make([]uint32, 0)
	for r := range weights {
		weights[r] *= float64(n) / sum
		if weights[r] < 1 {
			small = append(small, uint32(r))
		} else {
			large = append(large, uint32(r))
		}
	}
	for len(small) > 0 && len(large) > 0 {
		lean, rich := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		t.columns[lean] = aliasColumn{keep: uint32(weights[lean] * (1 << 32)), alias: rich}
		if weights[rich] -= 1 - weights[lean]; weights[rich] < 1 {
			large, small = large[:len(large)-1], append(small, rich)
		}
	}
	for _, full := range [2][]uint32{small, large} { // what rounding left over
		for _, r := range full {
			t.columns[r] = aliasColumn{keep: math.MaxUint32, alias: r}
		}
	}
	return t
}

// pick turns a uniform column and a uniform fraction of 2^32 into a rank.
func (t *aliasTable) pick(column uint64, fraction uint32) int64 {
	c := t.columns[column]
	if fraction < c.keep {
		return int64(column)
	}
	return int64(c.alias)
}
