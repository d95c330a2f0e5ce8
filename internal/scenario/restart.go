package scenario

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/registry"
)

// strategies are the restart strategies, each with the keys that go with it beside strategy itself.
func strategies() []struct {
	name string
	keys []string
} {
	return []struct {
		name string
		keys []string
	}{
		{plan.RestartFixed, []string{"attempts", "delay"}},
		{plan.RestartExponential, []string{"attempts", "delay", "maxDelay", "multiplier", "jitter", "resetAfter"}},
		{plan.RestartRate, []string{"failures", "within", "delay"}},
		{plan.RestartNone, nil},
	}
}

func strategyNames() (names []string) {
	for _, s := range strategies() {
		names = append(names, s.name)
	}
	return names
}

// strategyKeys are the keys of job.restart that a strategy takes.
func strategyKeys(name string) []string {
	for _, s := range strategies() {
		if s.name == name {
			return s.keys
		}
	}
	return nil
}

// restart reads job.restart, and job.restartDelay, which is the short form of its delay.
func (l *loader) restart(job object, j *plan.Job) {
	short := read(job, "restartDelay", &j.RestartDelay, duration)
	f, ok := job.find("restart")
	if !ok {
		return
	}
	o, ok := l.object(f.value, f.path, "job.restart", "restart")
	if !ok {
		return
	}
	r := &j.Restart
	if o.has("strategy") && !read(o, "strategy", &r.Strategy, word) {
		return
	}
	if r.Strategy == plan.RestartExponential {
		r.MaxDelay, r.Multiplier, r.Jitter, r.ResetAfter = plan.Duration(time.Minute), 1.5, 0.1, plan.Duration(time.Hour)
	}
	l.foreignKeys(o, r.Strategy)
	if read(o, "delay", &j.RestartDelay, duration) && short {
		at := l.places["job.restartDelay"]
		l.fail(l.places[f.path+".delay"], "the delay is given twice, first as restartDelay at %s:%d:%d", l.file, at.Line, at.Column)
	}
	read(o, "attempts", &r.Attempts, inRange)
	read(o, "failures", &r.Failures, inRange)
	read(o, "within", &r.Within, positiveDuration)
	read(o, "maxDelay", &r.MaxDelay, positiveDuration)
	read(o, "multiplier", &r.Multiplier, numberFrom(1, plan.MaxMultiplier))
	var jitter registry.Share
	if read(o, "jitter", &jitter, share) {
		r.Jitter = float64(jitter)
	}
	read(o, "resetAfter", &r.ResetAfter, positiveDuration)
	switch r.Strategy {
	case plan.RestartRate:
		o.need("failures", "within")
	case plan.RestartExponential:
		if r.MaxDelay < j.RestartDelay {
			l.fail(l.placeOr(f.path+".maxDelay", f.path+".delay", f.path), "maxDelay %s must not be less than the delay %s", r.MaxDelay, j.RestartDelay)
		}
	}
}

// foreignKeys reports keys that do not go with the strategy, and what they go with.
func (l *loader) foreignKeys(o object, strategy string) {
	takes := strategyKeys(strategy)
	for _, f := range o.fields {
		if f.key == "strategy" || slices.Contains(takes, f.key) {
			continue
		}
		var of []string
		for _, s := range strategies() {
			if slices.Contains(s.keys, f.key) {
				of = append(of, s.name)
			}
		}
		l.fail(f.at, "key %q does not go with strategy %s; it goes with %s", f.key, strategy, strings.Join(of, ", "))
	}
}

// numberFrom reads a number from lo to hi.
func numberFrom(lo, hi float64) func(l *loader, f field) (float64, error) {
	return func(_ *loader, f field) (float64, error) {
		s, err := scalar(f, "a number")
		if err != nil {
			return 0, err
		}
		v, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
		if err != nil || math.IsNaN(v) {
			return 0, fmt.Errorf("%s must be a number, is %q", f.key, s)
		}
		if v < lo || v > hi {
			return 0, fmt.Errorf("%s must be %g to %g, is %s", f.key, lo, hi, s)
		}
		return v, nil
	}
}

// restart writes job.restart with the keys that go with its strategy.
func (w *writer) restart(j plan.Job) {
	r := j.Restart
	w.line(1, "restart:", "")
	const p = "job.restart."
	w.set(2, "strategy", r.Strategy, p+"strategy")
	for _, key := range strategyKeys(r.Strategy) {
		switch key {
		case "attempts":
			if r.Attempts > 0 { // 0, any number, has no form of its own
				w.set(2, key, strconv.Itoa(r.Attempts), p+key)
			}
		case "failures":
			w.set(2, key, strconv.Itoa(r.Failures), p+key)
		case "within":
			w.set(2, key, r.Within.String(), p+key)
		case "delay":
			w.set(2, key, j.RestartDelay.String(), p+key, "job.restartDelay")
		case "maxDelay":
			w.set(2, key, r.MaxDelay.String(), p+key)
		case "multiplier":
			w.set(2, key, strconv.FormatFloat(r.Multiplier, 'g', -1, 64), p+key)
		case "jitter":
			w.set(2, key, registry.Share(r.Jitter).String(), p+key)
		case "resetAfter":
			w.set(2, key, r.ResetAfter.String(), p+key)
		}
	}
}
