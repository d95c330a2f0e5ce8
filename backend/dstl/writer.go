package dstl

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// writer is the log of one subtask. A closed change set is in sets while it is in the writer's range [lowest, seq), and in
// the pins of the checkpoints that need it.
type writer struct {
	l       *segmentLog
	name    string
	subtask string
	groups  keygroup.Range

	// The loop's own.
	active *changeSet
	ended  bool
	passed int64  // bytes closed since the last cut
	seen   uint64 // the newest call to upload early that was looked at

	aim atomic.Int64 // size of an early upload that fits the distance of checkpoints; 0: none

	waiting atomic.Int64 // bytes closed and not handed over
	sent    atomic.Int64 // bytes handed over and not settled
	hold    atomic.Bool  // no pre-emptive upload until the pending retry

	// Guarded by the log's mutex.
	states    []State
	sets      []*set // in order, without a gap, up to seq
	lowest    uint64
	covered   uint64 // no checkpoint is cut from below it any more
	seq       uint64 // of the active set
	pins      []*pin
	newest    uint64 // checkpoint that was cut
	closed    bool
	failures  int          // uploads that failed in a row
	unblocked *world.Latch // renewed when the writer blocks
	blockedAt int64        // size of the active set when it did
}

var _ Writer = (*writer)(nil)

func (w *writer) Name() string { return w.name }

func (w *writer) Define(s State) {
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	i := slices.IndexFunc(w.states, func(k State) bool { return k.ID == s.ID })
	switch {
	case i < 0:
		w.states = append(w.states, s)
	case w.states[i] != s:
		w.states = slices.Clone(w.states) // an upload may have the old ones
		w.states[i] = s
	}
}

func (w *writer) Append(op Op, a backend.Addr, pos uint64, value []byte) error {
	if err := w.Gather(op, a, pos, value); err != nil {
		return err
	}
	size, enough := w.active.size()+w.waiting.Load(), w.threshold()
	if size >= enough {
		w.call()
		w.flushEarly()
	} else if call := w.l.calls.Load(); call != w.seen {
		w.seen = call
		if size >= enough/2 {
			w.flushEarly()
		}
	}
	return nil
}

func (w *writer) Gather(op Op, a backend.Addr, pos uint64, value []byte) error {
	if w.ended || !w.groups.Contains(a.Group) || len(a.Key)+len(value) > maxBlock {
		return w.refuse(a, value)
	}
	w.active.add(op, a, pos, value)
	if len(w.active.arena) > maxArena {
		w.rollover()
	}
	return nil
}

// worth is the part of the usual early upload below which Early makes none.
const worth = 4

func (w *writer) Room(further int64) int64 {
	if w.l.o.PreemptiveOff || w.ended {
		return math.MaxInt64
	}
	own := w.active.size() + further
	room := w.l.share.Load() - w.backlog() - own
	if w.hold.Load() {
		return room
	}
	size, enough := own+w.waiting.Load(), w.threshold()
	if call := w.l.calls.Load(); call != w.seen {
		if size >= enough/2 {
			return 0
		}
		w.seen = call
	}
	return min(room, enough-size)
}

func (w *writer) Early() {
	if w.active.size()+w.waiting.Load() < w.threshold()/worth {
		return // what made the room small was others' or is on its way
	}
	if call := w.l.calls.Load(); call != w.seen {
		w.seen = call
	} else {
		w.call()
	}
	w.flushEarly()
}

// call makes the other writers join an early upload, so that it becomes one object, if they have about as much.
func (w *writer) call() {
	if !w.l.o.PreemptiveOff && !w.hold.Load() {
		w.seen = w.l.calls.Add(1)
	}
}

// refuse says what is wrong with an append.
func (w *writer) refuse(a backend.Addr, value []byte) error {
	switch {
	case w.ended:
		return fmt.Errorf("append to %s: %w", w.name, ErrClosed)
	case !w.groups.Contains(a.Group):
		return fmt.Errorf("append to %s: key group %d is not in %v", w.name, a.Group, w.groups)
	}
	return fmt.Errorf("append to %s: change of %d bytes, %d at most", w.name, len(a.Key)+len(value), maxBlock)
}

// threshold is the size of unsent changes that starts an upload: what is configured, but no more than half of what would
// block the writer; or what takeAim found.
func (w *writer) threshold() int64 {
	if aim := w.aim.Load(); aim > 0 {
		return aim
	}
	return w.limit()
}

func (w *writer) limit() int64 { return min(w.l.o.Preemptive, w.l.share.Load()/2) }

// takeAim divides the next interval between two checkpoints, which is taken to be like the last, into early uploads of equal
// size, the last of them shortly before the checkpoint: so that it finds little to upload however the limit and the interval
// fit each other. Intervals of less than half the limit are uploaded at once, by the checkpoint.
func (w *writer) takeAim() {
	limit, early := w.limit(), w.passed-w.passed/10
	aim := int64(0)
	if limit > 0 && w.passed >= limit/2 {
		aim = early / ((early + limit - 1) / limit)
	}
	w.aim.Store(aim)
	w.passed = 0
}

// flushEarly hands over all that is unsent, unless that is off or has just failed.
func (w *writer) flushEarly() {
	if w.l.o.PreemptiveOff || w.hold.Load() {
		return
	}
	w.rollover()
	w.handUnsent()
}

// handUnsent hands all closed and unsent sets over, without a checkpoint.
func (w *writer) handUnsent() {
	w.l.mu.Lock()
	var sets []*set
	var uploads []*upload
	for _, s := range w.sets {
		if s.state != unsent || !s.needed() {
			continue
		}
		if len(sets) > 0 && sets[0].epoch != s.epoch {
			uploads = append(uploads, w.hand(sets, 0))
			sets = nil
		}
		sets = append(sets, s)
	}
	uploads = append(uploads, w.hand(sets, 0))
	w.l.mu.Unlock()
	for _, u := range uploads {
		w.enqueue(u)
	}
}

// hand makes an upload of sets, with the log's mutex held; nil for none. The caller enqueues it.
func (w *writer) hand(sets []*set, checkpoint uint64) *upload {
	if len(sets) == 0 {
		return nil
	}
	u := &upload{w: w, sets: sets, checkpoint: checkpoint, epoch: sets[0].epoch, framed: world.NewLatch(w.l.env.World), done: world.NewLatch(w.l.env.World)}
	for _, s := range sets {
		s.state, s.up = sent, u
		u.bytes += s.raw
	}
	w.waiting.Add(-u.bytes)
	w.sent.Add(u.bytes)
	return u
}

func (w *writer) enqueue(u *upload) {
	if u != nil && !w.l.queue.TryPut(u) {
		w.l.settle(&batch{uploads: []*upload{u}}, ErrClosed)
	}
}

// rollover closes the active set if it holds anything. Only the loop may call it.
func (w *writer) rollover() {
	if w.active.empty() || w.ended {
		return
	}
	s := &set{changes: w.active, raw: max(1, w.active.size()), held: true}
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	s.seq, s.epoch = w.seq, w.newest
	w.sets = append(w.sets, s)
	w.seq++
	w.passed += s.raw
	w.waiting.Add(s.raw)
	w.active = w.l.fresh(len(s.changes.entries))
}

func (w *writer) Next() uint64 {
	w.rollover()
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	return w.seq
}

func (w *writer) Cover(to uint64) {
	w.l.mu.Lock()
	w.covered = max(w.covered, min(to, w.seq))
	for _, s := range w.sets {
		if s.seq < w.covered && s.held {
			s.held = false
			w.l.release(w, s)
		}
	}
	w.l.mu.Unlock()
	w.l.sweep()
}

func (w *writer) Truncate(ctx context.Context, to uint64) error {
	if err := w.l.env.Failpoints.Hit(ctx, failpoint.LogTruncateBegin, w.subtask); err != nil {
		return fmt.Errorf("truncate %s: %w", w.name, err)
	}
	w.l.mu.Lock()
	if to > w.seq {
		w.l.mu.Unlock()
		return fmt.Errorf("truncate %s to %d, appended up to %d: %w", w.name, to, w.seq, ErrAhead)
	}
	moved := to > w.lowest
	if moved {
		n := int(to - w.lowest)
		for _, s := range w.sets[:n] {
			s.held = false
			w.l.release(w, s)
		}
		w.sets = slices.Delete(w.sets, 0, n)
		w.lowest = to
	}
	w.l.mu.Unlock()
	if moved {
		if err := w.l.env.Failpoints.Hit(ctx, failpoint.LogTruncateEnd, w.subtask); err != nil {
			return fmt.Errorf("truncate %s: %w", w.name, err)
		}
		w.l.sweep()
		w.l.env.Emit(ctx, history.Event{Kind: history.LogTruncated, Actor: w.subtask, Attempt: w.l.env.Attempt, To: int64(to)})
	}
	return nil
}

func (w *writer) Lowest() uint64 {
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	return w.lowest
}

func (w *writer) Unsent() int64 {
	return w.active.size() + w.waiting.Load() + w.sent.Load()
}

func (w *writer) Since(from uint64) int64 {
	n := w.active.size()
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	for _, s := range w.sets {
		switch {
		case s.seq < from:
		case s.state == stored:
			n += s.cost
		default:
			n += s.raw
		}
	}
	return n
}

// backlog is the bytes that will leave without help of the loop.
func (w *writer) backlog() int64 {
	if w.l.o.PreemptiveOff {
		return w.sent.Load()
	}
	return w.sent.Load() + w.waiting.Load()
}

func (w *writer) Blocked() bool {
	own := int64(0)
	if !w.l.o.PreemptiveOff {
		own = w.active.size()
	}
	if w.ended || w.backlog()+own <= w.l.share.Load() {
		return false
	}
	w.flushEarly()
	if w.l.o.PreemptiveOff {
		own = 0
	} else {
		own = w.active.size()
	}
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	if w.backlog()+own <= w.l.share.Load() {
		return false
	}
	w.blockedAt = own
	if w.unblocked.Opened() {
		w.unblocked = world.NewLatch(w.l.env.World)
	}
	return true
}

func (w *writer) Unblocked() world.Waitable {
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	return w.unblocked
}

func (w *writer) Exhausted() bool {
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	total := w.blockedAt
	for _, o := range w.l.open {
		total += o.backlog()
	}
	return total >= w.l.o.InFlight
}

func (w *writer) InFlight() int64 { return w.sent.Load() }

// pinEnds lists where checkpoints were cut.
func (w *writer) pinEnds() (ends []uint64) {
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	for _, p := range w.pins {
		ends = append(ends, p.to)
	}
	return ends
}

// uploaded is called after one of the writer's uploads has ended.
func (w *writer) uploaded(err error) {
	w.l.mu.Lock()
	var open *world.Latch
	if w.closed || w.backlog()+w.blockedAt <= w.l.share.Load() {
		open = w.unblocked
	}
	retry := false
	if err == nil {
		w.failures = 0
	} else if !errors.Is(err, ErrClosed) && !w.closed && !w.l.o.PreemptiveOff && !w.hold.Load() {
		retry = true
		w.hold.Store(true)
		w.failures++
	}
	failures := w.failures
	w.l.mu.Unlock()
	if open != nil {
		open.Open()
	}
	if retry {
		w.l.spawn("log-retry", func(ctx context.Context) { w.retry(ctx, failures) })
	}
}

// retry hands the unsent sets over again after a while, if they still make up a pre-emptive upload.
func (w *writer) retry(ctx context.Context, failures int) {
	if w.l.env.World.Sleep(ctx, w.l.budget.Take(retryDelay(failures))) != nil {
		return
	}
	w.hold.Store(false)
	if w.waiting.Load() >= w.threshold() {
		w.handUnsent()
	}
	// A blocked loop looks again: what it has not closed yet can be handed over now.
	w.l.mu.Lock()
	open := w.unblocked
	w.l.mu.Unlock()
	open.Open()
}
