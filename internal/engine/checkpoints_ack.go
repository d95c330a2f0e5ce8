package engine

import (
	"context"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/history"
)

// Reasons of a CheckpointAckTaken event for an acknowledgement that was dropped.
const (
	AckFenced    = "fenced"    // its attempt is over
	AckLate      = "late"      // its checkpoint has ended
	AckDuplicate = "duplicate" // the subtask acknowledged before
	AckUnknown   = "unknown"   // no such checkpoint was ever triggered, or no such subtask
)

// acknowledge takes a subtask's part of a checkpoint. What it names is registered at once and whatever becomes of the checkpoint:
// objects that nobody knows of would never be deleted.
func (c *coordinator) acknowledge(ctx context.Context, m Message, a *Acknowledge) {
	p, ordinal, reason := c.judge(m, a)
	err := c.registerState(ctx, m, a, reason)
	c.record(ctx, history.Event{Kind: history.CheckpointAckTaken, Actor: subtaskName(a.State.Operator, a.State.Index),
		Attempt: m.Attempt, Checkpoint: a.Checkpoint, Bytes: a.Persisted.Checkpointed, Reason: reason})
	if reason != "" {
		if a.Savepoint {
			c.lateSavepoint(ctx, a)
		}
		return
	}
	if err != nil {
		c.abortPending(ctx, func(q *pending) bool { return q == p }, ReasonAsyncFailure, err.Error(), false)
		return
	}
	p.take(ordinal, a)
	if c.mutant(mutantCountTwice) {
		p.sizes.Checkpointed += a.Persisted.Checkpointed
	}
	if p.left > 0 && !(p.left == 1 && c.mutant(mutantEarlyComplete) && !p.deciding) {
		return
	}
	p.deciding = true
	c.ledger.give(ledgerJob{deadline: p.deadline, savepoint: p.form != noForm, complete: &checkpoint.Metadata{
		ID: p.id, Term: c.term, Attempt: p.attempt.id, TriggeredAt: p.triggered,
		Parallelism: p.attempt.parallelism, MaxParallelism: c.job.max, Subtasks: p.states,
	}})
}

// judge finds the pending checkpoint and the subtask of an acknowledgement, or the reason why it does not count.
func (c *coordinator) judge(m Message, a *Acknowledge) (*pending, int, string) {
	if c.current(m) == nil && !c.zombies() {
		return nil, 0, AckFenced
	}
	p := c.checkpoints.find(a.Checkpoint)
	if p == nil {
		if a.Checkpoint > 0 && a.Checkpoint < c.checkpoints.next {
			return nil, 0, AckLate
		}
		return nil, 0, AckUnknown
	}
	o, ok := c.ordinal(p.attempt, a.State.Operator, a.State.Index)
	switch {
	case !ok:
		return nil, 0, AckUnknown
	case p.attempt.id != m.Attempt:
		return nil, 0, AckFenced
	case p.acked[o]:
		return nil, 0, AckDuplicate
	}
	return p, o, ""
}

// registerState notes the objects, but for a savepoint, whose they are alone. Those of an attempt of which the leftovers are being removed are found by listing them.
func (c *coordinator) registerState(ctx context.Context, m Message, a *Acknowledge, reason string) error {
	err := c.pass(ctx, failpoint.CheckpointRegisterBegin)
	if !a.Savepoint && (reason == "" || !c.cleaning.begun[m.Attempt]) {
		c.checkpoints.registry.Register(a.State.Keyed, a.Checkpoint)
	}
	if e := c.pass(ctx, failpoint.CheckpointRegisterEnd); err == nil {
		err = e
	}
	return err
}

// take adds one subtask's part.
func (p *pending) take(ordinal int, a *Acknowledge) {
	p.acked[ordinal] = true
	p.left--
	p.states[ordinal] = a.State
	p.timer = max(p.timer, a.Timer)
	s := &p.sizes
	s.Checkpointed += a.Persisted.Checkpointed
	s.Preemptive += a.Persisted.Preemptive
	s.Materialized += a.Persisted.Materialized
	s.Objects += int64(a.Persisted.Objects)
	if h := a.State.Keyed; h != nil {
		base, delta := p.distinct(h.Base), p.distinct(h.Delta)
		s.Base += base
		s.Delta += delta
		s.Full += base + delta
		s.Held += p.held(h.Base) + p.held(h.Delta)
	}
	for _, t := range []struct {
		most *time.Duration
		is   time.Duration
	}{{&s.StartDelay, a.StartDelay}, {&s.Align, a.Align}, {&s.Sync, a.Sync}, {&s.Async, a.Async}} {
		*t.most = max(*t.most, t.is)
	}
}

// distinct is the size of those parts that no subtask has named before in this checkpoint.
func (p *pending) distinct(refs []backend.ObjectRef) (bytes int64) {
	for i := range refs {
		if at := (storedAt{refs[i].Key, refs[i].Offset}); refs[i].Length > 0 {
			if _, known := p.parts[at]; !known {
				p.parts[at] = struct{}{}
				bytes += refs[i].Length
			}
		}
	}
	return bytes
}

// held is the size of those whole objects that no subtask has named before in this checkpoint.
func (p *pending) held(refs []backend.ObjectRef) (bytes int64) {
	for i := range refs {
		if _, known := p.objects[refs[i].Key]; !known && refs[i].Length > 0 {
			p.objects[refs[i].Key] = struct{}{}
			bytes += refs[i].Bytes
		}
	}
	return bytes
}

// positions is where every source partition stands in the checkpoint.
func (p *pending) positions(partitions int) []int64 {
	at := make([]int64, partitions)
	for i := range p.states {
		for _, pos := range p.states[i].Positions {
			if pos.Partition >= 0 && pos.Partition < partitions {
				at[pos.Partition] = pos.Next
			}
		}
	}
	return at
}
