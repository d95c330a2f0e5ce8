package explore_test

import (
	"slices"
	"testing"

	"statebench.dev/bench/internal/explore"
	"statebench.dev/bench/internal/plan"
)

// TestDamagedReadsHaveNoCopies: a plan that damages what restores read from the store lets them read there.
func TestDamagedReadsHaveNoCopies(t *testing.T) {
	copies, damaged := 0, 0
	for n := range 400 {
		p := explore.Generate(n)
		flips := slices.ContainsFunc(p.Faults, func(f plan.Fault) bool { return f.Kind == "flipped-byte" })
		if flips && p.Backend.LocalRecovery {
			t.Errorf("plan %d flips bytes and keeps copies", n)
		}
		if flips {
			damaged++
		}
		if p.Backend.LocalRecovery {
			copies++
		}
	}
	if copies < 40 || damaged < 40 {
		t.Errorf("%d plans keep copies and %d flip bytes, of 400", copies, damaged)
	}
}

// TestPlansVaryTheUploads: some of the plans whose changelog is on make second attempts, some have few retries.
func TestPlansVaryTheUploads(t *testing.T) {
	hedged, scarce := 0, 0
	for n := 1; n < 400; n += 2 {
		u := explore.Generate(n).Backend.Changelog.Upload
		if u.HedgeAfter > 0 {
			hedged++
		}
		if u.RetriesPerSecond > 0 {
			scarce++
		}
	}
	if hedged < 40 || scarce < 40 {
		t.Errorf("of 200 plans %d hedge and %d have few retries", hedged, scarce)
	}
}

// TestPlansVaryTheStorage: some of the plans whose changelog is on have their log in files, none of those that damage what restores
// read from the store, since no fault of the store reaches the files.
func TestPlansVaryTheStorage(t *testing.T) {
	files := 0
	for n := range 400 {
		p := explore.Generate(n)
		if p.Backend.Changelog.Storage != plan.LogFile {
			continue
		}
		files++
		if !p.Backend.Changelog.Enabled || slices.ContainsFunc(p.Faults, func(f plan.Fault) bool { return f.Kind == "flipped-byte" }) {
			t.Errorf("plan %d has its log in files: changelog %t, faults %v", n, p.Backend.Changelog.Enabled, p.Faults)
		}
	}
	if files < 15 || files > 60 {
		t.Errorf("of 200 plans with a changelog %d have their log in files", files)
	}
}
