package engine

import (
	"context"
	"errors"
	"fmt"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/history"
)

// ErrSavepointAborted is wrapped by the error for a savepoint that did not complete; the job goes on and another may.
var ErrSavepointAborted = errors.New("it was aborted")

// form is that of a savepoint, as barriers carry it.
type form uint8

const (
	noForm form = iota // a checkpoint
	canonicalForm
	nativeForm
)

// formOf is the reverse of form.String; noForm for what is none.
func formOf(s string) form {
	switch s {
	case backend.Canonical:
		return canonicalForm
	case backend.Native:
		return nativeForm
	}
	return noForm
}

func (f form) String() string {
	switch f {
	case canonicalForm:
		return backend.Canonical
	case nativeForm:
		return backend.Native
	}
	return ""
}

// savepoints is the leader's book on them. They take their ids from the checkpoints' sequence and are triggered and acknowledged
// like checkpoints, but subsume nothing, are subsumed by nothing, and no registry counts their objects.
type savepoints struct {
	any       bool                  // one was triggered, or stands in the log
	completed map[uint64]bool       // the user's, which nothing deletes
	failed    bool                  // one of the newest attempt did not complete: something of it may be left
	last      *checkpoint.Completed // the newest completed one
}

// askFor queues a savepoint that was asked for.
func (c *coordinator) askFor(ctx context.Context, r *request) {
	if formOf(r.form) == noForm {
		r.answer(0, fmt.Errorf("no savepoint has the form %q", r.form))
		return
	}
	if c.stop != nil {
		r.answer(0, errors.New("the job is being stopped, or is stopped"))
		return
	}
	c.checkpoints.wanted = append(c.checkpoints.wanted, &wanted{form: formOf(r.form),
		done: func(_ context.Context, id uint64, err error) { r.answer(id, err) }})
}

// savepointDecided ends a savepoint that all subtasks acknowledged.
func (c *coordinator) savepointDecided(ctx context.Context, p *pending, d ledgerDone) {
	if d.err != nil {
		reason := ReasonAsyncFailure
		if errors.Is(d.err, errExpired) {
			reason = ReasonExpired
		}
		c.aborted(ctx, p, reason, d.err.Error(), errors.Is(d.err, store.ErrInjected))
		return
	}
	s := &c.savepoints
	s.completed[p.id] = true
	if s.last == nil || s.last.Metadata.ID < p.id {
		s.last = &checkpoint.Completed{Metadata: d.job.complete, Object: d.object}
	}
	sizes := p.sizes
	sizes.Metadata, sizes.Encode = d.object.Bytes, d.encode
	c.record(ctx, history.Event{Kind: history.SavepointCompleted, Actor: c.name, Attempt: p.attempt.id, Checkpoint: p.id, Text: p.form.String(),
		Dur: c.world.Now() - p.triggered, Bytes: sizes.Checkpointed, Sizes: &sizes, Positions: p.positions(c.job.partitions)})
	_ = c.pass(ctx, failpoint.CheckpointNotifyBegin) // it is completed, and nobody needs to be told but who asked for it
	_ = c.pass(ctx, failpoint.CheckpointNotifyEnd)
	p.wanted.done(ctx, p.id, nil)
}

// savepointAborted says that p did not complete, and removes what there is of it. The job goes on.
func (c *coordinator) savepointAborted(ctx context.Context, p *pending, reason, why string, injected bool) {
	c.record(ctx, history.Event{Kind: history.SavepointAborted, Actor: c.name, Attempt: p.attempt.id, Checkpoint: p.id, Text: p.form.String(),
		Dur: c.world.Now() - p.triggered, Reason: reason, Error: why, Injected: injected})
	if !p.attempt.over {
		c.toHosts(ctx, p.attempt, CheckpointAborted{ID: p.id, Savepoint: true})
	}
	c.savepoints.failed = true
	c.list(ctx, listing{prefixes: []string{checkpoint.SavepointFolder(p.id)}, savepoints: c.checkpoints.next})
	text := reason
	if why != "" {
		text += ": " + why
	}
	p.wanted.done(ctx, 0, fmt.Errorf("savepoint %d: %w: %s", p.id, ErrSavepointAborted, text))
}

// lateSavepoint removes the objects of a part that does not count any more.
func (c *coordinator) lateSavepoint(ctx context.Context, a *Acknowledge) {
	if a.State.Keyed == nil || c.savepoints.completed[a.Checkpoint] || c.checkpoints.find(a.Checkpoint) != nil {
		return
	}
	var keys []string
	for _, o := range a.State.Keyed.Base {
		keys = append(keys, o.Key)
	}
	c.remove(ctx, removal{keys: keys})
}

// savepointPrefixes are what a clean-up lists besides other prefixes.
func (c *coordinator) savepointPrefixes() []string {
	if !c.savepoints.any {
		return nil
	}
	return []string{checkpoint.SavepointPrefix}
}
