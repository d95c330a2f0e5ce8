// Package scenario turns a scenario file into plans.
//
// Load reads a file strictly: unknown, repeated and wrong keys, values without units, names that do not exist and steps
// that cannot work are all problems, and all of them are reported at once, each with its place in the file. What is merely
// unwise is a warning. Plans then expands the checked scenario into one complete plan for each arm and repetition, with the
// overrides of the sim block applied when the world is simulated. Resolved writes the scenario with every setting
// and where it came from, and Explain writes the same for people. docs/scenario.md describes the format.
//
//	s, problems := scenario.Load(path, src, tables, overrides)
//	plans, problems := scenario.Plans(s)
package scenario

import (
	"encoding/json"
	"path/filepath"
	"slices"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/registry"
)

// Overrides are the settings of the command line. The zero value overrides nothing.
type Overrides struct {
	// Seed is --seed; nil: not given.
	Seed *uint64
	// Drawn is the seed that the caller drew, used when neither the file nor --seed gives one.
	Drawn uint64
	// World is --world, Store --store, Profile --profile (a name or a file), Prices --prices (a file); empty: not given.
	World, Store, Profile, Prices string
	// Arms are the --arm flags; empty: all arms.
	Arms []string
	// Reps is --reps, the runs of each arm; 0: one.
	Reps int
	// Set are the --set flags, each name=value.
	Set []string
	// AllowPath is --allow-path: input files and profiles may lie outside the scenario's folder.
	AllowPath bool
}

// Scenario is a checked scenario with every default filled in, before the overrides of sim are applied. It is not
// changed after Load.
type Scenario struct {
	Path     string // as given to Load
	Name     string
	About    string
	Tags     []string
	Params   []Param
	Seed     uint64
	World    string // real, sim
	Store    plan.Store
	Workers  plan.Workers
	Job      plan.Job
	Outer    Outer
	Arms     []Arm // in file order
	Baseline string
	Selected []string // names of the arms to run, in file order
	Reps     int
	Workload Workload
	Sim      Sim
	Phases   []Phase
	Verify   Verify
	Expect   []Expectation // in file order
	Charts   []string
	// MaxResults is how many bytes the files of a run may reach; 0: the default.
	MaxResults int64
	Warnings   []Problem // what the writer should know but stops nothing
	Notes      []string  // what was changed without being asked for

	tables  Tables
	source  *loader           // for problems found later, with their places
	origins map[string]string // path of a setting -> file:line or flag; what is missing is a default
}

// Outer is what arms fall back to: the keys of job that an arm has too.
type Outer struct {
	Backend   string // empty: each arm names its own
	Changelog plan.Changelog
	LSM       plan.LSM
	// LocalRecovery and LocalCopies are as in plan.Backend.
	LocalRecovery bool
	LocalCopies   int64
}

// Arm is one variant of the comparison.
type Arm struct {
	Name    string
	Backend plan.Backend
	// Options are the complete options of the workload in this arm; those of the scenario where it has none of its own.
	Options json.RawMessage
	own     []string // dotted names of the options that it gives itself, sorted

	block     field           // its workload, while the file is read; zero where it has none
	effective json.RawMessage // its options in the world of the run
	inputs    []plan.Input
	place     Place
}

// Workload is the job to run.
type Workload struct {
	Name    string
	Options json.RawMessage // complete
	Rate    float64         // records a second; 0: as fast as possible, or the workload's own schedule
	info    WorkloadInfo
	place   Place
}

// Sim are the overrides for the simulated world. Nil and empty: no override.
type Sim struct {
	Rate    *float64
	Records *registry.Share            // scales phases and record triggers
	Options map[string]json.RawMessage // keys, sizes, speed, duration as given
}

// Phase is one phase with what happens in it.
type Phase struct {
	plan.Phase
	Faults   []Fault
	Rescales []plan.Rescale
	place    Place
	path     string
}

// Fault is a planned fault and the arms that get it.
type Fault struct {
	plan.Fault
	Arms  []string // in file order; nil: all
	place Place
	path  string
}

// Verify is what the verify phase asks for. Nil switches follow the world: on in the simulated one, off in the real one.
type Verify struct {
	Checks         []string
	RestoreDigests *bool
	RecordIDs      *bool
}

// Load reads a scenario. path names the file in messages and says where its input files lie; src is its text. Problems
// come in file order, those of flags first; with any of them the scenario is nil.
func Load(path string, src []byte, tables Tables, o Overrides) (*Scenario, []Problem) {
	l := newLoader(path, src, tables, o)
	doc := l.parse(src)
	if doc == nil {
		return nil, sortProblems(l.problems)
	}
	s := defaults(path)
	l.parameters(doc, s)
	root, ok := l.object(doc, "", "", "")
	if !ok {
		return nil, sortProblems(l.problems)
	}
	s.tables, s.source, s.origins = tables, l, l.origins
	l.head(root, s)
	l.env(root, s)
	l.job(root, s)
	l.arms(root, s)
	l.workload(root, s)
	l.sim(root, s)
	l.phases(root, s)
	l.expect(root, s)
	l.report(root, s)
	if len(l.problems) == 0 {
		l.crossCheck(s)
	}
	if len(l.problems) == 0 {
		l.planCheck(s)
	}
	if len(l.problems) > 0 {
		return nil, sortProblems(l.problems)
	}
	l.unused()
	s.Warnings = sortProblems(l.warnings)
	return s, nil
}

// head reads what identifies the scenario.
func (l *loader) head(root object, s *Scenario) {
	var version, kind string
	read(root, "apiVersion", &version, word)
	read(root, "kind", &kind, word)
	read(root, "name", &s.Name, name)
	read(root, "about", &s.About, text)
	if f, ok := root.find("tags"); ok {
		s.Tags = l.words(f, "tags", name)
	}
	switch {
	case l.over.Seed != nil:
		s.Seed, l.origins["seed"] = *l.over.Seed, "flag --seed"
	case !read(root, "seed", &s.Seed, seedValue):
		s.Seed, l.origins["seed"] = l.over.Drawn, "drawn"
	}
	switch s.Reps = 1; {
	case l.over.Reps < 0:
		l.flag("--reps", "must be at least 1, is %d", l.over.Reps)
	case l.over.Reps > maxReps:
		l.flag("--reps", "must be at most %s, is %s", grouped(maxReps), grouped(int64(l.over.Reps)))
	case l.over.Reps > 0:
		s.Reps = l.over.Reps
	}
}

// report reads the report block.
func (l *loader) report(root object, s *Scenario) {
	s.Charts = slices.Clone(l.tables.Charts)
	f, ok := root.find("report")
	if !ok {
		return
	}
	o, ok := l.object(f.value, "report", "report", "report")
	if !ok {
		return
	}
	read(o, "maxResults", &s.MaxResults, positiveBytes)
	if charts, ok := o.find("charts"); ok {
		s.Charts = l.words(charts, "charts", known("chart", l.tables.Charts))
	}
}

// known reads one name out of a list of names.
func known(what string, names []string) func(l *loader, f field) (string, error) {
	return func(l *loader, f field) (string, error) {
		s, err := text(l, f)
		if err == nil && !slices.Contains(names, s) {
			err = &registry.UnknownError{What: what, Name: s, Nearest: registry.Nearest(s, names)}
		}
		return s, err
	}
}

// Folder is the folder that the scenario's files lie in.
func (s *Scenario) Folder() string { return filepath.Dir(s.Path) }

// Origin says where the setting at a path such as job.checkpoint.interval came from: file:line, a flag, drawn, or default.
func (s *Scenario) Origin(path string) string {
	if from, ok := s.origins[path]; ok {
		return from
	}
	return "default"
}
