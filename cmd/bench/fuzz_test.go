package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// TestShrunkPlansCanBeRun: what shrink writes is a plan that `bench run --plan` takes.
func TestShrunkPlansCanBeRun(t *testing.T) {
	r := newRunner(t.Context(), t.TempDir())
	p, err := r.Resolve(explore.Chaos(3))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	s := shrinking{out: filepath.Join(t.TempDir(), "regressions"), stdout: &out, stderr: io.Discard}
	if err := s.write(&explore.Shrunk{Plan: p, Check: "F5", Problem: "F5 fail", Digest: "d"}, time.Second); err != nil {
		t.Fatal(err)
	}
	_, path, _ := strings.Cut(out.String(), "bench run --plan ")
	path, _, _ = strings.Cut(path, "\n")
	again, err := readPlan(path)
	if err != nil || again.Scenario != p.Scenario || len(again.Faults) != len(p.Faults) || filepath.Base(path) != "F5-chaos-3.plan.json" {
		t.Errorf("%s: %+v, %v\n%s", path, again, err, out.String())
	}
	if !strings.Contains(out.String(), "the time was over") {
		t.Error("it is not said that there was no time")
	}
}
