package changelog_test

import (
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
)

// TestE07EveryMaterializationIsAccountedFor (docs/known-faults.md): ten begin, of which two fail, one is cut off by the end of its attempt and one runs
// at the end. Each of the others is used, with its size and how long it took.
func TestE07EveryMaterializationIsAccountedFor(t *testing.T) {
	simulate(t, func(r *rig) {
		f := factory(changelog.Options{})
		const begun, used, failed = history.MaterializationBegin, history.MaterializationUsed, history.MaterializationFailed
		ended := map[history.Kind]int{}
		var h backend.StateHandle
		id := uint64(0)
		life := func(s *sub, rounds, failing int) {
			for i := range rounds {
				s.fill(string(rune('a' + i)))
				heal := func() {}
				switch {
				case i < failing:
					heal = r.inj.Add(store.Rule{Ops: []string{history.OpPut}, Prefix: "base/", Status: 503})
				case i == rounds-1: // still under way when the attempt ends
					r.inj.Add(store.Rule{Ops: []string{history.OpPut}, Prefix: "base/", Delay: 10 * interval})
				}
				s.sleep(interval)
				heal()
				id++
				h = s.checkpoint(id).Handle
			}
			open := map[int64]bool{}
			for _, e := range r.worker.Events() {
				switch e.Kind {
				case begun:
					want(!open[e.Count], "materialization %d begins twice", e.Count)
					open[e.Count] = true
				case used, failed:
					want(open[e.Count], "materialization %d ends twice, or never began", e.Count)
					delete(open, e.Count)
				case history.MaterializationUploadEnd:
					want(e.Bytes > 0 && e.Dur >= 0, "an upload of %d bytes in %v", e.Bytes, e.Dur)
				}
				ended[e.Kind]++
			}
			want(len(open) == 1, "%d are under way at the end, want 1", len(open))
			r.inj = store.NewInjector(r.w)
		}
		r.start(f)
		s := r.open(0, 1)
		life(s, 5, 2)
		r.worker.Domain.Kill()
		ok(r.worker.Domain.Await(r.ctx))
		r.start(f)
		s = r.open(0, 1, h)
		s.holds("e")
		life(s, 5, 0)
		want(ended[begun] == 10 && ended[failed] == 2 && ended[used] == 6, "%d began, %d failed, %d were used", ended[begun], ended[failed], ended[used])
		want(ended[history.MaterializationUploadEnd] == 6, "%d uploads ended", ended[history.MaterializationUploadEnd])
		r.worker.Domain.Kill()
		ok(r.worker.Domain.Await(r.ctx))
	})
}
