package dstl

import (
	"context"
	"errors"
	"fmt"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// Limits of second attempts beside their share of the uploads.
const (
	firstHedges = 1 // allowed before any upload has earned one
	mostHedges  = 4 // that can be saved up
)

// How a second attempt ended, as its event says.
const (
	hedgeWon    = "won"    // it was first: its object is the segment
	hedgeLost   = "lost"   // the first attempt was first
	hedgeFailed = "failed" // both failed
)

// errLost cancels the attempt that was not the first to succeed.
var errLost = errors.New("the other attempt was first")

// second is the second attempt of an upload. It begins if the first one has not ended within Options.Upload.HedgeAfter, goes to
// another key, and is never more than one. The fields are guarded by the log's mutex.
type second struct {
	over    *world.Latch // the first attempt has ended: none begins any more
	ended   *world.Latch
	key     string // empty: it did not begin
	cancel  context.CancelCauseFunc
	err     error
	decided bool // the first attempt has ended
}

// attempt stores b's object. Where the first attempt takes long there is a second one: who succeeds first names the object, the
// other is cancelled, and what it may have left behind is deleted. It returns once both have ended, as the body is theirs until then;
// only if ctx ends may the second one still hold it.
func (l *segmentLog) attempt(ctx context.Context, b *batch) error {
	ctx = store.WithBudget(l.info(ctx, "log", b.checkpoint), l.budget)
	if l.o.Upload.HedgeAfter == 0 {
		return l.env.Bucket.Put(ctx, b.object.key, b.body, store.PutOptions{})
	}
	l.earnHedge()
	own, cancel := l.env.World.WithCancel(ctx)
	defer cancel(nil)
	h := &second{over: world.NewLatch(l.env.World), ended: world.NewLatch(l.env.World)}
	l.spawn("log-hedge", func(ctx context.Context) { l.hedge(ctx, b, h, func() { cancel(errLost) }) })
	err := l.env.Bucket.Put(own, b.object.key, b.body, store.PutOptions{})
	l.mu.Lock()
	h.decided = true
	lose := h.cancel
	l.mu.Unlock()
	h.over.Open()
	if err == nil && lose != nil {
		lose(errLost)
	}
	if h.ended.Wait(ctx) != nil {
		b.lent = true
		return err
	}
	if h.key == "" {
		return err
	}
	return l.decide(ctx, b, h, err)
}

// hedge is the process of the second attempt; won is called if it succeeds.
func (l *segmentLog) hedge(ctx context.Context, b *batch, h *second, won func()) {
	defer h.ended.Open()
	w := l.env.World
	if i, err := world.Wait(ctx, w, w.Now()+l.o.Upload.HedgeAfter, h.over); err != nil || i >= 0 {
		return
	}
	size := min(int64(len(b.body)), l.o.InFlight)
	if !l.room.TryAcquire(size) {
		return // the limit holds for both attempts together
	}
	defer l.room.Release(size)
	ctx, cancel := w.WithCancel(store.WithBudget(l.info(ctx, "hedge", b.checkpoint), l.budget))
	defer cancel(nil)
	l.mu.Lock()
	if h.decided || l.closed || l.hedges < 1 || !l.budget.Spare() { // no second attempts at a store that many ask again
		l.mu.Unlock()
		return
	}
	l.hedges--
	h.key, h.cancel = l.name(), cancel
	l.mu.Unlock()
	err := l.env.Failpoints.Hit(ctx, failpoint.LogUploadBegin, l.env.Worker)
	if err == nil {
		err = l.env.Bucket.Put(ctx, h.key, b.body, store.PutOptions{})
	}
	l.mu.Lock()
	h.err = err
	l.mu.Unlock()
	if err == nil {
		won()
	}
}

// decide says which of two attempts that have ended counts; first is how the first one did.
func (l *segmentLog) decide(ctx context.Context, b *batch, h *second, first error) error {
	e := history.Event{Kind: history.LogHedged, Actor: l.env.Worker, Attempt: l.env.Attempt, Checkpoint: b.checkpoint, Text: h.key, Bytes: int64(len(b.body))}
	l.mu.Lock()
	switch {
	case first == nil:
		e.Reason = hedgeLost
		l.discard(h.key, h.err)
	case h.err == nil:
		e.Reason = hedgeWon
		l.discard(b.object.key, first)
		b.object.key, first = h.key, nil
	default:
		e.Reason = hedgeFailed
		l.discard(h.key, h.err)
		first = fmt.Errorf("%w; second attempt %s: %w", first, h.key, h.err)
	}
	l.mu.Unlock()
	l.env.Emit(ctx, e)
	return first
}

// earnHedge adds what an upload allows in second attempts.
func (l *segmentLog) earnHedge() {
	l.mu.Lock()
	l.hedges = min(mostHedges, l.hedges+l.o.Upload.HedgeShare)
	l.mu.Unlock()
}

// discard has an object deleted that nobody will reference, with mu held. If err leaves open whether its put has had its effect, or
// will have it yet in a store that was slow, it is deleted once more when the log closes.
func (l *segmentLog) discard(key string, err error) {
	l.doomed = append(l.doomed, key)
	if err != nil && len(l.doubtful) < maxDoubtful {
		l.doubtful = append(l.doubtful, key)
	}
}
