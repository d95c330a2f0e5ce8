package stats

import (
	"cmp"
	"slices"
)

// Holm adjusts the probabilities of several tests so that those at or below a level are together wrong with at most that
// probability, however the tests depend on one another. The order is that of p, which is not changed.
func Holm(p []float64) []float64 {
	order := byProbability(p)
	out := make([]float64, len(p))
	most := 0.0
	for rank, i := range order {
		most = max(most, min(1, p[i]*float64(len(p)-rank)))
		out[i] = most
	}
	return out
}

// BenjaminiHochberg adjusts the probabilities of several tests so that of those at or below a level at most that share is
// wrong in the mean, for tests that are independent or depend on one another positively. The order is that of p, which is not
// changed.
func BenjaminiHochberg(p []float64) []float64 {
	order := byProbability(p)
	out := make([]float64, len(p))
	least := 1.0
	for rank := len(order) - 1; rank >= 0; rank-- {
		i := order[rank]
		least = min(least, p[i]*float64(len(p))/float64(rank+1))
		out[i] = least
	}
	return out
}

// byProbability are the indices of p, smallest first.
func byProbability(p []float64) []int {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	return order
}
