package explore

import (
	"slices"
	"testing"
)

func TestDdmin(t *testing.T) {
	for _, c := range []struct {
		n    int
		need []int
	}{
		{0, nil}, {1, []int{0}}, {1, nil}, {12, []int{7}}, {12, []int{0, 11}}, {13, []int{3, 4, 9}}, {12, nil}, {5, []int{0, 1, 2, 3, 4}},
	} {
		tried := 0
		got := ddmin(c.n, func(keep []int) bool {
			tried++
			return !slices.ContainsFunc(c.need, func(x int) bool { return !slices.Contains(keep, x) })
		})
		if !slices.Equal(got, c.need) {
			t.Errorf("of %d the failing ones are %v, got %v", c.n, c.need, got)
		}
		if most := 4 + c.n*c.n; tried > most {
			t.Errorf("%d elements took %d tries", c.n, tried)
		}
	}
}
