// Package validate judges a finished run from its files: assumptions first, then what must hold.
//
// A check looks at the history, the object trace and the evidence of the verify phase, and answers pass, fail or
// inconclusive, with the smallest evidence. It never touches a cluster, a backend or a store, so that any stored run can be
// judged again, elsewhere and with better checks.
package validate

import (
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/sinks"
	"statebench.dev/bench/workloads"
)

// Verdict is a check's answer.
type Verdict = results.Verdict

// Check is one invariant. New makes a judge for one run.
type Check struct {
	ID   string // S1, F5, ...
	Name string // what must hold, in words
	New  func(c *Case) Judge
}

// Judge looks at one run. Judges that implement EventJudge or RequestJudge are shown the history and the object trace
// before Finish.
type Judge interface {
	// Finish answers; the check's id and name are filled in by the caller.
	Finish() Verdict
}

// EventJudge is shown every event in order; it must not keep e.
type EventJudge interface{ Observe(e *history.Event) }

// RequestJudge is shown every store request in order of sequence; it must not keep q.
type RequestJudge interface{ Request(q *history.Request) }

// Case is the evidence about one run that fits into memory.
type Case struct {
	Plan     plan.Plan
	Complete bool // the run reached the end of its verify phase
	Refs     []checkpoint.RefsChange
	Restores []results.RestoreLineOf
	Listing  []results.Listed
	CoordLog []results.LogLine
	Output   *sinks.Result

	checkpoints []results.CheckpointRow
	recoveries  []results.RecoveryRow
	truth       *truth
}

// Options say how to judge.
type Options struct {
	// Workload makes the run's workload, whose model is the reference.
	Workload func(p *plan.Plan) (workloads.Workload, error)
	// Checks are the invariants to judge, in order.
	Checks []Check
}

// Run judges the run in dir. An error wraps results.ErrDamaged when the files cannot be read; a run that ended early is
// judged all the same, and what cannot be known of it is inconclusive.
func Run(dir results.RunDir, o Options) ([]Verdict, error) {
	c, err := load(dir)
	if err != nil {
		return nil, err
	}
	w, err := o.Workload(&c.Plan)
	if err != nil {
		return nil, fmt.Errorf("%w: the plan of run %s cannot be carried out: %w", results.ErrDamaged, dir.Name(), err)
	}
	checks := pick(o.Checks, c.Plan.Verify.Checks)
	c.truth = newTruth(w.Model, &c.Plan)
	judges := make([]Judge, len(checks))
	for i, k := range checks {
		judges[i] = k.New(c)
	}
	var e history.Event // one for all, like q: judges keep copies of what they need
	for next, err := range results.ReadLines[history.Event](dir.Path(results.HistoryFile)) {
		if err != nil {
			return nil, err
		}
		e = next
		c.truth.observe(&e)
		for _, j := range judges {
			if x, ok := j.(EventJudge); ok {
				x.Observe(&e)
			}
		}
	}
	var q history.Request
	for next, err := range results.ReadLines[history.Request](dir.Path(results.ObjectsFile)) {
		if err != nil {
			return nil, err
		}
		q = next
		for _, j := range judges {
			if x, ok := j.(RequestJudge); ok {
				x.Request(&q)
			}
		}
	}
	c.truth.compute(c)
	verdicts := make([]Verdict, len(checks))
	for i, j := range judges {
		v := j.Finish()
		if v.Verdict == results.Pass && !c.Complete {
			v = unverified(v.Summary)
		}
		v.Check, v.Name = checks[i].ID, checks[i].Name
		verdicts[i] = v
	}
	return verdicts, nil
}

// pick returns the checks that the plan names, or all when it names none.
func pick(all []Check, names []string) []Check {
	if len(names) == 0 {
		return all
	}
	want := map[string]bool{}
	for _, n := range names {
		want[n] = true
	}
	var picked []Check
	for _, c := range all {
		if want[c.ID] {
			picked = append(picked, c)
		}
	}
	return picked
}

// load reads what fits into memory. Evidence of the verify phase may be absent altogether, but not in part.
func load(dir results.RunDir) (*Case, error) {
	c := &Case{}
	var hash string
	var err error
	if c.Plan, hash, err = results.ReadPlan(dir.Path(results.PlanFile)); err != nil {
		return nil, err
	}
	if err := samePlan(dir, hash); err != nil {
		return nil, err
	}
	if c.Refs, err = collect[checkpoint.RefsChange](dir.Path(results.RefsFile)); err != nil {
		return nil, err
	}
	if c.checkpoints, err = results.ReadCSV[results.CheckpointRow](dir.Path(results.CheckpointsFile)); err != nil {
		return nil, err
	}
	if c.recoveries, err = results.ReadCSV[results.RecoveryRow](dir.Path(results.RecoveriesFile)); err != nil {
		return nil, err
	}
	if _, err := os.Stat(dir.Path(results.OutputFile)); errors.Is(err, os.ErrNotExist) {
		return c, nil
	}
	c.Complete = true
	if c.Listing, err = collect[results.Listed](dir.Path(results.ListingFile)); err != nil {
		return nil, err
	}
	if c.CoordLog, err = collect[results.LogLine](dir.Path(results.CoordLogFile)); err != nil {
		return nil, err
	}
	lines, err := collect[results.StateLine](dir.Path(results.StatesFile))
	if err != nil {
		return nil, err
	}
	if c.Restores, err = results.GroupRestores(lines); err != nil {
		return nil, fmt.Errorf("%s: %w", dir.Path(results.StatesFile), err)
	}
	c.Output = &sinks.Result{}
	return c, results.ReadJSON(dir.Path(results.OutputFile), c.Output)
}

// samePlan compares the plan's hash with the one in the first event of the history: judging a run by another plan would
// prove nothing, and one that is damaged may ask for any amount of work.
func samePlan(dir results.RunDir, hash string) error {
	for e, err := range results.ReadLines[history.Event](dir.Path(results.HistoryFile)) {
		if err == nil && e.Kind == history.RunBegin && e.Text != hash {
			err = fmt.Errorf("%w: %s: its hash is %s, the run began with the plan %s", results.ErrDamaged, dir.Path(results.PlanFile), hash, e.Text)
		}
		return err
	}
	return nil
}

func collect[T any](path string) ([]T, error) {
	var all []T
	for v, err := range results.ReadLines[T](path) {
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// Overall is the verdict over several: one fail is a fail, else one inconclusive is inconclusive.
func Overall(vs []Verdict) string {
	overall := results.Pass
	for _, v := range vs {
		switch {
		case v.Verdict == results.Fail:
			return results.Fail
		case v.Verdict != results.Pass:
			overall = results.Inconclusive
		}
	}
	return overall
}

// pass, fail and inconclusive make verdicts.
func pass(format string, args ...any) Verdict {
	return Verdict{Verdict: results.Pass, Summary: fmt.Sprintf(format, args...)}
}

func inconclusive(format string, args ...any) Verdict {
	return Verdict{Verdict: results.Inconclusive, Summary: fmt.Sprintf(format, args...)}
}

// findings collects violations; a verdict names how many and shows the first few.
type findings struct {
	count    int
	evidence []string
	events   []int64
}

// maxEvidence bounds the lines of evidence in one verdict.
const maxEvidence = 10

func (f *findings) add(event int64, format string, args ...any) {
	f.count++
	if len(f.evidence) < maxEvidence {
		f.evidence = append(f.evidence, fmt.Sprintf(format, args...))
		if event > 0 {
			f.events = append(f.events, event)
		}
	}
}

// verdict is a fail when there are findings, else a pass with the given summary.
func (f *findings) verdict(format string, args ...any) Verdict {
	if f.count == 0 {
		return pass(format, args...)
	}
	sort.Slice(f.events, func(i, j int) bool { return f.events[i] < f.events[j] })
	return Verdict{Verdict: results.Fail, Summary: fmt.Sprintf("%d violations; the first: %s", f.count, f.evidence[0]), Evidence: f.evidence, Events: f.events}
}

// unverified is the answer of a check whose evidence the run did not come to write, or not to its end; so far is what it says.
func unverified(soFar ...string) Verdict {
	return inconclusive("%s", strings.Join(append([]string{"the run ended before its verify phase"}, soFar...), "; up to there "))
}
