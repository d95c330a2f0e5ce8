package compare

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/stats"
)

// Run is one stored run.
type Run struct {
	// Name is that of its directory, Dir where it lies, Invocation the directory of the invocation.
	Name       string
	Dir        results.RunDir
	Invocation results.Dir
	// Manifest is that of the invocation; runs of one share it.
	Manifest *results.Manifest
	Entry    results.RunEntry
	// Plan is nil where nothing was stored.
	Plan *plan.Plan
	// Began is about when it began: what the runs before it took is known, the pauses between them are not.
	Began time.Time
	// Canary is nil where none was taken.
	Canary *Canary
	// Invalid says why the run does not count, a reason each; none: it does. Violation says which check failed; empty: none.
	Invalid   []string
	Violation string

	examined bool
	figures  map[key]stats.Figure // taken once it counts
	drifts   map[string]float64   // phases in which it drifts, and by which share
}

// Valid tells whether the run counts.
func (r *Run) Valid() bool { return len(r.Invalid) == 0 }

// Load opens stored runs: path is the directory of an invocation, which stands for all of its runs, or of one run. Errors
// wrap results.ErrDamaged. What the runs measured is read later, and of those alone that are valid.
func Load(path string) ([]*Run, error) {
	dir, m, names, err := results.Open(path)
	if err != nil {
		return nil, err
	}
	only := ""
	if filepath.Clean(path) != string(dir) {
		only = names[0]
	}
	var list []*Run
	began := m.Started
	for _, e := range m.Runs {
		r := &Run{Name: e.Name, Dir: dir.Run(e.Name), Invocation: dir, Manifest: &m, Entry: e, Began: began}
		began = began.Add(e.Took)
		if only != "" && only != e.Name {
			continue
		}
		if err := r.open(); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// open reads what says whether the run counts.
func (r *Run) open() error {
	if r.Entry.Status == "not-run" {
		r.Invalid = []string{"was not run"}
		return nil
	}
	p, _, err := results.ReadPlan(r.Dir.Path(results.PlanFile))
	if err != nil {
		if r.Entry.Status != "finished" {
			r.Invalid = []string{r.Entry.Status + ": " + r.Entry.Error}
			return nil
		}
		return err
	}
	r.Plan = &p
	var c Canary
	switch err := results.ReadJSON(r.Dir.Path(CanaryFile), &c); {
	case err == nil:
		r.Canary = &c
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if r.Entry.Status != "finished" {
		r.Invalid = append(r.Invalid, strings.TrimSuffix(r.Entry.Status+": "+r.Entry.Error, ": "))
	}
	return r.verdicts()
}

// verdicts takes what the checks said.
func (r *Run) verdicts() error {
	if r.Entry.Verdict == results.Pass {
		return nil
	}
	var all []results.Verdict
	if err := results.ReadJSON(r.Dir.Path(results.VerdictsFile), &all); err != nil {
		if r.Entry.Status != "finished" {
			return nil // ended before it was judged, which is reason enough
		}
		return err
	}
	for _, v := range all {
		what := fmt.Sprintf("%s %s: %s", v.Check, v.Name, v.Summary)
		switch {
		case v.Verdict == results.Fail && r.Violation == "":
			r.Violation = what
			r.Invalid = append(r.Invalid, "correctness violation: "+what)
		case v.Verdict == results.Inconclusive:
			r.Invalid = append(r.Invalid, "not proven: "+what)
		}
	}
	if len(r.Invalid) == 0 {
		r.Invalid = append(r.Invalid, "its checks did not pass")
	}
	return nil
}

// Examine decides which runs of a comparison count, before any of their figures is looked at: whether the host was left alone
// and the source kept its schedule. Errors wrap results.ErrDamaged.
func Examine(runs []*Run) error {
	var loops []float64
	for _, r := range runs {
		if r.Canary != nil && r.Canary.Loop.Set {
			loops = append(loops, r.Canary.Loop.Value)
		}
	}
	loop := stats.Median(loops)
	for _, r := range runs {
		if r.Plan == nil || r.examined {
			continue
		}
		r.examined = true
		if r.Canary != nil {
			r.Invalid = append(r.Invalid, r.Canary.unfit(loop.Value)...)
		}
		late, err := r.late()
		if err != nil {
			return err
		}
		r.Invalid = append(r.Invalid, late...)
	}
	return nil
}

// Limits of how late a source may be on its own account.
const (
	lateFloor = 5    // milliseconds
	lateShare = 0.01 // of the checkpoint interval
	atRest    = 0.01 // share of time in which subtasks may wait for others and the source still be called free to send
)

// late says so when the source fell behind its schedule although nobody held it up. Only phases before the first disturbance
// tell: behind one the source has to catch up.
func (r *Run) late() ([]string, error) {
	if r.Plan.Workload.Rate == 0 || len(r.Invalid) > 0 {
		return nil, nil
	}
	rows, err := results.ReadCSV[results.SeriesRow](r.Dir.Path(results.SeriesFile))
	if err != nil {
		return nil, err
	}
	var lags []float64
	for _, p := range r.Plan.Phases {
		if disturbed(r.Plan, p.Name) {
			break
		}
		if p.Discard || p.Until != "" || len(p.Steps) > 0 {
			continue
		}
		for i := range rows {
			if s := &rows[i]; s.Phase == p.Name && s.Backpress+s.LogBlocked < atRest {
				lags = append(lags, s.Lag)
			}
		}
	}
	limit := max(lateFloor, lateShare*float64(plan.D(r.Plan.Job.Checkpoint.Interval))/1e6)
	slices.SortFunc(lags, func(a, b float64) int { return cmp.Compare(a, b) })
	if n := len(lags); n > 0 && lags[(99*n+99)/100-1] >= limit {
		return []string{fmt.Sprintf("the source was %s late with nobody in its way (limit %s)", duration(lags[(99*n+99)/100-1]), duration(limit))}, nil
	}
	return nil, nil
}

// disturbed tells whether a phase has faults, rescales or steps.
func disturbed(p *plan.Plan, phase string) bool {
	return slices.ContainsFunc(p.Faults, func(f plan.Fault) bool { return f.Phase == phase }) ||
		slices.ContainsFunc(p.Rescales, func(r plan.Rescale) bool { return r.Phase == phase }) ||
		slices.ContainsFunc(p.Phases, func(x plan.Phase) bool { return x.Name == phase && len(x.Steps) > 0 })
}

// key names a figure of a run.
type key struct{ phase, metric string }

// measure takes the figures of a valid run and how much it drifts in its undisturbed phases. What they are taken from is let
// go: a day's run has hundreds of thousands of rows, and a comparison many runs.
func (r *Run) measure(keys []key) error {
	d, err := metrics.Read(r.Dir)
	if err != nil {
		return err
	}
	r.figures, r.drifts = map[key]stats.Figure{}, map[string]float64{}
	for _, k := range keys {
		m, err := metrics.Lookup(k.metric)
		if err != nil {
			return err
		}
		if k.phase == wholeRun {
			var sum stats.Figure
			for _, p := range d.Phases {
				sum.Value, sum.N = sum.Value+float64(p.Records), sum.N+1
			}
			r.figures[k] = sum
			continue
		}
		r.figures[k] = m.Figure(d, k.phase)
	}
	for _, p := range r.Plan.Phases {
		if disturbed(r.Plan, p.Name) || p.Discard || p.Until != "" {
			continue
		}
		if change, drifting := drift(d, p.Name); drifting {
			r.drifts[p.Name] = change
		}
	}
	return nil
}

// drift says by which share the duration of checkpoints changed from the first third of a phase to the last, and whether that
// is more than noise.
func drift(d *metrics.Data, phase string) (change float64, drifting bool) {
	var v []float64
	for i := range d.Checkpoints {
		if c := &d.Checkpoints[i]; c.Status == "completed" && c.Phase == phase && c.Duration.Set {
			v = append(v, c.Duration.Value)
		}
	}
	return stats.Drift(v)
}
