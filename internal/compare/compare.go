// Package compare finds out which of two variants is better at what, by how much, and how sure that is.
//
// The unit is the run. Two variants run in pairs, back to back, with the same seed and in balanced order; of each pair and
// metric only the ratio counts, so that a host which is slow for an hour slows both. An exact test of signed ranks gives an
// estimate with an interval; a floor keeps what is too small to matter from being called a difference. The answer is one of
// four: regression, improvement, equivalent, or inconclusive, which comes with the effect that could have been found and the
// number of pairs that would have found this one. Whether a run is valid is decided before its figures are looked at.
//
// The steps: Load reads stored runs, Match pairs them, Compare judges every metric. The rules, and how often they are
// wrong, stand in docs/statistics.md.
package compare

import (
	"strings"

	"statebench.dev/bench/internal/metrics"
)

// Class says how the values of a metric are judged.
type Class string

// The classes.
const (
	// Exact values must be equal: a difference is a finding, no statistic.
	Exact Class = "exact"
	// NearExact values hardly vary: medians are compared, without a test.
	NearExact Class = "near-exact"
	// Noisy values are tested.
	Noisy Class = "noisy"
	// Rare values come from few events of a run, as recoveries are; they are tested.
	Rare Class = "rare"
)

// Rule says how one metric is judged.
type Rule struct {
	Class  Class
	Better metrics.Better
	// Floor is the share below which a difference does not matter, such as 0.05. It is symmetric in the ratio: with 0.05 it
	// lies between 1/1.05 and 1.05.
	Floor float64
	// Absolute is the difference, in the unit of the metric, below which the ratio does not matter either; 0: none.
	Absolute float64
	// Level is what an interval covers, such as 0.98. A verdict is then a false regression with at most half of the rest.
	Level float64
}

// The defaults.
const (
	// DefaultLevel makes at most 1 % false regressions of any noise, since half of what lies outside is on the good side.
	DefaultLevel = 0.98
	// GateLevel is that of the last look at pairs of which a first part was looked at before.
	GateLevel = 0.99
	// NoisyFloor is for a host that others use too, where `bench calibrate` has found no other.
	NoisyFloor = 0.05
	// NearExactFloor is for bytes and requests.
	NearExactFloor = 0.02
	// DurationFloor and RecoveryFloor are absolute, in milliseconds.
	DurationFloor = 2
	RecoveryFloor = 200
	// RestoreFloor is for base and replay, which are no multiples of the second on which catching up is found.
	RestoreFloor = 50
)

// DefaultRule is how a metric is judged when nobody says otherwise. The floor of noisy metrics is given as a share.
func DefaultRule(m metrics.Metric, floor, level float64) Rule {
	r := Rule{Class: classOf(m), Better: m.Better, Floor: floor, Level: level}
	switch {
	case r.Class == NearExact:
		r.Floor = NearExactFloor
	case r.Class == Rare && strings.HasSuffix(m.Name, ".total"), strings.HasSuffix(m.Name, ".outage"):
		r.Absolute = RecoveryFloor
	case r.Class == Rare && m.Unit == metrics.Millis:
		r.Absolute = RestoreFloor
	case m.Unit == metrics.Millis:
		r.Absolute = DurationFloor
	case m.Unit == metrics.Count && strings.HasPrefix(m.Name, "checkpoints."):
		r.Absolute = 1 // one checkpoint more or less is where the phase happened to end
	case m.Unit == metrics.Share:
		r.Absolute = 0.01
	}
	return r
}

// classOf sorts the metrics.
func classOf(m metrics.Metric) Class {
	switch {
	case m.Name == "records":
		return NearExact // where a phase ends is seen at the end of a batch; that of the whole run is exact
	case m.Samples == metrics.Recoveries, m.Samples == metrics.Rescales, m.Samples == metrics.Starts:
		return Rare
	case m.Measured:
		return Noisy
	case m.Unit == metrics.Bytes, m.Unit == metrics.PerCkpt, m.Unit == metrics.Dollars, m.Name == "amplification", strings.HasPrefix(m.Name, "checkpoint.objects"):
		return NearExact
	}
	return Noisy
}

// Verdict is the answer about one metric.
type Verdict string

// The answers. Regression and improvement are of the second variant against the first.
const (
	Regression   Verdict = "regression"
	Improvement  Verdict = "improvement"
	Equivalent   Verdict = "equivalent"
	Inconclusive Verdict = "inconclusive"
)
