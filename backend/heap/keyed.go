package heap

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/keygroup"
)

var errClosed = errors.New("heap state is closed")

// keyed is the working state of one subtask.
type keyed struct {
	b        *Backend
	operator string
	subtask  string
	rng      keygroup.Range
	names    func(n uint64) string
	objects  atomic.Uint64 // objects named so far
	closed   bool

	versions versions
	arena    arena
	states   []state
	// positions has for each key group a number greater than all positions of list elements ever used in it.
	positions []uint64
	elem      []byte // buffer for key ‖ position
}

// state is one registered state: a table for each key group of the subtask, in the one of the two slices that its access
// asks for.
type state struct {
	spec    backend.StateSpec
	point   []pointTable
	ordered []orderedTable
}

var (
	_ backend.Keyed      = (*keyed)(nil)
	_ backend.Positioned = (*keyed)(nil)
	_ backend.Migrator   = (*keyed)(nil)
)

func newKeyed(b *Backend, o backend.OpenOptions) *keyed {
	k := &keyed{
		b: b, operator: o.Operator, subtask: o.Subtask, rng: o.Range, names: o.Names,
		positions: make([]uint64, o.Range.Len()),
	}
	k.versions.init(b.e.World)
	k.arena = newArena(&k.versions)
	return k
}

// Range implements backend.Keyed.
func (k *keyed) Range() keygroup.Range { return k.rng }

// Register implements backend.Keyed.
func (k *keyed) Register(spec backend.StateSpec) (backend.StateID, error) {
	if k.closed {
		return 0, errClosed
	}
	for id := range k.states {
		if known := k.states[id].spec; known.Name == spec.Name {
			return backend.StateID(id), known.Clash(spec)
		}
	}
	if len(k.states) > math.MaxUint16 {
		return 0, fmt.Errorf("state %q is one too many: %d are registered", spec.Name, len(k.states))
	}
	s := state{spec: spec}
	switch spec.Access {
	case backend.Point:
		s.point = make([]pointTable, k.rng.Len())
	case backend.Ordered:
		s.ordered = make([]orderedTable, k.rng.Len())
	default:
		return 0, fmt.Errorf("state %q has no access %d", spec.Name, spec.Access)
	}
	k.states = append(k.states, s)
	return backend.StateID(len(k.states) - 1), nil
}

// Migrate implements backend.Migrator.
func (k *keyed) Migrate(id backend.StateID, schema backend.Schema, rewrite func(to backend.Keyed) error) error {
	if _, _, err := k.place(id, k.rng.From); err != nil {
		return err
	}
	if rewrite != nil {
		if err := rewrite(k); err != nil {
			return err
		}
	}
	k.states[id].spec.Schema = schema
	return nil
}

// States implements backend.Keyed.
func (k *keyed) States() []backend.StateSpec {
	specs := make([]backend.StateSpec, len(k.states))
	for i := range k.states {
		specs[i] = k.states[i].spec
	}
	return specs
}

// place finds the state and the index of the key group.
func (k *keyed) place(id backend.StateID, g keygroup.ID) (*state, int, error) {
	if int(id) >= len(k.states) {
		if k.closed {
			return nil, 0, errClosed
		}
		return nil, 0, fmt.Errorf("state %d of %s is not registered", id, k.subtask)
	}
	i, err := k.group(g)
	return &k.states[id], i, err
}

// orderedPlace is place for what only ordered states can do.
func (k *keyed) orderedPlace(id backend.StateID, g keygroup.ID) (*orderedTable, int, error) {
	s, i, err := k.place(id, g)
	if err != nil {
		return nil, 0, err
	}
	if s.ordered == nil {
		return nil, 0, fmt.Errorf("state %q is not ordered", s.spec.Name)
	}
	return &s.ordered[i], i, nil
}

// Get implements backend.Keyed.
func (k *keyed) Get(a backend.Addr) ([]byte, bool, error) {
	s, i, err := k.place(a.State, a.Group)
	if err != nil {
		return nil, false, err
	}
	var value []byte
	var ok bool
	if s.point != nil {
		value, ok = s.point[i].get(&k.arena.memory, a.Key)
	} else {
		value, ok = s.ordered[i].get(&k.arena.memory, a.Key)
	}
	return value, ok, nil
}

// Put implements backend.Keyed.
func (k *keyed) Put(a backend.Addr, value []byte) error {
	s, i, err := k.place(a.State, a.Group)
	if err != nil {
		return err
	}
	if s.point != nil {
		return s.point[i].put(&k.arena, a.Key, value)
	}
	return s.ordered[i].put(&k.arena, a.Key, value)
}

// Delete implements backend.Keyed.
func (k *keyed) Delete(a backend.Addr) error {
	s, i, err := k.place(a.State, a.Group)
	if err != nil {
		return err
	}
	if s.point != nil {
		s.point[i].delete(&k.arena, a.Key)
	} else {
		s.ordered[i].delete(&k.arena, a.Key)
	}
	return nil
}

// DeletePrefix implements backend.Keyed.
func (k *keyed) DeletePrefix(a backend.Addr) error {
	t, _, err := k.orderedPlace(a.State, a.Group)
	if err != nil {
		return err
	}
	t.deletePrefix(&k.arena, a.Key)
	return nil
}

// Append implements backend.Keyed.
func (k *keyed) Append(a backend.Addr, value []byte) (uint64, error) {
	t, i, err := k.orderedPlace(a.State, a.Group)
	if err != nil {
		return 0, err
	}
	pos := k.positions[i]
	k.elem = binary.BigEndian.AppendUint64(append(k.elem[:0], a.Key...), pos)
	if err := t.put(&k.arena, k.elem, value); err != nil {
		return 0, err
	}
	k.positions[i]++
	return pos, nil
}

// PutAt implements backend.Positioned: Append at a position that is known. Doing it twice is doing it once.
func (k *keyed) PutAt(a backend.Addr, pos uint64, value []byte) error {
	t, i, err := k.orderedPlace(a.State, a.Group)
	if err != nil {
		return err
	}
	k.elem = binary.BigEndian.AppendUint64(append(k.elem[:0], a.Key...), pos)
	if err := t.put(&k.arena, k.elem, value); err != nil {
		return err
	}
	k.positions[i] = max(k.positions[i], pos+1)
	return nil
}

// Scan implements backend.Keyed.
func (k *keyed) Scan(id backend.StateID, g keygroup.ID, prefix []byte, f func(key, value []byte) bool) error {
	s, i, err := k.place(id, g)
	if err != nil {
		return err
	}
	switch {
	case s.ordered != nil:
		s.ordered[i].scan(&k.arena.memory, prefix, f)
	case len(prefix) > 0:
		return fmt.Errorf("state %q is not ordered: it cannot be scanned by prefix", s.spec.Name)
	default:
		scanSlots(&k.arena.memory, s.point[i].slots, f)
	}
	return nil
}

// Completed implements backend.Keyed: each snapshot stands alone, so there is nothing to do.
func (k *keyed) Completed(context.Context, uint64, uint64) error { return nil }

// Aborted implements backend.Keyed: the snapshot's own Persist and Release clean up.
func (k *keyed) Aborted(context.Context, uint64) error { return nil }

// Gauges implements backend.Keyed.
func (k *keyed) Gauges() backend.Gauges {
	return backend.Gauges{LiveBytes: k.arena.live, Elements: k.arena.elements}
}

// Close implements backend.Keyed. Snapshots that are being persisted keep what they need.
func (k *keyed) Close(context.Context) error {
	if k.closed {
		return errClosed
	}
	k.closed = true
	k.states, k.positions, k.arena = nil, nil, newArena(&k.versions)
	k.b.open.Add(-1)
	return nil
}
