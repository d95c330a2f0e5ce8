package lsm

import (
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/changelog"
)

func TestConformance(t *testing.T) {
	backendtest.Run(t, func(t testing.TB) backend.Factory { return New(Options{Folder: t.TempDir(), CountEvery: 1}) })
}

// lazily are options of a restore that goes on beside the loop, for tables of some KiB.
func lazily(o Options) Options {
	o.Lazy, o.farTail = true, 512
	return o
}

func TestConformanceLazy(t *testing.T) {
	backendtest.Run(t, func(t testing.TB) backend.Factory { return New(lazily(Options{Folder: t.TempDir(), CountEvery: 1})) })
}

// Under the changelog the names and ids of snapshots are those of materializations, and appends are replayed by position.
func TestConformanceUnderChangelog(t *testing.T) {
	if testing.Short() {
		t.Skip("the backend alone is tested")
	}
	for _, o := range []Options{{CountEvery: 1}, lazily(Options{CountEvery: 1})} {
		backendtest.Run(t, func(t testing.TB) backend.Factory {
			o.Folder = t.TempDir()
			return changelog.New(changelog.Options{
				Nested: New(o), NestedName: Name,
				Materialize: 20 * time.Millisecond, Preemptive: 4 << 10, BatchSize: 8 << 10,
			})
		})
	}
}
