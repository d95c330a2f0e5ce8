package run

import (
	"strconv"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
)

// phaseInfo is the phase under way, and whether statistics leave it out.
type phaseInfo struct {
	name    string
	discard bool
}

// checkpointTable turns events into the rows of checkpoints.csv, written while the run goes on: a checkpoint's row when it ends.
type checkpointTable struct {
	plan    *plan.Plan
	out     *results.CSV[results.CheckpointRow]
	phase   phaseInfo
	pending map[uint64]*results.CheckpointRow
	order   []uint64 // of pending
	attempt uint64
}

func newCheckpointTable(p *plan.Plan, path string) (*checkpointTable, error) {
	out, err := results.CreateCSV[results.CheckpointRow](path)
	if err != nil {
		return nil, err
	}
	return &checkpointTable{plan: p, out: out, pending: map[uint64]*results.CheckpointRow{}}, nil
}

// observe is called for every stored event in order.
func (t *checkpointTable) observe(e *history.Event) {
	switch e.Kind {
	case history.PhaseBegin:
		t.phase = phaseInfo{name: e.Phase}
		for _, p := range t.plan.Phases {
			if p.Name == e.Phase {
				t.phase.discard = p.Discard || p.Until != ""
			}
		}
	case history.AttemptStarted:
		t.attempt = e.Attempt
	case history.CheckpointSkipped:
		row := t.row("skipped")
		row.Reason, row.Planned = e.Reason, results.Some(seconds(e.Planned))
		_ = t.out.Append(row) // the error is kept for Close
	case history.CheckpointTriggered:
		row := t.row("pending")
		row.ID = strconv.FormatUint(e.Checkpoint, 10)
		row.Trigger = results.Some(seconds(e.At))
		if e.Text == "" { // else it is outside the schedule: nothing was planned
			row.Planned = results.Some(seconds(e.Planned))
			row.Late = results.Some(millis(e.At - e.Planned))
		}
		row.Attempt = e.Attempt
		t.pending[e.Checkpoint] = &row
		t.order = append(t.order, e.Checkpoint)
	case history.CheckpointCompleted:
		t.end(e, "completed")
	case history.CheckpointAborted:
		t.end(e, "aborted")
	}
}

func (t *checkpointTable) row(status string) results.CheckpointRow {
	return results.CheckpointRow{Kind: "checkpoint", Status: status, Phase: t.phase.name, Discard: t.phase.discard, Attempt: t.attempt,
		Arm: t.plan.Arm, World: t.plan.World, Profile: t.plan.Store.Profile}
}

func (t *checkpointTable) end(e *history.Event, status string) {
	row := t.pending[e.Checkpoint]
	if row == nil {
		return // not triggered: the check C2 tells
	}
	delete(t.pending, e.Checkpoint)
	row.Status, row.Reason = status, e.Reason
	row.Duration = results.Some(millis(e.Dur))
	if s := e.Sizes; s != nil {
		row.StartDelay, row.Align = results.Some(millis(s.StartDelay)), results.Some(millis(s.Align))
		row.Sync, row.Async = results.Some(millis(s.Sync)), results.Some(millis(s.Async))
		row.Checkpointed, row.Full = results.Some(s.Checkpointed), results.Some(s.Full)
		row.Base, row.Delta = results.Some(s.Base), results.Some(s.Delta)
		row.Preemptive, row.Materialized = results.Some(s.Preemptive), results.Some(s.Materialized)
		row.Objects = results.Some(s.Objects)
		if status == "completed" {
			row.Dead, row.Metadata = results.Some(max(0, s.Held-s.Full)), results.Some(s.Metadata)
			if !t.plan.Simulated() {
				row.Encode = results.Some(millis(s.Encode))
			}
		}
	}
	_ = t.out.Append(*row)
}

// close writes what is still pending and ends the file.
func (t *checkpointTable) close() error {
	for _, id := range t.order {
		if row := t.pending[id]; row != nil {
			_ = t.out.Append(*row)
		}
	}
	return t.out.Close()
}

func seconds(d time.Duration) float64 { return d.Seconds() }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
