package heap

import (
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
)

func TestConformance(t *testing.T) {
	backendtest.Run(t, func(testing.TB) backend.Factory { return New(Options{}) })
}

// With tiny objects each snapshot has many, key groups go on in the next one, and fetches overlap.
func TestConformanceWithManyObjects(t *testing.T) {
	backendtest.Run(t, func(testing.TB) backend.Factory { return New(Options{ObjectBytes: 2000, Parallel: 2}) })
}

func TestDamagedReads(t *testing.T) {
	for _, o := range []Options{{}, {ObjectBytes: 2000, Parallel: 2}} {
		backendtest.RunDamagedReads(t, func(testing.TB) backend.Factory { return New(o) })
	}
}
