package changelog

import (
	"fmt"

	"statebench.dev/bench/backend"
)

var _ backend.Migrator = (*keyed)(nil)

// Migrate implements backend.Migrator. The nested state is rewritten and none of that is logged: a log of it would be as large as
// the state, and what lies below it would have to be read first at each restore. Instead the checkpoints that follow take a base of
// their own along, as after a start that may not name what it restored, and leave base and log of the old schema behind. So the
// base of a checkpoint and all of its log are of one schema.
func (k *keyed) Migrate(id backend.StateID, schema backend.Schema, rewrite func(to backend.Keyed) error) error {
	nested, ok := k.Keyed.(backend.Migrator)
	switch {
	case !ok:
		return fmt.Errorf("nested backend %T cannot migrate", k.Keyed)
	case rewrite == nil:
		if err := nested.Migrate(id, schema, nil); err != nil {
			return err
		}
		k.define(id)
		return nil
	case k.begun:
		return fmt.Errorf("%s has begun a snapshot: what it uploads is of the schema before", k.subtask)
	}
	if err := k.logDeferred(); err != nil {
		return err
	}
	err := nested.Migrate(id, schema, func(backend.Keyed) error { return rewrite(&unlogged{Keyed: k.Keyed, later: k.later}) })
	if err != nil {
		return err
	}
	k.define(id)
	k.borrowed = true
	return forget(k.later)
}

// unlogged is the nested backend, made to forget the changes that it remembers for the log.
type unlogged struct {
	backend.Keyed
	later deferrer
}

// Put implements backend.Keyed.
func (u *unlogged) Put(a backend.Addr, value []byte) error {
	if err := u.Keyed.Put(a, value); err != nil {
		return err
	}
	return u.makeRoom()
}

// Delete implements backend.Keyed.
func (u *unlogged) Delete(a backend.Addr) error {
	if err := u.Keyed.Delete(a); err != nil {
		return err
	}
	return u.makeRoom()
}

func (u *unlogged) makeRoom() error {
	if u.later == nil {
		return nil
	}
	if _, urgent := u.later.Deferred(); urgent {
		return forget(u.later)
	}
	return nil
}

// forget drops the changes that a nested backend remembers.
func forget(later deferrer) error {
	if later == nil {
		return nil
	}
	return later.Changed(func(backend.Addr, []byte, bool) error { return nil })
}
