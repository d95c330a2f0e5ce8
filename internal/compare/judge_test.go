package compare

import (
	"math"
	"strings"
	"testing"

	"statebench.dev/bench/internal/metrics"
)

// times are pairs whose second value is the first times a factor each.
func times(a float64, factors ...float64) (pairs []Pair) {
	for i, f := range factors {
		x := a * (1 + 0.01*float64(i%3))
		pairs = append(pairs, Pair{x, x * f})
	}
	return pairs
}

func repeat(f float64, n int) (all []float64) {
	for range n {
		all = append(all, f)
	}
	return all
}

func TestVerdicts(t *testing.T) {
	lower := Rule{Class: Noisy, Better: metrics.Lower, Floor: 0.05, Level: DefaultLevel}
	higher, near, exact, duration := lower, lower, lower, lower
	higher.Better = metrics.Higher
	near.Class, near.Floor = NearExact, NearExactFloor
	exact.Class = Exact
	duration.Absolute = DurationFloor
	worse := []float64{1.2, 1.25, 1.18, 1.22, 1.3, 1.15, 1.21, 1.24}
	noise := []float64{0.7, 1.4, 0.8, 1.3, 0.9, 1.25, 0.75, 1.5}
	for _, c := range []struct {
		name   string
		pairs  []Pair
		rule   Rule
		want   Verdict
		reason string // part of it
	}{
		{"a fifth slower", times(100, worse...), lower, Regression, ""},
		{"a fifth more throughput", times(100, worse...), higher, Improvement, ""},
		{"a sixth less throughput", times(100, 0.8, 0.83, 0.85, 0.8, 0.84, 0.82, 0.83, 0.81), higher, Regression, ""},
		{"the same", times(100, 1, 1.01, 0.99, 1.005, 0.995, 1.002, 0.998, 1.001), lower, Equivalent, ""},
		{"noise", times(100, noise...), lower, Inconclusive, "too much noise"},
		{"seven pairs are enough", times(100, worse[:7]...), lower, Regression, ""},
		{"H10: six are not", times(100, worse[:6]...), lower, Inconclusive, "no test possible with 6 of at least 7 pairs"},
		{"H10: one repetition", times(100, 1.5), lower, Inconclusive, "no test possible with 1 of"},
		{"H05: none", nil, lower, Inconclusive, "no pairs"},
		{"H05: no number", []Pair{{1, math.NaN()}}, lower, Inconclusive, "no finite number"},
		{"H09: a clear difference without any variance", []Pair{{100, 130}, {100, 130}, {100, 130}, {100, 130}, {100, 130}, {100, 130}, {100, 130}, {100, 130}}, lower, Regression, ""},
		{"H09: no variance and no difference", []Pair{{100, 100}, {100, 100}, {100, 100}, {100, 100}, {100, 100}, {100, 100}, {100, 100}}, lower, Equivalent, ""},
		{"I06: sure and too small", times(100, 1.02, 1.021, 1.019, 1.02, 1.022, 1.018, 1.02, 1.02), lower, Equivalent, ""},
		{"I06: sure and perhaps too small", times(100, 1.02, 1.08, 1.03, 1.07, 1.045, 1.05, 1.02, 1.04), lower, Inconclusive, "too small to matter"},
		{"I07: one outlier", times(100, 1, 1.01, 0.99, 9, 1, 0.99, 1.01, 1, 1.005, 0.995, 1, 1.01, 0.99, 1, 1.01), lower, Equivalent, ""},
		{"I08: twice next to nothing", times(0.4, repeat(2, 8)...), duration, Equivalent, ""},
		{"I08: from nothing to little", []Pair{{0, 1}, {0, 1}, {0, 0}, {0, 1}, {0, 2}, {0, 1}, {0, 1}, {0, 1}}, duration, Equivalent, ""},
		{"from nothing to much", []Pair{{0, 10}, {0, 11}, {0, 12}, {0, 9}, {0, 14}, {0, 10}, {0, 13}, {0, 10}}, duration, Regression, ""},
		{"nothing on either side", []Pair{{0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}}, lower, Equivalent, ""},
		{"bytes: a tenth more", times(1e6, 1.1, 1.1, 1.11), near, Regression, "3 of 3 pairs agree"},
		{"bytes: the same", times(1e6, 1.001, 0.999, 1), near, Equivalent, ""},
		{"bytes: two pairs", times(1e6, 1.1, 1.1), near, Inconclusive, "2 of 3 pairs"},
		{"bytes: pairs that disagree", []Pair{{100, 120}, {100, 99}, {100, 98}, {100, 104}, {106, 120}, {120, 100}}, near, Inconclusive, "agree"},
		{"equal", times(5, 1, 1), exact, Equivalent, ""},
		{"not equal", []Pair{{5, 5}, {5, 6}}, exact, Inconclusive, "differs, in pair 2 first"},
	} {
		j := Judge(c.pairs, c.rule)
		if j.Verdict != c.want || !strings.Contains(j.Reason, c.reason) {
			t.Errorf("%s: %s (%s), want %s (%s); %+v", c.name, j.Verdict, j.Reason, c.want, c.reason, j)
		}
		if j.Verdict == Inconclusive && j.Reason == "" {
			t.Errorf("%s: inconclusive without a reason", c.name)
		}
		for _, v := range []float64{j.A, j.B, j.Estimate, j.Low, j.High, j.P, j.Adjusted, j.Detectable} {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("%s: H05: a number that is none: %+v", c.name, j)
			}
		}
	}
}

// The tolerance comes from each metric's own spread: the same pairs of differences are one thing for a quiet metric and
// another for a noisy one.
func TestI12ToleranceIsTheMetricsOwn(t *testing.T) {
	rule := Rule{Class: Noisy, Better: metrics.Lower, Floor: 0.03, Level: DefaultLevel}
	calm := Judge(times(100, 1.06, 1.07, 1.08, 1.06, 1.07, 1.08, 1.07, 1.07), rule)
	wild := Judge(times(100, 0.8, 1.5, 0.9, 1.3, 1.0, 1.2, 0.95, 1.25), rule)
	if calm.Verdict != Regression || wild.Verdict != Inconclusive || wild.Detectable < 3*calm.Detectable {
		t.Errorf("calm %+v\nwild %+v", calm, wild)
	}
}

func TestInconclusiveSaysHowManyMorePairsItTakes(t *testing.T) {
	rule := Rule{Class: Noisy, Better: metrics.Lower, Floor: 0.05, Level: DefaultLevel}
	if j := Judge(times(100, 1.2, 1.2, 1.2), rule); j.More != 4 {
		t.Errorf("3 pairs need %d more, want 4", j.More)
	}
	j := Judge(times(100, 0.95, 1.35, 1.0, 1.3, 1.05, 1.2, 0.98, 1.25), rule)
	if j.Verdict != Inconclusive || j.More < 1 || j.More > 30 {
		t.Errorf("%+v", j)
	}
}

func TestFamilyNeedsMoreOfEach(t *testing.T) {
	rule := Rule{Class: Noisy, Better: metrics.Lower, Floor: 0.05, Level: DefaultLevel}
	weak := times(100, 1.2, 1.25, 1.18, 1.22, 1.3, 1.15, 1.21, 0.99) // one of 256 and a bit
	family := []*Judgement{}
	for range 4 {
		j := Judge(weak, rule)
		if j.Verdict != Regression {
			t.Fatalf("alone it is %+v", j)
		}
		family = append(family, &j)
	}
	Holm(family)
	for _, j := range family {
		if j.Verdict != Inconclusive || !strings.Contains(j.Reason, "no longer clear among 4 metrics") || j.More != 1 || j.Adjusted <= j.P {
			t.Errorf("%+v", j)
		}
	}
	alone := Judge(weak, rule)
	Advisory([]*Judgement{&alone})
	if alone.Verdict != Regression {
		t.Errorf("%+v", alone)
	}
	alone.Block("drifting")
	Holm([]*Judgement{&alone})
	if alone.Verdict != Inconclusive || alone.Reason != "drifting" {
		t.Errorf("%+v", alone)
	}
}

func TestUnpairedSamplesAreWeakEvidence(t *testing.T) {
	rule := Rule{Class: Noisy, Better: metrics.Lower, Floor: 0.05, Level: 0.95}
	j := JudgeUnpaired([]float64{10, 11, 12, 10.5, 11.5}, []float64{20, 21, 22, 20.5, 23}, rule)
	if j.Verdict != Regression || !j.Weak || j.Low < 0.5 || j.Detectable <= 0 {
		t.Errorf("%+v", j)
	}
	if j := JudgeUnpaired([]float64{1, 2}, []float64{3, 4}, rule); j.Verdict != Inconclusive || j.More == 0 {
		t.Errorf("%+v", j)
	}
	if j := JudgeUnpaired(nil, []float64{3, 4}, rule); j.Verdict != Inconclusive {
		t.Errorf("%+v", j)
	}
}

func TestEveryMetricHasARule(t *testing.T) {
	for _, m := range metrics.All() {
		r := DefaultRule(m, NoisyFloor, DefaultLevel)
		if r.Class == "" || r.Level != DefaultLevel || r.Class != Exact && r.Floor <= 0 {
			t.Errorf("%s: %+v", m.Name, r)
		}
	}
}
