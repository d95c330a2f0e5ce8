package stats

import (
	"math"
	"strings"
	"testing"
)

func ramp(n int) []float64 {
	s := make([]float64, n)
	for i := range s {
		s[i] = float64((i*7)%n + 1) // 1 to n, shuffled, for n that 7 does not divide
	}
	return s
}

func TestNeededIsTenBeyondThePercentile(t *testing.T) {
	for q, want := range map[float64]int{0.5: 20, 0.9: 100, 0.95: 200, 0.99: 1000, 0.999: 10000, 0.01: 1000, 1: math.MaxInt, 0: math.MaxInt} {
		if got := Needed(q); got != want {
			t.Errorf("Needed(%v) = %d, want %d", q, got, want)
		}
	}
}

func TestQuantileIsAnObservedValue(t *testing.T) {
	s := ramp(1000)
	if f := Quantile(s, 0.99); !f.OK() || f.Value != 990 || f.N != 1000 {
		t.Errorf("p99 is %+v", f)
	}
	if f := Quantile(s, 0.5); f.Value != 500 {
		t.Errorf("p50 is %+v", f)
	}
	if s[1] != 8 {
		t.Error("the samples were changed")
	}
}

func TestQuantileWithoutEnoughSamplesIsAReason(t *testing.T) {
	f := Quantile(ramp(999), 0.99)
	if f.OK() || f.N != 999 || f.Need != 1000 || f.Warning != "too few samples (999 of 1,000 needed)" {
		t.Errorf("%+v", f)
	}
	for _, f := range []Figure{Quantile(nil, 0.5), Mean(nil), Quantile([]float64{1, math.NaN()}, 0.5), Mean([]float64{math.Inf(1)}),
		TimeWeighted(nil, 0.5), TimeWeighted([]Span{{1, 1}}, 0.5),
		TimeWeighted([]Span{{0, math.NaN()}}, 0.5)} {
		if f.OK() || strings.TrimSpace(f.Warning) == "" {
			t.Errorf("a number came out: %+v", f)
		}
	}
}

func TestRatioNeedsTwoNumbers(t *testing.T) {
	one, two, none := Mean([]float64{1}), Mean([]float64{2}), Mean(nil)
	if r := Ratio(one, two); !r.OK() || r.Value != 0.5 {
		t.Errorf("%+v", r)
	}
	for _, r := range []Figure{Ratio(none, two), Ratio(one, none), Ratio(one, Mean([]float64{0})), Ratio(Mean([]float64{1e300}), Mean([]float64{1e-300}))} {
		if r.OK() {
			t.Errorf("a number came out: %+v", r)
		}
	}
}

func TestTimeWeightedCountsInstants(t *testing.T) {
	// Nine quick checkpoints, one slow one: half of the time belongs to the slow one.
	spans := []Span{{0, 9}}
	for range 9 {
		spans = append(spans, Span{0, 1})
	}
	if f := TimeWeighted(spans, 0.5); math.Abs(f.Value-0.9) > 1e-9 {
		t.Errorf("p50w is %v, want 0.9", f.Value)
	}
	if f := TimeWeighted(spans, 0.99); math.Abs(f.Value-8.82) > 1e-9 {
		t.Errorf("p99w is %v, want 8.82", f.Value)
	}
	// A gap: no instant has a value between the spans.
	if f := TimeWeighted([]Span{{0, 1}, {5, 6}}, 0.75); math.Abs(f.Value-5.5) > 1e-9 {
		t.Errorf("p75w is %v, want 5.5", f.Value)
	}
}
