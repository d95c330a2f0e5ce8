package stats

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// close9 compares to nine digits behind the point.
func close9(a, b float64) bool { return math.Abs(a-b) <= 1e-9 || a == b }

// reference holds what testdata/derive.py enumerated.
type reference struct {
	Paired []struct {
		outcome
		D []float64
	}
	Unpaired []struct {
		outcome
		A, B []float64
	}
	SignedRank, RankSum []struct {
		N        int
		Alpha    float64
		Critical int
	}
	Student, Normal []struct {
		Q, Value float64
		Degrees  int
	}
}

func readReference(t *testing.T) (r reference) {
	t.Helper()
	b, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Paired) < 10 || len(r.Unpaired) < 5 || len(r.SignedRank) < 40 || len(r.RankSum) < 30 || len(r.Student) < 100 || len(r.Normal) < 5 {
		t.Fatalf("too few cases were read: %+v", r)
	}
	return r
}

type outcome struct {
	Name                          string
	Level, Statistic, P, Estimate float64
	Interval                      []float64 // low, high, what it covers; none where there can be none
}

func (o outcome) check(t *testing.T, s Shift, err error) {
	t.Helper()
	want := []float64{math.Inf(-1), math.Inf(1), 1}
	if o.Interval != nil {
		want = o.Interval
	}
	got := []float64{s.Statistic, s.P, s.Estimate, s.Low, s.High, s.Level}
	if err != nil || !slices.EqualFunc(got, append([]float64{o.Statistic, o.P, o.Estimate}, want...), close9) {
		t.Errorf("%s: got %+v, %v; want %+v", o.Name, s, err, o)
	}
}

func TestExactTestsAgreeWithEnumeration(t *testing.T) {
	r := readReference(t)
	for _, c := range r.Paired {
		s, err := SignedRank(c.D, c.Level)
		c.check(t, s, err)
	}
	for _, c := range r.Unpaired {
		s, err := RankSum(c.A, c.B, c.Level)
		c.check(t, s, err)
	}
}

// The critical values, two-sided: the largest rank sum of the smaller side, and the largest U of two samples of the same size,
// that is significant.
func TestCriticalValuesAgreeWithCounting(t *testing.T) {
	r := readReference(t)
	for _, c := range r.SignedRank {
		ranks := make([]int, c.N)
		for i := range ranks {
			ranks[i] = 2 * (i + 1)
		}
		p := flips(ranks)
		if twoSided(p, 2*c.Critical) > c.Alpha || twoSided(p, 2*(c.Critical+1)) <= c.Alpha {
			t.Errorf("signed ranks: %+v: P = %v, of the next %v", c, twoSided(p, 2*c.Critical), twoSided(p, 2*(c.Critical+1)))
		}
	}
	for _, c := range r.RankSum {
		ranks := make([]int, 2*c.N)
		for i := range ranks {
			ranks[i] = i + 1
		}
		p := draws(ranks, c.N)
		at := c.N*(c.N+1)/2 + c.Critical
		if twoSided(p, at) > c.Alpha || twoSided(p, at+1) <= c.Alpha {
			t.Errorf("rank sums: %+v: P = %v, of the next %v", c, twoSided(p, at), twoSided(p, at+1))
		}
	}
}

// Every choice of signs, one by one, against the sums: with ties and zeros of any kind.
func TestSignedRankIsTheSumOverAllFlips(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		d := make([]float64, 1+rng.IntN(11))
		for i := range d {
			d[i] = float64(rng.IntN(9)-4) / 2
		}
		s, err := SignedRank(d, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		low, high, all := 0, 0, 1<<len(d)
		for mask := range all {
			flipped := slices.Clone(d)
			for i := range flipped {
				if mask>>i&1 == 1 {
					flipped[i] = -flipped[i]
				}
			}
			if _, w := signedRanks(flipped); float64(w)/2 <= s.Statistic {
				low++
			}
			if _, w := signedRanks(flipped); float64(w)/2 >= s.Statistic {
				high++
			}
		}
		if want := min(1, 2*float64(min(low, high))/float64(all)); !close9(s.P, want) {
			t.Errorf("round %d, %v: P = %v, want %v", round, d, s.P, want)
		}
	}
}

func TestLeastPairsIsWhereAnIntervalBegins(t *testing.T) {
	for level, want := range map[float64]int{0.95: 6, 0.99: 8, 0.999: 11} {
		if got := LeastPairs(level); got != want {
			t.Errorf("LeastPairs(%v) = %d, want %d", level, got, want)
		}
		for _, n := range []int{want - 1, want} {
			d := make([]float64, n)
			for i := range d {
				d[i] = float64(i + 1)
			}
			if s, err := SignedRank(d, level); err != nil || math.IsInf(s.Low, 0) != (n < want) {
				t.Errorf("%d pairs at %v: %+v, %v", n, level, s, err)
			}
		}
	}
}

func TestTestsRefuseWhatIsNoNumber(t *testing.T) {
	for _, d := range [][]float64{nil, {}, {1, math.NaN()}, {math.Inf(1)}} {
		if _, err := SignedRank(d, 0.95); err == nil {
			t.Errorf("SignedRank took %v", d)
		}
		if _, err := RankSum([]float64{1}, d, 0.95); err == nil {
			t.Errorf("RankSum took %v", d)
		}
	}
	if _, err := RankSum([]float64{-math.MaxFloat64}, []float64{math.MaxFloat64}, 0.95); err == nil {
		t.Error("an infinite difference passed")
	}
	if s, err := SignedRank([]float64{math.MaxFloat64, math.MaxFloat64}, 0.95); err != nil || s.Estimate != math.MaxFloat64 {
		t.Errorf("%+v, %v", s, err)
	}
}

// Worked out by hand. Holm: 4 · 0.005, 3 · 0.01, 2 · 0.03, and 1 · 0.04, which is not less than the one before. Benjamini and
// Hochberg: 4/4 · 0.04, 4/3 · 0.03, 4/2 · 0.01, and 4/1 · 0.005, none more than the one before.
func TestFamiliesAreAdjustedStepByStep(t *testing.T) {
	p := []float64{0.01, 0.04, 0.03, 0.005}
	if got := Holm(p); !slices.EqualFunc(got, []float64{0.03, 0.06, 0.06, 0.02}, close9) {
		t.Errorf("Holm: %v", got)
	}
	if got := BenjaminiHochberg(p); !slices.EqualFunc(got, []float64{0.02, 0.04, 0.04, 0.02}, close9) {
		t.Errorf("BH: %v", got)
	}
	if got := Holm([]float64{0.6, 0.7}); !slices.Equal(got, []float64{1, 1}) {
		t.Errorf("Holm: %v", got)
	}
	if len(Holm(nil))+len(BenjaminiHochberg(nil)) != 0 {
		t.Error("no tests gave probabilities")
	}
}

func TestQuantilesAgreeWithTheReference(t *testing.T) {
	r := readReference(t)
	for _, c := range r.Normal {
		if got := Normal(c.Q); !close9(got, c.Value) {
			t.Errorf("Normal(%v) = %v, want %v", c.Q, got, c.Value)
		}
	}
	for _, c := range r.Student {
		if got := student(c.Q, c.Degrees); math.Abs(got-c.Value) > 0.01*c.Value {
			t.Errorf("student(%v, %d) = %v, want %v", c.Q, c.Degrees, got, c.Value)
		}
	}
}

func TestDetectableEffect(t *testing.T) {
	// With many pairs it is 1.02 * (2.5758 + 0.8416) standard errors.
	if got := Detectable(1, 10000, 0.99); math.Abs(got-0.034857) > 2e-5 {
		t.Errorf("10,000 pairs detect %v", got)
	}
	if n := PairsFor(Detectable(1, 20, 0.99), 1, 0.99); n < 20 || n > 21 {
		t.Errorf("PairsFor gives %d, want 20", n)
	}
	if n := PairsFor(10, 0.001, 0.95); n != 6 {
		t.Errorf("PairsFor gives %d, want the least, 6", n)
	}
	if n := PairsFor(0, 1, 0.95); n != math.MaxInt32 {
		t.Errorf("PairsFor of no effect gives %d", n)
	}
	// An interval of normal values stands for their spread.
	if got := FromInterval(efficiency*2.624/math.Sqrt(15), 15, 0.98); math.Abs(got-1) > 0.01 {
		t.Errorf("the interval of 15 normal values stands for %v", got)
	}
}

func TestSpreadIsRobustAndNeverLost(t *testing.T) {
	if f := Spread([]float64{1, 2, 3, 4, 1000}); !close9(f.Value, 1/Normal(0.75)) {
		t.Errorf("%+v", f)
	}
	if f := Spread([]float64{1, 1, 1, 1, 2}); !close9(f.Value, math.Sqrt(0.2)) {
		t.Errorf("%+v", f)
	}
	if f := Spread([]float64{1}); f.OK() {
		t.Errorf("%+v", f)
	}
	if f := Median([]float64{4, 1, 2, 3}); f.Value != 2.5 {
		t.Errorf("%+v", f)
	}
	if f := Median(nil); f.OK() {
		t.Errorf("%+v", f)
	}
}

func TestDriftIsToldFromNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	noise := func(at func(i int) float64) (v []float64) {
		for i := range 200 {
			v = append(v, at(i)*(1+0.1*rng.NormFloat64()))
		}
		return v
	}
	if change, drifts := Drift(noise(func(i int) float64 { return 100 + float64(i)/2 })); !drifts || change < 0.4 || change > 1 {
		t.Errorf("a doubling: %v, %v", change, drifts)
	}
	wrong := 0
	for range 200 {
		if _, drifts := Drift(noise(func(int) float64 { return 100 })); drifts {
			wrong++
		}
	}
	if wrong > 20 {
		t.Errorf("%d of 200 steady windows drift", wrong)
	}
	for _, v := range [][]float64{nil, make([]float64, 24), make([]float64, 50), {math.NaN()}} {
		if _, drifts := Drift(v); drifts {
			t.Errorf("%v drifts", v)
		}
	}
}

func BenchmarkSignedRank(b *testing.B) {
	d := make([]float64, 20)
	for i := range d {
		d[i] = float64((i*7)%20) - 8.5
	}
	for b.Loop() {
		if _, err := SignedRank(d, 0.99); err != nil {
			b.Fatal(err)
		}
	}
}
