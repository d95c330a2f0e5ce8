package validate

import (
	"math"
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
	completed := 0
	for _, id := range j.order {
		switch e := j.ended[id]; {
		case e == nil:
		case e.Kind == history.CheckpointCompleted:
			completed++
			j.completed(id, rows[id])
		case rows[id].Status != "aborted" || rows[id].Reason != e.Reason:
			j.f.add(e.N, "checkpoint %d is %s (%s) in %s, aborted (%s) in the history", id, rows[id].Status, rows[id].Reason, results.CheckpointsFile, e.Reason)
		}
	}
	exact := j.references()
	if completed == 0 && j.f.count == 0 {
		return inconclusive("no checkpoint completed whose figures could be looked at")
	}
	return j.f.verdict("%d checkpoints: durations, sizes and counts in %s are those of history, references and object trace; "+
		"of %d that completed, the bytes first referenced are those of the objects added for %d and no more than those for the others",
		len(rows), results.CheckpointsFile, completed, exact)
}

// together splits the checkpoints, in the order of their triggers, into groups: all of a group have ended before one of the next was
// triggered. Most have one member.
func (j *numbers) together() (groups [][]uint64) {
	over := int64(-1) // when all of the last group have ended
	for _, id := range j.order {
		if j.triggered[id].N > over {
			groups = append(groups, nil)
		}
		end := int64(math.MaxInt64)
		if e := j.ended[id]; e != nil {
			end = e.N
		}
		over = max(over, end)
		groups[len(groups)-1] = append(groups[len(groups)-1], id)
	}
	return groups
}

// referenced are the bytes that the completed checkpoints of a group report, less those that they added to what is referenced.
type referenced struct {
	ids           []uint64 // completed
	event         int64    // the end of the last one
	logs          bool     // with the changelog on
	checkpointed  int64
	materialized  int64
	preemptive    bool
	added         bytesAdded
	whole         bool // all of the group completed
	owed, owedLog int64
}

// references judges the bytes first referenced, and returns for how many checkpoints exactly. Of several at a time the first to be
// acknowledged by a subtask counts what all of them name, which need not be the first to complete: only their sum is that of the
// objects added. Where one did not complete, what it had counted is counted again by one that names it still, if any: then the
// sums, from the last group on all of which completed, are no more than what was added.
func (j *numbers) references() (exact int) {
	before := referenced{whole: true}
	for _, ids := range j.together() {
		r := j.sum(ids)
		if !before.whole {
			r.owed, r.owedLog = before.owed, before.owedLog
		}
		if before.whole && r.whole {
			exact += len(r.ids)
		}
		j.compare(&r, before.whole && r.whole)
		before = r
	}
	return exact
}

// sum adds up what the completed ones of a group report and what they added.
func (j *numbers) sum(ids []uint64) referenced {
	r := referenced{whole: true}
	for _, id := range ids {
		e := j.ended[id]
		if e == nil || e.Kind != history.CheckpointCompleted {
			r.whole = false
			continue
		}
		b := j.added[id]
		r.ids, r.event, r.logs = append(r.ids, id), max(r.event, e.N), j.logs[id]
		r.added.base += b.base
		r.added.log += b.log
		r.added.logs += b.logs
		if s := e.Sizes; s != nil {
			r.checkpointed += s.Checkpointed
			r.materialized += s.Materialized
			r.preemptive = r.preemptive || s.Preemptive != 0
		}
	}
	return r
}

// compare judges one group by the references, and sets what is left over of what was added.
func (j *numbers) compare(r *referenced, exact bool) {
	base, what := r.checkpointed, "bytes checkpointed, the objects"
	if r.logs {
		base, what = r.materialized, "bytes materialized, the base objects"
	}
	who := "checkpoint"
	for i, id := range r.ids {
		who += []string{" ", ", "}[min(i, 1)] + strconv.FormatUint(id, 10)
	}
	if r.owed += r.added.base - base; r.owed < 0 || exact && r.owed != 0 {
		j.f.add(r.event, "%s reports %d %s it added have %d", who, base, what, r.added.base)
		r.owed = 0
	}
	if !r.logs {
		return
	}
	// Of an object that was put ahead of the checkpoint, and of one from before a materialization's cut, only a part may
	// still be needed: then the objects bound the parts from above only.
	whole := exact && !r.preemptive && r.added.base == 0
	if r.owedLog += r.added.log - r.checkpointed; r.owedLog < 0 || whole && r.owedLog > r.added.logs*framing {
		j.f.add(r.event, "%s reports %d log bytes first referenced, the %d log objects it added have %d", who, r.checkpointed, r.added.logs, r.added.log)
		r.owedLog = 0
	}
}

// completed checks one row against the events.
func (j *numbers) completed(id uint64, row results.CheckpointRow) {
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
	if b := j.added[id]; s.Full > b.named {
		j.f.add(e.N, "checkpoint %d reports a full size of %d, all objects it names have %d", id, s.Full, b.named)
	}
}
