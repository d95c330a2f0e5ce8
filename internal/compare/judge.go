package compare

import (
	"fmt"
	"math"
	"slices"

	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/stats"
)

// Pair holds the values of one metric in two runs that belong together: A of the first variant, B of the second.
type Pair struct{ A, B float64 }

// Judgement is what is known of one metric after all pairs. All its numbers are finite.
type Judgement struct {
	Verdict Verdict
	// Reason says why, where the numbers do not: for each inconclusive one, and for each that was not tested.
	Reason string
	// Pairs is how many were looked at; for samples that are not paired the smaller of their sizes.
	Pairs int
	// A and B are the medians of the two variants, in the unit of the metric.
	A, B float64
	// Estimate is how far B lies from A: a share (0.07 is 7 % more), or in the unit of the metric where Plain.
	Estimate float64
	// Low and High bound the interval of Estimate; where not Bounded they mean nothing.
	Low, High float64
	Bounded   bool
	// Plain: some value is not above zero, so that there are no ratios, only differences.
	Plain bool
	// P is the exact probability of data like these without a difference, Adjusted that among its family; 1 where untested.
	P, Adjusted float64
	// Detectable is the effect that would have been found in 8 of 10 cases, as Estimate is given; 0: not known.
	Detectable float64
	// More is how many more pairs would tell in 8 of 10 cases, if what was seen is what there is; 0: none are needed, or no number would help.
	More int
	// Weak: the runs were not paired.
	Weak bool

	rule   Rule
	shift  stats.Shift // of the logarithms of the ratios, or of the differences
	plain  stats.Shift // of the differences, where the rule has an absolute floor
	spread float64
	floor  float64 // on the scale of shift
	tested bool
	shut   bool    // blocked: numbers no longer change the verdict
	family int     // tests that hold together with this one, itself included; 0: it stands alone
	limit  float64 // of Adjusted; 0: what the level leaves
}

// least is how many pairs of a near-exact metric must agree.
const least = 3

// Judge compares pairs by a rule. The pairs are not changed.
func Judge(pairs []Pair, r Rule) Judgement {
	a, b := split(pairs)
	j := Judgement{Pairs: len(pairs), rule: r, P: 1, Adjusted: 1, Verdict: Inconclusive}
	if j.Reason = j.center(a, b); j.Reason != "" {
		return j
	}
	switch r.Class {
	case Exact:
		j.exact(pairs)
	case NearExact:
		j.nearExact(pairs)
	default:
		d, differences := j.scale(pairs)
		j.test(d, func(level float64) (shift, plain stats.Shift, err error) {
			if shift, err = stats.SignedRank(d, level); err == nil {
				plain, err = stats.SignedRank(differences, level)
			}
			return shift, plain, err
		})
	}
	return j
}

// JudgeUnpaired compares two samples that have nothing to do with one another, such as two nights. That is weak evidence: a
// host that changed in between looks like a difference.
func JudgeUnpaired(a, b []float64, r Rule) Judgement {
	n := min(len(a), len(b))
	j := Judgement{Pairs: n, rule: r, P: 1, Adjusted: 1, Verdict: Inconclusive, Weak: true}
	if j.Reason = j.center(a, b); j.Reason != "" {
		return j
	}
	if r.Class == Exact || r.Class == NearExact {
		var pairs []Pair // by order: what is the same in each run can be put together anyhow
		for i := range n {
			pairs = append(pairs, Pair{a[i], b[i]})
		}
		if r.Class == Exact {
			j.exact(pairs)
		} else {
			j.nearExact(pairs)
		}
		return j
	}
	j.Plain = slices.Min(a) <= 0 || slices.Min(b) <= 0
	x, y := a, b
	if !j.Plain {
		x, y = logs(a), logs(b)
	}
	j.setFloor()
	sx, sy := stats.Spread(x), stats.Spread(y)
	j.test(nil, func(level float64) (shift, plain stats.Shift, err error) {
		if shift, err = stats.RankSum(x, y, level); err == nil {
			plain, err = stats.RankSum(a, b, level)
		}
		return shift, plain, err
	})
	if sx.OK() && sy.OK() {
		j.spread = math.Hypot(sx.Value, sy.Value)
		j.finish()
	}
	return j
}

func split(pairs []Pair) (a, b []float64) {
	for _, p := range pairs {
		a, b = append(a, p.A), append(b, p.B)
	}
	return a, b
}

func logs(v []float64) (out []float64) {
	for _, x := range v {
		out = append(out, math.Log(x))
	}
	return out
}

// center sets the medians; it returns why there are none.
func (j *Judgement) center(a, b []float64) string {
	ma, mb := stats.Median(a), stats.Median(b)
	switch {
	case len(a) == 0 || len(b) == 0:
		return "no pairs"
	case !ma.OK():
		return ma.Warning
	case !mb.OK():
		return mb.Warning
	}
	j.A, j.B = ma.Value, mb.Value
	j.Plain = j.A <= 0 || j.B <= 0
	j.Estimate = j.B - j.A
	if !j.Plain {
		j.Estimate = j.B/j.A - 1
	}
	return ""
}

// exact wants equal values in each pair.
func (j *Judgement) exact(pairs []Pair) {
	for i, p := range pairs {
		if p.A != p.B {
			j.Reason = fmt.Sprintf("must be equal and differs, in pair %d first: %v against %v", i+1, p.A, p.B)
			return
		}
	}
	j.Verdict, j.Reason = Equivalent, "equal in every pair"
}

// nearExact compares medians; the pairs must agree in which is larger. What is shown as an interval is the range of pairs.
func (j *Judgement) nearExact(pairs []Pair) {
	d, _ := j.scale(pairs)
	more, fewer := 0, 0
	for _, v := range d {
		if v > 0 {
			more++
		}
		if v < 0 {
			fewer++
		}
	}
	j.Low, j.High, j.Bounded = j.back(slices.Min(d)), j.back(slices.Max(d)), true
	center := j.B - j.A
	if !j.Plain {
		center = math.Log(j.B / j.A)
	}
	j.Estimate = j.back(center)
	agree := max(more, fewer)
	if (more > fewer) != (center > 0) {
		agree = min(more, fewer)
	}
	switch {
	case math.Abs(center) <= j.floor && len(pairs) >= least:
		j.Verdict, j.Reason = Equivalent, "medians, no test"
	case len(pairs) < least:
		j.Reason, j.More = fmt.Sprintf("%d of %d pairs that must agree", len(pairs), least), least-len(pairs)
	case agree < least || 2*agree <= len(pairs):
		j.Reason = fmt.Sprintf("only %d of %d pairs agree with the medians", agree, len(pairs))
		j.More = 1
	default:
		j.Verdict, j.Reason = j.direction(center), fmt.Sprintf("medians, no test; %d of %d pairs agree", agree, len(pairs))
	}
}

// scale chooses between ratios and differences and sets the floor on that scale. It returns the values on the scale, and the
// differences in the unit of the metric.
func (j *Judgement) scale(pairs []Pair) (d, differences []float64) {
	j.Plain = slices.ContainsFunc(pairs, func(p Pair) bool { return p.A <= 0 || p.B <= 0 })
	for _, p := range pairs {
		differences = append(differences, p.B-p.A)
		if !j.Plain {
			d = append(d, math.Log(p.B)-math.Log(p.A))
		}
	}
	j.setFloor()
	if j.Plain {
		return differences, differences
	}
	return d, differences
}

// setFloor puts the floor on the scale of ratios or of differences.
func (j *Judgement) setFloor() {
	j.floor = math.Log1p(j.rule.Floor)
	if j.Plain {
		j.floor = max(j.rule.Absolute, j.rule.Floor*math.Abs(j.A))
	}
}

// back turns a value of the scale into what is shown.
func (j *Judgement) back(v float64) float64 {
	if j.Plain {
		return v
	}
	return math.Expm1(v)
}

// direction is the verdict of a difference that counts.
func (j *Judgement) direction(v float64) Verdict {
	if (v > 0) == (j.rule.Better == metrics.Lower) {
		return Regression
	}
	return Improvement
}

// test tests differences on the scale; d are those of pairs, nil for samples without pairs.
func (j *Judgement) test(d []float64, run func(level float64) (shift, plain stats.Shift, err error)) {
	shift, plain, err := run(j.rule.Level)
	if err != nil {
		j.Reason = err.Error()
		return
	}
	j.shift, j.plain = shift, plain
	j.P, j.Adjusted = shift.P, shift.P
	if math.IsInf(shift.Low, 0) {
		need := stats.LeastPairs(j.rule.Level)
		j.Reason = fmt.Sprintf("no test possible with %d of at least %d pairs", j.Pairs, need)
		if j.Weak {
			j.Reason = fmt.Sprintf("no test possible with %d runs of one side", j.Pairs)
		}
		j.More = max(1, need-j.Pairs)
		return
	}
	j.tested, j.Bounded = true, true
	j.Estimate, j.Low, j.High = j.back(shift.Estimate), j.back(shift.Low), j.back(shift.High)
	if s := stats.Spread(d); s.OK() {
		j.spread = max(s.Value, stats.FromInterval((shift.High-shift.Low)/2, j.Pairs, j.rule.Level))
	}
	j.finish()
}

// finish derives the verdict and what could have been found from the test and the adjusted probability.
func (j *Judgement) finish() {
	if !j.tested || j.shut {
		return
	}
	n := j.Pairs
	// An effect must also be estimated above the floor, which one that lies right at it is only half of the time.
	j.Detectable = j.back(max(stats.Detectable(j.spread, n, j.rule.Level), j.floor+stats.Reserve(j.spread, n)))
	estimate := j.shift.Estimate
	beyond := math.Abs(estimate) > j.floor && (j.rule.Absolute == 0 || math.Abs(j.plain.Estimate) > j.rule.Absolute)
	inside := -j.floor <= j.shift.Low && j.shift.High <= j.floor
	small := j.rule.Absolute > 0 && -j.rule.Absolute <= j.plain.Low && j.plain.High <= j.rule.Absolute
	limit := j.limit
	if limit == 0 {
		limit = 1 - j.rule.Level
	}
	j.More, j.Reason = 0, ""
	switch {
	case beyond && j.shift.Excludes(0) && j.Adjusted <= limit:
		j.Verdict = j.direction(estimate)
		return
	case inside:
		j.Verdict = Equivalent
		return
	case small:
		j.Verdict, j.Reason = Equivalent, "less than the absolute floor"
		return
	}
	j.Verdict = Inconclusive
	target := j.floor - math.Abs(estimate) // room on the side of the floor
	switch {
	case beyond && j.shift.Excludes(0):
		j.Reason, target = fmt.Sprintf("no longer clear among %d metrics", j.family), math.Abs(estimate)
	case beyond:
		j.Reason, target = "may be chance", math.Abs(estimate)
	case j.shift.Excludes(0):
		j.Reason = "there is a difference, but it may be too small to matter"
	default:
		j.Reason = "too much noise to tell"
	}
	level := 1 - (1-j.rule.Level)/float64(max(j.family, 1)) // what a family asks of its clearest member
	if j.limit > 0 {
		level = j.rule.Level
	}
	if need := stats.PairsFor(target, j.spread, level); target > 0 && need < math.MaxInt32 {
		j.More = max(need-n, 1)
	}
}

// Block makes a judgement inconclusive for good, for a reason that has nothing to do with its numbers, such as a variant
// that drifts.
func (j *Judgement) Block(reason string) {
	j.Verdict, j.Reason, j.More, j.shut = Inconclusive, reason, 0, true
}

// Holm settles the judgements of one family so that all its verdicts together are false regressions with no more than the
// probability of one. Those that were not tested do not count.
func Holm(family []*Judgement) { adjust(family, stats.Holm, 0) }

// Advisory settles the judgements that nothing depends on: of those that are called a difference at most one in ten is
// none, in the mean (Benjamini and Hochberg).
func Advisory(family []*Judgement) { adjust(family, stats.BenjaminiHochberg, falseDiscoveries) }

// falseDiscoveries is the share of Advisory.
const falseDiscoveries = 0.1

func adjust(family []*Judgement, by func(p []float64) []float64, limit float64) {
	var p []float64
	var tested []*Judgement
	for _, j := range family {
		if j.tested {
			p, tested = append(p, j.P), append(tested, j)
		}
	}
	for i, adjusted := range by(p) {
		tested[i].Adjusted, tested[i].limit, tested[i].family = adjusted, limit, len(tested)
		tested[i].finish()
	}
}
