// Package savepoint is the canonical form of keyed state: one format that every backend writes and reads, so that a job can
// change its backend by way of a savepoint.
//
// Objects are those of package blocks. Keys in them are those of backend.Keyed: typed state above it does not change with the
// backend. Write and Read run in the backend that calls them: heap, lsm, or one of these inside the changelog.
package savepoint

import (
	"context"
	"fmt"
	"io"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/blocks"
	"statebench.dev/bench/internal/keygroup"
)

// Magic begins every object of the canonical form.
const Magic = "sbcanon"

var canonical = blocks.Format{Magic: Magic, Backend: backend.Canonical, Text: "state in the canonical form"} // read-only: a constant

// Source is the state of one subtask as of a barrier.
type Source = blocks.Source

// Loader is a backend that is being filled.
type Loader = blocks.Loader

// Write stores s in objects of objectBytes, 0 for 8 MiB, and returns its handle. It passes the failpoints of a checkpoint's
// upload. On an error the objects that were put for certain are deleted, unless ctx has ended; the rest is left to the leader's
// clean-up.
func Write(ctx context.Context, e backend.WorkerEnv, o backend.SavepointOptions, objectBytes int64, s Source) (backend.Persisted, error) {
	t := blocks.Target{
		Checkpoint: o.ID, Cause: "savepoint", Name: o.Names,
		Reach: func(ctx context.Context, point string) error { return e.Failpoints.Hit(ctx, point, s.Subtask) },
	}
	p, err := canonical.Write(ctx, e, blocks.Options{ObjectBytes: objectBytes}, t, s)
	if err != nil {
		return backend.Persisted{}, fmt.Errorf("write savepoint %d of %s: %w", o.ID, s.Subtask, err)
	}
	return p, nil
}

// Read fills l with the key groups of r from those of the handles that are in the canonical form; see blocks.Format.Read.
func Read(ctx context.Context, e backend.WorkerEnv, handles []backend.StateHandle, r keygroup.Range, l Loader) (bytes int64, err error) {
	var own []backend.StateHandle
	for _, h := range handles {
		if h.Backend == backend.Canonical {
			own = append(own, h)
		}
	}
	if len(own) == 0 {
		return 0, nil
	}
	return canonical.Read(ctx, e, blocks.Options{}, own, r, l)
}

// Verify reads an object of the given size block by block, a few hundred KiB at a time, and tells whether it is what
// was written. Damage is a backend.Damaged.
func Verify(key string, r io.ReaderAt, size int64) error { return canonical.Verify(key, r, size) }
