package engine

import (
	"context"
	"fmt"
	"slices"

	"statebench.dev/bench/internal/history"
)

// causeRescale is the cause of an attempt that a rescale ended, and of the one it began.
const causeRescale = "rescale"

// RescalePrevious makes a rescale take the newest completed checkpoint without a fresh one.
const RescalePrevious = "previous"

// rescale is a change of parallelism under way. Its stages are a fresh checkpoint, where one is wanted and the job is well; then
// the end of the attempt; then an attempt with the new parallelism, until it runs.
type rescale struct {
	request *request
	before  int
	fresh   *wanted // not nil: the checkpoint that is waited for
}

// beginRescale starts one, or refuses it.
func (c *coordinator) beginRescale(ctx context.Context, r *request) {
	slots := c.cfg.Workers.Count * c.cfg.Workers.Slots
	switch p := r.parallelism; {
	case c.rescale != nil:
		r.answer(0, fmt.Errorf("a rescale to %d is under way", c.rescale.request.parallelism))
		return
	case p < 1 || p > c.job.max || p > slots:
		r.answer(0, fmt.Errorf("parallelism %d: need 1 to %d, for %d key groups and %d slots", p, min(c.job.max, slots), c.job.max, slots))
		return
	}
	s := &rescale{request: r, before: c.job.parallelism}
	c.rescale = s
	c.record(ctx, history.Event{Kind: history.RescaleBegin, Actor: c.name, Count: int64(r.parallelism), From: int64(s.before), Text: r.from})
	if c.phase != phaseRunning || r.from == RescalePrevious {
		c.applyRescale(ctx)
		return
	}
	s.fresh = &wanted{done: func(ctx context.Context, _ uint64, err error) {
		if c.rescale != s || s.fresh == nil {
			return
		}
		if err != nil {
			c.note(ctx, "the rescale starts from the newest completed checkpoint: "+err.Error())
		}
		c.applyRescale(ctx)
	}}
	c.checkpoints.wanted = slices.Insert(c.checkpoints.wanted, 0, s.fresh)
}

// applyRescale makes the next attempt one of the new parallelism, and ends the running one.
func (c *coordinator) applyRescale(ctx context.Context) {
	s := c.rescale
	if s.fresh != nil {
		c.checkpoints.wanted = slices.DeleteFunc(c.checkpoints.wanted, func(w *wanted) bool { return w == s.fresh })
		s.fresh = nil
	}
	c.job.parallelism = s.request.parallelism
	c.fail(ctx, failure{cause: causeRescale, actor: c.name, err: fmt.Sprintf("rescale from %d to %d", s.before, c.job.parallelism)})
}

// rescaleDone ends a rescale once an attempt of its parallelism runs.
func (c *coordinator) rescaleDone(ctx context.Context) {
	s := c.rescale
	if s == nil || s.fresh != nil || c.attempt.parallelism != s.request.parallelism {
		return
	}
	c.rescale = nil
	c.record(ctx, history.Event{Kind: history.RescaleDone, Actor: c.name, Attempt: c.attempt.id, Count: int64(c.attempt.parallelism), From: int64(s.before)})
	s.request.answer(c.attempt.restored, nil)
}
