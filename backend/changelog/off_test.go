package changelog_test

import (
	"testing"

	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/backend/heap"
)

// TestOffOpensHandlesWhoseLogIsOfOtherKeyGroups: a subtask that has no part in the log of a handle opens without one.
func TestOffOpensHandlesWhoseLogIsOfOtherKeyGroups(t *testing.T) {
	simulate(t, func(r *rig) {
		r.start(factory(changelog.Options{MaterializeOff: true}))
		a, b := r.open(0, 2), r.open(1, 2)
		a.fill("one")
		first, second := a.checkpoint(1).Handle, b.checkpoint(1).Handle
		r.end(a, b)
		r.start(factory(changelog.Options{MaterializeOff: true}))
		s := r.open(0, 1, first, second)
		h := s.checkpoint(2).Handle
		want(len(h.Delta) == 1 && h.Delta[0].Groups == a.Range() && h.Range == s.Range(), "the handle is %+v", h)
		r.end(s)
		r.start(changelog.Off(heap.New(heap.Options{})))
		a, b = r.open(0, 2, h), r.open(1, 2, h)
		a.holds("one")
		want(b.Gauges().Elements == 0, "%d elements of other key groups", b.Gauges().Elements)
		r.end(a, b)
	})
}
