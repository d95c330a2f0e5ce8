// Package savepoint is the canonical form of keyed state: one format that every backend writes and reads, so that a job can
// change its backend by way of a savepoint.
//
// Write stores the state of one subtask, key group by key group and state by state, in objects of about 8 MiB (format.go
// describes them); Read brings the elements of some key groups back, and reads no more of the objects than it has to. Both
// run in the backend that calls them: heap, lsm, or one of these inside the changelog.
package savepoint

import (
	"fmt"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
)

const (
	objectBytes = 8 << 20   // from this size on a new object is begun
	blockBytes  = 256 << 10 // of a block before compression
	parallel    = 4         // uploads or downloads of a subtask at a time
	smallObject = 1 << 20   // up to this size an object is read as a whole
	tailGuess   = 64 << 10  // the first read of a footer

	// The CPU costs of a byte of state in the simulated world.
	encodeCost = 2 * time.Nanosecond
	decodeCost = 1 * time.Nanosecond
)

// Source is the state of one subtask as of a barrier.
type Source struct {
	Operator, Subtask string
	Range             keygroup.Range
	States            []backend.StateSpec
	// Positions has, for each key group of Range, a number greater than all positions of list elements ever used in it.
	Positions []uint64
	// Scan calls f for the elements of States[state] in key group g, in the order of Keyed.Scan, until it returns false. Keys
	// are those of Keyed; they are borrowed during the call.
	Scan func(g keygroup.ID, state int, f func(key, value []byte) bool) error
	// ObjectBytes is the size from which on a new object is begun; 0: 8 MiB.
	ObjectBytes int64
}

// Loader is a backend that is being filled.
type Loader interface {
	// Register is that of backend.Keyed.
	Register(spec backend.StateSpec) (backend.StateID, error)
	// Position says that all positions of list elements in g are below next.
	Position(g keygroup.ID, next uint64) error
	// Load stores an element; it copies key and value.
	Load(a backend.Addr, value []byte) error
}

// damaged is the error for an object that does not say what was written.
func damaged(key, format string, args ...any) error {
	return fmt.Errorf("object %q: %s: %w", key, fmt.Sprintf(format, args...), store.ErrCorrupt)
}
