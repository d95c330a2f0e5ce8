package validate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
)

// savepoints is C5: the steps of the plan, and nothing else, are what the job's life was. Each savepoint ends once, as the
// coordinator log says; it needs nothing but its own objects, which were put while it was taken, and which nobody touched
// since or names in a checkpoint, unless a start let the job do so; nothing was emitted behind one that the job was stopped with;
// and a job that was started began from what it was to start from, in a mode that the coordinator log knows.
type savepoints struct {
	c *Case
	*trace
	triggered map[uint64]taken
	ended     map[uint64]string
	completed map[uint64]taken
	emitted   map[attemptPartition]int64 // how far the sources came
	life      []string                   // what the job went through
	started   *taken                     // a start whose first attempt has not begun
	starts    []start                    // all of them
	subsumed  map[uint64]time.Duration   // when checkpoints, and savepoints that were claimed, were subsumed
	last      uint64                     // savepoint that completed last
	f         findings
}

// start is one of the job.
type start struct {
	owner
	n    int64
	from string
}

// usual tells whether it leaves things as they are: the job's own checkpoints stay its own. Results from before there were modes
// have none.
func (s start) usual() bool {
	return s.mode == "" || s.from == plan.FromCheckpoint && s.mode == plan.ModeClaim
}

// taken is an event about a savepoint, or the job's life.
type taken struct {
	n         int64
	at        time.Duration
	attempt   uint64
	id        uint64
	form      string
	stop      bool
	positions []int64
	bytes     int64
}

func newSavepoints(c *Case) *savepoints {
	return &savepoints{c: c, trace: newTrace(), triggered: map[uint64]taken{}, ended: map[uint64]string{}, completed: map[uint64]taken{},
		emitted: map[attemptPartition]int64{}, subsumed: map[uint64]time.Duration{}}
}

func (j *savepoints) Observe(e *history.Event) {
	switch e.Kind {
	case history.SavepointTriggered:
		j.triggered[e.Checkpoint] = taken{n: e.N, at: e.At, attempt: e.Attempt, id: e.Checkpoint, form: e.Text, stop: e.Reason == "stop"}
	case history.SavepointCompleted, history.SavepointAborted:
		j.end(e)
	case history.JobStopped:
		j.life = append(j.life, stopped(e.Checkpoint != 0, j.completed[e.Checkpoint].form))
		if e.Checkpoint != 0 && e.Checkpoint != j.last {
			j.f.add(e.N, "the job was stopped with savepoint %d, the last one to complete was %d", e.Checkpoint, j.last)
		}
	case history.JobStarted:
		j.life = append(j.life, begun(e.Text, plan.ModeOf(e.Text, e.Reason), j.asked(e)))
		if e.Text == plan.FromSavepoint && e.Checkpoint != j.last {
			j.f.add(e.N, "the job was started from savepoint %d, the last one to complete was %d", e.Checkpoint, j.last)
		}
		j.started = &taken{n: e.N, id: e.Checkpoint}
		j.starts = append(j.starts, start{owner{e.Checkpoint, e.Reason}, e.N, e.Text})
	case history.CheckpointSubsumed:
		j.subsumed[e.Checkpoint] = e.At
	case history.AttemptStarted:
		if s := j.started; s != nil && e.Checkpoint != s.id {
			j.f.add(e.N, "attempt %d restored %d, the job was started from %d", e.Attempt, e.Checkpoint, s.id)
		}
		j.started = nil
	case history.SourceRange:
		at := attemptPartition{e.Attempt, e.Partition}
		j.emitted[at] = max(j.emitted[at], e.To)
	}
}

// end takes the end of a savepoint.
func (j *savepoints) end(e *history.Event) {
	t, known := j.triggered[e.Checkpoint]
	if !known {
		j.f.add(e.N, "savepoint %d ended as %s and was never triggered", e.Checkpoint, e.Kind)
	}
	if was := j.ended[e.Checkpoint]; was != "" {
		j.f.add(e.N, "savepoint %d ended as %s after it had ended as %s", e.Checkpoint, e.Kind, was)
	}
	j.ended[e.Checkpoint] = string(e.Kind)
	if e.Kind == history.SavepointAborted {
		if e.Reason == "" {
			j.f.add(e.N, "savepoint %d was aborted without a reason", e.Checkpoint)
		}
		return
	}
	t.n, t.at, t.positions, t.bytes = e.N, e.At, append([]int64(nil), e.Positions...), e.Bytes
	j.completed[e.Checkpoint], j.last = t, e.Checkpoint
	if !t.stop {
		j.life = append(j.life, "savepoint "+t.form)
	}
}

func stopped(savepoint bool, form string) string {
	if savepoint {
		return "stop with savepoint " + form
	}
	return "stop"
}

// begun is a start, at parallelism p where one is given.
func begun(from, mode string, p int) string {
	text := "start from " + from
	if mode != plan.ModeOf(from, "") {
		text += " in mode " + mode
	}
	if p == 0 {
		return text
	}
	return fmt.Sprintf("%s at parallelism %d", text, p)
}

// asked is the parallelism of a start, 0 where the plan leaves it as it was, whatever rescales made of it.
func (j *savepoints) asked(e *history.Event) int {
	if want := j.planned(); len(j.life) < len(want) && want[len(j.life)] == begun(e.Text, plan.ModeOf(e.Text, e.Reason), 0) {
		return 0
	}
	return int(e.Count)
}

// planned is the life that the plan gives the job.
func (j *savepoints) planned() (life []string) {
	for _, ph := range j.c.Plan.Phases {
		for _, s := range ph.Steps {
			switch {
			case s.Stop != nil:
				life = append(life, stopped(s.Stop.Savepoint != "", s.Stop.Savepoint))
			case s.Start != nil:
				life = append(life, begun(s.Start.From, plan.ModeOf(s.Start.From, s.Start.Mode), s.Start.Parallelism))
			default:
				life = append(life, "savepoint "+s.Savepoint)
			}
		}
	}
	return life
}

func (j *savepoints) Finish() Verdict {
	want := j.planned()
	if len(j.life) > len(want) || !slices.Equal(j.life, want[:len(j.life)]) || j.c.Complete && len(j.life) < len(want) {
		j.f.add(0, "the job went through %q, planned was %q", j.life, want)
	}
	for _, id := range sortedKeys(j.completed) {
		j.behind(j.completed[id])
	}
	if j.c.Complete {
		j.finish()
	}
	if len(j.triggered) == 0 && len(want) == 0 && j.f.count == 0 {
		return pass("no savepoint and no stop was planned, and there was none")
	}
	if !j.c.Complete && j.f.count == 0 {
		return unverified(fmt.Sprintf("%d savepoints completed, and the job went through %d of %d planned steps", len(j.completed), len(j.life), len(want)))
	}
	return j.f.verdict("%d savepoints completed, %d were aborted; their objects are their own and untouched; the job went through %d steps as planned",
		len(j.completed), len(j.triggered)-len(j.completed), len(j.life))
}

// behind checks that the sources emitted nothing behind a savepoint that the job was stopped with.
func (j *savepoints) behind(t taken) {
	if !t.stop {
		return
	}
	for p, at := range t.positions {
		if to := j.emitted[attemptPartition{t.attempt, p}]; to > at {
			j.f.add(t.n, "the job was stopped with savepoint %d at record %d of source partition %d, which emitted up to %d in attempt %d", t.id, at, p, to, t.attempt)
		}
	}
}

// finish looks at what only a whole run tells.
func (j *savepoints) finish() {
	for _, id := range sortedKeys(j.triggered) {
		if j.ended[id] == "" {
			j.f.add(j.triggered[id].n, "savepoint %d was triggered and never ended", id)
		}
	}
	log := j.log()
	for _, s := range j.starts {
		if !log.starts[s.owner] && !s.usual() {
			j.f.add(s.n, "the job was started from %d in mode %s, which the coordinator log does not say", s.id, s.mode)
		}
	}
	audited := map[uint64]*results.RestoreLineOf{}
	for i := range j.c.Restores {
		if r := &j.c.Restores[i]; r.Savepoint {
			audited[r.Checkpoint] = r
		}
	}
	for _, id := range sortedKeys(j.completed) {
		t := j.completed[id]
		if !log.savepoints[id] {
			j.f.add(t.n, "savepoint %d completed without an entry in the coordinator log", id)
		}
		r := audited[id]
		switch {
		case log.claimed[id]:
			j.claimed(t)
		case r == nil:
			j.f.add(t.n, "savepoint %d completed and was not found in the store", id)
		case !r.OK:
			j.f.add(t.n, "savepoint %d cannot be restored: %s", id, r.Error)
		default:
			j.objectsOf(t, r)
		}
	}
	for _, r := range j.c.Refs {
		for _, o := range r.Added {
			if id, ok := checkpoint.SavepointOf(o.Key); ok && !log.lent[r.Checkpoint][id] {
				j.f.add(0, "checkpoint %d names %s, which is the user's", r.Checkpoint, o.Key)
			}
		}
	}
}

// owner is who owns, in a mode, what a job was started from.
type owner struct {
	id   uint64
	mode string
}

// ledger is what the coordinator log says of savepoints.
type ledger struct {
	savepoints map[uint64]bool            // completed
	claimed    map[uint64]bool            // made the job's by a start
	starts     map[owner]bool             // that changed hands
	lent       map[uint64]map[uint64]bool // by checkpoint: the savepoints that it may name, since the job was started from them
}

// log goes through the coordinator log.
func (j *savepoints) log() ledger {
	o := ledger{savepoints: map[uint64]bool{}, claimed: map[uint64]bool{}, starts: map[owner]bool{}, lent: map[uint64]map[uint64]bool{}}
	var lent map[uint64]bool
	for _, l := range j.c.CoordLog {
		switch checkpoint.Kind(l.Kind) {
		case checkpoint.Savepoint:
			if j.completed[l.Checkpoint].n == 0 || o.savepoints[l.Checkpoint] {
				j.f.add(0, "the coordinator log completes savepoint %d (entry %d), the history does not, or once only", l.Checkpoint, l.Sequence)
			}
			o.savepoints[l.Checkpoint] = true
		case checkpoint.Complete:
			o.lent[l.Checkpoint] = lent
		case checkpoint.Start:
			o.starts[owner{l.Checkpoint, l.Mode}] = true
			id, ok := checkpoint.SavepointOf(l.Meta)
			o.claimed[id] = o.claimed[id] || ok && l.Mode == plan.ModeClaim
			switch {
			case l.Mode == plan.ModeNoClaim:
				lent = nil
			case ok:
				lent = map[uint64]bool{id: true}
			default: // as the checkpoint may that it was started from
				lent = o.lent[l.Checkpoint]
			}
		}
	}
	return o
}

// claimed checks that nothing of a claimed savepoint was deleted before the job subsumed it. Whether what is left of it can be
// restored is C3's, like of any other checkpoint.
func (j *savepoints) claimed(t taken) {
	for _, key := range sortedKeys(j.objects) {
		if !strings.HasPrefix(key, checkpoint.SavepointFolder(t.id)) {
			continue
		}
		for _, d := range j.objects[key].deletes {
			if at, ok := j.subsumed[t.id]; !ok || d.start < at {
				j.f.add(t.n, "%s was deleted at %v by %s (request %d), before the job that had claimed savepoint %d subsumed it", key, d.start, d.who, d.seq, t.id)
			}
		}
	}
}

// objectsOf checks the objects of one savepoint.
func (j *savepoints) objectsOf(t taken, r *results.RestoreLineOf) {
	bytes := int64(0)
	for _, o := range r.Objects {
		if o.Key != r.MetaKey {
			bytes += o.Bytes
		}
		if !strings.HasPrefix(o.Key, checkpoint.SavepointFolder(t.id)) {
			j.f.add(t.n, "savepoint %d names %s, which is not its own", t.id, o.Key)
			continue
		}
		x := j.objects[o.Key]
		if x == nil {
			j.f.add(t.n, "savepoint %d names %s, which was never put", t.id, o.Key)
			continue
		}
		for _, p := range x.puts {
			if p.start < j.triggered[t.id].at || p.start > t.at || !p.unknown && p.end > t.at {
				j.f.add(t.n, "%s was put at %v (request %d), savepoint %d was taken from %v to %v", o.Key, p.start, p.seq, t.id, j.triggered[t.id].at, t.at)
			}
		}
		for _, d := range x.deletes {
			j.f.add(t.n, "%s was deleted at %v by %s (request %d); savepoint %d names it", o.Key, d.start, d.who, d.seq, t.id)
		}
	}
	if bytes != t.bytes {
		j.f.add(t.n, "savepoint %d reports %d bytes, its objects have %d", t.id, t.bytes, bytes)
	}
}
