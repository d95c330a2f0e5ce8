package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/provision"
	"statebench.dev/bench/faults"
	"statebench.dev/bench/internal/engine"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/seed"
	"statebench.dev/bench/internal/sinks"
	"statebench.dev/bench/internal/world"
	"statebench.dev/bench/workloads"
)

// stack is the run's store with everything around it.
type stack struct {
	raw      store.Bucket // as provisioned
	desc     provision.Description
	prefix   string
	location string
	log      dstl.Storage // of changelogs
	inner    store.Bucket // under the run's prefix and the log's storage, without faults and trace: for cleaning up
	run      store.Bucket // with latency, faults, trace and retries: what the engine gets
}

// problems collects what went wrong, from several processes.
type problems struct {
	mu   sync.Mutex
	list []error
}

func (p *problems) add(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, err)
}

func (p *problems) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.list...)
}

func hash(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// SetupError says that the environment could not be brought up: nothing was measured.
type SetupError struct{ Err error }

// Error is that of the cause.
func (e *SetupError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *SetupError) Unwrap() error { return e.Err }

func setupFailed(err error) bool {
	var s *SetupError
	return errors.As(err, &s)
}

// opener opens inputs from their copies in the invocation.
func opener(dir results.Dir) func(in plan.Input) (io.ReadCloser, error) {
	return func(in plan.Input) (io.ReadCloser, error) { return results.OpenInput(dir, in) }
}

// setUp builds the parts of the run, from the store up.
func (r *run) setUp(ctx context.Context) error {
	r.group = world.NewGroup(r.world)
	r.triggers = newTriggers(r.world, r.group)
	r.watchers = &faults.Watchers{}
	r.recorder.Observe(r.watchers.Observe)
	r.recorder.Observe(r.triggers.observe)
	r.recorder.Tally(r.checkpoints.observe)
	r.recoveries.fetched = newDownloads(r.world)
	r.recorder.Tally(r.recoveries.observe)
	if r.o.Progress != nil {
		r.recorder.Tally(r.o.Progress)
	}
	r.points = failpoint.New()
	for _, m := range r.o.Mutants {
		if err := r.points.ArmMutant(m); err != nil {
			return err
		}
	}
	if err := r.armStages(); err != nil {
		return err
	}
	if err := r.openWorkload(); err != nil {
		return err
	}
	if err := r.openStore(ctx); err != nil {
		return &SetupError{err}
	}
	if err := r.openEngine(); err != nil {
		return err
	}
	var err error
	r.faults, err = newDisturbances(r)
	return err
}

// armStages makes the checkpoint stages that triggers name count as events: a stage is a failpoint that is passed.
func (r *run) armStages() error {
	named := map[string]bool{}
	arm := func(t plan.Trigger) error {
		if named[t.Event] || !failpoint.Known(t.Event) || slices.Contains(history.Kinds(), history.Kind(t.Event)) {
			return nil
		}
		named[t.Event] = true
		kind := history.Kind(t.Event)
		_, err := r.points.Arm(t.Event, failpoint.When{}, func(ctx context.Context, h failpoint.Hit) error {
			r.triggers.observe(ctx, &history.Event{Kind: kind, Actor: h.Actor, At: r.now()})
			return nil
		})
		return err
	}
	for _, f := range r.plan.Faults {
		if err := arm(f.At); err != nil {
			return err
		}
	}
	for _, s := range r.plan.Rescales {
		if err := arm(s.At); err != nil {
			return err
		}
	}
	return nil
}

// openWorkload makes the job from the plan.
func (r *run) openWorkload() error {
	w, err := OpenWorkload(r.deps, r.plan)
	r.workload = w
	return err
}

// OpenWorkload makes the workload of a plan: its job for the engine, its model for the judges.
func OpenWorkload(deps Deps, p *plan.Plan) (workloads.Workload, error) {
	entry, err := deps.Workloads.Find(p.Workload.Name)
	if err != nil {
		return nil, err
	}
	return entry.New.New(p.Workload.Options, workloads.Env{
		Seed: p.Seed, Rate: p.Workload.Rate, MaxParallelism: p.Job.MaxParallelism, Total: total(p), Simulated: p.Simulated(),
		Open: func(path string) (io.ReadCloser, error) {
			for _, in := range p.Inputs {
				if in.Path == path {
					return deps.Open(in)
				}
			}
			return nil, fmt.Errorf("the plan has no input %q", path)
		},
	})
}

// total is how many records the sources emit: the phases' sum, or no limit when one of them is measured in time.
func total(p *plan.Plan) int64 {
	for _, ph := range p.Phases {
		if ph.For > 0 {
			return math.MaxInt64
		}
	}
	return p.TotalRecords()
}

// openStore brings the store up and puts the decorators around it.
func (r *run) openStore(ctx context.Context) error {
	raw, desc, err := r.deps.Provision(ctx, r.world, r.plan.Store.Kind)
	if err != nil {
		return err
	}
	prefix := fmt.Sprintf("bench-%016x/", seed.Hash(r.plan.Seed, "store/prefix/"+r.plan.Arm+fmt.Sprint(r.plan.Rep)))
	s := &stack{raw: raw, desc: desc, prefix: prefix, location: desc.Location + " under " + prefix}
	r.store = s
	inside := store.WithPrefix(raw, prefix)
	for a, err := range inside.List(ctx, "", "") {
		if err != nil {
			return fmt.Errorf("look at the run's prefix: %w", err)
		}
		return fmt.Errorf("%s already holds %s: a run touches only a fresh prefix; empty it or choose another seed", s.location, a.Key)
	}
	r.injector = store.NewInjector(r.world)
	slow := store.WithLatencyModel(inside, r.world, latencyOf(r.plan.Store.Model))
	// Above it keys are as they are without it: in the trace, for faults, for everybody who lists.
	inside = store.WithSpread(inside, r.plan.Store.Spread)
	faulty := store.WithFaults(store.WithSpread(slow, r.plan.Store.Spread), r.injector, r.world)
	if s.log, err = r.openLog(ctx, faulty); err != nil {
		return err
	}
	beside := r.plan.LogStorage() != plan.LogDFS
	if s.inner = inside; beside {
		s.inner = dstl.Over(inside, s.log)
	}
	traced := store.WithTrace(dstl.Over(faulty, s.log), func(row history.Request) {
		row.Log = beside && strings.HasPrefix(row.Key, dstl.Prefix)
		_ = r.objects.Append(row)
		r.recoveries.fetched.observe(row)
	}, r.world)
	r.probe = traced
	s.run = store.WithRetry(store.WithHooks(traced, r.hooks()), store.DefaultRetryPolicy(), r.world)
	marker := fmt.Sprintf("run %s, arm %s, seed %d\n", r.plan.Scenario, r.plan.Arm, r.plan.Seed) + store.SpreadLine(r.plan.Store.Spread)
	ctx = store.WithInfo(ctx, store.Info{Cause: "run", Who: "run"})
	if err := s.run.Put(ctx, "run", []byte(marker), store.PutOptions{IfNotExist: true}); err != nil {
		return fmt.Errorf("mark the run's prefix: %w", err)
	}
	return nil
}

// openLog opens the storage of the run's logs. The faults of the store do not reach one that lies elsewhere.
func (r *run) openLog(ctx context.Context, b store.Bucket) (dstl.Storage, error) {
	e := dstl.StorageEnv{World: r.world, Store: b}
	name := r.plan.LogStorage()
	if name == plan.LogDFS {
		return dstl.OpenDFS(ctx, e)
	}
	entry, err := r.deps.Storages.Find(name)
	if err != nil {
		return nil, err
	}
	if e.Disk = world.NewMemDisk(); !r.plan.Simulated() {
		e.Disk = world.NewFolderDisk(r.dir.Path(results.LogFolder))
	}
	return entry.New(ctx, e)
}

// hooks turn requests into events that triggers can name.
func (r *run) hooks() store.Hooks {
	kinds := map[string][2]history.Kind{
		history.OpPut:    {history.StorePutBegin, history.StorePutEnd},
		history.OpGet:    {history.StoreGetBegin, history.StoreGetEnd},
		history.OpDelete: {history.StoreDeleteBegin, history.StoreDeleteEnd},
	}
	emit := func(ctx context.Context, c store.Call, end int, err error) {
		pair, ok := kinds[c.Op]
		if !ok {
			return
		}
		e := history.Event{Kind: pair[end], Actor: store.InfoOf(ctx).Who, Text: c.Key, Bytes: c.Bytes}
		if err != nil {
			e.Error = err.Error()
		}
		r.record(ctx, e)
	}
	return store.Hooks{
		Begin: func(ctx context.Context, c store.Call) { emit(ctx, c, 0, nil) },
		End:   func(ctx context.Context, c store.Call, err error) { emit(ctx, c, 1, err) },
	}
}

// openEngine makes the backend of the arm and the engine.
func (r *run) openEngine() error {
	factory, err := OpenBackend(r.deps, r.plan)
	if err != nil {
		return err
	}
	r.lives = []life{{factory: factory, schema: 1}}
	job := r.workload.Job()
	r.collect = sinks.NewCollect(sinks.Options{World: r.world, Partitions: partitions(job), MaxParallelism: r.plan.Job.MaxParallelism,
		RecordIDs: r.plan.Verify.RecordIDs, Record: r.record})
	disks := "" // in memory
	if !r.plan.Simulated() {
		disks = r.dir.Path(results.DisksFolder)
	}
	r.engine, err = engine.New(engine.Config{
		World: r.world, Job: job, Settings: r.plan.Job, Workers: r.plan.Workers, Total: total(r.plan), Backend: factory,
		Bucket: r.store.run, Collect: r.collect, Failpoints: r.points, Record: r.record, Reached: r.triggers.reached,
		Digests: r.plan.Verify.RestoreDigests, Folder: disks,
		OnCompleted: func(c checkpoint.RefsChange) { _ = r.refs.Append(c) },
	})
	return err
}

// tearDown empties the prefix and closes the store. It runs under a context of its own, so that it works after an interruption too.
func (r *run) tearDown(ctx context.Context) error {
	if r.store == nil {
		return nil
	}
	s := r.store
	var errs []error
	if !r.o.KeepObjects {
		ctx, cancel := r.world.WithTimeout(ctx, time.Minute)
		defer cancel()
		if s.inner != nil {
			errs = append(errs, empty(ctx, s.inner))
		}
	}
	if s.log != nil {
		errs = append(errs, s.log.Close(ctx))
	}
	if !r.o.KeepObjects {
		errs = append(errs, r.dir.Remove(results.LogFolder))
	}
	return errors.Join(append(errs, s.raw.Close())...)
}

// empty removes every object and open upload of b.
func empty(ctx context.Context, b store.Bucket) error {
	var keys []string
	for a, err := range b.List(ctx, "", "") {
		if err != nil {
			return fmt.Errorf("empty the run's prefix: %w", err)
		}
		keys = append(keys, a.Key)
	}
	var errs []error
	for _, d := range b.Delete(ctx, keys) {
		errs = append(errs, d.Err)
	}
	uploads, err := b.Uploads(ctx, "")
	errs = append(errs, err)
	for _, u := range uploads {
		errs = append(errs, b.AbortUpload(ctx, u))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("empty the run's prefix: %w", err)
	}
	return nil
}
