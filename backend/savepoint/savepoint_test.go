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

// backends are those that open each other's canonical savepoints. The first two open each other's checkpoints, the others too.
func backends() []backendtest.Named {
	h := func() backend.Factory { return heap.New(heap.Options{ObjectBytes: 4 << 10}) }
	l := func() backend.Factory { return lsm.New(lsm.Options{FileBytes: 8 << 10}) }
	on := func(nested backend.Factory, name string) backend.Factory {
		return changelog.New(changelog.Options{Nested: nested, NestedName: name, Materialize: 20 * time.Millisecond, BatchDelay: time.Millisecond})
	}
	return []backendtest.Named{
		{Name: "heap", Factory: func(testing.TB) backend.Factory { return changelog.Off(h()) }},
		{Name: "heap-on", Factory: func(testing.TB) backend.Factory { return on(h(), heap.Name) }},
		{Name: "lsm", Factory: func(testing.TB) backend.Factory { return changelog.Off(l()) }},
		{Name: "lsm-on", Factory: func(testing.TB) backend.Factory { return on(l(), lsm.Name) }},
	}
}

// TestAcrossBackends: every backend opens what any of them wrote.
func TestAcrossBackends(t *testing.T) { backendtest.RunAcross(t, backends()) }

// TestMigrationAcrossBackends: state goes on to later schemas while its backend changes, or its changelog is switched.
func TestMigrationAcrossBackends(t *testing.T) {
	all := backends()
	t.Run("canonical", func(t *testing.T) { backendtest.RunMigrationAcross(t, all, backend.Canonical) })
	for _, form := range []string{backend.Native, ""} {
		for _, one := range [][]backendtest.Named{all[:2], all[2:]} {
			t.Run(one[0].Name+" "+form, func(t *testing.T) { backendtest.RunMigrationAcross(t, one, form) })
		}
	}
}
