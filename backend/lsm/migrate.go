package lsm

import (
	"fmt"

	"statebench.dev/bench/backend"
)

// Migrate implements backend.Migrator. Elements are rewritten through the loop's own operations: the tables that were attached
// stay as they are, shared with whoever else names them, and what is written lies above them until a compaction merges both.
// A snapshot holds one schema for a state, so that nothing has to be converted again. A restore that goes on beside the loop
// reads all tables of the state for it.
func (k *keyed) Migrate(id backend.StateID, schema backend.Schema, rewrite func(to backend.Keyed) error) error {
	switch {
	case k.life.dead.Load():
		return errClosed
	case int(id) >= len(k.states):
		return fmt.Errorf("state %d of %s is not registered", id, k.subtask)
	}
	if rewrite != nil {
		if err := rewrite(k); err != nil {
			return err
		}
	}
	k.states[id].spec.Schema = schema
	return nil
}
