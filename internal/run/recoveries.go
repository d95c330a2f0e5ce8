package run

import (
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
)

// recoveryTable turns events into the rows of recoveries.csv: one for each attempt that ended before the job did,
// by a failure or a rescale, and one for each start of a stopped job. Its segments are consecutive: effective (t0), detected (t1), restore begins (t2), base
// loaded (t3), log replayed (t4), first new output (t5), caught up (t6).
type recoveryTable struct {
	plan     *plan.Plan
	out      *results.CSV[results.RecoveryRow]
	emitted  func() []int64 // per partition: the highest position any attempt reached
	moving   func() string  // id of the rescale under way
	phase    string
	armed    map[string]*history.Event // by fault kind: the newest fault put in force
	rescale  *history.Event
	open     []*recovery // in order; the last one is of the running attempt
	restored map[uint64][]int64
	fetched  *downloads // nil: not known
}

type recovery struct {
	row                             results.RecoveryRow
	t0, t1, t2, t3, t4, t5, t6      time.Duration
	begun, loaded, output, caughtUp bool
	highest                         []int64
	attempt                         uint64
}

func newRecoveryTable(p *plan.Plan, path string, emitted func() []int64, moving func() string) (*recoveryTable, error) {
	out, err := results.CreateCSV[results.RecoveryRow](path)
	if err != nil {
		return nil, err
	}
	return &recoveryTable{plan: p, out: out, emitted: emitted, moving: moving, armed: map[string]*history.Event{}, restored: map[uint64][]int64{}}, nil
}

// observe is called for every stored event in order.
func (t *recoveryTable) observe(e *history.Event) {
	switch e.Kind {
	case history.PhaseBegin:
		t.phase = e.Phase
	case history.FaultArmed:
		c := *e
		t.armed[e.Text] = &c
	case history.RescaleBegin:
		c := *e
		t.rescale = &c
	case history.CheckpointCompleted, history.SavepointCompleted:
		t.restored[e.Checkpoint] = append([]int64(nil), e.Positions...)
	case history.AttemptFailed:
		t.failed(e)
	case history.JobStarted:
		r := &recovery{t0: e.At, t1: e.At, highest: t.emitted()}
		r.row = results.RecoveryRow{Cause: history.CauseStart, Phase: t.phase, Arm: t.plan.Arm, World: t.plan.World, Profile: t.plan.Store.Profile}
		t.open = append(t.open, r)
	default:
		t.follow(e)
	}
}

// failed opens a row.
func (t *recoveryTable) failed(e *history.Event) {
	r := &recovery{t0: e.At, t1: e.At, highest: t.emitted()}
	r.row = results.RecoveryRow{Cause: e.Text, Phase: t.phase, Arm: t.plan.Arm, World: t.plan.World, Profile: t.plan.Store.Profile}
	switch e.Text {
	case history.CauseRescale:
		if t.rescale != nil {
			r.t0, r.row.ID = t.rescale.At, t.moving()
			t.rescale = nil
		}
	case history.CauseWorkerLost:
		t.blame(r, "worker-crash")
	case history.CauseSubtaskFailed:
		if e.Injected {
			t.blame(r, "task-error")
		}
	}
	t.open = append(t.open, r)
}

// blame sets the fault that explains a failure: one of the kind that was put in force and explains none yet.
func (t *recoveryTable) blame(r *recovery, kind string) {
	if f := t.armed[kind]; f != nil {
		r.t0, r.row.ID, r.row.Cause = f.At, f.Fault, kind
		delete(t.armed, kind)
	}
}

// follow takes the later steps of the newest recovery.
func (t *recoveryTable) follow(e *history.Event) {
	if len(t.open) == 0 {
		return
	}
	r := t.open[len(t.open)-1]
	switch e.Kind {
	case history.AttemptStarted:
		r.attempt = e.Attempt
		r.row.Attempt, r.row.Checkpoint, r.row.Parallelism = e.Attempt, e.Checkpoint, int(e.Count)
		if at, ok := t.restored[e.Checkpoint]; ok || e.Checkpoint == 0 {
			var n int64
			for i, h := range r.highest {
				if i < len(at) {
					h -= at[i]
				}
				n += max(0, h)
			}
			r.row.Reprocessed = results.Some(n)
		}
	case history.RestoreBegin:
		if !r.begun {
			r.begun, r.t2, r.t3, r.t4 = true, e.At, e.At, e.At
		}
	case history.RestoreLoaded:
		r.loaded = true
		if e.At > r.t4 {
			r.t3, r.t4 = e.At, e.At
		}
		r.row.BaseBytes = add(r.row.BaseBytes, e.Bytes)
	case history.RestoreReplayed:
		// both events of a subtask come when it has restored: the slowest subtask's replay is the end of the whole
		if e.At >= r.t4 {
			r.t4, r.t3 = e.At, max(r.t2, e.At-e.Dur)
		}
		r.row.DeltaBytes = add(r.row.DeltaBytes, e.Bytes)
		r.row.Replayed = add(r.row.Replayed, e.Records)
	case history.RestoreLocal:
		if e.Attempt == r.attempt {
			r.row.BaseBytes = add(r.row.BaseBytes, e.Bytes)
		}
	case history.RestoreCopied:
		if e.Attempt == r.attempt {
			r.row.LocalBytes = add(r.row.LocalBytes, e.Bytes)
			r.row.LocalHits, r.row.LocalMisses = add(r.row.LocalHits, e.Count), add(r.row.LocalMisses, e.From)
		}
	case history.OutputFirst:
		if !r.output && e.Attempt == r.attempt {
			r.output, r.t5 = true, e.At
		}
	case history.CaughtUp:
		if e.Attempt == r.attempt && !r.caughtUp {
			r.caughtUp, r.t6 = true, time.Duration(e.From)
		}
	}
}

func add(o results.Opt, n int64) results.Opt { return results.Some(o.Value + float64(n)) }

// close writes all rows and ends the file. A step that was not reached is an empty cell.
func (t *recoveryTable) close() error {
	for _, r := range t.open {
		row := r.row
		row.Fault, row.Detect = results.Some(seconds(r.t0)), results.Some(millis(r.t1-r.t0))
		if r.begun {
			row.Restart = results.Some(millis(r.t2 - r.t1))
		}
		if r.loaded {
			row.RestoreBase, row.Replay = results.Some(millis(r.t3-r.t2)), results.Some(millis(r.t4-r.t3))
			if t.fetched != nil {
				row.Download = results.Some(millis(t.fetched.within(r.attempt, r.t2, r.t4)))
			}
		}
		if r.output {
			// a subtask may reach its first output while a slower one restores: the segments then end with the restore
			restored := r.t4
			if !r.begun {
				restored = r.t1 // no checkpoint to restore: what follows the detection is one segment
			}
			t5 := max(r.t5, restored)
			row.FirstOutput, row.Outage = results.Some(millis(t5-restored)), results.Some(millis(t5-r.t0))
			if r.caughtUp {
				row.Recovery = results.Some(millis(max(r.t6, t5) - r.t0))
			}
		}
		_ = t.out.Append(row)
	}
	return t.out.Close()
}
