package changelog_test

import (
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/backend/heap"
)

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name string
		o    changelog.Options
	}{
		{"LogOnly", changelog.Options{MaterializeOff: true, BatchDelay: 5 * time.Millisecond}},
		{"Materializing", changelog.Options{Materialize: 20 * time.Millisecond, Preemptive: 4 << 10, BatchSize: 8 << 10}},
		{"Growing", changelog.Options{Materialize: time.Hour, Growth: 0.3, GrowthFloor: 1, Preemptive: 4 << 10}},
		{"SmallLimits", changelog.Options{Materialize: 50 * time.Millisecond, Preemptive: 512, InFlight: 256 << 10, BatchDelay: time.Millisecond}},
		{"NoPreemptive", changelog.Options{Materialize: 30 * time.Millisecond, PreemptiveOff: true, InFlight: 4 << 10}},
	} {
		if testing.Short() && c.name == "NoPreemptive" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			c.o.Nested, c.o.NestedName = heap.New(heap.Options{ObjectBytes: 4 << 10}), heap.Name
			backendtest.Run(t, func(testing.TB) backend.Factory { return changelog.New(c.o) })
		})
	}
}

func TestDamagedReads(t *testing.T) {
	for _, o := range []changelog.Options{
		{MaterializeOff: true, BatchDelay: 5 * time.Millisecond},
		{Materialize: 10 * time.Millisecond, Preemptive: 4 << 10, BatchSize: 8 << 10},
	} {
		o.Nested, o.NestedName = heap.New(heap.Options{ObjectBytes: 4 << 10}), heap.Name
		backendtest.RunDamagedReads(t, func(testing.TB) backend.Factory { return changelog.New(o) })
	}
}
