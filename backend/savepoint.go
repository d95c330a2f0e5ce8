package backend

import (
	"context"
	"errors"
	"strings"
)

// The forms of a savepoint.
const (
	// Canonical is the form that every backend reads, whichever wrote it (package savepoint). It is also what
	// StateHandle.Backend says of such state.
	Canonical = "canonical"
	// Native is the form of the working backend itself; StateHandle.Backend has its name.
	Native = "native"
)

// ErrForeign is wrapped by the error of an Open whose handles are in the form of another backend.
var ErrForeign = errors.New("state of another backend")

// SavepointPrefix begins the keys of all objects of savepoints. These are the user's, unless a job claims them.
const SavepointPrefix = "savepoint/"

// OfSavepoint tells whether the object was put for a savepoint.
func OfSavepoint(key string) bool { return strings.HasPrefix(key, SavepointPrefix) }

// Savepointer is the ability of a Keyed to take savepoints. All backends of this module have it; a backend around another
// one needs it of the inner one.
type Savepointer interface {
	// Savepoint is the synchronous phase of a savepoint: like Snapshot it fixes the state as of now and does no
	// object-store I/O. The snapshot's Persist writes all of the state into objects of its own, so that the handle, whose Delta
	// is empty, needs nothing else. Later snapshots are what they would have been without it, and neither Completed nor
	// Aborted is called for it. An unknown form is an error.
	Savepoint(ctx context.Context, o SavepointOptions) (Snapshot, error)
}

// SavepointOptions say what to write.
type SavepointOptions struct {
	ID   uint64 // of the savepoint; it becomes StateHandle.Checkpoint
	Form string // Canonical or Native
	// Names names the n-th object (from 0) that is put for the subtask; backends may add an extension. It may be called
	// concurrently.
	Names func(n uint64) string
}
