package changelog_test

import (
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/backend/heap"
)

// TestEveryByteIsGuarded: no damaged byte of a log segment or of the base becomes state, wherever it is.
func TestEveryByteIsGuarded(t *testing.T) {
	for _, o := range []changelog.Options{
		{MaterializeOff: true, BatchDelay: 5 * time.Millisecond},
		{Materialize: 10 * time.Millisecond, Preemptive: 1 << 10, BatchSize: 2 << 10},
	} {
		o.Nested, o.NestedName = heap.New(heap.Options{ObjectBytes: 1 << 10}), heap.Name
		backendtest.RunDamagedObjects(t, func(testing.TB) backend.Factory { return changelog.New(o) }, "", 1)
	}
}
