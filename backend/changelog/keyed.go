package changelog

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// keyed is the state of one subtask: the nested state, whose reads it passes on, and its log.
type keyed struct {
	backend.Keyed // the nested one
	positioned    backend.Positioned
	log           dstl.Writer
	b             *Backend
	ctx           context.Context // of the subtask
	subtask       string
	operator      string
	loop          backend.Loop
	later         deferrer // the nested one, if it can remember changes; else nil
	lookAt        int64    // deferred bytes at which to look whether they are to be logged

	base           *base               // replaced as a whole
	inherited      []backend.ObjectRef // never changed in place
	inheritedBytes int64
	cut            uint64 // the log begins here: all before is in base
	cutAt          time.Duration
	records        []record
	borrowed       bool   // what was restored may not, or cannot, be part of a checkpoint
	begun          bool   // a snapshot was taken of it
	subsumedTo     uint64 // end of the newest checkpoint that is known to be no longer retained

	// Materialization.
	lastID    uint64           // given to a materialization
	confirmed uint64           // newest id that a completed checkpoint contains
	running   *materialization // nil: none
	failures  int              // in a row
	timers    uint64           // set so far; only the newest counts
	waits     bool             // for the newest timer
	grown     bool             // this materialization began since the log had grown
	place     bool             // it takes one of the places of a worker
	permit    bool             // it has, or asked for, one of the places of the job
	replaying float64          // nanoseconds that replaying a byte of the log takes, about
	finished  int64            // materializations since Open
	ended     atomic.Bool
}

var (
	_ backend.Keyed     = (*keyed)(nil)
	_ backend.Throttler = (*keyed)(nil)
)

// base is a snapshot of the nested backend, or what was restored.
type base struct {
	id      uint64 // materialization id; 0: none
	format  string // name of the nested backend
	refs    []backend.ObjectRef
	bytes   int64               // put for it by this subtask
	objects int                 // put for it by this subtask
	fresh   []backend.ObjectRef // refs whose objects no base before had
	first   uint64              // the checkpoint that first referenced it, 0 for none
	used    bool                // a checkpoint has started with it
}

// record is a checkpoint that was started and is not known to be aborted or subsumed.
type record struct {
	id              uint64
	from, to        uint64 // of the log
	materialization uint64
	snapshot        *snapshot
}

// Register implements backend.Keyed.
func (k *keyed) Register(spec backend.StateSpec) (backend.StateID, error) {
	id, err := k.Keyed.Register(spec)
	if err == nil {
		k.define(id)
	}
	return id, err
}

// define tells the log what the nested backend knows of a state.
func (k *keyed) define(id backend.StateID) {
	k.log.Define(dstl.State{ID: id, Spec: k.Keyed.States()[id]})
}

// Put implements backend.Keyed.
func (k *keyed) Put(a backend.Addr, value []byte) error {
	if k.later != nil {
		return k.putLater(a, value)
	}
	if err := k.Keyed.Put(a, value); err != nil {
		return err
	}
	return k.log.Append(dstl.OpPut, a, 0, value)
}

// Delete implements backend.Keyed.
func (k *keyed) Delete(a backend.Addr) error {
	if k.later != nil {
		return k.deleteLater(a)
	}
	if err := k.Keyed.Delete(a); err != nil {
		return err
	}
	return k.log.Append(dstl.OpDelete, a, 0, nil)
}

// DeletePrefix implements backend.Keyed.
func (k *keyed) DeletePrefix(a backend.Addr) error {
	if err := k.Keyed.DeletePrefix(a); err != nil {
		return err
	}
	return k.log.Append(dstl.OpDeletePrefix, a, 0, nil)
}

// Append implements backend.Keyed. The position that the nested backend chose is logged, so that replay is idempotent.
func (k *keyed) Append(a backend.Addr, value []byte) (uint64, error) {
	pos, err := k.Keyed.Append(a, value)
	if err != nil {
		return 0, err
	}
	return pos, k.log.Append(dstl.OpAppend, a, pos, value)
}

// Completed implements backend.Keyed.
func (k *keyed) Completed(ctx context.Context, id, subsumed uint64) error {
	err := k.log.Confirm(ctx, id, subsumed)
	k.adopt(id)
	for _, r := range k.records {
		if r.id == id && r.materialization > k.confirmed {
			k.confirmed = r.materialization
			err = errors.Join(err, k.Keyed.Completed(ctx, r.materialization, k.oldestMaterialization(subsumed)-1))
			k.emit(ctx, history.Event{Kind: history.MaterializationConfirmed, Checkpoint: id, Count: int64(r.materialization)})
		}
	}
	k.records = slices.DeleteFunc(k.records, func(r record) bool {
		over := r.id <= subsumed && !r.snapshot.running.Load() // a savepoint may run on while later checkpoints complete
		if over {
			k.subsumedTo = max(k.subsumedTo, r.to)
		}
		return over
	})
	err = errors.Join(err, k.truncate(ctx))
	k.checkGrowth()
	return err
}

// oldestMaterialization is the smallest id above 0 that a checkpoint above subsumed contains.
func (k *keyed) oldestMaterialization(subsumed uint64) uint64 {
	oldest := max(1, k.base.id)
	for _, r := range k.records {
		if r.id > subsumed && r.materialization > 0 {
			oldest = min(oldest, r.materialization)
		}
	}
	return oldest
}

// truncate forgets the part of the log that is covered by the base, that the newest subsumed checkpoint reached beyond, and
// that no checkpoint which may still complete or is retained began with.
func (k *keyed) truncate(ctx context.Context) error {
	to := min(k.cut, k.subsumedTo)
	for _, r := range k.records {
		to = min(to, r.from)
	}
	if to <= k.log.Lowest() {
		return nil
	}
	return k.log.Truncate(ctx, to)
}

// Aborted implements backend.Keyed. The nested backend is not told: the materialization stays the base of the next checkpoint.
func (k *keyed) Aborted(ctx context.Context, id uint64) (err error) {
	k.log.Reset(id)
	for _, r := range k.records {
		if r.id == id && r.snapshot.own != nil { // no other checkpoint has this materialization
			err = k.Keyed.Aborted(ctx, r.materialization)
		}
	}
	k.records = slices.DeleteFunc(k.records, func(r record) bool { return r.id == id })
	if k.base.first == id {
		k.base.first = 0
	}
	return err
}

// Gauges implements backend.Keyed.
func (k *keyed) Gauges() backend.Gauges {
	g := k.Keyed.Gauges()
	deferred := k.deferredBytes()
	g.UnsentBytes = k.log.Unsent() + deferred
	g.LogBytes = k.inheritedBytes + k.log.Since(k.cut) + deferred
	g.Materialized = k.finished
	g.InFlight = k.log.InFlight()
	g.LogAge = k.b.env.World.Now() - k.cutAt
	return g
}

// Blocked implements backend.Throttler.
func (k *keyed) Blocked() bool { return k.log.Blocked() }

// Unblocked implements backend.Throttler.
func (k *keyed) Unblocked() world.Waitable { return k.log.Unblocked() }

// Exhausted implements backend.Throttler.
func (k *keyed) Exhausted() bool { return k.log.Exhausted() }

// Close implements backend.Keyed. A finished materialization that no checkpoint has started with is deleted if ctx allows.
func (k *keyed) Close(ctx context.Context) error {
	if k.ended.Swap(true) {
		return nil
	}
	k.running.release()
	k.yield()
	err := errors.Join(k.Keyed.Close(ctx), k.log.Close())
	if k.base != nil && !k.base.used {
		k.discard(ctx, k.base.fresh)
	}
	return err
}

// discard deletes base objects that nothing can reference. What fails is left to the leader's clean-up.
func (k *keyed) discard(ctx context.Context, refs []backend.ObjectRef) {
	if len(refs) == 0 || ctx.Err() != nil {
		return
	}
	var keys []string
	for _, r := range refs {
		keys = append(keys, r.Key)
	}
	slices.Sort(keys)
	e := k.b.env
	ctx = store.WithInfo(ctx, store.Info{Cause: "base", Who: e.Worker, Attempt: e.Attempt})
	e.Bucket.Delete(ctx, slices.Compact(keys))
}

// injected tells whether a fault of the plan made err.
func injected(err error) bool { return errors.Is(err, store.ErrInjected) }

// emit records an event of the subtask.
func (k *keyed) emit(ctx context.Context, e history.Event) {
	e.Actor, e.Attempt = k.subtask, k.b.env.Attempt
	k.b.env.Emit(ctx, e)
}
