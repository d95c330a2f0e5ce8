package engine

import (
	"context"
	"errors"
	"slices"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/history"
)

// ledgerDone acts on what stands in the coordinator log now.
func (c *coordinator) ledgerDone(ctx context.Context, d ledgerDone) {
	c.ledger.open--
	if errors.Is(d.err, checkpoint.ErrFenced) {
		c.stepDown(d.err)
		return
	}
	k := &c.checkpoints
	switch {
	case d.job.complete != nil:
		c.decided(ctx, d)
	case d.job.drop != nil:
		c.dropsDone(ctx, d)
	case d.job.start != nil:
		c.startDecided(ctx, d)
	default:
		k.reserving = false
		k.reserved = max(k.reserved, d.reserved)
	}
}

// decided ends a checkpoint that all subtasks acknowledged.
func (c *coordinator) decided(ctx context.Context, d ledgerDone) {
	k := &c.checkpoints
	m := d.job.complete
	p := k.find(m.ID)
	k.pending = slices.DeleteFunc(k.pending, func(q *pending) bool { return q == p })
	if p.form != noForm {
		c.savepointDecided(ctx, p, d)
		return
	}
	if d.err != nil {
		c.undecided(ctx, p, d)
		return
	}
	c.origin = nil // from now on there is something newer to go back to
	now := c.world.Now()
	k.ended, k.any = now, true
	k.tolerance.completed(m.ID)
	change := k.registry.Complete(m, d.object)
	old := k.completed.Add(&checkpoint.Completed{Metadata: m, Object: d.object})
	if c.cfg.OnCompleted != nil {
		c.cfg.OnCompleted(change)
	}
	sizes := p.sizes
	sizes.Metadata, sizes.Encode = d.object.Bytes, d.encode
	c.record(ctx, history.Event{Kind: history.CheckpointCompleted, Actor: c.name, Attempt: m.Attempt, Checkpoint: m.ID, Planned: p.planned,
		Dur: now - p.triggered, Bytes: sizes.Checkpointed, Sizes: &sizes, Positions: p.positions(c.job.partitions)})
	c.abortPending(ctx, func(q *pending) bool { return q.id < m.ID && q.form == noForm }, ReasonSubsumed, "", false)
	k.notices = append(k.notices, p)
	c.subsume(ctx, old)
	if !k.dropping {
		c.notify(ctx)
	}
}

// undecided ends a checkpoint that the log does not name and never will. Its metadata object means nothing.
func (c *coordinator) undecided(ctx context.Context, p *pending, d ledgerDone) {
	reason := ReasonAsyncFailure
	switch {
	case errors.Is(d.err, errSubsumed):
		reason = ReasonSubsumed
	case errors.Is(d.err, errExpired):
		reason = ReasonExpired
	}
	c.aborted(ctx, p, reason, d.err.Error(), errors.Is(d.err, store.ErrInjected))
	if d.written {
		c.remove(ctx, removal{keys: []string{d.object.Key}, checkpoint: p.id})
	}
}

// subsume lets checkpoints go that are not to be retained any more: first the log says so, then what only they named dies.
func (c *coordinator) subsume(ctx context.Context, old []*checkpoint.Completed) {
	for _, o := range old {
		c.record(ctx, history.Event{Kind: history.CheckpointSubsumed, Actor: c.name, Attempt: o.Metadata.Attempt, Checkpoint: o.Metadata.ID})
	}
	c.checkpoints.drops = append(c.checkpoints.drops, old...)
	if c.mutant(mutantDeleteEarly) {
		var keys []string
		for _, u := range c.checkpoints.registry.UnregisterUnused(c.checkpoints.completed.Lowest()) {
			keys = append(keys, u.Key)
		}
		c.remove(ctx, removal{keys: keys, checkpoint: c.checkpoints.dropped + 1})
	}
	c.retryDrops(ctx)
}

// retryDrops asks for everything that is to be dropped, unless that is under way.
func (c *coordinator) retryDrops(context.Context) {
	k := &c.checkpoints
	if len(k.drops) == 0 || k.dropping || c.over {
		return
	}
	j := ledgerJob{}
	for _, o := range k.drops {
		j.drop = append(j.drop, o.Metadata.ID)
	}
	k.dropping = true
	c.ledger.give(j)
}

// dropsDone deletes what the dropped checkpoints alone named, and tells the subtasks of the completed ones.
func (c *coordinator) dropsDone(ctx context.Context, d ledgerDone) {
	k := &c.checkpoints
	k.dropping = false
	var keys []string
	for _, id := range d.dropped {
		o := k.drops[0]
		k.drops = k.drops[1:]
		k.dropped = max(k.dropped, id)
		keys = append(keys, o.Object.Key)
		if c.mutant(mutantDeleteOnSubsume) {
			for _, u := range o.Metadata.Objects() {
				keys = append(keys, u.Key)
			}
		}
	}
	if len(d.dropped) > 0 {
		// What a checkpoint names that stands in the log is in use, even if it is to be dropped next.
		lowest := k.completed.Lowest()
		if lowest == 0 { // all were dropped: only what is pending may use something
			lowest = k.next
			for _, p := range k.pending {
				lowest = min(lowest, p.id)
			}
		}
		if len(k.drops) > 0 {
			lowest = min(lowest, k.drops[0].Metadata.ID)
		}
		if c.mutant(mutantDropRetained) {
			lowest++
		}
		for _, u := range k.registry.UnregisterUnused(lowest) {
			if !c.foreign(u.Key) && !c.mutant(mutantKeepDropped) {
				keys = append(keys, u.Key)
			}
		}
		c.remove(ctx, removal{keys: keys, checkpoint: k.dropped})
	}
	if d.err == nil {
		c.retryDrops(ctx) // what was subsumed meanwhile; after an error the next heartbeat tries again
	}
	c.notify(ctx)
}

// notify tells the subtasks of completed checkpoints, and whoever asked for one.
func (c *coordinator) notify(ctx context.Context) {
	k := &c.checkpoints
	notices := k.notices
	k.notices = nil
	for _, p := range notices {
		if err := c.pass(ctx, failpoint.CheckpointNotifyBegin); err == nil && !p.attempt.over {
			c.toHosts(ctx, p.attempt, CheckpointCompleted{ID: p.id, Subsumed: k.dropped})
		}
		_ = c.pass(ctx, failpoint.CheckpointNotifyEnd) // the messages are on their way
		switch w := p.wanted; {
		case w == nil:
		case w.last && p.timer > 0: // something was held back still
			w.after = p.timer
			k.wanted = append(k.wanted, w)
		default:
			w.done(ctx, p.id, nil)
		}
	}
}
