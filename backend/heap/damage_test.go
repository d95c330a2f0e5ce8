package heap

import (
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
)

// TestEveryByteIsGuarded: no damaged byte of a snapshot or savepoint becomes state, wherever it is.
func TestEveryByteIsGuarded(t *testing.T) {
	for _, o := range []Options{{}, {ObjectBytes: 500, Parallel: 2}} {
		for _, form := range []string{"", backend.Canonical, backend.Native} {
			backendtest.RunDamagedObjects(t, func(testing.TB) backend.Factory { return New(o) }, form, 1)
		}
	}
}
