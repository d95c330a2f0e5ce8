package changelog

import (
	"context"
	"fmt"
	"slices"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/history"
)

var _ backend.Savepointer = (*keyed)(nil)

// Savepoint implements backend.Savepointer: it is the nested backend's alone. So it holds no log, opens with and without a
// changelog, and neither the log nor the ids of materializations know of it.
func (k *keyed) Savepoint(ctx context.Context, o backend.SavepointOptions) (backend.Snapshot, error) {
	nested, ok := k.Keyed.(backend.Savepointer)
	if !ok {
		return nil, fmt.Errorf("savepoint %d of %s: nested backend %T cannot take one", o.ID, k.subtask, k.Keyed)
	}
	return nested.Savepoint(ctx, o)
}

// own begins a checkpoint while no checkpoint may name what was restored: it takes a materialization along, as its base, and has
// no log, inherited or own. The first one that completes while no other is under way leaves its base to those after it.
func (k *keyed) own(ctx context.Context, id uint64) (backend.Snapshot, error) {
	if err := k.logDeferred(); err != nil {
		return nil, err
	}
	m := &materialization{id: max(k.base.id, k.lastID) + 1, upTo: k.log.Next(), at: k.b.env.World.Now()}
	k.lastID = m.id
	if _, err := k.log.Cut(m.upTo, id); err != nil {
		return nil, err
	}
	k.emit(ctx, history.Event{Kind: history.MaterializationBegin, Count: int64(m.id), To: int64(m.upTo)})
	var err error
	if m.snap, err = k.Keyed.Snapshot(ctx, m.id); err != nil {
		k.log.Reset(id)
		return nil, err
	}
	s := &snapshot{k: k, id: id, from: m.upTo, base: k.base, own: m}
	s.running.Store(true)
	k.records = append(k.records, record{id: id, from: m.upTo, to: m.upTo, materialization: m.id, snapshot: s})
	return s, nil
}

// persistBase is what the asynchronous part of such a checkpoint does besides that of any other.
func (s *snapshot) persistBase(ctx context.Context) (*base, error) {
	if s.own == nil {
		return s.base, nil
	}
	k, m := s.k, s.own
	e := history.Event{Kind: history.MaterializationUploadBegin, Count: int64(m.id)}
	k.emit(ctx, e)
	began := k.b.env.World.Now()
	var err error
	if m.result, err = m.snap.Persist(ctx); err != nil {
		return nil, err
	}
	e.Kind, e.Bytes, e.Dur = history.MaterializationUploadEnd, m.result.Checkpointed, k.b.env.World.Now()-began
	k.emit(ctx, e)
	return m.base(), nil
}

// discardOwn deletes the base that nobody but this checkpoint, which failed, knows. One that shares objects with that of
// another checkpoint is left to the leader's clean-up.
func (s *snapshot) discardOwn(ctx context.Context) {
	if s.own != nil && s.own.result.Objects == len(s.own.result.Handle.Base) {
		s.k.discard(ctx, s.own.result.Handle.Base)
	}
}

// base is what the materialization is as the base of a checkpoint.
func (m *materialization) base() *base {
	h := m.result.Handle
	return &base{id: m.id, format: h.Backend, refs: h.Base, bytes: m.result.Checkpointed, objects: m.result.Objects}
}

// adopt makes the base of the completed checkpoint id that of those that begin from now on, if it brought one. While another
// checkpoint with a base of its own may yet complete it does not: the leader deletes what one checkpoint between did not name.
func (k *keyed) adopt(id uint64) {
	i := slices.IndexFunc(k.records, func(r record) bool { return r.id == id })
	if !k.borrowed || i < 0 || k.records[i].snapshot.own == nil || i < len(k.records)-1 {
		return
	}
	m := k.records[i].snapshot.own
	k.base = m.base()
	k.base.first, k.base.used = id, true
	k.inherited, k.inheritedBytes, k.cut, k.cutAt, k.borrowed = nil, 0, m.upTo, m.at, false
	k.finished++
}
