package localcopy_test

import (
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/backend/heap"
	"statebench.dev/bench/backend/localcopy"
)

// TestConformance: copies change nothing of what a backend does, also where there is not enough room for all of them.
func TestConformance(t *testing.T) {
	nested := heap.New(heap.Options{ObjectBytes: 4 << 10})
	logged := changelog.New(changelog.Options{Nested: nested, NestedName: heap.Name, Materialize: 20 * time.Millisecond, Preemptive: 4 << 10, BatchSize: 8 << 10})
	for _, c := range []struct {
		name  string
		in    backend.Factory
		limit int64
	}{
		{"Changelog", logged, 0},
		{"Snapshots", nested, 0},
		{"LittleRoom", logged, 20 << 10},
	} {
		if testing.Short() && c.name == "Snapshots" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			backendtest.Run(t, func(testing.TB) backend.Factory { return localcopy.Around(c.in, localcopy.Options{Limit: c.limit}) })
		})
	}
}
