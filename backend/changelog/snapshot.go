package changelog

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/failpoint"
)

// snapshot is the state as of a barrier: the base and the deltas as they were then, and a pinned range of the log.
type snapshot struct {
	k         *keyed
	id        uint64
	from      uint64
	base      *base
	fresh     bool // it is the first with this base
	inherited []backend.ObjectRef
	ok        bool             // a handle was made
	own       *materialization // the base of this checkpoint alone, to be made by it; nil: base is
	running   atomic.Bool
}

// Snapshot implements backend.Keyed: it ends the active change set and pins the log from the base on.
func (k *keyed) Snapshot(ctx context.Context, id uint64) (backend.Snapshot, error) {
	k.begun = true
	if k.borrowed {
		return k.own(ctx, id)
	}
	if !k.b.env.Failpoints.Mutant(mutantBehind) {
		if err := k.logDeferred(); err != nil {
			return nil, err
		}
	}
	to, err := k.log.Cut(k.cut, id)
	if err != nil {
		return nil, err
	}
	s := &snapshot{k: k, id: id, from: k.cut, base: k.base, inherited: k.inherited}
	s.running.Store(true)
	k.records = append(k.records, record{id: id, from: k.cut, to: to, materialization: k.base.id, snapshot: s})
	k.base.used = true
	if k.base.first == 0 {
		k.base.first, s.fresh = id, true
	}
	return s, nil
}

// Persist implements backend.Snapshot.
func (s *snapshot) Persist(ctx context.Context) (backend.Persisted, error) {
	k, points := s.k, s.k.b.env.Failpoints
	if err := points.Hit(ctx, failpoint.CheckpointUploadBegin, k.subtask); err != nil {
		return backend.Persisted{}, fmt.Errorf("persist snapshot %d of %s: %w", s.id, k.subtask, err)
	}
	base, err := s.persistBase(ctx)
	if err != nil {
		return backend.Persisted{}, err
	}
	log, err := k.log.Persist(ctx, s.from, s.id)
	if err != nil {
		s.discardOwn(ctx)
		return backend.Persisted{}, err
	}
	if err := points.Hit(ctx, failpoint.CheckpointUploadEnd, k.subtask); err != nil {
		s.discardOwn(ctx)
		return backend.Persisted{}, fmt.Errorf("persist snapshot %d of %s: %w", s.id, k.subtask, err)
	}
	s.ok = true
	p := backend.Persisted{
		Handle: backend.StateHandle{
			Backend: base.format, Operator: k.operator, Range: k.Range(), Checkpoint: s.id, Materialization: base.id,
			Base: slices.Clone(base.refs), Delta: slices.Concat(k.b.passedOn(s.inherited), log.Refs),
		},
		Checkpointed: log.Bytes, Preemptive: log.Preemptive, Objects: log.Objects,
	}
	if s.fresh || s.own != nil {
		p.Materialized = base.bytes
		p.Objects += base.objects
	}
	return p, nil
}

// Release implements backend.Snapshot. Without a handle the log need not keep anything for the checkpoint.
func (s *snapshot) Release() {
	s.running.Store(false)
	if s.own != nil {
		s.own.snap.Release()
	}
	if !s.ok {
		s.k.log.Reset(s.id)
	}
}
