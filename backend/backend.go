// Package backend says what a keyed state backend must do, and holds typed state on top of it.
//
// A backend is a byte store per key group and state: heap, lsm and changelog each implement Keyed once; value, list, map,
// reducing, aggregating state and timers are written once on top (NewValue, NewList, ...). State moves between subtasks by
// opening a backend with another key-group range over the same handles: rescaling is nothing more than that.
//
// Steps of use: Factory.ForWorker once for each worker and attempt, Backend.Open for each subtask with its handles,
// Register each state, read and write, Snapshot at each barrier, Notify on the checkpoint's end, Close.
package backend

import (
	"context"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// StateID names a registered state inside one Keyed.
type StateID uint16

// Access says how the elements of a state are reached.
type Access uint8

const (
	// Point states are read and written by exact key: a hash table serves them.
	Point Access = iota + 1
	// Ordered states are also scanned by prefix, in byte order of keys, the same in every backend.
	Ordered
)

// Type is the typed state that lies on top; it decides how the audit decodes an element.
type Type uint8

// The types of typed state.
const (
	Value Type = iota + 1
	List
	Map
	Reducing
	Aggregating
	Timers
	// Expiries is the state that WithTTL keeps beside another.
	Expiries
)

// StateSpec describes one state of a job's operator.
type StateSpec struct {
	Name   string // unique in an operator, kebab-case
	Type   Type
	Access Access
	Schema Schema // of what is stored; the zero value is version 1 of whatever serializer
}

// Addr is the place of one element: a state, a key group, the element's byte key. Backends hash Key themselves.
type Addr struct {
	State StateID
	Group keygroup.ID
	Key   []byte
}

// Keyed is the working state of one subtask. It is used by the subtask's loop only, never concurrently; the
// asynchronous part of a Snapshot runs beside it. Key groups outside Range are an error.
//
// Byte slices passed in are copied. Slices handed out are borrowed: they are valid until the next write and must not be changed.
type Keyed interface {
	// Range is what Open was given.
	Range() keygroup.Range
	// Register makes a state known, or finds it, restored or not; the same spec gives the same id. Another type or access
	// for a known name is an error. The schema of a known state stays what it was; Migrator changes it.
	Register(spec StateSpec) (StateID, error)
	// States lists all states, restored ones too, in order of id.
	States() []StateSpec
	Get(a Addr) (value []byte, ok bool, err error)
	Put(a Addr, value []byte) error
	// Delete of an element that is not there is no error.
	Delete(a Addr) error
	// DeletePrefix removes all elements of an Ordered state whose key begins with a.Key.
	DeletePrefix(a Addr) error
	// Append stores value in an Ordered state at a.Key followed by a big-endian 64-bit position greater than all
	// positions used under a.Key before by this subtask or in its restored state, and returns the position.
	Append(a Addr, value []byte) (pos uint64, err error)
	// Scan calls f for the elements of state s in key group g whose key begins with prefix, in byte order of keys for Ordered
	// states and in any fixed order for Point states (prefix must be empty there), until f returns false. f must not write.
	Scan(s StateID, g keygroup.ID, prefix []byte, f func(key, value []byte) bool) error
	// Snapshot is the synchronous phase of checkpoint id: it fixes the state as of now and does no object-store I/O.
	Snapshot(ctx context.Context, id uint64) (Snapshot, error)
	// Completed tells that checkpoint id completed and that subsumed (0: none) and all below it are no longer retained.
	Completed(ctx context.Context, id, subsumed uint64) error
	// Aborted tells that checkpoint id will not complete.
	Aborted(ctx context.Context, id uint64) error
	// Gauges reports current figures.
	Gauges() Gauges
	// Close releases everything; it uploads nothing.
	Close(ctx context.Context) error
}

// Gauges are current figures of one Keyed, in bytes and elements.
type Gauges struct {
	LiveBytes    int64 // keys and values of the working state
	Elements     int64
	UnsentBytes  int64 // changes logged and not yet uploaded
	LogBytes     int64 // log bytes since the base
	Materialized int64 // materializations finished
	// InFlight is the part of UnsentBytes that is under upload, or handed over for one.
	InFlight int64
	// LogAge is the time since the base of the log was cut, where it was restored since that; 0: there is no log.
	LogAge time.Duration
}

// Positioned is an optional ability of a nested backend that the changelog needs: PutAt replays an Append with the position the log recorded.
type Positioned interface {
	PutAt(a Addr, pos uint64, value []byte) error
}

// Throttler is an optional ability: while Blocked, the loop must not process further records; it waits for Unblocked.
type Throttler interface {
	Blocked() bool
	Unblocked() world.Waitable
	// Exhausted tells, while Blocked, whether what all subtasks of the worker have together is used up, and not only the share
	// of this one.
	Exhausted() bool
}

// Snapshot is a state as of a barrier. Persist may run in another process than the loop, at most once; Release is always
// called, after Persist has returned or instead of it, and frees what the snapshot holds in memory.
type Snapshot interface {
	// Persist is the asynchronous phase: it makes the snapshot durable in the store and returns its handle. On an error nothing of it counts;
	// objects it put are deleted by it where that is certain to be safe, else they are left to the leader's clean-up.
	Persist(ctx context.Context) (Persisted, error)
	Release()
}

// Persisted is the result of a snapshot's asynchronous phase.
type Persisted struct {
	Handle StateHandle
	// Checkpointed is the bytes first referenced by this checkpoint: log bytes, pre-emptive ones included, materialized
	// ones not; without a changelog the snapshot bytes uploaded.
	Checkpointed int64
	Preemptive   int64 // the part of Checkpointed uploaded before the checkpoint
	Materialized int64 // base bytes first referenced by this checkpoint (changelog only)
	Objects      int   // objects put for it by this subtask; a batched object counts for the subtask that began it
}

// Backend opens the keyed state of subtasks on one worker in one attempt.
type Backend interface {
	// Open restores the key groups of o.Range from every handle that overlaps it: for each handle and each of its objects, the
	// groups in (handle range ∩ object's Groups ∩ o.Range). With no handle the state is empty. Unreadable or damaged
	// objects are an error that wraps store.ErrCorrupt or store.ErrNotExist and names the object.
	Open(ctx context.Context, o OpenOptions) (Keyed, error)
	// Close ends what is shared between the subtasks, after they were closed. It uploads nothing.
	Close(ctx context.Context) error
}

// Follower is an optional ability of a Backend: to follow what becomes of the checkpoints of its worker's subtasks. All methods may be
// called concurrently, those that say how a checkpoint ended more than once.
type Follower interface {
	// Acknowledged tells that a subtask's part of a checkpoint is durable, before anybody else is told.
	Acknowledged(checkpoint uint64, h StateHandle)
	// Completed tells that checkpoint completed, and that subsumed (0: none) and all below it are no longer retained.
	Completed(checkpoint, subsumed uint64)
	// Aborted tells that it will not.
	Aborted(checkpoint uint64)
}

// Factory makes the backend of a worker; it is configured from a plan's arm.
type Factory interface {
	ForWorker(ctx context.Context, e WorkerEnv) (Backend, error)
}

// WorkerEnv is what a worker gives its backend for one attempt.
type WorkerEnv struct {
	World      world.World
	Bucket     store.Bucket // fenced for this worker and attempt
	Worker     string       // worker-0, ...
	Attempt    uint64
	Failpoints *failpoint.Set
	// Folder is a folder of the real machine for the files that a backend keeps beside its memory, made when it is first used;
	// empty: the machine's folder for temporary files. Simulated workers have none.
	Folder string
	// Disk is the worker's local disk, which survives the attempt and, with what was synced, a crash of the worker; nil: none.
	Disk world.Disk
	// Restores is what the worker's subtasks are about to open, one entry for each subtask, so that what several of them need is
	// fetched once. It is a hint: a backend must work without it, and whoever opens something else only loses that. Not changed.
	Restores []Restore
	// Permits bounds what goes on at a time over all workers of the job; nil: nothing does.
	Permits Permits
	// Emit records an event; the callee fills in time and sequence, the caller kind and figures. It may unwind the calling
	// process, when a trigger on the event kills its domain. Never nil.
	Emit func(ctx context.Context, e history.Event)
	// Spawn starts a process of the worker in this attempt; it is cancelled with the attempt.
	Spawn func(name string, f func(ctx context.Context) error)
}

// Permits hands out places for work of which only so much may go on at a time over all workers of an attempt. The places of an
// attempt end with it, so a worker that dies keeps none. Methods may be called by every process of the worker.
type Permits interface {
	// Acquire waits until holder, the name of a subtask, has one of most places, or for the end of ctx, whose cause it then returns.
	// Places are given in the order in which they were asked for. Everybody must ask with the same most, which is at least 1, and
	// a holder for one place at a time.
	Acquire(ctx context.Context, holder string, most int) error
	// Release gives the holder's place back, or its wish for one up; without either it does nothing.
	Release(ctx context.Context, holder string)
}

// Restore is what one subtask is about to open.
type Restore struct {
	Range keygroup.Range // the subtask's
	// Handles are those of a checkpoint as it has them, not narrowed to Range; some may lie outside of it.
	Handles []StateHandle
	// Written is the attempt that took the checkpoint; 0: not known. Log parts of that attempt hold the key groups that their
	// references name and no others, earlier ones may have been narrowed since.
	Written uint64
}

// OpenOptions describe one subtask's state.
type OpenOptions struct {
	Operator string // operator id, unique in the job
	Subtask  string // <operator>-<index>, unique in the job
	Index    int
	Range    keygroup.Range
	Handles  []StateHandle
	// Borrowed says that the objects of the handles are somebody else's: no snapshot may name one, so that the first is
	// self-contained. Savepoints may be restored so, and checkpoints with a log too.
	Borrowed bool
	Loop     Loop
	// Names, when not nil, names the n-th object (from 0, in this attempt) that the backend puts for the subtask. It is set by a
	// backend that nests this one and has failpoints of its own; nil means base/<attempt>/<subtask>/<n>. It may be called concurrently.
	Names func(n uint64) string
	// Restored, when not nil, is filled with the restore's figures.
	Restored *RestoreStats
}

// RestoreStats are the figures of one Open.
type RestoreStats struct {
	BaseTime, ReplayTime  time.Duration
	BaseBytes, DeltaBytes int64 // bytes fetched, from the store or from copies on the worker's disk
	LocalBytes            int64 // of these, from copies
	// LocalHits are the requests that a copy answered, LocalMisses those for which the store was asked instead, where copies are kept.
	LocalHits, LocalMisses int64
	ReplayedChanges        int64
}

// Loop is the event loop of the subtask that owns a Keyed. All methods are called from the loop or from work started by it.
type Loop interface {
	// Async runs work on the worker's pool, beside the loop, and then done in the loop. Neither runs once the subtask has ended.
	Async(name string, work func(ctx context.Context) error, done func(error))
	// After runs f in the loop once d has passed, unless the subtask ended.
	After(d time.Duration, f func())
	// Fail ends the subtask, and with it the attempt, with err.
	Fail(err error)
}
