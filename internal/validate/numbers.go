package validate

import (
	"strconv"
	"strings"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
)

// numbers is M1: the figures that the run reports are those that the history and the object trace give.
type numbers struct {
	c         *Case
	triggered map[uint64]*history.Event
	ended     map[uint64]*history.Event
	skipped   int
	order     []uint64 // of triggers
	added     map[uint64]bytesAdded
	lives     []plan.Backend  // of the job, one after the other
	life      int             // the one that runs
	logs      map[uint64]bool // checkpoints that were triggered with the changelog on
	recoveries
	f findings
}

// bytesAdded are the objects that a completed checkpoint names and the one before it did not.
type bytesAdded struct {
	base, log int64
	logs      int64 // number of log objects
	named     int64 // bytes of all objects that the checkpoint names
}

// framing bounds what a log object holds besides the parts that handles name: its head, its index and its foot.
const framing = 64 << 10

func newNumbers(c *Case) *numbers {
	j := &numbers{c: c, triggered: map[uint64]*history.Event{}, ended: map[uint64]*history.Event{}, added: map[uint64]bytesAdded{},
		lives: c.Plan.Lives(), logs: map[uint64]bool{}}
	sizes, all := map[string]int64{}, int64(0)
	for _, r := range c.Refs {
		var b bytesAdded
		for _, k := range r.Dropped {
			all -= sizes[k]
			delete(sizes, k)
		}
		for _, o := range r.Added {
			all += o.Bytes - sizes[o.Key]
			sizes[o.Key] = o.Bytes
			switch {
			case strings.HasPrefix(o.Key, "base/"):
				b.base += o.Bytes
			case strings.HasPrefix(o.Key, "log/"):
				b.log += o.Bytes
				b.logs++
			}
		}
		b.named = all
		j.added[r.Checkpoint] = b
	}
	return j
}

func (j *numbers) Observe(e *history.Event) {
	switch e.Kind {
	case history.CheckpointTriggered:
		c := *e // within the case: a copy of every event would be most of what this check costs
		j.triggered[e.Checkpoint] = &c
		j.order = append(j.order, e.Checkpoint)
		j.logs[e.Checkpoint] = j.lives[min(j.life, len(j.lives)-1)].Changelog.Enabled
	case history.JobStarted:
		j.life++
	case history.CheckpointCompleted, history.CheckpointAborted:
		c := *e
		j.ended[e.Checkpoint] = &c
	case history.CheckpointSkipped:
		j.skipped++
	}
	j.recoveries.observe(e)
}

func (j *numbers) Finish() Verdict {
	rows, skipped := map[uint64]results.CheckpointRow{}, 0
	for _, r := range j.c.checkpoints {
		if r.Status == "skipped" {
			skipped++
			continue
		}
		id, err := strconv.ParseUint(r.ID, 10, 64)
		if _, twice := rows[id]; err != nil || twice {
			j.f.add(0, "%s has a row with id %q, or several", results.CheckpointsFile, r.ID)
			continue
		}
		rows[id] = r
	}
	if skipped != j.skipped {
		j.f.add(0, "%s has %d skipped triggers, the history has %d", results.CheckpointsFile, skipped, j.skipped)
	}
	if len(rows) != len(j.triggered) {
		j.f.add(0, "%s has %d checkpoints, the history has %d", results.CheckpointsFile, len(rows), len(j.triggered))
	}
	j.recoveries.finish(j.c, &j.f)
	before := true // the checkpoint before completed, so that this one's objects are those added against it
	for i, id := range j.order {
		e := j.ended[id]
		completed := e != nil && e.Kind == history.CheckpointCompleted
		switch {
		case completed:
			j.completed(id, rows[id], before && j.alone(i) && (i == 0 || j.alone(i-1)))
		case e != nil && (rows[id].Status != "aborted" || rows[id].Reason != e.Reason):
			j.f.add(e.N, "checkpoint %d is %s (%s) in %s, aborted (%s) in the history", id, rows[id].Status, rows[id].Reason, results.CheckpointsFile, e.Reason)
		}
		before = completed
	}
	return j.f.verdict("%d checkpoints: durations, sizes and counts in %s are those of history, references and object trace", len(rows), results.CheckpointsFile)
}

// alone tells whether no other checkpoint was under way together with the i-th one that was triggered. Of several at a time the
// first to be acknowledged by a subtask counts what all of them reference, which need not be the first to complete, nor to complete at
// all: then the next one counts it.
func (j *numbers) alone(i int) bool {
	apart := func(a, b uint64) bool {
		end := j.ended[a]
		return end != nil && end.N < j.triggered[b].N
	}
	return (i == 0 || apart(j.order[i-1], j.order[i])) && (i+1 == len(j.order) || apart(j.order[i], j.order[i+1]))
}

// completed checks one row against the events and, where sizes says that the checkpoint before completed too, and that no other was
// under way together with either, against the references.
func (j *numbers) completed(id uint64, row results.CheckpointRow, sizes bool) {
	t, e := j.triggered[id], j.ended[id]
	if d := e.At - t.At; d != e.Dur {
		j.f.add(e.N, "checkpoint %d reports a duration of %v, from trigger to completion are %v", id, e.Dur, d)
	}
	if got := time.Duration(row.Duration.Value * float64(time.Millisecond)); row.Status != "completed" || (got-e.Dur).Abs() > time.Microsecond {
		j.f.add(e.N, "checkpoint %d is %s with %v in %s, completed with %v in the history", id, row.Status, got, results.CheckpointsFile, e.Dur)
	}
	if at := fromSeconds(row.Trigger); (at - t.At).Abs() > time.Microsecond {
		j.f.add(t.N, "checkpoint %d was triggered at %v by %s, at %v by the history", id, at, results.CheckpointsFile, t.At)
	}
	s := e.Sizes
	if s == nil {
		j.f.add(e.N, "checkpoint %d completed without sizes", id)
		return
	}
	if s.Full != s.Base+s.Delta {
		j.f.add(e.N, "checkpoint %d: full size %d is not base %d plus delta %d", id, s.Full, s.Base, s.Delta)
	}
	if int64(row.Full.Value) != s.Full || int64(row.Checkpointed.Value) != s.Checkpointed || int64(row.Materialized.Value) != s.Materialized ||
		int64(row.Base.Value) != s.Base || int64(row.Delta.Value) != s.Delta || int64(row.Preemptive.Value) != s.Preemptive || int64(row.Objects.Value) != s.Objects {
		j.f.add(e.N, "checkpoint %d: byte figures in %s differ from the history", id, results.CheckpointsFile)
	}
	if differ(row.StartDelay, s.StartDelay) || differ(row.Align, s.Align) || differ(row.Sync, s.Sync) || differ(row.Async, s.Async) {
		j.f.add(e.N, "checkpoint %d: the parts of its duration in %s differ from the history", id, results.CheckpointsFile)
	}
	b := j.added[id]
	if s.Full > b.named {
		j.f.add(e.N, "checkpoint %d reports a full size of %d, all objects it names have %d", id, s.Full, b.named)
	}
	if !sizes {
		return
	}
	if !j.logs[id] {
		if s.Checkpointed != b.base {
			j.f.add(e.N, "checkpoint %d reports %d bytes checkpointed, the objects it added have %d", id, s.Checkpointed, b.base)
		}
		return
	}
	if s.Materialized != b.base {
		j.f.add(e.N, "checkpoint %d reports %d bytes materialized, the base objects it added have %d", id, s.Materialized, b.base)
	}
	// Of an object that was put ahead of the checkpoint, and of one from before a materialization's cut, only a part may
	// still be needed: then the objects bound the parts from above only.
	whole := s.Preemptive == 0 && b.base == 0
	if s.Checkpointed > b.log || whole && b.log-s.Checkpointed > b.logs*framing {
		j.f.add(e.N, "checkpoint %d reports %d log bytes first referenced, the %d log objects it added have %d", id, s.Checkpointed, b.logs, b.log)
	}
}
