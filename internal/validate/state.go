package validate

import (
	"fmt"
	"slices"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/results"
)

// finalState is S1: the keyed state in the final checkpoint is the model's.
type finalState struct{ c *Case }

func (j *finalState) Finish() Verdict {
	if !j.c.Complete {
		return unverified()
	}
	if j.c.truth.err != nil {
		return Verdict{Verdict: results.Fail, Summary: j.c.truth.err.Error()}
	}
	last := len(j.c.Restores) - 1
	for last >= 0 && j.c.Restores[last].Savepoint { // one may have been taken after the last checkpoint
		last--
	}
	if last < 0 {
		return inconclusive("no checkpoint was left to look at")
	}
	r := j.c.Restores[last]
	if !r.OK {
		return inconclusive("the final checkpoint %d could not be restored: %s", r.Checkpoint, r.Error)
	}
	var f findings
	n := j.c.truth.compare(r.Checkpoint, groupsOf(r), true, &f, 0)
	for _, g := range r.Groups {
		if g.Count > 0 && j.c.truth.timely(g.Operator, g.State) {
			f.add(0, "checkpoint %d, %s/%s, key group %d: %d elements are held back still, the input has ended", r.Checkpoint, g.Operator, g.State, g.Group, g.Count)
		}
	}
	addDiffering(&f, r)
	return f.verdict("%d groups of state in checkpoint %d equal the model", n, r.Checkpoint)
}

func groupsOf(r results.RestoreLineOf) []history.GroupDigest {
	all := make([]history.GroupDigest, len(r.Groups))
	for i, g := range r.Groups {
		all[i] = history.GroupDigest{Operator: g.Operator, State: g.State, Group: g.Group, Count: g.Count, Digest: g.Digest}
	}
	return all
}

// addDiffering adds the first differing elements as evidence.
func addDiffering(f *findings, r results.RestoreLineOf) {
	for _, g := range r.Groups {
		for _, e := range g.Missing {
			f.evidence = appendUpTo(f.evidence, fmt.Sprintf("only in the model: %s/%s, key group %d, element %s", g.Operator, g.State, g.Group, e))
		}
		for _, e := range g.Extra {
			f.evidence = appendUpTo(f.evidence, fmt.Sprintf("only in the state: %s/%s, key group %d, element %s", g.Operator, g.State, g.Group, e))
		}
	}
}

func appendUpTo(list []string, s string) []string {
	if len(list) < 2*maxEvidence {
		list = append(list, s)
	}
	return list
}

// restoredState is S3: what was restored from a checkpoint is the model's state at the checkpoint's positions, in each
// restore of the run that recorded digests and for each retained checkpoint. Of state that no model has, since it depends on when
// things happened, all restores of one checkpoint have the same.
type restoredState struct {
	c         *Case
	restores  []restored
	completed map[uint64][]int64 // positions
	timely    map[timelyID]history.GroupDigest
}

// timelyID is a group of timely state in a checkpoint.
type timelyID struct {
	checkpoint uint64
	stateID
}

type restored struct {
	event      int64
	attempt    uint64
	checkpoint uint64
	digests    []history.GroupDigest
}

func newRestoredState(c *Case) *restoredState {
	return &restoredState{c: c, completed: map[uint64][]int64{}, timely: map[timelyID]history.GroupDigest{}}
}

func (j *restoredState) Observe(e *history.Event) {
	if e.Kind == history.CheckpointCompleted || e.Kind == history.SavepointCompleted {
		j.completed[e.Checkpoint] = append([]int64(nil), e.Positions...)
	}
	if e.Kind == history.RestoreDone && e.Checkpoint > 0 && len(e.Digests) > 0 {
		j.restores = append(j.restores, restored{e.N, e.Attempt, e.Checkpoint, append([]history.GroupDigest(nil), e.Digests...)})
	}
}

func (j *restoredState) Finish() Verdict {
	if j.c.truth.err != nil {
		return Verdict{Verdict: results.Fail, Summary: j.c.truth.err.Error()}
	}
	var f findings
	groups := 0
	for _, r := range j.restores {
		if _, known := j.c.truth.states[r.checkpoint]; !known {
			f.add(r.event, "attempt %d restored checkpoint %d, which never completed", r.attempt, r.checkpoint)
			continue
		}
		groups += j.c.truth.compare(r.checkpoint, r.digests, false, &f, r.event)
		j.alike(r.checkpoint, r.digests, &f, r.event)
	}
	audited := 0
	for _, r := range j.c.Restores {
		if r.OK {
			all := groupsOf(r)
			groups += j.c.truth.compare(r.Checkpoint, all, true, &f, 0)
			j.alike(r.Checkpoint, all, &f, 0)
			addDiffering(&f, r)
			audited++
		}
		if at, known := j.completed[r.Checkpoint]; known && r.OK && !slices.Equal(at, r.Positions) {
			f.add(0, "the metadata of checkpoint %d has the source positions %v, it completed with %v", r.Checkpoint, r.Positions, at)
		}
	}
	if f.count == 0 && (groups == 0 || j.c.Complete && audited == 0) {
		return inconclusive("no restored state was looked at, or none of a retained checkpoint")
	}
	return f.verdict("%d groups of state equal the model: %d subtask restores in the run, %d retained checkpoints and savepoints", groups, len(j.restores), audited)
}

// alike compares the timely state of a checkpoint with what another restore of it had.
func (j *restoredState) alike(id uint64, got []history.GroupDigest, f *findings, event int64) {
	for _, g := range got {
		if !j.c.truth.timely(g.Operator, g.State) {
			continue
		}
		at := timelyID{id, stateID{g.Operator, g.State, g.Group}}
		was, known := j.timely[at]
		if known && (g.Count != was.Count || g.Count > 0 && g.Digest != was.Digest) {
			f.add(event, "checkpoint %d, %s/%s, key group %d: %d elements with digest %s, another restore of it had %d with %s",
				id, g.Operator, g.State, g.Group, g.Count, g.Digest, was.Count, was.Digest)
		}
		j.timely[at] = g
	}
}

// ownership is S5: in every attempt the key-group ranges of each keyed operator are disjoint and complete, and each subtask
// restored only keys that it owns, and all of them.
type ownership struct {
	c        *Case
	attempts []*attemptRanges
}

type attemptRanges struct {
	event      int64
	attempt    uint64
	checkpoint uint64
	running    bool
	owners     map[string][]int          // operator -> owners of each key group
	digests    []history.GroupDigest     // all subtasks of the attempt
	ranges     map[string]keygroup.Range // subtask -> range
}

func (j *ownership) Observe(e *history.Event) {
	switch e.Kind {
	case history.AttemptStarted:
		j.attempts = append(j.attempts, &attemptRanges{event: e.N, attempt: e.Attempt, checkpoint: e.Checkpoint,
			owners: map[string][]int{}, ranges: map[string]keygroup.Range{}})
	case history.AttemptRunning:
		if a := j.current(e); a != nil {
			a.running = true
		}
	case history.RestoreBegin:
		a := j.current(e)
		if a == nil || len(e.Ranges) != 1 {
			return
		}
		op := operatorOf(e.Actor)
		if a.owners[op] == nil {
			a.owners[op] = make([]int, j.c.Plan.Job.MaxParallelism)
		}
		a.ranges[e.Actor] = e.Ranges[0]
		for g := int(e.Ranges[0].From); g < int(e.Ranges[0].To) && g < len(a.owners[op]); g++ {
			a.owners[op][g]++
		}
	case history.RestoreDone:
		a := j.current(e)
		if a == nil {
			return
		}
		for _, d := range e.Digests {
			if r, known := a.ranges[e.Actor]; known && d.Count > 0 && !r.Contains(d.Group) {
				d.State = "\x00" + e.Actor + "\x00" + d.State // marked: told in Finish
			}
			a.digests = append(a.digests, d)
		}
	}
}

func (j *ownership) current(e *history.Event) *attemptRanges {
	for i := len(j.attempts) - 1; i >= 0; i-- {
		if j.attempts[i].attempt == e.Attempt {
			return j.attempts[i]
		}
	}
	return nil
}

func (j *ownership) Finish() Verdict {
	var f findings
	judged := 0
	for _, a := range j.attempts {
		if !a.running {
			continue
		}
		judged++
		for _, op := range sortedKeys(a.owners) {
			for g, n := range a.owners[op] {
				if n != 1 {
					f.add(a.event, "attempt %d: key group %d of operator %s has %d owners", a.attempt, g, op, n)
				}
			}
		}
		j.keys(a, &f)
	}
	if judged == 0 {
		return inconclusive("no attempt came to run")
	}
	return f.verdict("key-group ranges are disjoint and complete in %d attempts", judged)
}

// keys checks that an attempt restored every group that the checkpoint has, where it recorded digests.
func (j *ownership) keys(a *attemptRanges, f *findings) {
	if a.checkpoint == 0 || !j.c.Plan.Verify.RestoreDigests || j.c.truth.states[a.checkpoint] == nil {
		return
	}
	got := map[stateID]int64{}
	for _, d := range a.digests {
		if d.State != "" && d.State[0] == 0 {
			f.add(a.event, "attempt %d: a subtask restored key group %d of %s, which it does not own", a.attempt, d.Group, d.Operator)
			continue
		}
		got[stateID{d.Operator, d.State, d.Group}] += d.Count
	}
	lost := 0
	for at, w := range j.c.truth.states[a.checkpoint] { // order-free: a count
		if got[at] != w.Count {
			lost++
		}
	}
	if lost > 0 {
		f.add(a.event, "attempt %d, restored from checkpoint %d: %d groups of state do not have the model's number of elements", a.attempt, a.checkpoint, lost)
	}
}
