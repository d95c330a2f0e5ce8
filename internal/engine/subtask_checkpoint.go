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

// errAborted ends the asynchronous part of a checkpoint that will not complete.
var errAborted = errors.New("checkpoint was aborted")

// trigger starts a checkpoint at a source. Triggers that come late or twice mean nothing.
func (l *loop) trigger(ctx context.Context, m TriggerCheckpoint) error {
	if m.ID <= l.seen {
		return nil
	}
	l.seen = m.ID
	if l.source.started {
		if err := l.source.mark(); err != nil {
			return l.subtasks[0].failed(err)
		}
	}
	l.source.reportAll(ctx)
	if m.Stop {
		l.source.hold(m.ID)
	}
	b := barrier{ID: m.ID, At: m.At, form: m.Form}
	return l.checkpoint(ctx, outcome{aligned: b, delay: max(0, l.a.w.cfg.World.Now()-m.At)})
}

// checkpoint takes part in an aligned checkpoint: forward the barrier, then the synchronous and the asynchronous part of each
// subtask. The barrier goes first: behind the synchronous part it would add up that of every operator on the way.
func (l *loop) checkpoint(ctx context.Context, o outcome) error {
	l.record(ctx, history.Event{Kind: history.CheckpointAligned, Checkpoint: o.aligned.ID, Dur: o.took, From: int64(o.delay)})
	if l.out != nil {
		l.out.barrier(o.aligned)
	}
	partCtx, cancel := l.a.w.cfg.World.WithCancel(store.WithInfo(l.ctx, store.Info{Checkpoint: o.aligned.ID}))
	up := &upload{cancel: cancel, left: len(l.subtasks)}
	l.uploads[o.aligned.ID] = up
	for _, s := range l.subtasks {
		p, err := s.capture(ctx, o)
		if err != nil {
			return s.failed(fmt.Errorf("synchronous part of checkpoint %d: %w", o.aligned.ID, err))
		}
		l.start(partCtx, fmt.Sprintf("checkpoint-%d", o.aligned.ID), p.run, func(error) {
			p.release()
			l.post(partDone{o.aligned.ID, up})
		})
	}
	return nil
}

// upload is the asynchronous part of a checkpoint in one loop.
type upload struct {
	cancel context.CancelCauseFunc
	left   int // subtasks whose part is under way
}

// partDone counts the end of one subtask's asynchronous part.
func (l *loop) partDone(m partDone) {
	if m.upload.left--; m.upload.left == 0 {
		m.upload.cancel(nil)
		delete(l.uploads, m.checkpoint)
	}
}

// part is one subtask's part of a checkpoint between its synchronous and its asynchronous part.
type part struct {
	s        *subtask
	ack      Acknowledge
	snapshot backend.Snapshot // nil without keyed state
}

// capture is the synchronous part.
func (s *subtask) capture(ctx context.Context, o outcome) (*part, error) {
	w, id := s.loop.a.w.cfg.World, o.aligned.ID
	began := w.Now()
	p := &part{s: s, ack: Acknowledge{Checkpoint: id, Savepoint: o.aligned.form != noForm, StartDelay: o.delay, Align: o.took,
		State: checkpoint.SubtaskState{Operator: s.node.ID, Index: s.d.Index}}}
	if err := s.pass(ctx, failpoint.CheckpointPrecommitBegin); err != nil {
		return nil, err
	}
	if s.keyed != nil {
		var err error
		if p.snapshot, err = s.fix(ctx, o.aligned); err != nil {
			return nil, err
		}
	}
	if o, ok := s.role.(*operator); ok {
		p.ack.Timer = o.earliest()
	}
	err := s.role.snapshot(ctx, id, &p.ack.State)
	if err == nil {
		err = s.pass(ctx, failpoint.CheckpointPrecommitEnd)
	}
	if err != nil {
		p.release()
		return nil, err
	}
	p.ack.Sync = w.Now() - began
	s.record(ctx, history.Event{Kind: history.CheckpointSynced, Checkpoint: id, Dur: p.ack.Sync})
	return p, nil
}

// fix takes the snapshot of a checkpoint or a savepoint.
func (s *subtask) fix(ctx context.Context, b barrier) (backend.Snapshot, error) {
	if b.form == noForm {
		return s.keyed.Snapshot(ctx, b.ID)
	}
	k, ok := s.keyed.(backend.Savepointer)
	if !ok {
		return nil, fmt.Errorf("backend %T takes no savepoints", s.keyed)
	}
	return k.Savepoint(ctx, backend.SavepointOptions{ID: b.ID, Form: b.form.String(),
		Names: func(n uint64) string { return checkpoint.SavepointObject(b.ID, s.name, n) }})
}

// pass passes a failpoint.
func (s *subtask) pass(ctx context.Context, point string) error {
	return s.loop.a.w.cfg.Failpoints.Hit(ctx, point, s.name)
}

func (p *part) release() {
	if p.snapshot != nil {
		p.snapshot.Release()
	}
}

// run is the asynchronous part; it runs on the pool. The backend passes the failpoints of the upload.
func (p *part) run(ctx context.Context) error {
	s, w := p.s, p.s.loop.a.w.cfg.World
	began := w.Now()
	if p.snapshot != nil {
		persisted, err := p.snapshot.Persist(ctx)
		if err != nil {
			return p.declined(ctx, err)
		}
		p.ack.Persisted = persisted
		p.ack.State.Keyed = &p.ack.Persisted.Handle
		if f := s.loop.a.follower; f != nil && !p.ack.Savepoint {
			f.Acknowledged(p.ack.Checkpoint, persisted.Handle)
		}
	}
	p.ack.Async = w.Now() - began
	if err := s.pass(ctx, failpoint.CheckpointAckBegin); err != nil {
		return p.declined(ctx, err)
	}
	s.record(ctx, history.Event{Kind: history.CheckpointAcked, Checkpoint: p.ack.Checkpoint, Dur: p.ack.Async,
		Bytes: p.ack.Persisted.Checkpointed, Sizes: p.ack.sizes()})
	s.loop.a.send(ctx, p.ack)
	// Too late to take the acknowledgement back: only what the action does by itself counts here.
	return s.pass(ctx, failpoint.CheckpointAckEnd)
}

// declined tells the leader that the asynchronous part failed, unless it was given up.
func (p *part) declined(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		p.s.loop.a.send(ctx, Decline{Checkpoint: p.ack.Checkpoint, Operator: p.s.node.ID, Index: p.s.d.Index, Reason: ReasonAsyncFailure, Error: err.Error(),
			Injected: errors.Is(err, store.ErrInjected)})
	}
	return err
}

// sizes are the byte figures of an acknowledgement.
func (a *Acknowledge) sizes() *history.Sizes {
	p := &a.Persisted
	return &history.Sizes{
		Checkpointed: p.Checkpointed, Preemptive: p.Preemptive, Materialized: p.Materialized, Objects: int64(p.Objects),
		Full: p.Handle.FullBytes(), Base: p.Handle.BaseBytes(), Delta: p.Handle.DeltaBytes(),
		StartDelay: a.StartDelay, Align: a.Align, Sync: a.Sync, Async: a.Async,
	}
}

// superseded tells the leader, for every subtask of the loop, that it cannot take part: the barrier of a newer checkpoint came
// before the last one of this.
func (l *loop) superseded(ctx context.Context, id uint64) {
	for _, s := range l.subtasks {
		l.a.send(ctx, Decline{Checkpoint: id, Operator: s.node.ID, Index: s.d.Index, Reason: ReasonDeclined,
			Error: "a barrier of a newer checkpoint came first", Overtaken: true})
	}
}

// completed passes the news of a completed checkpoint on.
func (l *loop) completed(ctx context.Context, m CheckpointCompleted) error {
	if f := l.a.follower; f != nil {
		f.Completed(m.ID, m.Subsumed)
	}
	for _, s := range l.subtasks {
		if s.keyed != nil {
			if err := s.keyed.Completed(ctx, m.ID, m.Subsumed); err != nil {
				return s.failed(fmt.Errorf("completion of checkpoint %d: %w", m.ID, err))
			}
		}
		if err := s.role.completed(ctx, m.ID); err != nil {
			return s.failed(err)
		}
	}
	return nil
}

// aborted gives up a checkpoint: its alignment, its asynchronous part, and what the backend holds for it.
func (l *loop) aborted(ctx context.Context, m CheckpointAborted) error {
	id := m.ID
	if l.gate != nil {
		l.gate.abort(id)
	} else {
		l.seen = max(l.seen, id)
		l.source.release(id)
	}
	if up := l.uploads[id]; up != nil {
		up.cancel(errAborted)
	}
	if f := l.a.follower; f != nil && !m.Savepoint {
		f.Aborted(id)
	}
	for _, s := range l.subtasks {
		if s.keyed == nil || m.Savepoint {
			continue
		}
		if err := s.keyed.Aborted(ctx, id); err != nil {
			return s.failed(fmt.Errorf("abort of checkpoint %d: %w", id, err))
		}
	}
	return nil
}
