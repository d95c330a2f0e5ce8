package dstltest

import (
	"slices"
	"time"

	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
)

// hedged counts the second attempts that ended, by how they did.
func (h *harness) hedged() map[string]int {
	n := map[string]int{}
	for _, e := range h.worker.Events() {
		if e.Kind == history.LogHedged {
			n[e.Reason]++
		}
	}
	return n
}

// deletes counts the requests to delete each key from now on. No rule is broken by it.
func (h *harness) deletes() map[string]int {
	n := map[string]int{}
	bucket := h.worker.Env.Bucket
	h.worker.Env.Bucket = store.WithTrace(bucket, func(q history.Request) {
		if q.Op == history.OpDelete {
			n[q.Key]++
		}
	}, h.w)
	return n
}

// hedgeWins: the first attempt hangs, the second one is the segment. Nobody waits for the first one, and nothing is left of it.
func hedgeWins(h *harness) {
	deleted := h.deletes()
	h.inj.Add(store.Rule{Ops: []string{"put"}, Request: 1, Delay: 10 * time.Second})
	h.open(dstl.Options{Upload: dstl.UploadOptions{HedgeAfter: 50 * time.Millisecond}})
	w := h.writer("count-0")
	w.random(20)
	began := h.w.Now()
	p := w.checkpoint(0, 1)
	took := h.w.Now() - began
	h.want(took >= 50*time.Millisecond && took < 200*time.Millisecond, "persisted after %v", took)
	h.settle()
	w.restores(p.Refs, 0, 1)
	h.want(slices.Equal(h.keys(), []string{p.Refs[0].Key}), "objects %v, want only %s", h.keys(), p.Refs[0].Key)
	h.want(h.hedged()["won"] == 1 && len(h.hedged()) == 1, "second attempts: %v", h.hedged())
	h.want(len(deleted) == 1 && deleted[p.Refs[0].Key] == 0, "deleted %v, want the first attempt only", deleted)
	for key, n := range deleted { // order-free: there is one
		h.want(n == 1, "%s was deleted %d times", key, n)
	}
	h.ok(w.Confirm(h.worker.Ctx, 1, 0))
	h.ok(w.Close())
	h.ok(h.log.Close(h.worker.Ctx))
	h.want(slices.Equal(h.keys(), []string{p.Refs[0].Key}), "objects %v after the end", h.keys())
}

// hedgeLoses: the first attempt is slow, the second one slower or, by its lost answer, of unknown outcome.
func hedgeLoses(h *harness) {
	deleted := h.deletes()
	h.inj.Add(store.Rule{Name: "slow", Ops: []string{"put"}, Request: 1, Delay: 100 * time.Millisecond})
	second := h.inj.Add(store.Rule{Name: "slower", Ops: []string{"put"}, Request: 2, Delay: time.Minute})
	h.open(dstl.Options{Upload: dstl.UploadOptions{HedgeAfter: 50 * time.Millisecond, HedgeShare: 1}})
	w := h.writer("count-0")
	w.random(20)
	p := w.checkpoint(0, 1)
	h.settle()
	h.want(h.w.Now() < time.Second, "the second attempt was waited for")
	h.want(h.hedged()["lost"] == 1, "second attempts: %v", h.hedged())
	h.want(slices.Equal(h.keys(), []string{p.Refs[0].Key}) && len(deleted) == 1, "objects %v, deleted %v", h.keys(), deleted)
	second()
	h.inj.Add(store.Rule{Name: "slow again", Ops: []string{"put"}, Request: 1, Delay: 100 * time.Millisecond})
	h.inj.Add(store.Rule{Name: "lost", Ops: []string{"put"}, Request: 2, LostAck: true})
	w.random(20)
	q := w.checkpoint(0, 2)
	h.settle()
	h.want(h.hedged()["lost"] == 2, "second attempts: %v", h.hedged())
	h.want(len(h.keys()) == 2 && len(deleted) == 2, "objects %v, deleted %v", h.keys(), deleted)
	w.restores(q.Refs, 0, 2)
	h.ok(w.Close())
}

// hedgeFails: both attempts fail, and with them the upload; its changes go again.
func hedgeFails(h *harness) {
	heal := h.inj.Add(store.Rule{Ops: []string{"put"}, Delay: 60 * time.Millisecond, Status: 500})
	h.open(dstl.Options{Upload: dstl.UploadOptions{HedgeAfter: 50 * time.Millisecond, HedgeShare: 1}})
	w := h.writer("count-0")
	w.random(20)
	w.cut(0, 1)
	_, err := w.Persist(h.worker.Ctx, 0, 1)
	h.is(err, store.ErrAmbiguous)
	w.Reset(1)
	h.want(h.hedged()["failed"] == 1, "second attempts: %v", h.hedged())
	heal()
	p := w.checkpoint(0, 2)
	w.restores(p.Refs, 0, 1)
	h.settle()
	h.want(slices.Equal(h.keys(), []string{p.Refs[0].Key}), "objects %v, want only %s", h.keys(), p.Refs[0].Key)
	h.ok(w.Close())
}

// hedgesKeepTheirShare: where every upload is slow, a part of them gets a second attempt; without the option none does.
func hedgesKeepTheirShare(h *harness) {
	h.inj.Add(store.Rule{Ops: []string{"put"}, Delay: 100 * time.Millisecond})
	const uploads = 100
	for _, c := range []struct {
		o        dstl.UploadOptions
		from, to int
	}{{dstl.UploadOptions{}, 0, 0}, {dstl.UploadOptions{HedgeAfter: 10 * time.Millisecond, HedgeShare: 0.1}, 9, 11}} {
		before := len(h.worker.Events())
		h.open(dstl.Options{Upload: c.o})
		w := h.writer("count-" + []string{"a", "b"}[min(c.to, 1)])
		for id := range uint64(uploads) {
			w.random(3)
			w.checkpoint(0, id+1)
		}
		n := 0
		for _, e := range h.worker.Events()[before:] {
			if e.Kind == history.LogHedged {
				n++
			}
		}
		h.want(n >= c.from && n <= c.to, "%d second attempts for %d uploads, want %d to %d", n, uploads, c.from, c.to)
		h.ok(w.Close())
		h.ok(h.log.Close(h.worker.Ctx))
		h.worker.Env.Worker = "worker-b" // the next log's objects have names of their own
	}
}
