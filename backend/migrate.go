package backend

import (
	"bytes"
	"fmt"

	"statebench.dev/bench/internal/keygroup"
)

// rewriteBytes is how much of a state is converted before it is written back, in whole key groups.
const rewriteBytes = 16 << 20

// agree brings a state that was restored to the schema that o declares. stored is what it was before it was registered.
func (c *Context) agree(id StateID, stored StateSpec, o *stateOptions, index *StateID) error {
	steps, err := o.path(stored.Name, stored.Schema)
	if err != nil || o.schema.Serializer == "" || o.schema == stored.Schema {
		return err
	}
	m, ok := c.keyed.(Migrator)
	if !ok {
		return fmt.Errorf("state %q is stored as %v and opened as %v: backend %T cannot migrate", stored.Name, stored.Schema, o.schema, c.keyed)
	}
	var rewrite func(to Keyed) error
	if len(steps) > 0 {
		rewrite = func(to Keyed) error { return migrate(to, id, stored.Type, steps, index) }
	}
	if err := m.Migrate(id, o.schema, rewrite); err != nil {
		return fmt.Errorf("state %q, from %v to %v: %w", stored.Name, stored.Schema, o.schema, err)
	}
	return nil
}

// migrate converts all elements of a state; index is that of its expiries, nil for none.
func migrate(to Keyed, id StateID, t Type, steps []Migration, index *StateID) error {
	var values, keys conversion
	for _, m := range steps {
		values.add(m.Value)
		keys.add(m.MapKey)
	}
	w := rewriter{to: to, id: id}
	w.value = values.apply
	if index != nil {
		w.value = behind(8, values.apply)
	}
	if t == Map && len(keys.steps) > 0 {
		w.key = mapKey(keys.apply)
	}
	if err := w.run(); err != nil || index == nil || w.key == nil {
		return err
	}
	// The index of expiries has the time, then the element's key.
	i := rewriter{to: to, id: *index, value: func(dst, old []byte) ([]byte, error) { return append(dst, old...), nil }, key: behind(8, w.key)}
	return i.run()
}

// convert appends what old becomes.
type convert func(dst, old []byte) ([]byte, error)

// conversion is several in a row.
type conversion struct {
	steps []convert
	bufs  [2][]byte
}

func (c *conversion) add(f convert) {
	if f != nil {
		c.steps = append(c.steps, f)
	}
}

func (c *conversion) apply(dst, old []byte) ([]byte, error) {
	var err error
	for i, f := range c.steps {
		if i == len(c.steps)-1 {
			return f(dst, old)
		}
		b := &c.bufs[i%2]
		if *b, err = f((*b)[:0], old); err != nil {
			return dst, err
		}
		old = *b
	}
	return append(dst, old...), nil
}

// behind leaves the first n bytes as they are.
func behind(n int, f convert) convert {
	return func(dst, old []byte) ([]byte, error) {
		if len(old) < n {
			return dst, fmt.Errorf("%d bytes where %d stand in front: %w", len(old), n, ErrEncoding)
		}
		return f(append(dst, old[:n]...), old[n:])
	}
}

// mapKey converts the part of an element's key behind key and namespace.
func mapKey(f convert) convert {
	return func(dst, old []byte) ([]byte, error) {
		_, _, rest, err := splitKey(old)
		if err != nil {
			return dst, err
		}
		return f(append(dst, old[:len(old)-len(rest)]...), rest)
	}
}

// rewriter converts the elements of one state, some key groups at a time.
type rewriter struct {
	to    Keyed
	id    StateID
	value convert
	key   convert // nil: keys stay as they are

	arena   []byte
	pending []rewritten
}

// rewritten is an element that changes: places in the arena, where key, new key and new value follow each other.
type rewritten struct {
	group                  keygroup.ID
	key, fresh, value, end int // where each begins, and the last ends
	moves                  bool
}

func (w *rewriter) run() error {
	r := w.to.Range()
	for g := r.From; g < r.To; g++ {
		if err := w.collect(g); err != nil {
			return fmt.Errorf("key group %d: %w", g, err)
		}
		if len(w.arena) >= rewriteBytes || g == r.To-1 {
			if err := w.write(); err != nil {
				return err
			}
		}
	}
	return nil
}

// collect converts one key group.
func (w *rewriter) collect(g keygroup.ID) error {
	var bad error
	err := w.to.Scan(w.id, g, nil, func(key, value []byte) bool {
		e := rewritten{group: g, key: len(w.arena)}
		w.arena = append(w.arena, key...)
		if e.fresh = len(w.arena); w.key != nil {
			if w.arena, bad = w.key(w.arena, key); bad != nil {
				return false
			}
			e.moves = !bytes.Equal(w.arena[e.fresh:], key)
		}
		e.value = len(w.arena)
		if w.arena, bad = w.value(w.arena, value); bad != nil {
			return false
		}
		e.end = len(w.arena)
		if !e.moves && bytes.Equal(w.arena[e.value:], value) {
			w.arena = w.arena[:e.key]
			return true
		}
		w.pending = append(w.pending, e)
		return true
	})
	if err == nil {
		err = bad
	}
	return err
}

// write takes the elements that move away, then puts all. Keys of one map never meet those of another, and a map lies in
// one key group, so that what moves is complete.
func (w *rewriter) write() error {
	for i := range w.pending {
		if e := &w.pending[i]; e.moves {
			if err := w.to.Delete(Addr{State: w.id, Group: e.group, Key: w.arena[e.key:e.fresh]}); err != nil {
				return err
			}
		}
	}
	for i := range w.pending {
		e := &w.pending[i]
		a := Addr{State: w.id, Group: e.group, Key: w.arena[e.key:e.fresh]}
		if e.moves {
			a.Key = w.arena[e.fresh:e.value]
			if _, there, err := w.to.Get(a); err != nil {
				return err
			} else if there {
				return fmt.Errorf("two map keys become one, %x", a.Key)
			}
		}
		if err := w.to.Put(a, w.arena[e.value:e.end]); err != nil {
			return err
		}
	}
	w.arena, w.pending = w.arena[:0], w.pending[:0]
	return nil
}
