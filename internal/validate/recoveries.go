package validate

import (
	"slices"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
)

// recoveries is the part of M1 that is about recoveries.csv: a row for each failed attempt and each start of a stopped job, with what followed it.
type recoveries struct {
	list  []recovered
	phase string
}

// recovered is what the history says of one.
type recovered struct {
	failed      history.Event
	phase       string
	started     *history.Event // the next attempt
	restore     time.Duration  // when the first restore began; 0: none did
	base, delta int64          // bytes
	changes     int64
}

func (r *recoveries) observe(e *history.Event) {
	switch e.Kind {
	case history.PhaseBegin:
		r.phase = e.Phase
	case history.AttemptFailed, history.JobStarted:
		r.list = append(r.list, recovered{failed: *e, phase: r.phase})
	case history.AttemptStarted, history.RestoreBegin, history.RestoreLoaded, history.RestoreReplayed, history.RestoreLocal:
		if len(r.list) > 0 {
			r.list[len(r.list)-1].follow(e)
		}
	}
}

func (r *recovered) follow(e *history.Event) {
	switch e.Kind {
	case history.AttemptStarted:
		c := *e
		r.started = &c
	case history.RestoreBegin:
		if r.restore == 0 {
			r.restore = e.At
		}
	case history.RestoreLoaded:
		r.base += e.Bytes
	case history.RestoreLocal:
		if r.started != nil && e.Attempt == r.started.Attempt {
			r.base += e.Bytes
		}
	case history.RestoreReplayed:
		r.delta += e.Bytes
		r.changes += e.Records
	}
}

func (r *recoveries) finish(c *Case, f *findings) {
	if len(c.recoveries) != len(r.list) {
		f.add(0, "%s has %d rows, the history has %d failed attempts and starts", results.RecoveriesFile, len(c.recoveries), len(r.list))
		return
	}
	for i := range r.list {
		if what := r.list[i].compare(&c.recoveries[i], &c.Plan); what != "" {
			f.add(r.list[i].failed.N, "row %d of %s, about the end of attempt %d: %s is not what the history says", i+1, results.RecoveriesFile, r.list[i].failed.Attempt, what)
		}
	}
}

// compare names the first column that does not fit.
func (r *recovered) compare(row *results.RecoveryRow, p *plan.Plan) string {
	known := func(id string) bool {
		return id == "" || slices.ContainsFunc(p.Faults, func(f plan.Fault) bool { return f.ID == id }) ||
			slices.ContainsFunc(p.Rescales, func(s plan.Rescale) bool { return s.ID == id })
	}
	switch {
	case !known(row.ID):
		return "id"
	case row.Phase != r.phase || row.Arm != p.Arm || row.World != p.World || row.Profile != p.Store.Profile:
		return "phase, arm, world or profile"
	case (fromSeconds(row.Fault) + fromMillis(row.Detect) - r.failed.At).Abs() > 2*time.Microsecond:
		return "fault_s with detect_ms"
	case row.Restart.Set != (r.restore > 0) || row.Restart.Set && differ(row.Restart, r.restore-r.failed.At):
		return "restart_ms"
	case int64(row.BaseBytes.Value) != r.base || int64(row.DeltaBytes.Value) != r.delta || int64(row.Replayed.Value) != r.changes:
		return "base_bytes, delta_bytes or replayed_records"
	case r.started != nil && (row.Attempt != r.started.Attempt || row.Checkpoint != r.started.Checkpoint || int64(row.Parallelism) != r.started.Count):
		return "attempt, checkpoint or parallelism"
	}
	parts := []results.Opt{row.Detect, row.Restart, row.RestoreBase, row.Replay, row.FirstOutput}
	sum := time.Duration(0)
	for _, o := range parts {
		if o.Value < 0 {
			return "a negative segment"
		}
		sum += fromMillis(o)
	}
	if row.Outage.Set && (fromMillis(row.Outage)-sum).Abs() > time.Microsecond*time.Duration(len(parts)) || row.Recovery.Set && row.Recovery.Value < row.Outage.Value {
		return "outage_ms, the sum of the segments, or recovery_ms"
	}
	return ""
}

// fromSeconds and fromMillis are cells as times; an empty one is 0.
func fromSeconds(o results.Opt) time.Duration { return time.Duration(o.Value * float64(time.Second)) }

func fromMillis(o results.Opt) time.Duration {
	return time.Duration(o.Value * float64(time.Millisecond))
}

// differ tells whether a cell in milliseconds is not that time; cells are rounded to nanoseconds.
func differ(o results.Opt, d time.Duration) bool {
	return !o.Set || (fromMillis(o)-d).Abs() > time.Microsecond
}
