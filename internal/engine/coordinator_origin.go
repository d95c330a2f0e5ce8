package engine

import (
	"context"
	"errors"
	"fmt"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
)

// released are the checkpoints that are the user's since a job was started from one of them.
type released struct {
	list []*checkpoint.Completed
	// objects are how many of them name an object, their metadata included.
	objects map[string]int
	blind   bool // it is not known what one of them names: nothing may be deleted
}

// add makes a checkpoint the user's.
func (r *released) add(d *checkpoint.Completed) {
	r.list = append(r.list, d)
	r.count(d, 1)
	r.blind = r.blind || d.Metadata.Parallelism == 0
}

// take makes it the job's again, if it is one of the user's.
func (r *released) take(id uint64) {
	for i, d := range r.list {
		if d.Metadata.ID == id {
			r.list = append(r.list[:i:i], r.list[i+1:]...)
			r.count(d, -1)
			return
		}
	}
}

func (r *released) count(d *checkpoint.Completed, by int) {
	r.objects[d.Object.Key] += by
	for _, o := range d.Metadata.Objects() {
		r.objects[o.Key] += by
	}
}

// foreign tells whether the object is the user's, so that the job must not delete it.
func (c *coordinator) foreign(key string) bool {
	id, ok := checkpoint.SavepointOf(key)
	return ok && c.savepoints.completed[id] || c.released.blind || c.released.objects[key] > 0
}

// modeOf is the mode of a start from done: the one that is asked for, or that of the start before from the same, or the usual one.
func (c *coordinator) modeOf(r *request, done *checkpoint.Completed) checkpoint.Mode {
	if r.mode == "" && done == c.origin {
		return c.mode
	}
	return checkpoint.Mode(plan.ModeOf(r.from, r.mode))
}

// beginStart begins another life of the stopped job, which is a job of its own to restart strategies. Where what it starts from
// changes hands the log says so first, so that no later leader deletes what is the user's.
func (c *coordinator) beginStart(ctx context.Context, r *request) {
	from, err := c.startable(r)
	if err != nil {
		r.answer(0, err)
		return
	}
	r.origin, r.mode = from, string(c.modeOf(r, from))
	mode := checkpoint.Mode(r.mode)
	if mode == checkpoint.Claim && from == c.checkpoints.completed.Newest() || from == c.origin && mode == c.mode {
		c.started(ctx, r)
		return
	}
	c.starting = r
	c.ledger.give(ledgerJob{start: r})
}

// startDecided goes on with a start that stands in the log.
func (c *coordinator) startDecided(ctx context.Context, d ledgerDone) {
	r := d.job.start
	if c.starting != r { // the job has ended
		return
	}
	c.starting = nil
	if d.err != nil {
		r.answer(0, fmt.Errorf("the start does not stand in the coordinator log: %w", d.err))
		return
	}
	k := &c.checkpoints
	if id := r.origin.Metadata.ID; checkpoint.Mode(r.mode) == checkpoint.Claim {
		delete(c.savepoints.completed, id)
		c.released.take(id)
		for i := range r.origin.Metadata.Subtasks {
			k.registry.Register(r.origin.Metadata.Subtasks[i].Keyed, id)
		}
		c.subsume(ctx, k.completed.Add(r.origin))
		c.origin = nil
	} else {
		for _, d := range k.completed.Clear() {
			c.released.add(d)
		}
		c.origin, c.mode = r.origin, checkpoint.Mode(r.mode)
	}
	c.started(ctx, r)
}

// started begins the first attempt of the new life.
func (c *coordinator) started(ctx context.Context, r *request) {
	if r.parallelism > 0 {
		c.job.parallelism = r.parallelism
	}
	if r.backend != nil {
		c.backend = r.backend
	}
	c.stop, c.start, c.cause = nil, r, history.CauseStart
	c.restarts.reset()
	c.checkpoints.tolerance.reset()
	c.record(ctx, history.Event{Kind: history.JobStarted, Actor: c.name, Checkpoint: r.origin.Metadata.ID, Count: int64(c.job.parallelism),
		Text: r.from, Reason: r.mode})
	c.pick(ctx)
}

// startable finds what the job is to be started from, or says why it cannot be.
func (c *coordinator) startable(r *request) (from *checkpoint.Completed, err error) {
	slots, newest, last := c.cfg.Workers.Count*c.cfg.Workers.Slots, c.checkpoints.completed.Newest(), c.savepoints.last
	switch p := r.parallelism; {
	case c.phase != phaseStopped:
		return nil, errors.New("the job is not stopped")
	case c.starting != nil:
		return nil, errors.New("the job is being started")
	case p < 0 || p > c.job.max || p > slots:
		return nil, fmt.Errorf("parallelism %d: need 1 to %d, for %d key groups and %d slots", p, min(c.job.max, slots), c.job.max, slots)
	case r.mode != "" && !plan.IsMode(r.mode):
		return nil, fmt.Errorf("mode %q: need %s, %s or %s", r.mode, plan.ModeClaim, plan.ModeNoClaim, plan.ModeLegacy)
	case r.from == plan.FromCheckpoint && newest == nil && c.origin == nil:
		return nil, errors.New("no checkpoint is retained to start from")
	case r.from == plan.FromCheckpoint:
		return c.newest(), nil
	case r.from != plan.FromSavepoint:
		return nil, fmt.Errorf("start from %q: need %s or %s", r.from, plan.FromSavepoint, plan.FromCheckpoint)
	case last == nil:
		return nil, errors.New("no savepoint has completed to start from")
	case newest != nil && newest != last:
		return nil, fmt.Errorf("the job was not stopped with savepoint %d: what checkpoint %d committed after it would be committed again",
			last.Metadata.ID, newest.Metadata.ID)
	case c.newest() != last:
		return nil, fmt.Errorf("the job was not stopped with savepoint %d: what it commits was aborted when the job was stopped", last.Metadata.ID)
	}
	return last, nil
}

// recall learns from the log, as a new leader, what is the user's and what the job was started from.
func (c *coordinator) recall(ctx context.Context, state checkpoint.State) error {
	for _, s := range state.Savepoints {
		c.savepoints.any, c.savepoints.completed[s.ID] = true, true
	}
	if state.Mode != "" {
		c.mode = state.Mode
		c.origin = &checkpoint.Completed{Metadata: &checkpoint.Metadata{ID: state.Origin.ID}, Object: checkpoint.ObjectUse{Key: state.Origin.Metadata}}
	}
	ctx = store.WithInfo(ctx, store.Info{Cause: "meta"})
	for _, r := range state.Released {
		done, err := c.fetch(ctx, r)
		if ctx.Err() != nil {
			return err
		}
		c.released.add(done)
		if err != nil {
			c.note(ctx, fmt.Sprintf("nothing will be deleted, since it is not known what checkpoint %d of the user names: %v", r.ID, err))
			continue
		}
		c.learn(done)
	}
	return nil
}
