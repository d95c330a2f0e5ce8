package main

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/embedded"
	"statebench.dev/bench/backend/store/provision"
	"statebench.dev/bench/faults"
	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"
	"statebench.dev/bench/internal/scenario"
	"statebench.dev/bench/internal/world"
	"statebench.dev/bench/report"

	"github.com/spf13/cobra"
)

// embeddedCommand is the hidden command of the child process that serves the embedded store.
const embeddedCommand = "embedded-store"

// sourceFlags say which plans to make.
type sourceFlags struct {
	overrides scenario.Overrides
	seed      uint64
	planFile  string
}

func (f *sourceFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.overrides.World, "world", "", "`real|sim`, instead of env.world")
	cmd.Flags().StringVar(&f.overrides.Store, "store", "", "`KIND` mem, dir:PATH, embedded, minio or s3://BUCKET/PREFIX?endpoint=URL, instead of env.store.kind")
	cmd.Flags().StringVar(&f.overrides.Profile, "profile", "", "what the store takes in addition: `NAME` local or s3-standard, or a file, instead of env.store.profile")
	cmd.Flags().StringVar(&f.overrides.Prices, "prices", "", "what requests and bytes are billed at: the `FILE`, instead of env.store.prices")
	cmd.Flags().StringArrayVar(&f.overrides.Arms, "arm", nil, "only the arm `NAME`; may be repeated")
	cmd.Flags().StringArrayVar(&f.overrides.Set, "set", nil, "`NAME=VALUE` another value for a parameter of the scenario, of the same type; may be repeated")
	cmd.Flags().Uint64Var(&f.seed, "seed", 0, "`N` instead of the file's seed")
	cmd.Flags().IntVar(&f.overrides.Reps, "reps", 1, "run each arm `N` times")
	cmd.Flags().BoolVar(&f.overrides.AllowPath, "allow-path", false, "let the scenario name files outside its own folder")
}

// planned is what a command line asks for.
type planned struct {
	scenario *scenario.Scenario // nil for a stored plan
	plans    []plan.Plan
	resolved []byte
	name     string
	about    string
}

// load makes the plans of the file, or of the stored plan.
func (f *sourceFlags) load(cmd *cobra.Command, args []string) (planned, error) {
	if f.planFile != "" {
		return f.stored(cmd, args)
	}
	if len(args) != 1 {
		return planned{}, usage("`bench %s` takes one scenario file, got %d; for example: bench %s scenarios/side-by-side.yaml", cmd.Name(), len(args), cmd.Name())
	}
	src, err := interruptible(cmd.Context(), func() ([]byte, error) { return scenario.ReadFile(args[0]) })
	if err != nil {
		return planned{}, unread("scenario", err)
	}
	o := f.overrides
	if cmd.Flags().Changed("seed") {
		o.Seed = &f.seed
	}
	if o.Reps < 1 {
		return planned{}, usage("--reps takes a whole number, 1 or more, not %d", o.Reps)
	}
	if o.Drawn, err = drawSeed(); err != nil {
		return planned{}, &exitError{exitEnvironment, err}
	}
	s, problems := scenario.Load(args[0], src, catalog.Scenario(), o)
	if len(problems) > 0 {
		fmt.Fprint(cmd.ErrOrStderr(), scenario.Format(problems))
		return planned{}, &exitError{end(cmd.ErrOrStderr(), exitUsage), nil}
	}
	plans, err := scenario.Plans(s)
	if err != nil {
		return planned{}, usage("%v", err)
	}
	return planned{scenario: s, plans: plans, resolved: scenario.Resolved(s), name: s.Name, about: s.About}, nil
}

// stored reads a plan.json; its inputs come from the invocation that it lies in.
func (f *sourceFlags) stored(cmd *cobra.Command, args []string) (planned, error) {
	if len(args) > 0 {
		return planned{}, usage("--plan repeats a stored plan: it takes no scenario file")
	}
	for _, flag := range []string{"world", "profile", "prices", "arm", "reps", "seed", "set", "allow-path"} {
		if cmd.Flags().Changed(flag) {
			return planned{}, usage("--%s cannot be combined with --plan: a plan leaves nothing open", flag)
		}
	}
	p, err := interruptible(cmd.Context(), func() (plan.Plan, error) { return readPlan(f.planFile) })
	if err != nil {
		return planned{}, unread("plan", err)
	}
	if f.overrides.Store != "" {
		if p.Simulated() {
			return planned{}, usage("--store cannot be combined with a plan of the simulated world, which runs on mem")
		}
		if err := provision.Check(world.NewReal(0), f.overrides.Store); err != nil {
			return planned{}, usage("--store: %v", err)
		}
		p.Store.Kind = f.overrides.Store
	}
	inputsFrom(&p, results.Dir(filepath.Join(filepath.Dir(f.planFile), "..", "..")))
	resolved, err := p.Encode()
	if err != nil {
		return planned{}, err
	}
	return planned{plans: []plan.Plan{p}, resolved: resolved, name: p.Scenario, about: p.About}, nil
}

// namesExist refuses a plan that names what there is not, or gives it options that it does not take: such a run could
// not begin, or would pass for the lack of a check.
func namesExist(p plan.Plan) error {
	var errs []error
	known := catalog.Scenario().Checks
	for _, id := range p.Verify.Checks {
		if !slices.Contains(known, id) {
			errs = append(errs, fmt.Errorf("check %q does not exist; `bench list checks` names them", id))
		}
	}
	w, err := catalog.Workloads().Find(p.Workload.Name)
	if err == nil {
		_, err = w.New.Resolve(p.Workload.Options)
	}
	if err != nil {
		errs = append(errs, fmt.Errorf("workload: %w", err))
	}
	if _, err := catalog.Backends().Find(p.Backend.Name); err != nil {
		errs = append(errs, err)
	}
	for _, f := range p.Faults {
		kind, err := catalog.Faults().Find(f.Kind)
		if err == nil {
			_, err = kind.New(faults.Spec{ID: f.ID, Where: f.Where, With: f.With})
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("fault %s: %w", f.ID, err))
		}
	}
	return errors.Join(errs...)
}

func drawSeed() (uint64, error) {
	var b [8]byte
	if _, err := crand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("draw a seed: %w", err)
	}
	return uint64(binary.LittleEndian.Uint32(b[:])), nil // 32 bits: short enough to type again
}

func newRun(stdout, stderr io.Writer) *cobra.Command {
	var f sourceFlags
	var out string
	var keep bool
	var containers containerFlags
	var profile profileFlags
	cmd := &cobra.Command{
		Use:   "run <scenario.yaml>",
		Short: "Run a scenario: all its arms, judged and plotted",
		Example: "  bench run scenarios/side-by-side.yaml\n" +
			"  bench run scenarios/side-by-side.yaml --world sim --seed 7\n" +
			"  bench run --plan results/side-by-side/<invocation>/runs/changelog-on-1/plan.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := f.load(cmd, args)
			if err != nil {
				return err
			}
			if keep && !keepable(p.plans) {
				return usage("--keep-objects needs a store that outlives the run: add --store dir:PATH or s3://...")
			}
			if err := fits(p.plans, out); err != nil {
				return err
			}
			if err := containers.prepare(cmd.Context(), p.plans, stderr); err != nil {
				return err
			}
			stop, err := profile.start()
			if err != nil {
				return err
			}
			err = execute(cmd.Context(), containers.deps(stderr), order{planned: p, out: out, keep: keep}, stdout, stderr)
			if ended := stop(); err == nil {
				err = ended
			}
			return err
		},
	}
	f.add(cmd)
	containers.add(cmd)
	profile.add(cmd)
	cmd.Flags().StringVar(&f.planFile, "plan", "", "repeat the stored plan `FILE` instead of a scenario file")
	cmd.Flags().StringVar(&out, "out", "results", "the folder `DIR` that results go to")
	cmd.Flags().BoolVar(&keep, "keep-objects", false, "leave the run's objects in the store (needs --store dir:PATH or s3://...)")
	return cmd
}

func keepable(plans []plan.Plan) bool {
	for _, p := range plans {
		if !strings.HasPrefix(p.Store.Kind, provision.KindDir+":") && !strings.HasPrefix(p.Store.Kind, provision.KindS3+":") {
			return false
		}
	}
	return true
}

// order is what the run command was asked to do.
type order struct {
	planned
	out  string
	keep bool
}

// execute runs the plans, writes the reports and prints the end.
func execute(ctx context.Context, d run.Deps, o order, stdout, stderr io.Writer) error {
	_, m, err := perform(ctx, d, o, stdout, stderr)
	if err != nil {
		return err
	}
	return finish(stdout, m.Exit)
}

// perform runs the plans, writes the reports and prints them. There is no error once there are results: the manifest says how
// the runs ended.
func perform(ctx context.Context, d run.Deps, o order, stdout, stderr io.Writer) (results.Dir, results.Manifest, error) {
	live := newLive(stdout, o.planned)
	defer context.AfterFunc(ctx, live.interrupt)()
	dir, m, err := run.Invoke(d, run.Invocation{
		Plans: o.plans, Resolved: o.resolved, Out: o.out, Checks: catalog.Checks(), Clock: time.Now,
		Manifest: manifest(o.planned),
		Options:  run.Options{KeepObjects: o.keep, Interrupted: func() bool { return ctx.Err() != nil }},
		Live:     live,
	})
	live.end()
	var unwritable *run.WriteError
	switch {
	case dir == "":
		return "", m, &exitError{exitEnvironment, fmt.Errorf("%w; choose another place with --out", err)}
	case m.Exit == exitEnvironment:
		return "", m, &exitError{m.Exit, fmt.Errorf("%w\nanother store may do: --store mem, --store embedded, --store dir:PATH", err)}
	case errors.As(err, &unwritable):
		return "", m, &exitError{m.Exit, fmt.Errorf("%w; make room there or choose another place with --out", err)}
	case err != nil:
		fmt.Fprintf(stderr, "bench: %v\n", err)
	}
	text, err := writeReports(dir, nil)
	fmt.Fprint(stdout, text)
	if err != nil {
		fmt.Fprintf(stderr, "bench: report: %v\n", err)
		m = amend(dir, m, err)
	}
	for _, r := range m.Runs {
		if m.Exit == exitBug && r.Error != "" {
			fmt.Fprintf(stderr, "bench: %s: %s\n%s\n", r.Name, r.Error, pleaseReport)
		}
	}
	return dir, m, nil
}

// amend writes into the manifest that the report could not be made, as far as that can be written.
func amend(dir results.Dir, m results.Manifest, err error) results.Manifest {
	if m.Exit == exitPass {
		m.Exit, m.Outcome = exitInconclusive, exitWords[exitInconclusive]
	}
	m.Warnings = append(m.Warnings, "report: "+err.Error())
	_ = results.WriteJSON(dir.Path(results.ManifestFile), m) // the error that is told is the one before
	return m
}

// writeReports renders everything from the files of the invocation and returns the text for the terminal. prices, if not nil, take
// the place of those of its plans.
func writeReports(dir results.Dir, prices *plan.Prices) (string, error) {
	inv, err := report.Load(dir)
	if err != nil {
		return "", err
	}
	if prices != nil {
		inv.Bill(*prices)
	}
	return report.Terminal(inv), report.Write(inv)
}

// deps are all implementations, with the embedded store as a child of this very binary.
func deps() run.Deps {
	return run.Deps{
		Workloads: catalog.Workloads(), Faults: catalog.Faults(), Backends: catalog.Backends(), Storages: catalog.LogStorages(),
		Provision: func(ctx context.Context, w world.World, spec string) (store.Bucket, provision.Description, error) {
			return provision.Open(ctx, w, spec, provision.Options{Embedded: embedded.Options{Args: []string{embeddedCommand}}})
		},
	}
}

// manifest is what is known of an invocation before it begins.
func manifest(p planned) results.Manifest {
	first := p.plans[0]
	m := results.Manifest{
		Scenario: p.name, About: p.about, Command: os.Args, Version: build(), World: first.World,
		Host:  results.Host{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), MemoryBytes: memory()},
		Store: first.Store.Kind, Profile: first.Store.Profile, Seed: first.Seed, Resolved: sha(p.resolved), Repetitions: 1,
		Detection: fmt.Sprintf("connection loss, at once; silence after %v (heartbeat every %v)", first.Workers.HeartbeatTimeout, first.Workers.HeartbeatEvery),
	}
	for _, x := range p.plans {
		if x.Baseline {
			m.Baseline = x.Arm
		}
		m.Repetitions = max(m.Repetitions, x.Rep)
	}
	if p.scenario != nil {
		for _, w := range p.scenario.Warnings {
			m.Warnings = append(m.Warnings, w.Error())
		}
	}
	return m
}

func newEmbedded() *cobra.Command {
	return &cobra.Command{Use: embeddedCommand, Hidden: true, RunE: func(_ *cobra.Command, args []string) error {
		if err := embedded.ServeChild(args...); err != nil {
			return usage("%v", err)
		}
		return nil
	}}
}
