package heap

import (
	"context"
	"fmt"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/savepoint"
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
	k := c.k
	return savepoint.Write(ctx, k.b.e, *c.savepoint, k.b.o.ObjectBytes, c.source())
}
