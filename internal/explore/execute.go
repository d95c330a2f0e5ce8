package explore

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"
	"statebench.dev/bench/internal/validate"
)

// Runner carries plans out and judges them, each in a folder of its own. It may be used by several goroutines at a time.
type Runner struct {
	Deps   run.Deps
	Checks []validate.Check
	// Temp is where the folders of runs are made; empty: where the system has such.
	Temp string
	// Mutants are planted bugs to switch on in each run.
	Mutants []string
	// Interrupted is polled by runs under way, which then end early; nil: never.
	Interrupted func() bool
}

// Result is what came of one plan. Its folder stays until Remove.
type Result struct {
	Plan     plan.Plan
	Outcome  run.Outcome
	Verdicts []results.Verdict
	Dir      results.RunDir
}

// runName is the name of a run in its folder.
const runName = "run-1"

// Resolve completes the options of the plan's workload.
func (r *Runner) Resolve(p plan.Plan) (plan.Plan, error) {
	kind, err := r.Deps.Workloads.Find(p.Workload.Name)
	if err == nil {
		p.Workload.Options, err = kind.New.Resolve(p.Workload.Options)
	}
	return p, err
}

// Run carries one resolved plan out and judges it. The error says that the harness could not do so: no folder, or evidence that
// cannot be read; the result then has that error too. The caller removes the result.
func (r *Runner) Run(p plan.Plan) (Result, error) {
	return r.run(p, run.Options{Mutants: r.Mutants, Interrupted: r.Interrupted})
}

// RunWith is Run with other options, the runner's planted bugs and its interruption left out.
func (r *Runner) RunWith(p plan.Plan, o run.Options) (Result, error) { return r.run(p, o) }

func (r *Runner) run(p plan.Plan, o run.Options) (Result, error) {
	x := Result{Plan: p}
	folder, err := os.MkdirTemp(r.Temp, "explore-")
	if err == nil {
		x.Dir, err = results.Dir(folder).CreateRun(runName)
	}
	if err == nil {
		x.Outcome, err = run.Run(r.Deps, p, x.Dir, o)
	}
	if err == nil && x.Outcome.Status != "interrupted" {
		x.Verdicts, err = run.Judge(r.Deps, results.Dir(folder), runName, r.Checks)
	}
	if err != nil {
		x.Outcome.Err = err
	}
	return x, err
}

// Folder is the folder of the run, which holds its directory.
func (x *Result) Folder() string { return filepath.Dir(filepath.Dir(string(x.Dir))) }

// Remove removes all files of the run.
func (x *Result) Remove() error {
	if x.Dir == "" {
		return nil
	}
	return os.RemoveAll(x.Folder())
}

// Problem says what is wrong with a run that should have passed, in several lines; empty when nothing is.
func (x *Result) Problem() string {
	if x.Outcome.Err == nil && validate.Overall(x.Verdicts) == results.Pass {
		return ""
	}
	s := fmt.Sprintf("%s: %v", x.Outcome.Status, x.Outcome.Err)
	for _, v := range x.Verdicts {
		if v.Verdict != results.Pass {
			s += fmt.Sprintf("\n    %s %s: %s", v.Check, v.Verdict, v.Summary)
			for _, e := range v.Evidence {
				s += "\n        " + e
			}
		}
	}
	return s
}

// Failed are the ids of the checks that fail, in their order.
func (x *Result) Failed() (ids []string) {
	for _, v := range x.Verdicts {
		if v.Verdict == results.Fail {
			ids = append(ids, v.Check)
		}
	}
	return ids
}

// Hidden tells whether all that is wrong with a run is that faults of it were not seen to have an effect: what was not healed, not
// rescaled or not carried through, as H1 says too, is no such thing.
func (x *Result) Hidden() bool {
	for _, v := range x.Verdicts {
		switch {
		case v.Verdict == results.Pass:
		case v.Check != "H1" || v.Verdict != results.Inconclusive:
			return false
		case slices.ContainsFunc(v.Evidence, func(e string) bool { return !strings.Contains(e, ") had no effect: ") }):
			return false
		}
	}
	return x.Outcome.Err == nil && validate.Overall(x.Verdicts) == results.Inconclusive
}

// Checkpoints returns how many checkpoints of the run completed, and when the last of them was triggered.
func (x *Result) Checkpoints() (completed int, last time.Duration, err error) {
	rows, err := results.ReadCSV[results.CheckpointRow](x.Dir.Path(results.CheckpointsFile))
	for _, r := range rows {
		if r.Status == "completed" {
			completed++
			last = time.Duration(r.Trigger.Value * float64(time.Second))
		}
	}
	return completed, last, err
}

// The classes of what can be wrong with a run, from the worst on.
const (
	Violation    = "violation"    // a check fails
	Bug          = "bug"          // the run ended by what is no fault of plan, store or disk
	Inconclusive = "inconclusive" // nothing is known to be wrong, and nothing is shown
)

// Cause tells failures apart: two runs with the same one most likely met the same thing. Its zero value is that of a run with
// which nothing is wrong.
type Cause struct {
	Class string
	// Check is the id of the first check that fails, or that is inconclusive where none fails; empty where the run itself failed.
	Check string
	// Text is that check's first line of evidence, or the error of a run that did not come to its end, without figures and names.
	Text string
}

// String is the cause in a line.
func (c Cause) String() string { return strings.TrimSpace(c.Check + "  " + c.Text) }

var (
	figures = regexp.MustCompile(`[0-9][0-9.,]*(µs|ms|s|B|KiB|MiB)?`)   // read-only: a pattern
	keys    = regexp.MustCompile(`"[^"]*"|\b[0-9a-f]{8,}\b|[a-z]+/\S+`) // read-only: a pattern
)

// Cause is why the run did not pass; the zero value when it did, or when its faults hide each other.
func (x *Result) Cause() Cause {
	switch {
	case x.Problem() == "" || x.Hidden():
		return Cause{}
	case len(x.Failed()) > 0:
		return x.cause(Violation, results.Fail)
	case x.Outcome.Err == nil:
		return x.cause(Inconclusive, results.Inconclusive)
	case run.IsBug(x.Outcome.Err):
		return Cause{Class: Bug, Text: plain(x.Outcome.Err.Error())}
	}
	return Cause{Class: Inconclusive, Text: plain(x.Outcome.Err.Error())}
}

// cause is that of the first check with the verdict.
func (x *Result) cause(class, verdict string) Cause {
	for _, v := range x.Verdicts {
		if v.Verdict != verdict {
			continue
		}
		text := v.Summary
		if len(v.Evidence) > 0 {
			text = v.Evidence[0]
		}
		return Cause{Class: class, Check: v.Check, Text: plain(text)}
	}
	return Cause{Class: class}
}

// plain is the first line of a text without what differs from run to run.
func plain(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	return figures.ReplaceAllString(keys.ReplaceAllString(text, "*"), "#")
}
