package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/history"
)

// suspension is a stop of the job under way, or the job that is stopped by it. With a savepoint its stages are the savepoint,
// behind which the sources are silent; the end of the attempt; the commit of what the savepoint commits; and the end of all
// retained checkpoints. Without one the attempt ends at once and the retained checkpoints stay.
type suspension struct {
	request   *request
	form      form
	asked     bool                  // the savepoint is wanted, or none is needed
	savepoint *checkpoint.Completed // it completed
	committed bool
}

// beginStop takes the order to stop the job.
func (c *coordinator) beginStop(ctx context.Context, r *request) {
	switch {
	case r.form != "" && formOf(r.form) == noForm:
		r.answer(0, fmt.Errorf("no savepoint has the form %q", r.form))
	case c.stop != nil:
		r.answer(0, errors.New("the job is being stopped, or is stopped"))
	default:
		c.stop = &suspension{request: r, form: formOf(r.form)}
	}
}

// tickStop begins the stop once nothing else changes the job.
func (c *coordinator) tickStop(ctx context.Context) {
	s := c.stop
	if s == nil || s.asked || c.rescale != nil || c.start != nil {
		return
	}
	s.asked = true
	if s.form == noForm {
		c.suspend(ctx)
		return
	}
	c.checkpoints.wanted = slices.Insert(c.checkpoints.wanted, 0, &wanted{form: s.form, stop: true, done: func(ctx context.Context, _ uint64, err error) {
		if c.stop != s {
			return
		}
		if err != nil { // the sources go on
			c.stop = nil
			s.request.answer(0, err)
			c.serveDeferred(ctx)
			return
		}
		s.savepoint = c.savepoints.last
		c.suspend(ctx)
	}})
}

// suspend ends the attempt, if there is one.
func (c *coordinator) suspend(ctx context.Context) {
	switch c.phase {
	case phaseRunning, phaseDeploying:
		c.cancel(ctx, phaseSuspending, ReasonStopped, func() {})
	case phaseFailing:
		c.phase = phaseSuspending
	default: // nothing runs
		c.phase, c.until = phaseSuspending, c.world.Now()+clearPatience
	}
}

// suspending goes through the later stages.
func (c *coordinator) suspending(ctx context.Context, now time.Duration) {
	s, k, a := c.stop, &c.checkpoints, c.attempt
	if a != nil && !a.fenced {
		if len(a.awaited) > 0 && now < c.until {
			return
		}
		c.fence(ctx)
		c.cleanAttempt(ctx, a.id)
		c.until = now + clearPatience
	}
	if !s.committed {
		if k.deciding() { // it may yet be the newest
			return
		}
		if err := c.commitStopped(ctx); err != nil {
			c.failJob(ctx, err)
			return
		}
		s.committed = true
		if s.savepoint != nil {
			c.origin = nil // what came after it is committed
			c.subsume(ctx, k.completed.Clear())
		}
	}
	if (len(k.drops) > 0 || k.dropping || c.cleaning.open > 0) && now < c.until {
		return
	}
	c.phase = phaseStopped
	e := history.Event{Kind: history.JobStopped, Actor: c.name, Attempt: c.attempts, Count: int64(len(k.completed.List()))}
	if s.savepoint != nil {
		e.Checkpoint = s.savepoint.Metadata.ID
	}
	c.record(ctx, e)
	s.request.answer(e.Checkpoint, nil)
}

// newest is what a restart would restore, or the savepoint that the job is being stopped with; nil: nothing.
func (c *coordinator) newest() *checkpoint.Completed {
	if s := c.stop; s != nil && s.savepoint != nil {
		return s.savepoint
	}
	if n := c.checkpoints.completed.Newest(); n != nil {
		return n
	}
	return c.origin
}

// commitStopped commits what the stopped job has to commit, and aborts what came after it.
func (c *coordinator) commitStopped(ctx context.Context) error {
	var from *checkpoint.Metadata
	if n := c.newest(); n != nil {
		from = n.Metadata
	}
	return c.restoreSink(ctx, c.attempts+1, from)
}

// startDone ends the start once an attempt runs.
func (c *coordinator) startDone(ctx context.Context) {
	if r := c.start; r != nil {
		c.start = nil
		r.answer(c.attempt.restored, nil)
		c.serveDeferred(ctx)
	}
}

// serveDeferred serves what had to wait for the end of a stop.
func (c *coordinator) serveDeferred(ctx context.Context) {
	later := c.deferred
	c.deferred = nil
	for _, r := range later {
		c.serve(ctx, r)
	}
}

// refuseLife answers everybody who waits for a stop or a start, and forgets the stop: a savepoint that is still being decided must
// not suspend a job that has ended.
func (c *coordinator) refuseLife(err error) {
	all := append(c.deferred, c.start, c.starting)
	if c.stop != nil {
		all = append(all, c.stop.request)
	}
	c.stop, c.start, c.starting, c.deferred = nil, nil, nil, nil
	for _, r := range all {
		if r != nil {
			r.answer(0, err)
		}
	}
}
