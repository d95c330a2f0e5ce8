package heap

import (
	"context"
	"fmt"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/savepoint"
	"statebench.dev/bench/internal/keygroup"
)

var _ backend.Savepointer = (*keyed)(nil)

// Savepoint implements backend.Savepointer. A native one is a snapshot under other names: that is full and shared with
// nothing anyway.
func (k *keyed) Savepoint(ctx context.Context, o backend.SavepointOptions) (backend.Snapshot, error) {
	if o.Form != backend.Canonical && o.Form != backend.Native {
		return nil, fmt.Errorf("savepoint %d of %s: unknown form %q", o.ID, k.subtask, o.Form)
	}
	snap, err := k.Snapshot(ctx, o.ID)
	if err != nil {
		return nil, err
	}
	s := snap.(*snapshot)
	s.savepoint = &o
	if o.Form == backend.Native {
		return s, nil
	}
	return canonical{s}, nil
}

// canonical is a snapshot that is written in the form that all backends read.
type canonical struct{ *snapshot }

// Persist implements backend.Snapshot.
func (c canonical) Persist(ctx context.Context) (backend.Persisted, error) {
	s := c.snapshot
	next := make([]int, len(s.states)) // the table of each state that is next in order of key groups
	return savepoint.Write(ctx, s.k.b.e, *s.savepoint, savepoint.Source{
		Operator: s.k.operator, Subtask: s.k.subtask, Range: s.k.rng, States: s.specs, Positions: s.positions, ObjectBytes: s.k.b.o.ObjectBytes,
		Scan: func(g keygroup.ID, state int, f func(key, value []byte) bool) error {
			tables := s.states[state].tables
			if next[state] < len(tables) && tables[next[state]].group == g {
				t := tables[next[state]]
				next[state]++
				_ = scanSlots(&s.memory, t.slots, f) && scanLeaves(&s.memory, t.dir, f)
			}
			return nil
		},
	})
}

// loader fills a keyed from state in the canonical form.
type loader struct{ *keyed }

var _ savepoint.Loader = loader{}

// Position implements savepoint.Loader.
func (l loader) Position(g keygroup.ID, next uint64) error {
	i, err := l.group(g)
	if err == nil {
		l.positions[i] = max(l.positions[i], next)
	}
	return err
}

// Load implements savepoint.Loader.
func (l loader) Load(a backend.Addr, value []byte) error { return l.Put(a, value) }

// restoreAll fills an empty keyed from handles of this backend and from those in the canonical form.
func (k *keyed) restoreAll(ctx context.Context, o backend.OpenOptions) error {
	var own, foreign []backend.StateHandle
	for _, h := range o.Handles {
		if h.Backend == backend.Canonical {
			foreign = append(foreign, h)
		} else {
			own = append(own, h)
		}
	}
	o.Handles = own
	if err := k.restore(ctx, o); err != nil || len(foreign) == 0 {
		return err
	}
	began := k.b.e.World.Now()
	bytes, err := savepoint.Read(ctx, k.b.e, foreign, o.Range, loader{k})
	if o.Restored != nil {
		o.Restored.BaseTime += k.b.e.World.Now() - began
		o.Restored.BaseBytes += bytes
	}
	return err
}
