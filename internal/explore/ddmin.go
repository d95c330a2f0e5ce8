package explore

import "slices"

// ddmin returns a part of 0 ... n-1, in order, that fails and of which no piece of the last size tried can be left out: Zeller's
// delta debugging. fails is not asked of the whole, which is known to fail.
func ddmin(n int, fails func(keep []int) bool) []int {
	keep := make([]int, n)
	for i := range keep {
		keep[i] = i
	}
	if n > 0 && fails(nil) {
		return nil
	}
	for pieces := 2; len(keep) > 1; {
		if smaller, ok := without(keep, pieces, fails); ok {
			keep, pieces = smaller, max(pieces-1, 2)
			continue
		}
		if pieces == len(keep) {
			break
		}
		pieces = min(2*pieces, len(keep))
	}
	return keep
}

// without leaves one of so many pieces out, the first without which the rest fails.
func without(keep []int, pieces int, fails func(keep []int) bool) ([]int, bool) {
	for i := range pieces {
		from, to := i*len(keep)/pieces, (i+1)*len(keep)/pieces
		if rest := slices.Concat(keep[:from], keep[to:]); len(rest) > 0 && fails(rest) {
			return rest, true
		}
	}
	return keep, false
}
