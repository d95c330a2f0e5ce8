package dstltest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// together persists a checkpoint of several writers at the same time.
func (h *harness) together(ws []*logWriter, from, id uint64) []dstl.Persisted {
	ps := make([]dstl.Persisted, len(ws))
	g := world.NewGroup(h.w)
	for i, w := range ws {
		g.Go(h.worker.Ctx, "persist", func(ctx context.Context) (err error) {
			ps[i], err = w.Persist(ctx, from, id)
			return err
		})
	}
	h.ok(g.Wait(h.ctx))
	return ps
}

// pair is two writers with one persisted object of checkpoint 1 between them.
func (h *harness) pair() (a, b *logWriter, ps []dstl.Persisted) {
	h.open(dstl.Options{BatchDelay: time.Minute})
	a, b = h.writer("count-0"), h.writer("count-1")
	a.random(20)
	b.random(20)
	a.cut(0, 1)
	b.cut(0, 1)
	ps = h.together([]*logWriter{a, b}, 0, 1)
	h.want(len(h.keys()) == 1, "%d objects, want a shared one", len(h.keys()))
	return a, b, ps
}

// failedUploadIsNoPoison: its changes stay, and the next persist uploads them.
func failedUploadIsNoPoison(h *harness) {
	h.open(dstl.Options{})
	w := h.writer("count-0")
	for id := uint64(1); id <= 3; id++ {
		w.random(30)
		heal := h.breakPuts()
		w.cut(0, 2*id)
		_, err := w.Persist(h.worker.Ctx, 0, 2*id)
		h.is(err, store.ErrAmbiguous)
		w.Reset(2 * id)
		heal()
		w.random(30)
		p := w.checkpoint(0, 2*id+1)
		w.restores(p.Refs, 0, w.next())
		h.ok(w.Confirm(h.worker.Ctx, 2*id+1, 0))
	}
	h.ok(w.Close())
}

// failedUploadTouchesNobodyElse: writers whose changes are in other objects do not notice.
func failedUploadTouchesNobodyElse(h *harness) {
	h.open(dstl.Options{})
	a, b := h.writer("count-0"), h.writer("count-1")
	a.random(20)
	b.random(20)
	h.inj.Add(store.Rule{Ops: []string{"put"}, Request: 1, Status: 500})
	a.cut(0, 1)
	_, err := a.Persist(h.worker.Ctx, 0, 1)
	h.is(err, store.ErrAmbiguous)
	b.checkpoint(0, 1)
	a.Reset(1)
	p := a.checkpoint(0, 2)
	a.restores(p.Refs, 0, 1)
	h.ok(a.Close())
	h.ok(b.Close())
}

// cancelLosesNothing: the upload goes on without the caller, and is not made twice.
func cancelLosesNothing(h *harness) {
	h.inj.Add(store.Rule{Ops: []string{"put"}, Delay: time.Second})
	h.open(dstl.Options{})
	w := h.writer("count-0")
	w.random(20)
	w.cut(0, 1)
	ctx, cancel := h.w.WithTimeout(h.worker.Ctx, 100*time.Millisecond)
	_, err := w.Persist(ctx, 0, 1)
	cancel()
	h.is(err, context.DeadlineExceeded)
	w.Reset(1)
	w.cut(0, 2)
	p := w.persist(0, 2)
	h.want(len(h.keys()) == 1 && h.keys()[0] == p.Refs[0].Key, "objects %v, want only %s", h.keys(), p.Refs[0].Key)
	w.restores(p.Refs, 0, 1)
	h.ok(w.Close())
}

// retriesPreemptive: an upload without a checkpoint that fails is tried again without help.
func retriesPreemptive(h *harness) {
	heal := h.breakPuts()
	h.open(dstl.Options{Preemptive: 1000})
	w := h.writer("count-0")
	for i := range 15 {
		w.put(fmt.Sprint("key", i), 100)
	}
	h.ok(h.w.Sleep(h.ctx, 5*time.Second))
	h.want(w.Unsent() > 1000, "%d bytes unsent while the store is broken", w.Unsent())
	heal()
	h.ok(h.w.Sleep(h.ctx, 20*time.Second))
	h.want(w.Unsent() < 1000 && len(h.keys()) == 1, "%d bytes unsent, objects %v", w.Unsent(), h.keys())
	h.ok(w.Close())
}

// truncateKeepsSharedObjects until the last writer that needs them has truncated too.
func truncateKeepsSharedObjects(h *harness) {
	a, b, _ := h.pair()
	a.Reset(1)
	b.Reset(1)
	h.ok(a.Truncate(h.worker.Ctx, 1))
	h.settle()
	h.want(len(h.keys()) == 1, "a shared object was deleted by its first writer")
	p := b.checkpoint(0, 2)
	b.restores(p.Refs, 0, 1)
	b.Reset(2)
	h.ok(b.Truncate(h.worker.Ctx, 1))
	h.settle()
	h.want(len(h.keys()) == 0, "%v is left", h.keys())
	h.ok(a.Close())
	h.ok(b.Close())
}

// truncateKeepsPinned: changes that a running checkpoint was cut for survive a truncation, uploaded or not.
func truncateKeepsPinned(h *harness) {
	h.open(dstl.Options{Preemptive: 800})
	w := h.writer("count-0")
	for i := range 20 {
		w.put(fmt.Sprint("key", i), 100)
	}
	h.settle()
	to := w.cut(0, 1)
	h.ok(w.Truncate(h.worker.Ctx, to))
	h.settle()
	p := w.persist(0, 1)
	w.restores(p.Refs, 0, to)
	w.Reset(1)
	h.settle()
	h.want(len(h.keys()) == 0, "%v is left", h.keys())
	h.ok(w.Close())
}

// coveredIsNotUploaded: what a base covers is not put any more; what of it was put early, for nobody, is deleted.
func coveredIsNotUploaded(h *harness) {
	h.open(dstl.Options{Preemptive: 2000})
	w := h.writer("count-0")
	for i := range 25 {
		w.put(fmt.Sprint("early", i), 100)
	}
	h.settle()
	h.want(len(h.keys()) == 1, "objects %v, want one that was put early", h.keys())
	w.put("late", 500)
	to := w.next()
	w.Cover(to)
	h.settle()
	h.want(len(h.keys()) == 0 && w.Unsent() == 0, "%v is left, %d bytes are unsent", h.keys(), w.Unsent())
	_, err := w.Cut(0, 1)
	h.is(err, dstl.ErrTruncated)
	w.put("new", 100)
	p := w.checkpoint(to, 1)
	w.restores(p.Refs, to, to+1)
	h.want(p.Bytes < 300 && len(h.keys()) == 1, "%d bytes put for one change of 100", p.Bytes)
	w.Cover(to + 1)
	w.Reset(1)
	h.settle()
	h.want(len(h.keys()) == 0, "%v is left", h.keys())
	h.ok(w.Truncate(h.worker.Ctx, to+1))
	h.ok(w.Close())
}

// coverKeepsPinned: a checkpoint that was cut before the base came can still be persisted.
func coverKeepsPinned(h *harness) {
	h.open(dstl.Options{})
	w := h.writer("count-0")
	w.random(20)
	to := w.cut(0, 1)
	w.Cover(to)
	p := w.persist(0, 1)
	w.contiguous(p.Refs, 0, to)
	w.restores(p.Refs, 0, to)
	h.ok(w.Confirm(h.worker.Ctx, 1, 0))
	h.settle()
	w.restores(p.Refs, 0, to)
	h.ok(w.Close())
}

// confirmedIsNeverDeleted by the log, whatever happens to its writers.
func confirmedIsNeverDeleted(h *harness) {
	a, b, ps := h.pair()
	h.ok(a.Confirm(h.worker.Ctx, 1, 0))
	b.Reset(1)
	for _, w := range []*logWriter{a, b} {
		h.ok(w.Truncate(h.worker.Ctx, 1))
		h.ok(w.Close())
	}
	h.ok(h.log.Close(h.worker.Ctx))
	h.want(slices.Equal(h.keys(), []string{ps[0].Refs[0].Key}), "objects %v", h.keys())
}

// lostConfirmIsNeverDeleted: a checkpoint whose end nobody told may have completed.
func lostConfirmIsNeverDeleted(h *harness) {
	h.open(dstl.Options{})
	w := h.writer("count-0")
	w.random(20)
	p := w.checkpoint(0, 1)
	h.ok(w.Truncate(h.worker.Ctx, 1))
	h.settle()
	w.restores(p.Refs, 0, 1)
	h.ok(w.Close())
	h.ok(h.log.Close(h.worker.Ctx))
	w.restores(p.Refs, 0, 1)
}

// subsumedUnclearIsNeverDeleted: neither may one that ended unheard and is older than what is retained: it may be a savepoint.
func subsumedUnclearIsNeverDeleted(h *harness) {
	h.open(dstl.Options{})
	w := h.writer("count-0")
	w.random(20)
	p := w.checkpoint(0, 1)
	w.random(20)
	w.checkpoint(1, 2)
	h.ok(w.Confirm(h.worker.Ctx, 2, 1))
	h.ok(w.Truncate(h.worker.Ctx, 2))
	h.settle()
	w.restores(p.Refs, 0, 1)
	h.ok(w.Close())
}

// runningOutlivesSubsumption: a checkpoint that still runs when later ones are dropped, such as a savepoint, can be persisted.
func runningOutlivesSubsumption(h *harness) {
	h.open(dstl.Options{})
	w := h.writer("count-0")
	w.random(20)
	to := w.cut(0, 1)
	w.random(20)
	w.checkpoint(to, 2)
	h.ok(w.Confirm(h.worker.Ctx, 2, 1))
	w.checkpoint(to, 3)
	h.ok(w.Confirm(h.worker.Ctx, 3, 2))
	h.ok(w.Truncate(h.worker.Ctx, 2))
	p := w.persist(0, 1)
	w.contiguous(p.Refs, 0, to)
	w.restores(p.Refs, 0, to)
	h.ok(w.Confirm(h.worker.Ctx, 1, 0))
	h.ok(w.Close())
}

// resetIsReused: the next checkpoint references the segments of an aborted one, which count for it then.
func resetIsReused(h *harness) {
	h.open(dstl.Options{})
	w := h.writer("count-0")
	w.random(20)
	first := w.checkpoint(0, 1)
	w.Reset(1)
	second := w.checkpoint(0, 2)
	h.want(fmt.Sprint(first) == fmt.Sprint(second), "after the abort %+v, before %+v", second, first)
	h.want(len(h.keys()) == 1, "objects %v", h.keys())
	h.ok(w.Confirm(h.worker.Ctx, 2, 0))
	h.ok(w.Close())
}

// closeLeavesNoOrphan: what no checkpoint references is deleted at the end.
func closeLeavesNoOrphan(h *harness) {
	h.open(dstl.Options{Preemptive: 500})
	w := h.writer("count-0")
	w.random(50)
	p := w.checkpoint(0, 1)
	h.ok(w.Confirm(h.worker.Ctx, 1, 0))
	for i := range 20 {
		w.put(fmt.Sprint("key", i), 100)
	}
	h.settle()
	w.cut(0, 2)
	w.persist(0, 2)
	w.Reset(2)
	h.ok(w.Close())
	h.ok(h.log.Close(h.worker.Ctx))
	var want []string
	for _, r := range p.Refs {
		want = append(want, r.Key)
	}
	slices.Sort(want)
	h.want(slices.Equal(h.keys(), slices.Compact(want)), "objects %v, want %v", h.keys(), want)
	w.restores(p.Refs, 0, p.Refs[len(p.Refs)-1].To)
}

// closeTruncates: Close keeps what the last checkpoint that was persisted names, whose end is not known, and drops all from its end on:
// uploaded early, under way, or unsent.
func closeTruncates(h *harness) {
	h.open(dstl.Options{Preemptive: 500})
	w := h.writer("count-0")
	w.random(50)
	p := w.checkpoint(0, 1)
	to := p.Refs[len(p.Refs)-1].To
	for i := range 20 {
		w.put(fmt.Sprint("early", i), 100)
	}
	h.settle()
	early := len(h.keys())
	slow := h.inj.Add(store.Rule{Ops: []string{"put"}, Delay: time.Second})
	for i := range 20 {
		w.put(fmt.Sprint("under way", i), 100)
	}
	h.settle()
	w.random(1)
	h.want(early > len(p.Refs) && w.InFlight() > 0 && w.Unsent() > w.InFlight(), "%d objects, %d of %d bytes under way", early, w.InFlight(), w.Unsent())
	h.ok(w.Close())
	h.want(w.Lowest() > to, "the log still begins at %d", w.Lowest())
	h.ok(h.log.Close(h.worker.Ctx))
	slow()
	var want []string
	for _, r := range p.Refs {
		want = append(want, r.Key)
	}
	slices.Sort(want)
	h.want(slices.Equal(h.keys(), slices.Compact(want)), "objects %v, want %v", h.keys(), want)
	w.restores(p.Refs, 0, to)
}

// closeDuringUpload: an upload that ends after its writer was closed leaves nothing, and keeps what others have in it.
func closeDuringUpload(h *harness) {
	h.inj.Add(store.Rule{Ops: []string{"put"}, Delay: time.Second})
	h.open(dstl.Options{BatchDelay: time.Minute})
	a, b := h.writer("count-0"), h.writer("count-1")
	a.random(20)
	b.random(20)
	a.cut(0, 1)
	b.cut(0, 1)
	var pb dstl.Persisted
	g := world.NewGroup(h.w)
	g.Go(h.worker.Ctx, "a", func(ctx context.Context) error {
		if _, err := a.Persist(ctx, 0, 1); err == nil {
			return fmt.Errorf("persist of a closed writer succeeds")
		}
		return nil
	})
	g.Go(h.worker.Ctx, "b", func(ctx context.Context) (err error) {
		pb, err = b.Persist(ctx, 0, 1)
		return err
	})
	h.ok(h.w.Sleep(h.ctx, 500*time.Millisecond))
	h.ok(a.Close())
	h.ok(g.Wait(h.ctx))
	b.restores(pb.Refs, 0, 1)
	b.Reset(1)
	h.ok(b.Close())
	h.ok(h.log.Close(h.worker.Ctx))
	h.want(len(h.keys()) == 0, "%v is left", h.keys())
}
