package savepoint_test

import (
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/backend/heap"
	"statebench.dev/bench/backend/lsm"
)

// TestAcrossBackends: every backend opens what any of them wrote.
func TestAcrossBackends(t *testing.T) {
	h := func() backend.Factory { return heap.New(heap.Options{ObjectBytes: 4 << 10}) }
	l := func() backend.Factory { return lsm.New(lsm.Options{FileBytes: 8 << 10}) }
	on := func(nested backend.Factory, name string) backend.Factory {
		return changelog.New(changelog.Options{Nested: nested, NestedName: name, Materialize: 20 * time.Millisecond, BatchDelay: time.Millisecond})
	}
	backendtest.RunAcross(t, []backendtest.Named{
		{Name: "heap", Factory: func(testing.TB) backend.Factory { return changelog.Off(h()) }},
		{Name: "heap-on", Factory: func(testing.TB) backend.Factory { return on(h(), heap.Name) }},
		{Name: "lsm", Factory: func(testing.TB) backend.Factory { return changelog.Off(l()) }},
		{Name: "lsm-on", Factory: func(testing.TB) backend.Factory { return on(l(), lsm.Name) }},
	})
}
