package metrics

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/registry"
)

// operators of a bound; those of two characters first, so that none is taken for its beginning.
var operators = []string{"<=", ">=", "==", "<", ">"} // read-only: a part of the grammar

// Bound reads the text of an expectation, an operator and a value with the unit of the metric ("< 1s", "<= 25MiB",
// ">= 39_200/s", "== 0"), and returns the value in the unit of the metric. The error says what would be right.
func (m Metric) Bound(text string) (op string, value float64, err error) {
	s := strings.TrimSpace(text)
	for _, o := range operators {
		if rest, ok := strings.CutPrefix(s, o); ok {
			if value, err = m.value(strings.TrimSpace(rest)); err != nil {
				return "", 0, err
			}
			return o, value, nil
		}
	}
	return "", 0, fmt.Errorf("%q does not begin with one of <, <=, >, >=, ==; write for example %q", text, m.Example())
}

// Example is a bound as it may stand in a scenario.
func (m Metric) Example() string {
	op := "<= "
	if m.Better == Higher {
		op = ">= "
	}
	switch m.Unit {
	case Millis:
		return op + "1s"
	case Micros:
		return op + "8µs"
	case Bytes:
		return op + "10MiB"
	case Rate:
		return op + "40_000/s"
	case Share:
		return op + "5%"
	case Dollars:
		return op + "$2"
	default:
		return op + "2"
	}
}

func (m Metric) value(s string) (float64, error) {
	switch m.Unit {
	case Millis, Micros:
		d, err := registry.ParseDuration(s)
		if m.Unit == Micros {
			return float64(d) / float64(time.Microsecond), err
		}
		return float64(d) / float64(time.Millisecond), err
	case Bytes:
		b, err := registry.ParseBytes(s)
		return float64(b), err
	case Rate:
		r, err := registry.ParseRate(s)
		return float64(r), err
	case Share:
		p, err := registry.ParseShare(s)
		return float64(p), err
	case Dollars:
		return m.number(strings.TrimPrefix(s, "$"))
	default:
		return m.number(s)
	}
}

// number reads a plain number.
func (m Metric) number(s string) (float64, error) {
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, fmt.Errorf("%s is a plain number, %q is none", m.Name, s)
	}
	return f, nil
}

// Holds tells whether a measured value keeps to a bound. An operator that does not exist holds for nothing.
func Holds(value float64, op string, bound float64) bool {
	switch op {
	case "<":
		return value < bound
	case "<=":
		return value <= bound
	case ">":
		return value > bound
	case ">=":
		return value >= bound
	case "==":
		return value == bound
	}
	return false
}

// Capacity is how many samples the phase of a plan can give, from its length and the plan's schedule. known is false where
// the plan does not say: a source without a rate, a phase that ends on a condition.
func (m Metric) Capacity(p *plan.Plan, phase string) (n int64, known bool) {
	for i := range p.Phases {
		ph := &p.Phases[i]
		if ph.Name != phase {
			continue
		}
		seconds, known := length(ph, p.Workload.Rate)
		switch m.Samples {
		case Records:
			if ph.Records > 0 {
				return ph.Records, true
			}
			return int64(seconds * p.Workload.Rate), known && p.Workload.Rate > 0
		case Seconds:
			return int64(seconds), known
		case Checkpoints:
			return int64(seconds / time.Duration(p.Job.Checkpoint.Interval).Seconds()), known && p.Job.Checkpoint.Interval > 0
		case Rescales:
			for _, r := range p.Rescales {
				if r.Phase == phase {
					n++
				}
			}
			return n, true
		default:
			return 0, false // one fault may cause several recoveries, or none
		}
	}
	return 0, false
}

// length of a phase in seconds, where the plan says it.
func length(p *plan.Phase, rate float64) (seconds float64, known bool) {
	switch {
	case p.For > 0:
		return time.Duration(p.For).Seconds(), true
	case p.Records > 0 && rate > 0:
		return float64(p.Records) / rate, true
	}
	return 0, false
}
