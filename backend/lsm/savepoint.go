package lsm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/savepoint"
	"statebench.dev/bench/internal/keygroup"
)

var _ backend.Savepointer = (*keyed)(nil)

// Savepoint implements backend.Savepointer. A native one links all table files and uploads them under names of its own; it
// flushes the memtable like a checkpoint, and the next checkpoint finds those tables as its own. A canonical one reads a view
// of the database.
func (k *keyed) Savepoint(ctx context.Context, o backend.SavepointOptions) (backend.Snapshot, error) {
	if !k.life.enter() {
		return nil, errClosed
	}
	defer k.life.leave()
	switch o.Form {
	case backend.Native:
		if err := k.local(ctx); err != nil { // files are linked
			return nil, fmt.Errorf("savepoint %d of %s: %w", o.ID, k.subtask, err)
		}
		return k.fix(ctx, o.ID, &o)
	case backend.Canonical:
		c := &canonical{k: k, o: o, specs: k.States(), positions: slices.Clone(k.positions)}
		for _, s := range k.states {
			c.tags = append(c.tags, s.tag)
		}
		if err := k.spill(ctx); err != nil { // the view is one of the tree
			return nil, fmt.Errorf("savepoint %d of %s: %w", o.ID, k.subtask, err)
		}
		k.viewMu.Lock()
		defer k.viewMu.Unlock()
		c.view = k.db.NewSnapshot()
		k.views = append(k.views, c.view)
		return c, nil
	}
	return nil, fmt.Errorf("savepoint %d of %s: unknown form %q", o.ID, k.subtask, o.Form)
}

// canonical is the state as of a barrier, to be written in the form that all backends read.
type canonical struct {
	k         *keyed
	o         backend.SavepointOptions
	view      *pebble.Snapshot
	specs     []backend.StateSpec
	tags      []uint32
	positions []uint64
}

// Persist implements backend.Snapshot.
func (c *canonical) Persist(ctx context.Context) (backend.Persisted, error) {
	k := c.k
	if !k.life.enter() {
		return backend.Persisted{}, errClosed
	}
	defer k.life.leave()
	if err := k.local(ctx); err != nil {
		return backend.Persisted{}, err
	}
	return savepoint.Write(ctx, k.b.e, c.o, k.b.o.FileBytes, savepoint.Source{
		Operator: k.operator, Subtask: k.subtask, Range: k.rng, States: c.specs, Positions: c.positions,
		Scan: func(g keygroup.ID, state int, f func(key, value []byte) bool) error { return c.scan(ctx, g, state, f) },
	})
}

func (c *canonical) scan(ctx context.Context, g keygroup.ID, state int, f func(key, value []byte) bool) (err error) {
	from := appendPrefix(nil, g, c.tags[state])
	it, err := c.view.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: appendSuccessor(nil, from)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }() // also when f unwinds
	n := time.Duration(0)
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		n++
		if !f(it.Key()[prefixSize:], v) {
			break
		}
	}
	if n > 0 {
		c.k.b.e.World.Compute(ctx, n*c.k.b.o.Costs.Scan)
	}
	return nil
}

// Release implements backend.Snapshot.
func (c *canonical) Release() { c.k.closeViews(c.view) }

// closeViews closes the given views, all for none. The database cannot be closed before its views.
func (k *keyed) closeViews(these ...*pebble.Snapshot) {
	k.viewMu.Lock()
	defer k.viewMu.Unlock()
	k.views = slices.DeleteFunc(k.views, func(v *pebble.Snapshot) bool {
		if len(these) > 0 && !slices.Contains(these, v) {
			return false
		}
		if err := v.Close(); err != nil {
			k.failure.put(err)
		}
		return true
	})
}

// loader fills a keyed from state in the canonical form, whose elements are all different ones.
type loader struct{ *keyed }

var _ savepoint.Loader = loader{}

// Register implements savepoint.Loader: all parts of a state must be of one schema.
func (l loader) Register(spec backend.StateSpec) (backend.StateID, error) {
	id, err := l.keyed.Register(spec)
	if err == nil {
		known := &l.states[id].spec
		*known, err = known.Together(spec)
	}
	return id, err
}

// Position implements savepoint.Loader.
func (l loader) Position(g keygroup.ID, next uint64) error {
	if !l.rng.Contains(g) {
		return fmt.Errorf("key group %d is not in %v of %s", g, l.rng, l.subtask)
	}
	i := g - l.rng.From
	l.positions[i] = max(l.positions[i], next)
	return nil
}

// Load implements savepoint.Loader.
func (l loader) Load(a backend.Addr, value []byte) error {
	k := l.keyed
	k.owe(k.b.o.Costs.Write)
	if _, err := k.place(a.State, a.Group, a.Key); err != nil {
		return err
	}
	k.counts.add(a.Group, 1, int64(k.keySize()+len(value)))
	return k.write(len(k.key)+len(value), func() error { return k.db.Set(k.key, value, pebble.NoSync) })
}
