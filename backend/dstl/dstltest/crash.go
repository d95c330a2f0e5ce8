package dstltest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/world"
)

// completed is the newest checkpoint that completed before a crash.
type completed struct {
	refs       []backend.ObjectRef
	base, want elements
}

// crashes kills a worker at each of the log's own failpoints, at an early and at later passages. The next attempt deletes what the
// completed checkpoint does not reference, reads that one, and writes on.
func crashes(t *testing.T, open dstl.StorageOpener, traits Traits) {
	points := 0
	for _, point := range failpoint.StoragePoints() {
		if point == failpoint.MaterializationBegin {
			break
		}
		points++
		for nth := range int64(4) {
			t.Run(fmt.Sprintf("%s-%d", point, nth+1), func(t *testing.T) {
				w := world.NewSim(world.SimOptions{Seed: uint64(nth)})
				run(t, dstl.New, open, w, uint64(nth), func(h *harness) { crash(h, point, 2*nth+1, traits) })
			})
		}
	}
	if points != 6 {
		t.Errorf("%d failpoints of the log, want 6", points)
	}
}

func crash(h *harness, point string, nth int64, traits Traits) {
	first := h.worker
	_, err := first.Env.Failpoints.Arm(point, failpoint.When{Nth: nth, Times: 1}, func(context.Context, failpoint.Hit) error {
		first.Domain.Kill()
		return nil
	})
	h.ok(err)
	var last completed
	first.Env.Spawn("subtask", func(ctx context.Context) error {
		h.doomed(ctx, &last)
		return nil
	})
	h.ok(first.Domain.Await(h.ctx))
	h.want(first.Domain.Dead(), "the worker did not crash at passage %d of %s", nth, point)

	h.worker = backendtest.NewWorker(h.ctx, h.w, h.raw, "worker-0", 2)
	h.open(dstl.Options{})
	h.settle() // what was under way when the worker died has its effect or never will
	h.cleanUp(last.refs)
	if traits.Forgets {
		h.want(len(h.keys()) == 0, "%v survives the crash", h.keys())
		return
	}
	h.holds(last.base, last.refs, groups, last.want)
	h.want(len(last.refs) > 0 || nth == 1, "no checkpoint completed before passage %d", nth)
	w := h.writer("count-0")
	w.random(20)
	p := w.checkpoint(0, 100)
	w.restores(p.Refs, 0, w.next())
	h.ok(w.Confirm(h.worker.Ctx, 100, 0))
	h.ok(w.Close())
}

// doomed is a subtask's life up to the crash: checkpoints that complete and some that are reset, and truncations.
func (h *harness) doomed(ctx context.Context, last *completed) {
	h.open(dstl.Options{Preemptive: 400})
	w := h.writer("count-0")
	from := uint64(0)
	for id := uint64(1); id < 40; id++ {
		w.random(20)
		to := w.cut(from, id)
		p := w.persist(from, id)
		if id%3 == 0 {
			w.Reset(id)
			from = to
		} else {
			*last = completed{refs: p.Refs, base: w.at[from], want: w.at[to]}
			h.ok(w.Confirm(ctx, id, 0))
		}
		h.ok(w.Truncate(ctx, from))
		h.ok(h.w.Sleep(ctx, 50*time.Millisecond))
	}
}

// cleanUp deletes what an earlier attempt left and nobody references, as the leader does.
func (h *harness) cleanUp(refs []backend.ObjectRef) {
	needed := map[string]bool{}
	for _, r := range refs {
		needed[r.Key] = true
	}
	var orphans []string
	for _, key := range h.keys() {
		if !needed[key] {
			orphans = append(orphans, key)
		}
	}
	for _, d := range h.raw.Delete(store.WithInfo(h.ctx, store.Info{Cause: "clean-up"}), orphans) {
		h.ok(d.Err)
	}
	for _, key := range h.keys() {
		h.want(needed[key], "orphan %s is left", key)
	}
}
