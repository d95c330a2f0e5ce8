package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/registry"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"
)

// TestABugOfARunIsToldAsOne runs with a backend that panics.
func TestABugOfARunIsToldAsOne(t *testing.T) {
	var stdout, stderr strings.Builder
	f := sourceFlags{}
	cmd := newRun(&stdout, &stderr)
	cmd.SetContext(t.Context())
	f.overrides.Reps, f.overrides.Arms = 1, []string{"changelog-off"}
	p, err := f.load(cmd, []string{"testdata/tiny.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	d := deps()
	d.Backends = registry.NewTable("backend", registry.Entry[run.BackendConstructor]{Name: "heap", New: func(plan.Backend, uint64) (backend.Factory, error) {
		panic("planted")
	}})
	out := t.TempDir()
	err = execute(t.Context(), d, order{planned: p, out: out}, &stdout, &stderr)
	if code := codeOf(err); code != exitBug || err.Error() != "" {
		t.Errorf("exit code %d, error %v", code, err)
	}
	if text := stderr.String(); !strings.Contains(text, "changelog-off-1: process ") || !strings.Contains(text, "panicked: planted") ||
		!strings.Contains(text, "please report") || strings.Contains(text, "goroutine ") {
		t.Errorf("stderr:\n%s", text)
	}
	if !strings.HasSuffix(stdout.String(), "exit 70  harness bug\n") {
		t.Errorf("stdout:\n%s", stdout.String())
	}
	found, _ := filepath.Glob(filepath.Join(out, "*", "*", "runs", "*", results.BugFile))
	if len(found) != 1 {
		t.Fatalf("stacks: %v", found)
	}
	if text, err := os.ReadFile(found[0]); err != nil || !bytes.Contains(text, []byte("main_test.go:")) {
		t.Errorf("%s has no stack, %v:\n%s", found[0], err, text)
	}
	if _, m, _, err := results.Open(filepath.Join(found[0], "..", "..", "..")); err != nil || m.Exit != exitBug || strings.Contains(m.Runs[0].Error, "\n") {
		t.Errorf("manifest: %+v, %v", m, err)
	}
}

// brokenWriter panics, as a bug of the command itself would.
type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { panic("planted") }

func TestABugOfTheCommandIsToldAsOne(t *testing.T) {
	var stderr strings.Builder
	if code := Main(t.Context(), []string{"version"}, brokenWriter{}, &stderr); code != exitBug {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"bench: planted\n", "main_test.go:", "please report", "exit 70  harness bug\n"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("want %q in:\n%s", want, stderr.String())
		}
	}
}

// TestAnInterruptBeforeTheStartRunsNothing covers the moment between the command line and the first run.
func TestAnInterruptBeforeTheStartRunsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr strings.Builder
	if code := Main(ctx, []string{"run", "testdata/tiny.yaml", "--out", t.TempDir()}, &stdout, &stderr); code != exitInterrupted {
		t.Errorf("exit code %d:\n%s%s", code, stdout.String(), stderr.String())
	}
}

func TestErrorsHaveTheirCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{usage("x"), exitUsage},
		{errors.New("what cobra says"), exitUsage},
		{&os.PathError{Op: "open", Path: "x", Err: os.ErrPermission}, exitEnvironment},
		{errors.Join(results.ErrDamaged, &os.PathError{}), exitDamaged},
		{&exitError{exitViolation, nil}, exitViolation},
	} {
		if got := codeOf(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for code := range exitWords { // order-free: independent
		if !strings.Contains(string(readme), fmt.Sprintf("\n| %d | ", code)) {
			t.Errorf("the README does not explain exit code %d", code)
		}
	}
}

// TestTheTerminalHasOneLine follows a run on a narrow terminal: each drawing fits, and what it replaces is wiped.
func TestTheTerminalHasOneLine(t *testing.T) {
	p := plan.Plan{Arm: "changelog-on", Rep: 1, Faults: []plan.Fault{{ID: "kill-1", Kind: "worker-crash"}}}
	for _, c := range []struct {
		width      int
		want, last string
	}{
		{120, "  changelog-on-1 ██████░░░░░░  load  ckpt #0  50 records  lag 0.2 s   ● kill-1 (worker-crash)", "\x1b[32mpass\x1b[0m"},
		{85, "  changelog-on-1 ██████░░░░░░  load  ckpt #0  50 records  lag 0.2 s   ● kill-1", ""},
		{70, "  changelog-on-1 load  ckpt #0  50 records  lag 0.2 s   ● kill-1", ""},
		{30, "  changelog-on-1 load  ckpt #0", ""},
	} {
		var b bytes.Buffer
		l := newLive(&b, planned{plans: []plan.Plan{p}})
		l.tty, l.colour, l.width = true, c.last != "", c.width
		l.RunBegin(&p)
		l.Event(&history.Event{Kind: history.FaultHit, Fault: "kill-1"})
		l.Event(&history.Event{Kind: history.CheckpointAborted, Checkpoint: 1, Reason: "expired"})
		l.Tick(run.Tick{At: time.Second, Phase: "load", State: "running", Emitted: 50, Total: 100, Lag: 200 * time.Millisecond})
		before, drawn, _ := strings.Cut(b.String(), "\r\x1b[K")
		if before != "  changelog-on-1 begins" || drawn != c.want {
			t.Errorf("width %d:\n%q\n%q, want\n%q", c.width, before, drawn, c.want)
		}
		b.Reset()
		l.Event(&history.Event{Kind: history.RunEnd, At: 2 * time.Second})
		l.RunEnd(&p, run.Outcome{Status: "finished", Records: 100}, []results.Verdict{{Verdict: results.Pass}})
		if want := "\r\x1b[K  changelog-on-1      2.0 s  finished  100 records  newest checkpoint 0  1 aborted  "; !strings.HasPrefix(b.String(), want) || !strings.HasSuffix(b.String(), c.last+"\n") {
			t.Errorf("the end is %q, want %q", b.String(), want)
		}
	}
}

// TestPipesGetALineAMinute follows a long run without a terminal.
func TestPipesGetALineAMinute(t *testing.T) {
	var b bytes.Buffer
	p := plan.Plan{Arm: "a", Rep: 1}
	l := newLive(&b, planned{plans: []plan.Plan{p, {Arm: "longer", Rep: 1}}})
	l.RunBegin(&p)
	for s := range 150 {
		l.Tick(run.Tick{At: time.Duration(s) * time.Second, Phase: "load", State: "restoring", Emitted: int64(s) * 20_000})
	}
	l.Event(&history.Event{Kind: history.AttemptFailed, Attempt: 2, Text: history.CauseRescale, At: 150 * time.Second})
	l.Event(&history.Event{Kind: history.FaultMissed, Fault: "f", Text: "its trigger never fired", At: 150 * time.Second})
	l.RunEnd(&p, run.Outcome{Status: "failed", Err: errors.New("phase load: the job failed: why\nstack")}, nil)
	want := `  a-1           0.0 s  begins (1 of 2)
  a-1          60.0 s  load  ckpt #0  1.20 M records  lag 0.0 s  restoring
  a-1         120.0 s  load  ckpt #0  2.40 M records  lag 0.0 s  restoring
  a-1         150.0 s  fault f was not proven: its trigger never fired
  a-1           0.0 s  failed  0 records  newest checkpoint 0  pass
                       phase load: the job failed: why
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// TestStartIsFast bounds what every command pays before it does anything, the tables of all implementations included.
func TestStartIsFast(t *testing.T) {
	best := time.Hour
	for range 5 {
		began := time.Now()
		if code := Main(t.Context(), []string{"plan", "--check", "testdata/tiny.yaml"}, io.Discard, io.Discard); code != exitPass {
			t.Fatal(code)
		}
		best = min(best, time.Since(began))
	}
	if best > 100*time.Millisecond {
		t.Errorf("a plan is checked in %v, want at most 100 ms", best)
	}
}
