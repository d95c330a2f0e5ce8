package lsm

import (
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/changelog"
)

func underChangelog(nested backend.Factory) backend.Factory {
	return changelog.New(changelog.Options{Nested: nested, NestedName: Name, Materialize: 10 * time.Millisecond, Preemptive: 4 << 10, BatchSize: 8 << 10})
}

func TestDamagedReads(t *testing.T) {
	backendtest.RunDamagedReads(t, func(testing.TB) backend.Factory { return New(Options{}) })
}

func TestDamagedReadsLazy(t *testing.T) {
	backendtest.RunDamagedReads(t, func(testing.TB) backend.Factory { return New(lazily(Options{})) })
}

// TestEveryByteIsGuardedLazy: the same holds for what is read by ranges.
func TestEveryByteIsGuardedLazy(t *testing.T) {
	stride := 7
	if testing.Short() {
		stride = 61
	}
	for _, tail := range []int64{64, 512} {
		o := Options{Lazy: true, farTail: tail}
		backendtest.RunDamagedObjects(t, func(testing.TB) backend.Factory { return New(o) }, "", stride)
	}
}

func TestDamagedReadsUnderChangelog(t *testing.T) {
	if testing.Short() {
		t.Skip("the backend alone is tested")
	}
	backendtest.RunDamagedReads(t, func(testing.TB) backend.Factory { return underChangelog(New(Options{})) })
}

// TestEveryByteIsGuarded: no damaged byte of a manifest, a table or a log segment becomes state, wherever it is.
func TestEveryByteIsGuarded(t *testing.T) {
	stride := 1
	if testing.Short() {
		stride = 31
	}
	backendtest.RunDamagedObjects(t, func(testing.TB) backend.Factory { return New(Options{}) }, "", stride)
	for _, form := range []string{backend.Canonical, backend.Native} {
		backendtest.RunDamagedObjects(t, func(testing.TB) backend.Factory { return New(Options{}) }, form, 5*stride)
	}
	backendtest.RunDamagedObjects(t, func(testing.TB) backend.Factory { return underChangelog(New(Options{})) }, "", 7*stride)
}
