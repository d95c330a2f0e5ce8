// Package run executes one plan on the in-process engine and leaves a directory of evidence: history, object trace,
// tables, what was left in the store, and what the judges concluded.
//
// It gets every implementation through Deps and owns the order of things: world, store, engine, phases, faults, healing,
// drain, verify. What it measures it writes while it goes, so an interrupted run keeps what was measured.
package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/provision"
	"statebench.dev/bench/faults"
	"statebench.dev/bench/internal/engine"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/registry"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/sinks"
	"statebench.dev/bench/internal/world"
	"statebench.dev/bench/workloads"
)

// Deps are the implementations a run may use.
type Deps struct {
	Workloads registry.Table[workloads.Kind]
	Faults    registry.Table[faults.Constructor]
	Backends  registry.Table[BackendConstructor]
	// Storages keep changelogs elsewhere than in the store; plan.LogDFS is always there.
	Storages registry.Table[dstl.StorageOpener]
	// Provision brings a store up.
	Provision func(ctx context.Context, w world.World, spec string) (store.Bucket, provision.Description, error)
	// Open opens an input file by the path that the scenario gives.
	Open func(in plan.Input) (io.ReadCloser, error)
}

// BackendConstructor makes a state backend from an arm's options.
type BackendConstructor func(b plan.Backend, seed uint64) (backend.Factory, error)

// Options say how to run.
type Options struct {
	// KeepObjects leaves the run's objects in the store.
	KeepObjects bool
	// Interrupted is polled; once true the run ends early and keeps what was measured.
	Interrupted func() bool
	// Progress, where set, is told of events a user wants to follow, in order; it must be quick.
	Progress func(e *history.Event)
	// Tick, where set, is called about once a second with the state of the run.
	Tick func(t Tick)
	// Mutants are planted bugs to switch on; they exist in programs built with the tag mutants only.
	Mutants []string
	// Flip makes the n-th scheduling choice of the simulated world take another alternative; 0: none.
	Flip int64
}

// Tick is the state of a run as a live display shows it.
type Tick struct {
	At        time.Duration
	Phase     string
	Emitted   int64
	Total     int64 // 0: not known
	Lag       time.Duration
	Completed uint64
	State     string
}

// Outcome is how a run ended.
type Outcome struct {
	// Status is finished, interrupted or failed. Only a finished run can pass.
	Status string
	// Err is why it did not finish.
	Err error
	// Digest covers everything observed, in the simulated world.
	Digest string
	// Objects says where kept objects lie.
	Objects string
	// StoreAbout names what the store's server was made from, where that can vary.
	StoreAbout string
	// StoreWarning says what of the store no listing shows; empty: nothing that is known.
	StoreWarning string
	// Events is the number of events, Records that of source records, Choices that of scheduling choices (simulated world).
	Events, Records, Choices int64
	// Failpoints is how often the run passed each of them; those that it never passed are not in it.
	Failpoints map[string]int64
}

// run is one plan under way.
type run struct {
	deps  Deps
	plan  *plan.Plan
	dir   results.RunDir
	o     Options
	world world.World
	group *world.Group // everything beside the engine

	recorder *history.Recorder
	events   *results.Lines
	objects  *results.Lines
	refs     *results.Lines

	checkpoints *checkpointTable
	recoveries  *recoveryTable
	series      *results.CSV[results.SeriesRow]

	workload workloads.Workload
	store    *stack
	injector *store.Injector
	probe    store.Bucket
	points   *failpoint.Set
	collect  *sinks.Collect
	engine   *engine.Engine
	lives    []life // the first one's attempts have any number
	triggers *triggers
	watchers *faults.Watchers
	faults   *disturbances
	sampler  *sampler

	now       func() time.Duration
	problems  problems
	evidence  []string // digests of the files of the verify phase
	interrupt bool
}

// Run executes p and writes its evidence into dir, which exists and is empty. The error is nil for every run that came as
// far as writing evidence; Outcome tells the rest. It is called from an ordinary goroutine, outside any world.
func Run(deps Deps, p plan.Plan, dir results.RunDir, o Options) (Outcome, error) {
	if o.Interrupted == nil {
		o.Interrupted = func() bool { return false }
	}
	r := &run{deps: deps, plan: &p, dir: dir, o: o}
	if err := results.WriteJSON(dir.Path(results.PlanFile), p); err != nil {
		return Outcome{}, err
	}
	r.world = newWorld(&p, o)
	r.now = r.world.Now
	if err := r.openFiles(); err != nil {
		return Outcome{}, errors.Join(err, r.closeFiles())
	}
	runErr := r.world.Run(r.main)
	// No process is left to write there, whatever ended the run: an interruption or a panic too.
	runErr = errors.Join(runErr, dir.Remove(results.DisksFolder))
	closeErr := r.closeFiles()
	if r.sampler != nil {
		closeErr = first(closeErr, r.sampler.latencies.write(r.plan, dir.Path(results.LatenciesFile)))
	}
	out := Outcome{Status: "finished", Err: errors.Join(runErr, r.problems.err()), Events: r.recorder.Events(), Failpoints: r.points.Passed()}
	if closeErr != nil {
		out.Err = &WriteError{closeErr} // what else went wrong most likely follows from it
	}
	switch {
	case out.Err != nil && !r.interrupt, unwritable(out.Err):
		out.Status = "failed"
	case r.interrupt:
		out.Status = "interrupted"
	}
	if r.engine != nil {
		out.Records = r.engine.Progress().Emitted()
	}
	if r.store != nil {
		out.StoreAbout, out.StoreWarning = r.store.desc.About, r.store.desc.Warning
	}
	if r.store != nil && o.KeepObjects {
		out.Objects = r.store.location
		if r.plan.LogStorage() == plan.LogFile && !r.plan.Simulated() {
			out.Objects += ", logs in " + dir.Path(results.LogFolder)
		}
	}
	if sim, ok := r.world.(*world.Sim); ok {
		out.Digest, out.Choices = r.digest(), sim.Choices()
	}
	return out, nil
}

func newWorld(p *plan.Plan, o Options) world.World {
	if p.Simulated() {
		return world.NewSim(world.SimOptions{Seed: p.Seed, Policy: p.Policy, FlipChoice: o.Flip})
	}
	return world.NewReal(p.Seed)
}

// WriteError says that results could not be written: the disk is full, or it fails.
type WriteError struct{ Err error }

// Error is that of the cause, with what it means.
func (e *WriteError) Error() string { return "results cannot be written: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *WriteError) Unwrap() error { return e.Err }

func unwritable(err error) bool {
	var w *WriteError
	return errors.As(err, &w)
}

// writeError is an error in writing what grows fastest while the run goes on. It is for the sampler's process.
func (r *run) writeError() error {
	for _, err := range []error{r.recorder.Err(), r.events.Err(), r.objects.Err(), r.refs.Err(), r.series.Err()} {
		if err != nil {
			return err
		}
	}
	return nil
}

// openFiles creates everything that is written while the run goes on.
func (r *run) openFiles() (err error) {
	if r.events, err = results.CreateCompressed(r.dir.Path(results.HistoryFile)); err != nil {
		return err
	}
	r.recorder = history.NewRecorder(r.now, r.events)
	if r.objects, err = results.CreateCompressed(r.dir.Path(results.ObjectsFile)); err != nil {
		return err
	}
	if r.refs, err = results.CreateLines(r.dir.Path(results.RefsFile)); err != nil {
		return err
	}
	if r.checkpoints, err = newCheckpointTable(r.plan, r.dir.Path(results.CheckpointsFile)); err != nil {
		return err
	}
	if r.recoveries, err = newRecoveryTable(r.plan, r.dir.Path(results.RecoveriesFile), r.highest, r.moving); err != nil {
		return err
	}
	r.series, err = results.CreateCSV[results.SeriesRow](r.dir.Path(results.SeriesFile))
	return err
}

// closeFiles ends them all and returns the first error: a run whose evidence could not be written is not finished.
func (r *run) closeFiles() (first error) {
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	if r.recorder != nil {
		keep(r.recorder.Close())
	}
	for _, l := range []*results.Lines{r.events, r.objects, r.refs} {
		if l != nil {
			keep(l.Close())
		}
	}
	if r.checkpoints != nil {
		keep(r.checkpoints.close())
	}
	if r.recoveries != nil {
		keep(r.recoveries.close())
	}
	if r.series != nil {
		keep(r.series.Close())
	}
	return first
}

// record stores an event of the run itself.
func (r *run) record(ctx context.Context, e history.Event) { r.recorder.Record(ctx, e) }

// problem keeps what makes the run unfinished, and notes it in the history.
func (r *run) problem(ctx context.Context, text string) {
	r.problems.add(errors.New(text))
	r.record(ctx, history.Event{Kind: history.Note, Actor: "run", Text: text})
}

// highest is the highest position of each source partition in any attempt.
func (r *run) highest() []int64 {
	if r.engine == nil {
		return nil
	}
	return r.engine.Progress().Highest()
}

// moving is the id of the rescale under way.
func (r *run) moving() string {
	if r.faults == nil {
		return ""
	}
	return r.faults.moving()
}

// planHash identifies the plan in the history.
func planHash(p *plan.Plan) string {
	b, err := json.Marshal(p)
	if err != nil {
		return fmt.Sprintf("plan cannot be encoded: %v", err)
	}
	return hash(b)
}
