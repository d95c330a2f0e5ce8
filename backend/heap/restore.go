package heap

import (
	"context"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/blocks"
	"statebench.dev/bench/backend/savepoint"
	"statebench.dev/bench/internal/keygroup"
)

// restore fills an empty keyed from handles of this backend and from those in the canonical form.
func (k *keyed) restore(ctx context.Context, o backend.OpenOptions) error {
	var own []backend.StateHandle
	for _, h := range o.Handles {
		if h.Backend != backend.Canonical {
			own = append(own, h)
		}
	}
	began := k.b.e.World.Now()
	bytes, err := format.Read(ctx, k.b.e, k.b.o, own, o.Range, loader{k})
	if err == nil {
		var more int64
		more, err = savepoint.Read(ctx, k.b.e, o.Handles, o.Range, loader{k})
		bytes += more
	}
	if o.Restored != nil {
		o.Restored.BaseTime, o.Restored.BaseBytes = k.b.e.World.Now()-began, bytes
	}
	return err
}

// loader fills a keyed.
type loader struct{ *keyed }

var _ blocks.Loader = loader{}

// Register implements blocks.Loader: all parts of a state must be of one schema.
func (l loader) Register(spec backend.StateSpec) (backend.StateID, error) {
	id, err := l.keyed.Register(spec)
	if err == nil {
		known := &l.states[id].spec
		*known, err = known.Together(spec)
	}
	return id, err
}

// Position implements blocks.Loader.
func (l loader) Position(g keygroup.ID, next uint64) error {
	i, err := l.group(g)
	if err == nil {
		l.positions[i] = max(l.positions[i], next)
	}
	return err
}

// Load implements blocks.Loader.
func (l loader) Load(a backend.Addr, value []byte) error { return l.Put(a, value) }
