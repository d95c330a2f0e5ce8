package heap

import (
	"context"
	"fmt"
	"sync/atomic"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/blocks"
	"statebench.dev/bench/internal/keygroup"
)

// mutantLive is a planted bug: changes behind the barrier show in the snapshot.
const mutantLive = "live-snapshot"

// snapshot is the state as of a barrier. What it refers to is not changed until it is released.
type snapshot struct {
	k         *keyed
	id        uint64
	version   uint32
	released  atomic.Bool
	memory    memory
	positions []uint64
	specs     []backend.StateSpec
	states    []stateView
	savepoint *backend.SavepointOptions // nil: it is none
}

// stateView is the tables of one state that are not empty, in order of key groups.
type stateView struct{ tables []tableView }

// tableView is a table: slots of a point state or leaves of an ordered one.
type tableView struct {
	group keygroup.ID
	slots []pointSlot
	dir   []dirEntry
}

// Snapshot implements backend.Keyed. It costs some nanoseconds a table, whatever the number of elements.
func (k *keyed) Snapshot(_ context.Context, id uint64) (backend.Snapshot, error) {
	if k.closed {
		return nil, errClosed
	}
	s := &snapshot{
		k: k, id: id, memory: k.arena.memory, specs: k.States(),
		positions: append([]uint64(nil), k.positions...), states: make([]stateView, len(k.states)),
	}
	for i := range k.states {
		s.states[i].tables = k.states[i].view(k.rng.From)
	}
	if !k.b.e.Failpoints.Mutant(mutantLive) {
		s.version = k.versions.fix()
	}
	return s, nil
}

func (s *state) view(from keygroup.ID) []tableView {
	n := 0
	for i := range s.point {
		n += min(1, s.point[i].count)
	}
	for i := range s.ordered {
		n += min(1, s.ordered[i].count)
	}
	views := make([]tableView, 0, n)
	for i := range s.point {
		if t := &s.point[i]; t.count > 0 {
			views = append(views, tableView{group: from + keygroup.ID(i), slots: t.slots})
		}
	}
	for i := range s.ordered {
		if t := &s.ordered[i]; t.count > 0 {
			views = append(views, tableView{group: from + keygroup.ID(i), dir: t.dir})
		}
	}
	return views
}

// Release implements backend.Snapshot.
func (s *snapshot) Release() {
	if s.released.CompareAndSwap(false, true) {
		s.k.versions.drop(s.version)
		s.memory, s.states = memory{}, nil
	}
}

// Persist implements backend.Snapshot.
func (s *snapshot) Persist(ctx context.Context) (backend.Persisted, error) {
	k := s.k
	t := blocks.Target{
		Checkpoint: s.id, Cause: "base", Reach: s.reach, Spare: k.b.spare,
		Name: func(uint64) string { return k.objectName(k.objects.Add(1) - 1) },
	}
	if s.savepoint != nil {
		t.Cause, t.Name = "savepoint", s.savepoint.Names
	}
	p, err := format.Write(ctx, k.b.e, k.b.o, t, s.source())
	if err != nil {
		return backend.Persisted{}, fmt.Errorf("persist snapshot %d of %s: %w", s.id, k.subtask, err)
	}
	return p, nil
}

// source is the snapshot as what is written. It can be scanned once.
func (s *snapshot) source() blocks.Source {
	next := make([]int, len(s.states)) // the table of each state that is next in order of key groups
	return blocks.Source{
		Operator: s.k.operator, Subtask: s.k.subtask, Range: s.k.rng, States: s.specs, Positions: s.positions,
		Scan: func(g keygroup.ID, state int, f func(key, value []byte) bool) error {
			tables := s.states[state].tables
			if next[state] < len(tables) && tables[next[state]].group == g {
				t := tables[next[state]]
				next[state]++
				_ = scanSlots(&s.memory, t.slots, f) && scanLeaves(&s.memory, t.dir, f)
			}
			return nil
		},
	}
}

// reach passes a failpoint of the checkpoint's life; a backend that nests this one has its own, but for savepoints.
func (s *snapshot) reach(ctx context.Context, point string) error {
	if s.k.names != nil && s.savepoint == nil {
		return nil
	}
	return s.k.b.e.Failpoints.Hit(ctx, point, s.k.subtask)
}
