package run

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/validate"
	"statebench.dev/bench/internal/world"
	"statebench.dev/bench/workloads"

	"github.com/zeebo/xxh3"
)

// Invocation is several runs that belong together: the arms of a scenario, one after the other.
type Invocation struct {
	Plans    []plan.Plan
	Resolved []byte // scenario.resolved.yaml
	Out      string // where results go
	Manifest results.Manifest
	Checks   []validate.Check
	Options  Options
	// Live is told how the runs go; nil: nobody watches.
	Live Live
	// Clock is the time of day.
	Clock func() time.Time
}

// Live follows an invocation. Calls come one at a time, in order, but for Event and Tick of one run, which may overlap.
type Live interface {
	// Begin comes first, once the directory exists.
	Begin(dir results.Dir)
	// RunBegin comes before anything else of a run.
	RunBegin(p *plan.Plan)
	// Event is called for each event, in order; it must neither keep e nor block.
	Event(e *history.Event)
	// Tick is called about once a second of the run's time.
	Tick(t Tick)
	// RunEnd comes once a run was judged.
	RunEnd(p *plan.Plan, o Outcome, verdicts []results.Verdict)
}

// Invoke carries all runs out and judges each. It returns the directory with everything but the reports, and the manifest
// with the outcome. Once the directory exists an error means that results could not be written.
func Invoke(deps Deps, v Invocation) (results.Dir, results.Manifest, error) {
	m := v.Manifest
	m.Started = v.Clock().UTC()
	dir, err := results.Create(v.Out, m.Scenario, m.Started, m.Seed)
	if err != nil {
		return "", m, err
	}
	m.Schema, m.Outcome, m.Exit = results.Schema, results.Running, 2 // what holds if the program dies
	for i := range v.Plans {
		p := &v.Plans[i]
		m.Runs = append(m.Runs, results.RunEntry{Name: Name(p), Arm: p.Arm, Rep: p.Rep, Status: "not-run"})
	}
	if v.Live != nil {
		v.Live.Begin(dir)
	}
	err = v.prepare(dir, &m)
	bug := false
	if err == nil {
		deps.Open = opener(dir)
		for i := range v.Plans {
			if v.interrupted() {
				break
			}
			var out Outcome
			out, err = v.one(deps, dir, &m, i)
			if bug = bug || IsBug(out.Err); err != nil {
				break
			}
		}
	}
	m.Took = v.Clock().Sub(m.Started)
	if err != nil && !setupFailed(err) && !unwritable(err) {
		err = &WriteError{err}
	}
	finish(&m, v.interrupted(), bug, err)
	return dir, m, conclude(dir, m, err)
}

// conclude writes the manifest, in the worst case into the room that was kept for it.
func conclude(dir results.Dir, m results.Manifest, err error) error {
	e := first(dir.Release(), results.WriteJSON(dir.Path(results.ManifestFile), m))
	if err == nil && e != nil {
		return &WriteError{e}
	}
	return err
}

func (v *Invocation) interrupted() bool {
	return v.Options.Interrupted != nil && v.Options.Interrupted()
}

// Name is the name of a plan's run in its invocation.
func Name(p *plan.Plan) string { return fmt.Sprintf("%s-%d", p.Arm, p.Rep) }

// prepare writes what is known before the first run.
func (v *Invocation) prepare(dir results.Dir, m *results.Manifest) error {
	if err := results.WriteFile(dir.Path(results.ResolvedFile), v.Resolved); err != nil {
		return err
	}
	for i := range v.Plans {
		inputs := slices.Clone(v.Plans[i].Inputs)
		for k := range inputs {
			if err := results.KeepInput(dir, inputs[k]); err != nil {
				return err
			}
			inputs[k].File = "" // from here on the copy is read
		}
		v.Plans[i].Inputs = inputs
	}
	if err := dir.Reserve(); err != nil {
		return err
	}
	return results.WriteJSON(dir.Path(results.ManifestFile), m)
}

// one carries out and judges run i. An error ends the invocation: the store could not be brought up, or results cannot be
// written.
func (v *Invocation) one(deps Deps, dir results.Dir, m *results.Manifest, i int) (Outcome, error) {
	p, entry := &v.Plans[i], &m.Runs[i]
	debug.FreeOSMemory() // a full collection, so that no run pays for the one before
	if v.Live != nil {
		v.Live.RunBegin(p)
	}
	o := v.Options
	if v.Live != nil {
		o.Progress, o.Tick = v.Live.Event, v.Live.Tick
	}
	entry.Status, entry.Error = "failed", "the program ended during this run" // what holds if it does
	if err := results.WriteJSON(dir.Path(results.ManifestFile), m); err != nil {
		return Outcome{}, err
	}
	began := v.Clock()
	run, err := dir.CreateRun(entry.Name)
	if err != nil {
		return Outcome{}, err
	}
	out, err := Run(deps, *p, run, o)
	entry.Took = v.Clock().Sub(began)
	if err != nil {
		entry.Error = err.Error()
		return out, err
	}
	entry.Status, entry.Error, entry.Digest = out.Status, "", out.Digest
	m.ObjectsAt = strings.TrimPrefix(m.ObjectsAt+", "+out.Objects, ", ")
	m.ObjectsAt = strings.TrimSuffix(m.ObjectsAt, ", ") // a run that kept nothing
	m.StoreAbout = out.StoreAbout
	if w := out.StoreWarning; w != "" && !slices.Contains(m.Warnings, w) {
		m.Warnings = append(m.Warnings, w)
	}
	if out.Err != nil {
		entry.Error = brief(out.Err)
	}
	verdicts, judgeErr := Judge(deps, dir, entry.Name, v.Checks)
	if judgeErr != nil { // what was written a moment ago cannot be read: the disk is full or fails; the run says nothing
		if out.Err == nil {
			out.Status, out.Err = "failed", judgeErr
			entry.Status, entry.Error = out.Status, judgeErr.Error()
		}
		verdicts = []results.Verdict{{Check: "H2", Name: "history complete, clocks monotonic", Verdict: results.Inconclusive, Summary: judgeErr.Error()}}
	}
	entry.Verdict = validate.Overall(verdicts)
	if v.Live != nil {
		v.Live.RunEnd(p, out, verdicts)
	}
	if setupFailed(out.Err) || unwritable(out.Err) {
		err = out.Err
	}
	if IsBug(out.Err) {
		err = first(err, results.WriteFile(run.Path(results.BugFile), []byte(out.Err.Error()+"\n")))
	}
	err = first(err, results.WriteJSON(run.Path(results.VerdictsFile), verdicts))
	err = first(err, v.expect(dir, p, entry))
	return out, first(err, results.WriteJSON(dir.Path(results.ManifestFile), m))
}

// first is the first error of two.
func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// IsBug tells whether a run ended by what is no fault of scenario, store or disk.
func IsBug(err error) bool {
	var p *world.PanicError
	return errors.As(err, &p) || errors.Is(err, world.ErrDeadlock) || errors.Is(err, world.ErrRunaway) || errors.Is(err, world.ErrStuck)
}

// brief is an error for people; that of a bug is short, since its stacks stand in bug.txt.
func brief(err error) string {
	var p *world.PanicError
	switch {
	case errors.As(err, &p):
		return fmt.Sprintf("process %s panicked: %v", p.Process, p.Value)
	case IsBug(err):
		line, _, _ := strings.Cut(err.Error(), "\n")
		return line
	}
	return err.Error()
}

// Judge judges a stored run of an invocation by the given checks.
func Judge(deps Deps, dir results.Dir, name string, checks []validate.Check) ([]results.Verdict, error) {
	deps.Open = opener(dir)
	return validate.Run(dir.Run(name), validate.Options{
		Workload: func(p *plan.Plan) (workloads.Workload, error) { return OpenWorkload(deps, p) },
		Checks:   checks,
	})
}

// finish sets the exit code and its words from the runs. What is worse comes first: a violation stands whatever else went
// wrong, and figures of a run that is inconclusive cannot miss anything.
func finish(m *results.Manifest, interrupted, bug bool, err error) {
	verdict := results.Pass
	for _, r := range m.Runs {
		switch {
		case r.Verdict == results.Fail:
			verdict = results.Fail
		case r.Verdict != results.Pass && verdict == results.Pass:
			verdict = results.Inconclusive
		}
	}
	switch {
	case verdict == results.Fail:
		m.Exit, m.Outcome = 1, "correctness violation"
	case bug:
		m.Exit, m.Outcome = 70, "harness bug"
	case interrupted:
		m.Exit, m.Outcome = 130, "interrupted"
	case setupFailed(err):
		m.Exit, m.Outcome = 75, "environment could not start"
	case verdict != results.Pass || err != nil:
		m.Exit, m.Outcome = 2, "inconclusive"
	case missed(m):
		m.Exit, m.Outcome = 3, "expectation missed"
	default:
		m.Exit, m.Outcome = 0, "pass"
	}
	if err != nil && !slices.ContainsFunc(m.Runs, func(r results.RunEntry) bool { return r.Error == err.Error() }) {
		m.Warnings = append(m.Warnings, err.Error())
	}
	if m.World == "sim" {
		m.Digest = digestOf(m.Runs)
	}
}

// digestOf is a hash of the runs' digests in order of name.
func digestOf(runs []results.RunEntry) string {
	sorted := slices.Clone(runs)
	slices.SortStableFunc(sorted, func(a, b results.RunEntry) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	sum := xxh3.New()
	for _, r := range sorted {
		_, _ = sum.WriteString(r.Name + " " + r.Digest + "\n")
	}
	b := sum.Sum128().Bytes()
	return fmt.Sprintf("%x", b[:])
}
