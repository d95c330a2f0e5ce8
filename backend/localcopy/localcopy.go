// Package localcopy keeps copies of the objects that a worker puts on the worker's own disk and restores from them: local
// recovery. It wraps any backend and changes nothing of what that does.
//
// What is restored is always what the checkpoint's handles name; a copy only saves the request for an object. It is used if
// it has the length and the checksum that the handles give for the object and each block of it that is read has its own, else the object is
// read from the store. So a missing, damaged, stale or incomplete set of copies cannot change the restored state, and needs no rule of its own for
// when a set is complete.
//
// A copy is written beside the upload of its object and synced. If that fails the object simply has no copy. It is removed when its object is
// deleted by the worker, when no checkpoint that is retained or under way names it any more, and when the worker restores a checkpoint that does not
// name it. The copies on a disk are bounded (Options.Limit): what cannot be made room for is not copied.
package localcopy

import (
	"context"
	"fmt"
	"time"

	"statebench.dev/bench/backend"
)

// DefaultLimit is the bound on a worker's copies where the options name none.
const DefaultLimit = 4 << 30

// Options configure the copies of a worker. The zero value is usable.
type Options struct {
	// Limit is how many bytes of copies a worker's disk holds at most; 0: DefaultLimit.
	Limit int64
}

// Validate reports what is wrong with o.
func (o Options) Validate() error {
	if o.Limit < 0 {
		return fmt.Errorf("limit of local copies is negative: %d", o.Limit)
	}
	return nil
}

// Simulated cost of a byte that is copied or read back: one pass over memory and the page cache, and the checksums.
const costPerByte = time.Nanosecond

// Around returns a factory of the same backends with local copies. A worker without a disk has none.
func Around(f backend.Factory, o Options) backend.Factory { return factory{f, o} }

type factory struct {
	in backend.Factory
	o  Options
}

// ForWorker implements backend.Factory.
func (f factory) ForWorker(ctx context.Context, e backend.WorkerEnv) (backend.Backend, error) {
	if err := f.o.Validate(); err != nil {
		return nil, err
	}
	if e.Disk == nil {
		return f.in.ForWorker(ctx, e)
	}
	limit := f.o.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	c := newCopies(e, limit)
	e.Bucket = &bucket{Bucket: e.Bucket, c: c}
	in, err := f.in.ForWorker(ctx, e)
	if err != nil {
		return nil, err
	}
	return &Backend{Backend: in, c: c}, nil
}

// Backend is the backend of one worker in one attempt, with copies.
type Backend struct {
	backend.Backend
	c *copies
}

var (
	_ backend.Backend  = (*Backend)(nil)
	_ backend.Follower = (*Backend)(nil)
)

// Open implements backend.Backend. The figures of the restore say how much came from copies.
func (b *Backend) Open(ctx context.Context, o backend.OpenOptions) (backend.Keyed, error) {
	t := &tally{}
	k, err := b.Backend.Open(withTally(ctx, t), o)
	if o.Restored != nil {
		o.Restored.LocalBytes, o.Restored.LocalHits, o.Restored.LocalMisses = t.bytes.Load(), t.hits.Load(), t.misses.Load()
	}
	return k, err
}

// Acknowledged implements backend.Follower.
func (b *Backend) Acknowledged(checkpoint uint64, h backend.StateHandle) {
	b.c.name(checkpoint, keysOf(h))
}

// Completed implements backend.Follower.
func (b *Backend) Completed(checkpoint, subsumed uint64) { b.c.completed(checkpoint, subsumed) }

// Aborted implements backend.Follower.
func (b *Backend) Aborted(checkpoint uint64) { b.c.aborted(checkpoint) }

// keysOf lists the objects that a handle names; one may come twice.
func keysOf(h backend.StateHandle) []string {
	var keys []string
	for _, refs := range [][]backend.ObjectRef{h.Base, h.Delta} {
		for _, r := range refs {
			if len(keys) == 0 || keys[len(keys)-1] != r.Key {
				keys = append(keys, r.Key)
			}
		}
	}
	return keys
}
