package changelog

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/seed"
)

// materialization is a snapshot of the nested backend under way.
type materialization struct {
	id       uint64
	upTo     uint64 // the log below is in it
	at       time.Duration
	snap     backend.Snapshot
	started  atomic.Bool // the asynchronous part has begun, or will never
	result   backend.Persisted
	canceled bool
}

// release frees the snapshot if its asynchronous part has not begun, and keeps it from beginning.
func (m *materialization) release() {
	if m != nil && m.started.CompareAndSwap(false, true) {
		m.snap.Release()
	}
}

// schedule sets the timer of the first materialization: a part of the interval fixed by the subtask's name.
func (k *keyed) schedule() {
	if !k.b.o.MaterializeOff && k.loop != nil {
		k.wait(offset(k.subtask, k.b.o.Materialize))
	}
}

// offset spreads subtasks evenly over [0, interval).
func offset(subtask string, interval time.Duration) time.Duration {
	return time.Duration(seed.Hash(0, "materialization/"+subtask) % uint64(interval))
}

// again sets the timer of the next materialization.
func (k *keyed) again() {
	if k.ended.Load() {
		return
	}
	k.yield()
	k.wait(k.b.o.Materialize)
}

// wait sets the timer; one that was set before means nothing any more.
func (k *keyed) wait(d time.Duration) {
	k.timers++
	k.waits = true
	n := k.timers
	k.loop.After(d, func() {
		if n == k.timers {
			k.tick()
		}
	})
}

// checkGrowth begins a materialization ahead of its time if the log has grown too large, and no other subtask of the worker
// materializes for the same reason: all of them do at about the same time, and would compete.
func (k *keyed) checkGrowth() {
	if !k.waits || k.ended.Load() || k.running != nil || k.borrowed || k.base.id > k.confirmed || !k.tooLong() {
		return
	}
	if k.b.grown.CompareAndSwap(false, true) {
		k.grown = true
		k.timers++ // the timer is not waited for
		k.tick()
	}
}

// tooLong tells whether the log exceeds its part of the base, or the time that a restore may take to replay it.
func (k *keyed) tooLong() bool {
	o := &k.b.o
	if o.MaterializeOff || o.GrowthOff && o.ReplayBudgetOff {
		return false
	}
	log := k.inheritedBytes + k.log.Since(k.cut)
	return !o.GrowthOff && log > o.GrowthFloor && float64(log) > o.Growth*float64(k.weight()) ||
		!o.ReplayBudgetOff && float64(log)*k.replaying > float64(o.ReplayBudget)
}

// weight is what the log is compared with: the base as it is stored, which may be compressed, or the state that a new one would
// hold where that is less: it may have shrunk, and after a rescale the base is that of several subtasks.
func (k *keyed) weight() int64 {
	live := k.Keyed.Gauges().LiveBytes
	base := backend.StateHandle{Base: k.base.refs}
	if stored := base.BaseBytes(); stored > 0 {
		return min(live, stored)
	}
	return live
}

const (
	// unknownRate is a guess at what replaying a byte of log takes where no restore has told yet, in nanoseconds: 100 MB a second.
	unknownRate = 10
	// tellingBytes is how much a restore must have replayed for its time to be more than that of a request.
	tellingBytes = 256 << 10
)

// replayRate is what replaying a byte takes, in nanoseconds, after a restore that read some bytes in some time.
func replayRate(bytes int64, took time.Duration) float64 {
	if bytes < tellingBytes || took <= 0 {
		return unknownRate
	}
	return float64(took) / float64(bytes)
}

// crowdedPart is the part of the interval after which a subtask tries again that found all places of its worker taken.
const crowdedPart = 8

// enter takes one of the places of the worker, if they are bounded.
func (k *keyed) enter() bool {
	most := int64(k.b.o.Concurrent)
	if most == 0 || k.place {
		return true
	}
	for {
		n := k.b.taken.Load()
		if n >= most {
			return false
		}
		if k.b.taken.CompareAndSwap(n, n+1) {
			k.place = true
			return true
		}
	}
}

// yield lets another subtask materialize.
func (k *keyed) yield() {
	if k.grown {
		k.grown = false
		k.b.grown.Store(false)
	}
	if k.place {
		k.place = false
		k.b.taken.Add(-1)
	}
	if k.permit {
		k.permit = false
		k.b.env.Permits.Release(k.ctx, k.subtask)
	}
}

// tick begins a materialization in the loop, unless the last one was not contained in a completed checkpoint yet, or there
// is nothing to materialize.
func (k *keyed) tick() {
	k.waits = false
	if k.ended.Load() {
		return
	}
	if k.skip() {
		return
	}
	if !k.enter() {
		k.emit(k.ctx, history.Event{Kind: history.MaterializationSkipped, Reason: "crowded"})
		k.yield()
		k.wait(max(1, k.b.o.Materialize/crowdedPart))
		return
	}
	if most := k.b.o.ConcurrentJob; most > 0 && k.b.env.Permits != nil {
		k.permit = true
		k.loop.Async("permit", func(ctx context.Context) error { return k.b.env.Permits.Acquire(ctx, k.subtask, most) }, k.permitted)
		return
	}
	k.prepare()
}

// permitted goes on once the job has a place. Meanwhile checkpoints went on: the reason to materialize may have gone.
func (k *keyed) permitted(err error) {
	switch {
	case k.ended.Load():
	case err != nil:
		k.again()
	case !k.skip():
		k.prepare()
	}
}

// skip tells whether nothing can be materialized now, in which case it says so and sets the next timer.
func (k *keyed) skip() bool {
	why := k.cannot()
	if why != "" {
		k.emit(k.ctx, history.Event{Kind: history.MaterializationSkipped, Reason: why})
		k.again()
	}
	return why != ""
}

// prepare does what need not be as of the snapshot's moment, then materializes.
func (k *keyed) prepare() {
	if p, ok := k.Keyed.(preparer); ok {
		if work, done := p.Prepare(); work != nil {
			k.loop.Async("prepare", work, func(err error) {
				done()
				k.prepared(err)
			})
			return
		}
	}
	k.materialize()
}

// cannot is why no materialization begins now; empty: one does.
func (k *keyed) cannot() string {
	switch {
	case k.running != nil:
		return "running"
	case k.borrowed: // the next checkpoint makes a base of its own
		return "borrowed"
	case k.base.id > k.confirmed:
		return "unconfirmed"
	case k.deferredBytes() == 0 && k.log.Next() <= k.cut && len(k.inherited) == 0:
		return "unchanged"
	}
	return ""
}

// preparer is an optional ability of a nested backend: work ahead of a snapshot that need not be as of one moment. work runs
// beside the loop and done in it, before the snapshot is taken; work is nil when there is nothing to do.
type preparer interface {
	Prepare() (work func(ctx context.Context) error, done func())
}

// prepared goes on with a materialization.
func (k *keyed) prepared(err error) {
	switch {
	case k.ended.Load():
	case err == nil:
		k.materialize()
	case k.ctx.Err() != nil:
		k.again()
	default:
		k.failed(max(k.base.id, k.lastID)+1, err)
	}
}

// materialize takes the snapshot in the loop.
func (k *keyed) materialize() {
	if err := k.logDeferred(); err != nil {
		k.loop.Fail(fmt.Errorf("log of %s: %w", k.subtask, err))
		return
	}
	k.begun = true
	upTo := k.log.Next()
	m := &materialization{id: max(k.base.id, k.lastID) + 1, upTo: upTo, at: k.b.env.World.Now()}
	k.lastID = m.id
	k.emit(k.ctx, history.Event{Kind: history.MaterializationBegin, Count: int64(m.id), To: int64(upTo)})
	err := k.b.env.Failpoints.Hit(k.ctx, failpoint.MaterializationBegin, k.subtask)
	if err == nil {
		m.snap, err = k.Keyed.Snapshot(k.ctx, m.id)
	}
	if err != nil {
		k.loop.Fail(fmt.Errorf("materialization %d of %s: %w", m.id, k.subtask, err))
		return
	}
	k.running = m
	k.loop.Async("materialize", func(ctx context.Context) error { return k.upload(ctx, m) }, func(err error) { k.done(m, err) })
}

// upload is the asynchronous part.
func (k *keyed) upload(ctx context.Context, m *materialization) error {
	if !m.started.CompareAndSwap(false, true) {
		m.canceled = true
		return context.Canceled
	}
	points := k.b.env.Failpoints
	e := history.Event{Kind: history.MaterializationUploadBegin, Count: int64(m.id)}
	k.emit(ctx, e)
	began := k.b.env.World.Now()
	err := points.Hit(ctx, failpoint.MaterializationUploadBegin, k.subtask)
	if err == nil {
		if m.result, err = m.snap.Persist(ctx); err == nil {
			if err = points.Hit(ctx, failpoint.MaterializationUploadEnd, k.subtask); err != nil || k.ended.Load() {
				k.discard(ctx, k.freshOf(m))
			}
		}
	}
	m.snap.Release()
	m.canceled = err != nil && ctx.Err() != nil
	if err != nil {
		return err
	}
	e.Kind, e.Bytes, e.Dur = history.MaterializationUploadEnd, m.result.Checkpointed, k.b.env.World.Now()-began
	k.emit(ctx, e)
	return nil
}

// done ends a materialization in the loop.
func (k *keyed) done(m *materialization, err error) {
	k.running = nil
	if k.ended.Load() {
		return
	}
	if err == nil {
		if err = k.b.env.Failpoints.Hit(k.ctx, failpoint.MaterializationEnd, k.subtask); err != nil {
			k.discard(k.ctx, k.freshOf(m))
		}
	}
	if err == nil {
		k.use(m)
		k.again()
		return
	}
	if aerr := k.Keyed.Aborted(k.ctx, m.id); aerr != nil {
		k.loop.Fail(aerr)
		return
	}
	if m.canceled {
		k.again()
		return
	}
	k.failed(m.id, err)
}

// failed counts a failure of materialization id.
func (k *keyed) failed(id uint64, err error) {
	k.emit(k.ctx, history.Event{Kind: history.MaterializationFailed, Count: int64(id), Error: err.Error(), Injected: injected(err)})
	if k.failures++; k.failures > k.b.o.Tolerated {
		k.loop.Fail(fmt.Errorf("materialization %d of %s, failure %d in a row: %w", id, k.subtask, k.failures, err))
		return
	}
	k.again()
}

// use makes m the base of the checkpoints that begin from now on.
func (k *keyed) use(m *materialization) {
	h := m.result.Handle
	if k.b.env.Failpoints.Mutant(mutantCutLate) {
		m.upTo = k.log.Next()
	}
	k.base = &base{
		id: m.id, format: h.Backend, refs: h.Base, bytes: m.result.Checkpointed, objects: m.result.Objects, fresh: k.freshOf(m),
	}
	k.inherited, k.inheritedBytes, k.cut, k.cutAt = nil, 0, m.upTo, m.at
	k.log.Cover(k.cut)
	k.failures = 0
	k.finished++
	k.emit(k.ctx, history.Event{Kind: history.MaterializationUsed, Count: int64(m.id), Bytes: m.result.Checkpointed})
	if err := k.truncate(k.ctx); err != nil {
		k.loop.Fail(err)
	}
}

// freshOf lists the objects of m that the base before it does not have: nobody but m knows them.
func (k *keyed) freshOf(m *materialization) []backend.ObjectRef {
	old := make(map[string]bool, len(k.base.refs))
	for _, r := range k.base.refs {
		old[r.Key] = true
	}
	var fresh []backend.ObjectRef
	for _, r := range m.result.Handle.Base {
		if !old[r.Key] {
			fresh = append(fresh, r)
		}
	}
	return fresh
}
