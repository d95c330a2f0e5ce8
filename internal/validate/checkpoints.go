package validate

import (
	"time"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
)

// ends is C2: each triggered checkpoint ends once, completed or aborted with one reason, and completed is what the
// coordinator log says and nothing else.
type ends struct {
	c         *Case
	triggered map[uint64]int64 // id -> event
	ended     map[uint64]string
	completed map[uint64]int64
	subsumed  map[uint64]int64
	f         findings
}

func (j *ends) Observe(e *history.Event) {
	switch e.Kind {
	case history.CheckpointSubsumed:
		j.subsumed[e.Checkpoint] = e.N
	case history.CheckpointTriggered:
		j.triggered[e.Checkpoint] = e.N
	case history.CheckpointCompleted, history.CheckpointAborted:
		if j.triggered[e.Checkpoint] == 0 {
			j.f.add(e.N, "checkpoint %d ended as %s and was never triggered", e.Checkpoint, e.Kind)
		}
		if was := j.ended[e.Checkpoint]; was != "" {
			j.f.add(e.N, "checkpoint %d ended as %s after it had ended as %s", e.Checkpoint, e.Kind, was)
		}
		j.ended[e.Checkpoint] = string(e.Kind)
		if e.Kind == history.CheckpointCompleted {
			j.completed[e.Checkpoint] = e.N
		} else if e.Reason == "" {
			j.f.add(e.N, "checkpoint %d was aborted without a reason", e.Checkpoint)
		}
	}
}

func (j *ends) Finish() Verdict {
	if len(j.triggered) == 0 && j.f.count == 0 {
		return inconclusive("no checkpoint was triggered")
	}
	if j.c.Complete {
		j.finish()
	}
	return j.f.verdict("%d checkpoints ended once, %d of them completed in the coordinator log", len(j.triggered), len(j.completed))
}

// finish looks at what only a whole run tells: that everything ended, and what the coordinator log says.
func (j *ends) finish() {
	for _, id := range sortedKeys(j.triggered) {
		if j.ended[id] == "" {
			j.f.add(j.triggered[id], "checkpoint %d was triggered and never ended", id)
		}
	}
	inLog, dropped := j.log()
	refs, last := map[uint64]bool{}, uint64(0)
	for _, r := range j.c.Refs {
		if r.Checkpoint <= last {
			j.f.add(0, "%s has checkpoint %d after %d", results.RefsFile, r.Checkpoint, last)
		}
		refs[r.Checkpoint], last = true, r.Checkpoint
	}
	for _, id := range sortedKeys(j.completed) {
		if !inLog[id] {
			j.f.add(j.completed[id], "checkpoint %d completed without an entry in the coordinator log", id)
		}
		if !refs[id] {
			j.f.add(j.completed[id], "checkpoint %d completed without a line in %s", id, results.RefsFile)
		}
	}
	for _, id := range sortedKeys(j.subsumed) {
		if !dropped[id] {
			j.f.add(j.subsumed[id], "checkpoint %d was subsumed, the coordinator log never drops it", id)
		}
	}
}

// log goes through the coordinator log: its numbers have no gap, and it completes and drops what the history does.
func (j *ends) log() (completed, dropped map[uint64]bool) {
	completed, dropped = map[uint64]bool{}, map[uint64]bool{}
	claimed := map[uint64]bool{} // what a start made the job's: savepoints become its checkpoints
	want := uint64(1)
	for _, l := range j.c.CoordLog {
		if l.Sequence != want {
			j.f.add(0, "the coordinator log has entry %d where %d should be", l.Sequence, want)
		}
		want = l.Sequence + 1
		switch checkpoint.Kind(l.Kind) {
		case checkpoint.Complete:
			if j.completed[l.Checkpoint] == 0 || completed[l.Checkpoint] {
				j.f.add(0, "the coordinator log completes checkpoint %d (entry %d), the history does not, or once only", l.Checkpoint, l.Sequence)
			}
			completed[l.Checkpoint] = true
		case checkpoint.Drop:
			if !completed[l.Checkpoint] && !claimed[l.Checkpoint] || dropped[l.Checkpoint] || j.subsumed[l.Checkpoint] == 0 {
				j.f.add(0, "the coordinator log drops checkpoint %d (entry %d), which it did not hold, or which the history retains", l.Checkpoint, l.Sequence)
			}
			dropped[l.Checkpoint] = true
		case checkpoint.Start:
			if l.Mode == plan.ModeClaim {
				claimed[l.Checkpoint] = true
			}
		}
	}
	return completed, dropped
}

// restorable is C3: every retained checkpoint can be restored, and as many as the plan retains are there.
type restorable struct {
	c         *Case
	completed []uint64
	subsumed  map[uint64]bool
	lived     int    // of completed, up to the last stop with a savepoint, which retains none, or start that made them the user's
	claimed   uint64 // a savepoint that is retained like a checkpoint; 0: none
}

func (j *restorable) Observe(e *history.Event) {
	switch e.Kind {
	case history.CheckpointCompleted:
		j.completed = append(j.completed, e.Checkpoint)
	case history.CheckpointSubsumed:
		j.subsumed[e.Checkpoint] = true
	case history.JobStopped:
		if e.Checkpoint != 0 {
			j.lived, j.claimed = len(j.completed), 0
		}
	case history.JobStarted:
		switch {
		case plan.ModeOf(e.Text, e.Reason) != plan.ModeClaim:
			j.lived, j.claimed = len(j.completed), 0
		case e.Text == plan.FromSavepoint:
			j.claimed = e.Checkpoint
		}
	}
}

func (j *restorable) Finish() Verdict {
	if !j.c.Complete {
		return unverified()
	}
	if len(j.completed) == 0 {
		return inconclusive("no checkpoint completed")
	}
	var f findings
	audited := map[uint64]bool{}
	for _, r := range j.c.Restores {
		audited[r.Checkpoint] = true
		if !r.OK {
			f.add(0, "retained checkpoint %d cannot be restored: %s", r.Checkpoint, r.Error)
		}
	}
	retained, most := 0, len(j.completed)-j.lived
	if j.claimed != 0 {
		most++
		if !j.subsumed[j.claimed] {
			retained++
		}
	}
	for i, id := range j.completed {
		if j.subsumed[id] {
			continue
		}
		if i >= j.lived {
			retained++
		}
		if !audited[id] {
			f.add(0, "checkpoint %d completed, was never subsumed, and was not found in the store", id)
		}
	}
	if want := min(j.c.Plan.Job.Checkpoint.Retain, most); retained != want {
		f.add(0, "%d checkpoints are retained at the end, want %d", retained, want)
	}
	return f.verdict("all %d retained checkpoints can be restored", retained)
}

// fencing is C4: what belongs to a fenced attempt, a dead worker or a replaced leader changes nothing.
type fencing struct {
	c        *Case
	attempt  uint64            // the newest that was started
	over     uint64            // the newest that failed
	trigger  map[uint64]uint64 // checkpoint -> attempt that it was triggered in
	taken    int
	downs    map[string][]down
	requests int
	f        findings
}

// down is a time at which a worker died, and the attempt it worked in.
type down struct {
	at      time.Duration
	attempt uint64
}

func (j *fencing) Observe(e *history.Event) {
	switch e.Kind {
	case history.AttemptStarted:
		if e.Attempt <= j.attempt {
			j.f.add(e.N, "attempt %d was started after attempt %d", e.Attempt, j.attempt)
		}
		j.attempt = e.Attempt
	case history.AttemptFailed, history.JobStopped:
		j.over = max(j.over, e.Attempt)
	case history.CheckpointTriggered, history.SavepointTriggered:
		j.trigger[e.Checkpoint] = e.Attempt
	case history.CheckpointAckTaken:
		j.taken++
		switch {
		case e.Reason != "":
		case e.Attempt < j.attempt:
			j.f.add(e.N, "the coordinator took %s's acknowledgement of checkpoint %d from attempt %d while attempt %d was the newest", e.Actor, e.Checkpoint, e.Attempt, j.attempt)
		case e.Attempt <= j.over:
			j.f.add(e.N, "the coordinator took %s's acknowledgement of checkpoint %d from attempt %d after that had failed", e.Actor, e.Checkpoint, e.Attempt)
		}
	case history.CheckpointCompleted, history.SavepointCompleted:
		if a, known := j.trigger[e.Checkpoint]; known && a < j.attempt {
			j.f.add(e.N, "checkpoint %d of attempt %d completed after attempt %d had begun", e.Checkpoint, a, j.attempt)
		}
	case history.WorkerDown:
		j.downs[e.Actor] = append(j.downs[e.Actor], down{e.At, j.attempt})
	}
}

// Request looks for writes of a worker that took effect after its death. One that was under way may do so in the real world,
// where nobody can call it back; in the simulated one its process ends inside it, and it never has an end of its own.
func (j *fencing) Request(q *history.Request) {
	j.requests++
	if q.Applied == history.AppliedNo || (q.Op != history.OpPut && q.Op != history.OpDelete) {
		return
	}
	end := q.Start + q.Duration
	for _, d := range j.downs[q.Who] {
		switch {
		case q.Attempt == 0 || q.Attempt > d.attempt:
		case q.Start > d.at:
			j.f.add(0, "request %d: %s of %s by %s in attempt %d began at %v, after the worker had died at %v, and took effect",
				q.Seq, q.Op, q.Key, q.Who, q.Attempt, q.Start, d.at)
		case end > d.at && !q.Open && j.c.Plan.Simulated():
			j.f.add(0, "request %d: %s of %s by %s in attempt %d ended at %v as if the worker had not died at %v, and took effect",
				q.Seq, q.Op, q.Key, q.Who, q.Attempt, end, d.at)
		}
	}
}

func (j *fencing) Finish() Verdict {
	term := uint64(0)
	for _, l := range j.c.CoordLog {
		switch {
		case l.Kind == string(checkpoint.Takeover) && l.Term > term:
			term = l.Term
		case l.Kind == string(checkpoint.Takeover), l.Term != term:
			j.f.add(0, "entry %d of the coordinator log (%s) is of term %d, after the takeover of term %d", l.Sequence, l.Kind, l.Term, term)
		}
	}
	deaths := 0
	for _, d := range j.downs { // order-free: a sum
		deaths += len(d)
	}
	if j.f.count == 0 && (j.taken == 0 || j.requests == 0) {
		return inconclusive("no acknowledgement was taken, or no request made")
	}
	return j.f.verdict("%d acknowledgements taken, none of a fenced attempt; %d requests, none applied for a dead worker (%d deaths)", j.taken, j.requests, deaths)
}
