package report

import (
	"errors"
	"io/fs"

	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
)

// States of a run in the manifest.
const (
	statusFinished = "finished"
	statusFailed   = "failed"
	statusNotRun   = "not-run"
)

// Invocation is what an invocation left behind, ready to be rendered. It is only read after Load and safe for concurrent use.
type Invocation struct {
	// Dir is where it lies.
	Dir results.Dir
	// Manifest is its description.
	Manifest results.Manifest
	// Runs are all its runs in the order of the manifest, those that were never started included.
	Runs []*Run
}

// Run is one run of an invocation.
type Run struct {
	// Entry is its line in the manifest.
	Entry results.RunEntry
	// Plan is what it carried out; nil when nothing of the run is there to be read.
	Plan *plan.Plan
	// The tables, as written.
	Checkpoints []results.CheckpointRow
	Recoveries  []results.RecoveryRow
	Series      []results.SeriesRow
	// Verdicts are the answers of the checks.
	Verdicts []results.Verdict
	// Expected is what became of the expectations of its plan; nil where there are none.
	Expected []results.Expectation
	// Problems name the files of a failed run that could not be read.
	Problems []string

	data    metrics.Data
	story   story
	traffic traffic
	stored  stored
}

// Load reads the invocation in dir. Long files are streamed, not kept. A file that is missing or not what it should be
// wraps results.ErrDamaged, with these exceptions: a run that was never started has no files, one that was not finished has
// no evidence of the verify phase, and of a run that failed whatever can be read is taken and the rest named in Problems.
func Load(dir results.Dir) (*Invocation, error) {
	_, m, _, err := results.Open(string(dir))
	if err != nil {
		return nil, err
	}
	inv := &Invocation{Dir: dir, Manifest: m}
	for _, e := range m.Runs {
		r := &Run{Entry: e}
		inv.Runs = append(inv.Runs, r)
		if e.Status == statusNotRun {
			continue
		}
		if err := r.load(dir.Run(e.Name)); err != nil {
			return nil, err
		}
	}
	return inv, nil
}

// load reads the files of a run, in an order in which each can use what came before.
func (r *Run) load(dir results.RunDir) error {
	steps := []struct {
		file string
		late bool // written in the verify phase
		read func(path string) error
	}{
		{file: results.PlanFile, read: r.loadPlan},
		{file: results.VerdictsFile, read: func(path string) error { return results.ReadJSON(path, &r.Verdicts) }},
		{file: results.CheckpointsFile, read: func(path string) (err error) {
			r.Checkpoints, err = results.ReadCSV[results.CheckpointRow](path)
			return err
		}},
		{file: results.RecoveriesFile, read: func(path string) (err error) {
			r.Recoveries, err = results.ReadCSV[results.RecoveryRow](path)
			return err
		}},
		{file: results.SeriesFile, read: func(path string) (err error) {
			r.Series, err = results.ReadCSV[results.SeriesRow](path)
			return err
		}},
		{file: results.LatenciesFile, read: r.loadLatencies},
		{file: results.HistoryFile, read: r.loadHistory},
		{file: results.ObjectsFile, read: r.loadObjects},
		{file: results.ExpectFile, read: r.loadExpectations},
		{file: results.ListingFile, late: true, read: r.loadListing},
		{file: results.StatesFile, late: true, read: r.loadStates},
	}
	for _, s := range steps {
		err := s.read(dir.Path(s.file))
		switch {
		case err == nil:
		case s.late && r.Entry.Status != statusFinished && errors.Is(err, fs.ErrNotExist):
		case r.Entry.Status == statusFailed && errors.Is(err, results.ErrDamaged):
			r.Problems = append(r.Problems, err.Error())
		default:
			return err
		}
		if r.Plan == nil {
			return nil // failed before anything was written
		}
	}
	return nil
}

func (r *Run) loadPlan(path string) error {
	p, _, err := results.ReadPlan(path)
	if err != nil {
		return err
	}
	r.Plan = &p
	return nil
}

// loadLatencies reads what results of before do not have.
func (r *Run) loadLatencies(path string) (err error) {
	r.data.Latencies, err = results.ReadCSV[results.LatencyRow](path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// loadExpectations takes the answers as they were stored, and gives them again where the program ended before it could.
func (r *Run) loadExpectations(path string) error {
	r.data.Plan, r.data.Checkpoints, r.data.Recoveries, r.data.Series = r.Plan, r.Checkpoints, r.Recoveries, r.Series
	if len(r.Plan.Expect) == 0 {
		return nil
	}
	err := results.ReadJSON(path, &r.Expected)
	if errors.Is(err, fs.ErrNotExist) {
		r.Expected = metrics.Judge(&r.data)
		return nil
	}
	return err
}

// eachLine streams a .jsonl file.
func eachLine[T any](path string, see func(v *T)) error {
	for v, err := range results.ReadLines[T](path) {
		if err != nil {
			return err
		}
		see(&v)
	}
	return nil
}

// simulated tells whether times come from a cost model.
func (inv *Invocation) simulated() bool { return inv.Manifest.World == "sim" }
