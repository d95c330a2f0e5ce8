package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/world"
)

// Reasons of a CheckpointSkipped event.
const (
	SkippedNotRunning = "not-running"    // not all subtasks ran
	SkippedConcurrent = "max-concurrent" // as many as may be were pending
	SkippedPause      = "min-pause"      // the one before had ended too shortly before
	SkippedNoID       = "no-id"          // no id was reserved in the log yet
	SkippedLate       = "late"           // the leader came to it after the next one was due
	SkippedStopping   = "stopping"       // the job is being stopped with a savepoint
	SkippedFailpoint  = "failpoint"      // an armed failpoint stopped it
)

// checkpoints is the checkpoint coordinator's part of the leader.
type checkpoints struct {
	settings   *plan.Checkpoint
	pending    []*pending // in order of their ids
	next       uint64     // the next id
	reserved   uint64     // ids up to here may be used
	reserving  bool
	grid       time.Duration // when the next one is planned
	ended      time.Duration // when the last one ended
	any        bool          // one has ended
	wanted     []*wanted
	completed  *checkpoint.CompletedStore
	registry   *checkpoint.Registry
	unreadable map[uint64]bool
	drops      []*checkpoint.Completed // subsumed and not yet dropped in the log, oldest first
	dropping   bool                    // a job for the first of them is open
	dropped    uint64                  // highest id that is dropped in the log
	tolerance  tolerance
	notices    []*pending // completed; their subtasks are to be told once the drops are through
}

// wanted is a checkpoint that was asked for outside the schedule.
type wanted struct {
	done  func(ctx context.Context, id uint64, err error)
	form  form          // of a savepoint
	stop  bool          // it ends the job
	last  bool          // it was asked for after the input was ordered to end: what timers of processing time hold back is to come first
	after time.Duration // not triggered before
}

// storedAt says where a part of an object that handles name is stored.
type storedAt struct {
	key    string
	offset int64
}

// pending is a checkpoint between its trigger and its end.
type pending struct {
	id        uint64
	attempt   *attempt
	planned   time.Duration
	triggered time.Duration
	deadline  time.Duration
	acked     []bool
	left      int
	states    []checkpoint.SubtaskState
	sizes     history.Sizes
	timer     time.Duration         // when those timers of processing time are due that are the first of their subtasks; 0: there are none
	parts     map[storedAt]struct{} // named so far: after a rescale several subtasks name the same one, each for its key groups
	objects   map[string]struct{}   // named so far
	overtaken bool                  // a subtask declined since the barrier of a newer one came first
	deciding  bool                  // all have acknowledged: the log decides now
	wanted    *wanted
	form      form // noForm: it is a checkpoint
}

func newCheckpoints(s *plan.Checkpoint) checkpoints {
	return checkpoints{
		settings: s, tolerance: tolerance{most: s.TolerableFailures}, next: 1, grid: world.Never, completed: checkpoint.NewCompletedStore(s.Retain),
		registry: checkpoint.NewRegistry(), unreadable: map[uint64]bool{},
	}
}

// begin fixes the grid on which checkpoints are planned: one interval after the job first ran, and so on, whatever
// happens meanwhile, so that two arms of a comparison plan the same ones.
func (k *checkpoints) begin(now time.Duration) {
	if iv := plan.D(k.settings.Interval); iv > 0 {
		k.grid = now + iv
	}
}

// wakeAt is when one is planned or expires.
func (k *checkpoints) wakeAt() time.Duration {
	at := k.grid
	for _, p := range k.pending {
		if !p.deciding {
			at = min(at, p.deadline)
		}
	}
	return at
}

// find returns the pending checkpoint id, or nil.
func (k *checkpoints) find(id uint64) *pending {
	for _, p := range k.pending {
		if p.id == id {
			return p
		}
	}
	return nil
}

// deciding tells whether the log is about to say that some checkpoint completed.
func (k *checkpoints) deciding() bool {
	for _, p := range k.pending {
		if p.deciding {
			return true
		}
	}
	return false
}

// tickCheckpoints ends those that are over their time and triggers those that are due.
func (c *coordinator) tickCheckpoints(ctx context.Context, now time.Duration) {
	k := &c.checkpoints
	c.abortPending(ctx, func(p *pending) bool { return now >= p.deadline }, ReasonExpired, "", false)
	if len(k.wanted) > 0 && now >= k.wanted[0].after && c.hindrance(now, false) == "" {
		w := k.wanted[0]
		k.wanted = k.wanted[1:]
		c.trigger(ctx, now, 0, w)
	}
	for k.grid <= now {
		planned := k.grid
		k.grid += plan.D(k.settings.Interval)
		switch why := c.hindrance(now, true); {
		case k.grid <= now:
			c.skip(ctx, planned, SkippedLate)
		case why != "":
			c.skip(ctx, planned, why)
		default:
			c.trigger(ctx, now, planned, nil)
		}
	}
}

// hindrance is why no checkpoint can be triggered now. A minimum pause holds for planned ones only; one that is asked for after the
// end of the input was ordered waits for that end, and so lies behind the last record whatever failed meanwhile.
func (c *coordinator) hindrance(now time.Duration, planned bool) string {
	k := &c.checkpoints
	pause := plan.D(k.settings.MinPause)
	switch {
	case c.phase != phaseRunning:
		return SkippedNotRunning
	case len(k.pending) >= max(k.settings.MaxConcurrent, 1):
		return SkippedConcurrent
	case planned && pause > 0 && (len(k.pending) > 0 || k.any && now < k.ended+pause):
		return SkippedPause
	case c.stop != nil && c.stop.asked && (planned || !c.checkpoints.wanted[0].stop):
		return SkippedStopping
	case !planned && c.halted && !c.network.Progress().Finished():
		return "input"
	case k.next > k.reserved:
		return SkippedNoID
	}
	return ""
}

func (c *coordinator) skip(ctx context.Context, planned time.Duration, why string) {
	c.record(ctx, history.Event{Kind: history.CheckpointSkipped, Actor: c.name, Planned: planned, Reason: why})
}

// trigger starts a checkpoint: it takes an id, makes the pending record and tells the sources' workers.
func (c *coordinator) trigger(ctx context.Context, now, planned time.Duration, w *wanted) {
	id, err := c.takeID(ctx)
	if err == nil {
		err = c.pass(ctx, failpoint.CheckpointPendingBegin)
	}
	if err != nil {
		if w != nil {
			w.done(ctx, 0, fmt.Errorf("trigger a checkpoint: %w", err))
		} else {
			c.skip(ctx, planned, SkippedFailpoint)
		}
		return
	}
	k, a := &c.checkpoints, c.attempt
	p := &pending{
		id: id, attempt: a, planned: planned, triggered: now, deadline: world.Never, wanted: w, left: len(a.running),
		acked: make([]bool, len(a.running)), states: make([]checkpoint.SubtaskState, len(a.running)),
		parts: map[storedAt]struct{}{}, objects: map[string]struct{}{},
	}
	if t := plan.D(k.settings.Timeout); t > 0 {
		p.deadline = now + t
	}
	k.pending = append(k.pending, p)
	e := history.Event{Kind: history.CheckpointTriggered, Actor: c.name, Attempt: a.id, Checkpoint: id, Planned: planned}
	t := TriggerCheckpoint{ID: id, At: now}
	if w != nil {
		e.Text = "on request"
		p.form, t.Form, t.Stop = w.form, w.form, w.stop
	}
	if p.form != noForm {
		c.savepoints.any = true
		e.Kind, e.Text = history.SavepointTriggered, p.form.String()
		if w.stop {
			e.Reason = "stop"
		}
	}
	c.record(ctx, e)
	c.toHosts(ctx, a, t)
	if err := c.pass(ctx, failpoint.CheckpointPendingEnd); err != nil {
		c.abortPending(ctx, func(q *pending) bool { return q == p }, ReasonDeclined, err.Error(), false)
	}
}

// takeID returns the next id. When the reserved ones run low, more are reserved beside the loop.
func (c *coordinator) takeID(ctx context.Context) (uint64, error) {
	k := &c.checkpoints
	if err := c.pass(ctx, failpoint.CheckpointIDBegin); err != nil {
		return 0, err
	}
	id := k.next
	k.next++
	if c.mutant(mutantReuseID) && c.reused < c.attempt.id && c.attempt.id > 1 {
		c.reused, id = c.attempt.id, id-1
	}
	c.reserveAhead()
	return id, c.pass(ctx, failpoint.CheckpointIDEnd)
}

// ahead is how many ids are kept in reserve.
const ahead = 100

func (c *coordinator) reserveAhead() {
	k := &c.checkpoints
	if k.next+ahead > k.reserved && !k.reserving {
		k.reserving = true
		c.ledger.give(ledgerJob{reserve: k.next + ahead})
	}
}

// abortPending ends those pending checkpoints that which selects, unless they are being decided. Their subtasks are told.
func (c *coordinator) abortPending(ctx context.Context, which func(*pending) bool, reason, why string, injected bool) {
	var ended []*pending
	kept := c.checkpoints.pending[:0]
	for _, p := range c.checkpoints.pending {
		if !p.deciding && which(p) {
			ended = append(ended, p)
		} else {
			kept = append(kept, p)
		}
	}
	c.checkpoints.pending = kept
	for _, p := range ended {
		c.aborted(ctx, p, reason, why, injected)
	}
}

// aborted says that p, which is not pending any more, did not complete. Nothing is wrong with one that a newer one overtook: who asked
// for it gets another one.
func (c *coordinator) aborted(ctx context.Context, p *pending, reason, why string, injected bool) {
	if p.form != noForm {
		c.savepointAborted(ctx, p, reason, why, injected)
		return
	}
	now := c.world.Now()
	c.checkpoints.ended, c.checkpoints.any = now, true
	c.record(ctx, history.Event{Kind: history.CheckpointAborted, Actor: c.name, Attempt: p.attempt.id, Checkpoint: p.id,
		Planned: p.planned, Dur: now - p.triggered, Reason: reason, Error: why, Injected: injected})
	if !p.overtaken {
		c.checkpoints.tolerance.note(reason, why)
	}
	if !p.attempt.over {
		c.toHosts(ctx, p.attempt, CheckpointAborted{ID: p.id})
	}
	switch {
	case p.wanted == nil:
	case reason == ReasonSubsumed && c.failure == "" && !c.ending():
		c.checkpoints.wanted = slices.Insert(c.checkpoints.wanted, 0, p.wanted)
	default:
		text := reason
		if why != "" {
			text += ": " + why
		}
		p.wanted.done(ctx, 0, fmt.Errorf("checkpoint %d was aborted: %s", p.id, text))
	}
}

// decline ends a checkpoint in which a subtask cannot take part.
func (c *coordinator) decline(ctx context.Context, m Message, b Decline) {
	if c.current(m) == nil {
		return
	}
	reason := ReasonDeclined
	if b.Reason == ReasonAsyncFailure {
		reason = ReasonAsyncFailure
	}
	why := subtaskName(b.Operator, b.Index)
	if b.Error != "" {
		why += ": " + b.Error
	}
	if p := c.checkpoints.find(b.Checkpoint); p != nil {
		p.overtaken = b.Overtaken
	}
	c.abortPending(ctx, func(p *pending) bool { return p.id == b.Checkpoint }, reason, why, b.Injected)
}
