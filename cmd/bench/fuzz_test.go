package main

import (
	"testing"

	"statebench.dev/bench/internal/explore"
	"statebench.dev/bench/internal/results"
)

// TestKeptRunsAreTheRunsThatFailed: what fuzz keeps is the same run, as an invocation that other commands take.
func TestKeptRunsAreTheRunsThatFailed(t *testing.T) {
	r := newRunner(t.Context(), t.TempDir())
	p, err := r.Resolve(explore.Chaos(3))
	if err != nil {
		t.Fatal(err)
	}
	x, err := r.Run(p)
	if err != nil {
		t.Fatal(err)
	}
	where, err := keepRun(t.TempDir(), &x)
	if err != nil {
		t.Fatal(err)
	}
	_, m, runs, err := results.Open(where)
	if err != nil || len(runs) != 1 || m.Runs[0].Digest != x.Outcome.Digest || m.Runs[0].Digest == "" || m.Runs[0].Verdict == "" {
		t.Errorf("%+v, %v; digest %s", m.Runs, err, x.Outcome.Digest)
	}
}
