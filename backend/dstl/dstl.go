// Package dstl is the durable short-term log: the storage of a changelog. Every subtask has a Writer to which its backend
// appends each change; the subtasks of one worker share a Log, which batches what they persist into objects of the store.
//
// Positions are sequence numbers. A writer collects changes in its active change set; asking for a cut ends the set and
// the next one gets the following number, so a range [from, to) of numbers names changes without gaps. The writer never
// numbers single changes: inside a change set they are coalesced by key until the set is framed for upload.
//
// Steps of use: New once for a worker and attempt, Log.Writer for each subtask, Define each state, Append each change.
// At a checkpoint's barrier Cut in the loop, then Persist beside it; Confirm or Reset when the checkpoint has ended;
// Truncate when a materialization covers the older part; Close. Read replays references that Persist returned.
//
// Who owns an object: the log, until a checkpoint that references it completes; from Confirm on the coordinator's
// registry. The log deletes an object once none of the change sets in it is needed by its writer or pinned by a pending
// checkpoint, unless the coordinator owns it. What stays unclear when a writer closes (a checkpoint persisted, its end
// unknown) is left to the leader's clean-up of the attempt's prefix.
package dstl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// Errors of a writer; compare with errors.Is.
var (
	// ErrClosed: the writer or its log was closed.
	ErrClosed = errors.New("log is closed")
	// ErrTruncated: the range begins below what was truncated.
	ErrTruncated = errors.New("range of the log was truncated")
	// ErrAhead: the range begins above everything appended.
	ErrAhead = errors.New("range of the log was not appended yet")
	// ErrReset: the checkpoint was reset, or otherwise ended, before it was persisted.
	ErrReset = errors.New("checkpoint was reset")
)

// Op is the kind of a change.
type Op uint8

// The kinds of changes. Their numbers are part of the format.
const (
	// OpPut sets the element Key to Value.
	OpPut Op = iota + 1
	// OpDelete removes the element Key.
	OpDelete
	// OpDeletePrefix removes all elements whose key begins with Key.
	OpDeletePrefix
	// OpAppend sets the element Key followed by the big-endian position Pos to Value; unlike a put it tells that Pos is used up.
	OpAppend
)

// Change is one change read back from a log. Key and Value are borrowed until the next change.
type Change struct {
	Op    Op
	State backend.StateID // as numbered by the log that wrote it
	Group keygroup.ID
	Key   []byte
	Value []byte
	Pos   uint64 // OpAppend only
}

// State is a state's number in one log and what it stands for.
type State struct {
	ID   backend.StateID
	Spec backend.StateSpec
}

// Log is the shared log of the subtasks of one worker in one attempt. All methods may be called concurrently.
type Log interface {
	// Writer opens the log of one subtask. Its sequence numbers start at 0.
	Writer(o WriterOptions) (Writer, error)
	// Read replays refs in order: the changes with key groups in r and the ref's Groups and sequence numbers in the ref's
	// range. It fetches a bounded number of parts ahead. Unreadable or damaged objects are an error that wraps
	// store.ErrCorrupt or store.ErrNotExist and names the object.
	Read(ctx context.Context, refs []backend.ObjectRef, r keygroup.Range, v Visitor) (ReadStats, error)
	// Close waits for uploads under way, deletes what no checkpoint can need, and ends the log's processes. The writers must have
	// been closed. It uploads nothing; what it cannot delete is left to the leader's clean-up. Once ctx is done it does neither.
	Close(ctx context.Context) error
}

// Visitor receives what Read reads.
type Visitor interface {
	// States is called before the changes of each part with the states they refer to.
	States(states []State) error
	// Apply is called for each change in order. c and what it refers to are borrowed.
	Apply(c *Change) error
}

// ReadStats are the figures of one Read.
type ReadStats struct {
	Bytes   int64 // fetched from the store
	Changes int64 // handed to the visitor
	// Applied is the time that decoding the changes and the visitor took, without that spent waiting for what was fetched.
	Applied time.Duration
}

// WriterOptions describe one writer.
type WriterOptions struct {
	// Subtask is the subtask's name; the writer's own name is <attempt>/<subtask>.
	Subtask string
	// Range is the key groups whose changes are appended.
	Range keygroup.Range
}

// Writer is the log of one subtask. Persist may run beside the subtask's loop, several at a time; what changes the log otherwise
// is called by the loop only.
type Writer interface {
	// Name is unique among the writers of a run.
	Name() string
	// Define makes a state known; changes of a state need it before. Defining it again replaces its schema for what was not
	// uploaded yet.
	Define(s State)
	// Append logs one change. For OpAppend a.Key is the key in front of the position pos; pos is ignored otherwise. Key and
	// value are copied. It may start an upload of what is unsent but does not wait for it.
	Append(op Op, a backend.Addr, pos uint64, value []byte) error
	// Gather is Append, except that it starts no upload. Who has many changes to log that are kept elsewhere asks Room before
	// and, if that is why, calls Early after them.
	Gather(op Op, a backend.Addr, pos uint64, value []byte) error
	// Room is how many bytes of changes, beyond further ones that are to be gathered, may come until an early upload is due or the
	// writer blocks; 0 or less: it is so far. Without early uploads there is no end to it.
	Room(further int64) int64
	// Early starts an upload of what is unsent, unless that is little, early uploads are off, or the last one has just failed.
	Early()
	// Next ends the active change set, if it holds anything, and returns the next sequence number: what was appended before
	// has a lower one, what is appended later has this one or a higher one.
	Next() uint64
	// Cut is Next for a checkpoint: it pins [from, to) for it, so that neither Truncate nor Close takes the changes away
	// before the checkpoint is confirmed or reset, and returns to. Checkpoints are cut in order of their ids, which begin with 1.
	Cut(from, checkpoint uint64) (to uint64, err error)
	// Persist makes [from, to) durable, to being where the checkpoint was cut, and returns references to it in sequence order. A
	// checkpoint that was not cut is cut now, which only the loop may do. An error means that the range does not count as
	// persisted; its changes stay, and a later call uploads those again that are not durable. A call that is cancelled
	// loses nothing either: the upload goes on without it.
	Persist(ctx context.Context, from, checkpoint uint64) (Persisted, error)
	// Confirm tells that checkpoint completed: what it references is the coordinator's from now on. Checkpoints up to subsumed
	// (0: none) are no longer retained: if the end of one of them was not told, what it references counts as the coordinator's
	// too. A checkpoint that was never cut here is ignored.
	Confirm(ctx context.Context, checkpoint, subsumed uint64) error
	// Reset tells that checkpoint will not complete. Its changes stay and are reused by the next one.
	Reset(checkpoint uint64)
	// Cover tells that the changes below to, which must have been reached by Next or Cut, are in a base: checkpoints cut from now
	// on begin at to or above. Those of them that no running checkpoint was cut for are not uploaded any more, and what was
	// uploaded early for nobody is deleted. Unlike Truncate it forgets nothing else.
	Cover(to uint64)
	// Truncate forgets changes below to, which must have been reached by Next or Cut; a lower to than before does nothing.
	Truncate(ctx context.Context, to uint64) error
	// Lowest is the sequence number below which all was truncated.
	Lowest() uint64
	// Unsent is the size of the changes that are not durable yet, in bytes.
	Unsent() int64
	// Since is the size of the changes from sequence number from on, in bytes, as stored where that is known.
	Since(from uint64) int64
	// Blocked tells that this writer's share of the bytes waiting for upload is used up.
	Blocked() bool
	// Unblocked is ready once Blocked, which was true, may be false again.
	Unblocked() world.Waitable
	// Exhausted tells, while Blocked, whether the bytes waiting for upload of all writers have reached the limit of the log, so that
	// nobody goes on; else it is only this writer that has used up its share.
	Exhausted() bool
	// InFlight is the part of Unsent that is under upload, or handed over for one.
	InFlight() int64
	// Close drops everything that no checkpoint pins and ends the writer. Closing twice is no error.
	Close() error
}

// Persisted is what one Persist made durable or found durable.
type Persisted struct {
	Refs []backend.ObjectRef
	// Bytes is the part of Refs that no checkpoint had referenced before, Preemptive what of it was uploaded before it was asked for.
	Bytes      int64
	Preemptive int64
	// Objects counts the objects that this writer began among those first referenced.
	Objects int
}

// Options configure a Log. The zero value is usable.
type Options struct {
	// Preemptive is the size of unsent changes, per writer, that starts an upload without a checkpoint; 0: 5 MiB.
	Preemptive int64
	// PreemptiveOff disables such uploads.
	PreemptiveOff bool
	// BatchDelay is how long an upload waits for other writers' changes; it goes off at once when all writers have contributed.
	BatchDelay time.Duration
	// BatchSize is the number of bytes that ends the wait; 0: 10 MiB. It triggers and does not cap.
	BatchSize int64
	// InFlight bounds the bytes of all writers under upload, and a writer blocks when its equal share of it is waiting; 0: 100 MiB.
	InFlight int64
	// BlockSize is the uncompressed size at which a block ends; 0: 32 KiB.
	BlockSize int
	// Prefetch is the number of parts that Read fetches ahead; 0: 4.
	Prefetch int
	// Upload says how uploads are tried again, and when by a second attempt.
	Upload UploadOptions
}

// UploadOptions say how uploads are tried again, and when by a second attempt. The zero value is usable.
type UploadOptions struct {
	// RetryShare is how many retries an upload that succeeds allows, all uploads of the log together; 0: 0.2.
	RetryShare float64
	// RetriesPerSecond is how many are allowed in a second beside that; 0: 5. Further ones wait.
	RetriesPerSecond int
	// HedgeAfter is how long an upload takes before a second attempt, under another key, begins beside the first; 0: none does.
	HedgeAfter time.Duration
	// HedgeShare is the part of the uploads that may have one; 0: 0.05. A few are saved up.
	HedgeShare float64
}

func (o UploadOptions) validate() (errs []error) {
	if !(o.RetryShare >= 0 && o.RetryShare <= 1) {
		errs = append(errs, fmt.Errorf("retry share is %v, must be 0 to 1", o.RetryShare))
	}
	if o.RetriesPerSecond < 0 {
		errs = append(errs, fmt.Errorf("retries a second are negative: %d", o.RetriesPerSecond))
	}
	if o.HedgeAfter < 0 {
		errs = append(errs, fmt.Errorf("time to a second attempt is negative: %v", o.HedgeAfter))
	}
	if !(o.HedgeShare >= 0 && o.HedgeShare <= 1) {
		errs = append(errs, fmt.Errorf("share of second attempts is %v, must be 0 to 1", o.HedgeShare))
	}
	return errs
}

func (o UploadOptions) withDefaults() UploadOptions {
	if o.RetryShare == 0 {
		o.RetryShare = 0.2
	}
	if o.RetriesPerSecond == 0 {
		o.RetriesPerSecond = 5
	}
	if o.HedgeShare == 0 {
		o.HedgeShare = 0.05
	}
	return o
}

// Validate reports every value out of range.
func (o Options) Validate() error {
	var errs []error
	for _, v := range []struct {
		name  string
		value int64
	}{
		{"preemptive", o.Preemptive}, {"batch delay", int64(o.BatchDelay)}, {"batch size", o.BatchSize},
		{"in flight", o.InFlight}, {"block size", int64(o.BlockSize)}, {"prefetch", int64(o.Prefetch)},
	} {
		if v.value < 0 {
			errs = append(errs, fmt.Errorf("%s is negative: %d", v.name, v.value))
		}
	}
	if o.BlockSize > maxBlock {
		errs = append(errs, fmt.Errorf("block size is %d, %d at most", o.BlockSize, maxBlock))
	}
	return errors.Join(append(errs, o.Upload.validate()...)...)
}

func (o Options) withDefaults() Options {
	or := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	or(&o.Preemptive, 5<<20)
	or(&o.BatchSize, 10<<20)
	or(&o.InFlight, 100<<20)
	if o.BlockSize == 0 {
		o.BlockSize = 32 << 10
	}
	if o.Prefetch == 0 {
		o.Prefetch = 4
	}
	o.Upload = o.Upload.withDefaults()
	return o
}
