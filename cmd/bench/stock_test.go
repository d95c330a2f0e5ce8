package main

import (
	"errors"
	"testing"
	"time"

	"statebench.dev/bench/internal/results"
)

// TestPruneKeepsWhatItMust: the newest of each scenario, what is too young, what may still be written, what cannot be read.
func TestPruneKeepsWhatItMust(t *testing.T) {
	now := time.Now()
	at := func(dir, scenario string, age time.Duration, outcome string, problem error) results.Stored {
		return results.Stored{Dir: results.Dir(dir), Scenario: scenario, Changed: now.Add(-age), Manifest: results.Manifest{Outcome: outcome}, Problem: problem}
	}
	all := []results.Stored{ // the newest first
		at("running", "a", time.Minute, results.Running, nil), at("a3", "a", 2*time.Hour, "pass", nil), at("torn", "a", 3*time.Hour, "", errors.New("torn")),
		at("b1", "b", 4*time.Hour, "pass", nil), at("a2", "a", 5*time.Hour, "pass", nil), at("killed", "a", 6*time.Hour, results.Running, nil), at("a1", "a", 50*time.Hour, "pass", nil),
	}
	for _, c := range []struct {
		p    pruning
		gone []string
	}{
		{pruning{keep: 2}, []string{"a2", "killed", "a1"}}, // the one that runs is the newest
		{pruning{keep: 1}, []string{"a3", "a2", "killed", "a1"}},
		{pruning{older: 24 * time.Hour}, []string{"a1"}},
		{pruning{keep: 1, older: 5 * time.Hour, unreadable: true}, []string{"a2", "killed", "a1"}},
		{pruning{unreadable: true}, []string{"a3", "torn", "b1", "a2", "killed", "a1"}},
		{pruning{keep: 9}, nil},
	} {
		var gone []string
		for _, x := range c.p.choose(all, now) {
			gone = append(gone, string(x.Dir))
		}
		if len(gone) != len(c.gone) {
			t.Errorf("%+v: %v, want %v", c.p, gone, c.gone)
			continue
		}
		for i := range gone {
			if gone[i] != c.gone[i] {
				t.Errorf("%+v: %v, want %v", c.p, gone, c.gone)
			}
		}
	}
}
