// Package heap keeps the working state of a subtask in memory and stores a full copy of it at each checkpoint.
//
// State lies in tables of one key group and state each: hash tables for point states, sorted leaves for ordered ones. Both
// refer to elements in an arena by 32-bit numbers, so the garbage collector has nothing to look at, and an update in
// steady state allocates nothing. A snapshot notes the tables (some microseconds at a million keys) and makes what is
// older than it immutable; the loop copies what it changes: elements one by one, tables at their first change.
//
// The asynchronous phase writes the key groups in order into objects of about 8 MiB (package blocks). A restore
// reads from each object the key groups it needs, so that rescaling is opening with another range.
package heap

import (
	"context"
	"fmt"
	"sync/atomic"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/blocks"
	"statebench.dev/bench/internal/keygroup"
)

// Name is the backend's name in plans and handles.
const Name = "heap"

// Options configure the backend: how snapshots are written and read.
type Options = blocks.Options

// New returns a factory of heap backends.
func New(o Options) backend.Factory { return factory{o.WithDefaults()} }

type factory struct{ o Options }

func (f factory) ForWorker(_ context.Context, e backend.WorkerEnv) (backend.Backend, error) {
	return &Backend{o: f.o, e: e, spare: blocks.NewSpare(e.World, f.o.Parallel)}, nil
}

// Backend is the heap backend of one worker in one attempt. Open may be called concurrently.
type Backend struct {
	o    Options
	e    backend.WorkerEnv
	open atomic.Int64 // Keyeds that are not closed

	spare *blocks.Spare // memory of snapshots that were written
}

var _ backend.Backend = (*Backend)(nil)

// Close implements backend.Backend. A subtask that is still open is an error: its memory would live as long as it does.
func (b *Backend) Close(context.Context) error {
	if n := b.open.Load(); n > 0 {
		return fmt.Errorf("heap backend of %s closed with %d subtasks open", b.e.Worker, n)
	}
	return nil
}

// Open implements backend.Backend. Handles with a delta part are refused: they need the changelog backend.
func (b *Backend) Open(ctx context.Context, o backend.OpenOptions) (backend.Keyed, error) {
	for _, h := range o.Handles {
		switch {
		case len(h.Delta) > 0:
			return nil, fmt.Errorf("open %s: handle of checkpoint %d has changelog parts; it needs the changelog backend: %w", o.Subtask, h.Checkpoint, backend.ErrForeign)
		case h.Backend != Name && h.Backend != backend.Canonical && len(h.Base) > 0:
			return nil, fmt.Errorf("open %s: handle of checkpoint %d is of backend %q, not of %s: %w", o.Subtask, h.Checkpoint, h.Backend, Name, backend.ErrForeign)
		}
	}
	k := newKeyed(b, o)
	if err := k.restore(ctx, o); err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Subtask, err)
	}
	b.open.Add(1)
	return k, nil
}

// objectName names the n-th object that a subtask puts in this attempt.
func (k *keyed) objectName(n uint64) string {
	if k.names != nil {
		return k.names(n)
	}
	return fmt.Sprintf("base/%d/%s/%d", k.b.e.Attempt, k.subtask, n)
}

// group returns the index of g among the key groups of the subtask.
func (k *keyed) group(g keygroup.ID) (int, error) {
	if !k.rng.Contains(g) {
		return 0, fmt.Errorf("key group %d is not in %v of %s", g, k.rng, k.subtask)
	}
	return int(g - k.rng.From), nil
}
