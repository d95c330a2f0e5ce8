// Package blocks stores keyed state in objects of compressed blocks, key group by key group: full snapshots of the heap
// backend, and canonical savepoints.
//
// Write makes objects of about 8 MiB of the state of one subtask (format.go describes them) and uploads some while it encodes
// the next. Read brings the elements of some key groups back, and reads no more of the objects than it has to. Verify reads an
// object as a whole.
package blocks

import (
	"context"
	"fmt"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
)

const (
	blockBytes  = 256 << 10 // of a block before compression
	smallObject = 1 << 20   // up to this size an object is read as a whole
	tailGuess   = 64 << 10  // the first read of a footer
)

// Options say how objects are written and read. Zero fields have the defaults given.
type Options struct {
	// ObjectBytes is the size from which on a new object is begun; 8 MiB.
	ObjectBytes int64
	// Parallel is how many objects are uploaded or downloaded at the same time; 4.
	Parallel int
	// EncodeCost and DecodeCost are the CPU costs of a byte of state in the simulated world; 2 ns and 1 ns.
	EncodeCost, DecodeCost time.Duration
}

// WithDefaults returns o without zero fields.
func (o Options) WithDefaults() Options {
	if o.ObjectBytes <= 0 {
		o.ObjectBytes = 8 << 20
	}
	if o.Parallel <= 0 {
		o.Parallel = 4
	}
	if o.EncodeCost <= 0 {
		o.EncodeCost = 2 * time.Nanosecond
	}
	if o.DecodeCost <= 0 {
		o.DecodeCost = time.Nanosecond
	}
	return o
}

// Source is the state of one subtask as of a barrier.
type Source struct {
	Operator, Subtask string
	Range             keygroup.Range
	States            []backend.StateSpec
	// Positions has, for each key group of Range, a number greater than all positions of list elements ever used in it.
	Positions []uint64
	// Scan calls f for the elements of States[state] in key group g, in the order of Keyed.Scan, until it returns false. Keys
	// are those of Keyed; they are borrowed during the call. Key groups are asked for in ascending order.
	Scan func(g keygroup.ID, state int, f func(key, value []byte) bool) error
}

// Target is where Write puts a Source.
type Target struct {
	Checkpoint uint64 // or savepoint
	Cause      string // of the requests
	// Name names the n-th object, from 0.
	Name func(n uint64) string
	// Reach passes a failpoint of a checkpoint's upload; nil: there is none to pass.
	Reach func(ctx context.Context, point string) error
	// Spare is memory from earlier times, nil for none.
	Spare *Spare
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
