package keygroup

import "testing"

// The vectors were computed by hand from Flink's formulas: start = ceil(i*max/p), end = floor(((i+1)*max-1)/p).
func TestRangeOfMatchesFlink(t *testing.T) {
	for _, c := range []struct {
		i, p, max int
		want      Range
	}{
		{0, 1, 128, Range{0, 128}}, {0, 3, 128, Range{0, 43}}, {1, 3, 128, Range{43, 86}}, {2, 3, 128, Range{86, 128}},
		{0, 4, 10, Range{0, 3}}, {1, 4, 10, Range{3, 5}}, {2, 4, 10, Range{5, 8}}, {3, 4, 10, Range{8, 10}},
	} {
		if got := RangeOf(c.i, c.p, c.max); got != c.want {
			t.Errorf("RangeOf(%d,%d,%d) = %v, want %v", c.i, c.p, c.max, got, c.want)
		}
	}
}

func TestRangesCoverAndAgreeWithSubtaskOf(t *testing.T) {
	for _, max := range []int{1, 2, 7, 128, 1000, MaxParallelism} {
		for p := 1; p <= max && p <= 300; p++ {
			next := ID(0)
			for i := range p {
				r := RangeOf(i, p, max)
				if r.From != next && max < 1<<15 {
					t.Fatalf("p=%d max=%d subtask %d starts at %d, want %d", p, max, i, r.From, next)
				}
				for g := r.From; g < r.To; g++ {
					if got := SubtaskOf(g, p, max); got != i {
						t.Fatalf("SubtaskOf(%d,%d,%d) = %d, want %d", g, p, max, got, i)
					}
				}
				next = r.To
			}
			if int(next) != max {
				t.Fatalf("p=%d max=%d ends at %d", p, max, next)
			}
		}
	}
}

// The hash codes are those that Java documents for Long, String and byte arrays.
func TestHashCodesAreJavas(t *testing.T) {
	if got := HashString("hello"); got != 99162322 {
		t.Errorf(`HashString("hello") = %d, want 99162322`, got)
	}
	if got := HashInt64(1<<32 + 5); got != 4 {
		t.Errorf("HashInt64(1<<32+5) = %d, want 4", got)
	}
	if got := HashInt64(-1); got != 0 {
		t.Errorf("HashInt64(-1) = %d, want 0", got)
	}
	if got := HashBytes([]byte{1, 2, 0xff}); got != 31*(31*(31+1)+2)-1 {
		t.Errorf("HashBytes = %d", got)
	}
}
