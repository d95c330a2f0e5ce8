package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/explore"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/run"

	"github.com/spf13/cobra"
)

// fuzzing is what the fuzz command was asked to do.
type fuzzing struct {
	time    time.Duration
	seeds   int
	from    int
	jobs    int
	out     string
	table   bool
	profile profileFlags

	stdout, stderr io.Writer
}

// mostJobs bounds the runs at a time.
const mostJobs = 256

func newFuzz(stdout, stderr io.Writer) *cobra.Command {
	f := fuzzing{stdout: stdout, stderr: stderr}
	cmd := &cobra.Command{
		Use:   "fuzz",
		Short: "Run random plans with faults and rescales in the simulated world, and keep what fails",
		Long: fmt.Sprintf("fuzz draws whole runs from numbers: workload, backend, changelog, parallelism, at least %d faults and a rescale, at most %d\n"+
			"records a second, at least %v of virtual time. It runs them in the simulated world, as many at a time as there are\n"+
			"cores, judges each by all checks, and runs one in twenty twice. What fails is told apart by its first failing check and\n"+
			"the evidence; of each cause the first results are kept, with a command that repeats them exactly. The same number and\n"+
			"commit give the same run.\n\n"+
			"Where one fault hides another a run says nothing (it is inconclusive): a similar one is run in its place.\n\n"+
			"Exit codes: 0 all passed, 1 a check failed, 70 a run ended by a bug of the harness, 2 a run was inconclusive or none was\n"+
			"made, 130 interrupted and nothing found.", explore.ChaosFaults, explore.ChaosRate, time.Minute),
		Example: "  bench fuzz --time 60s\n" +
			"  bench fuzz --from 5000 --seeds 1000 --time 1h\n" +
			"  bench fuzz --from 5017 --seeds 1",
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fs := cmd.Flags()
	fs.DurationVar(&f.time, "time", time.Minute, "begin no other run after `D`")
	fs.IntVar(&f.seeds, "seeds", 0, "run `N` plans at most; 0: as many as the time allows")
	fs.IntVar(&f.from, "from", 0, "the `N`umber of the first plan")
	fs.IntVar(&f.jobs, "jobs", runtime.NumCPU(), "`N` runs at a time")
	fs.StringVar(&f.out, "out", "results", "the folder `DIR` that results of failing runs go to")
	fs.BoolVar(&f.table, "table", false, "print how often each fault was proven at each checkpoint stage")
	f.profile.add(cmd)
	return cmd
}

func (f *fuzzing) check(args []string) error {
	switch {
	case len(args) > 0:
		return usage("`bench fuzz` takes no arguments, only flags; got %q", args[0])
	case f.time <= 0:
		return usage("--time must be more than 0, is %v", f.time)
	case f.seeds < 0:
		return usage("--seeds must not be negative, is %d", f.seeds)
	case f.from < 0:
		return usage("--from must not be negative, is %d", f.from)
	case f.jobs < 1 || f.jobs > mostJobs:
		return usage("--jobs must be 1 to %d, is %d", mostJobs, f.jobs)
	}
	return nil
}

func (f *fuzzing) run(cmd *cobra.Command, args []string) error {
	if err := f.check(args); err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "bench-fuzz-")
	if err != nil {
		return &exitError{exitEnvironment, err}
	}
	defer os.RemoveAll(temp)
	stop, err := f.profile.start()
	if err != nil {
		return err
	}
	ctx, began := cmd.Context(), time.Now()
	told := began
	runner := newRunner(ctx, temp)
	found, err := runner.Fuzz(explore.FuzzOptions{
		From: f.from, Seeds: f.seeds, Jobs: f.jobs,
		Over: func() bool { return time.Since(began) >= f.time },
		Keep: func(x *explore.Result) (string, error) { return keepRun(f.out, x) },
		Found: func(x *explore.Result, c *explore.Failure) {
			if len(c.Plans) == 1 {
				fmt.Fprintf(f.stdout, "%s  seed %d  %s\n", c.Class, c.Plans[0], c.Cause)
			}
		},
		Done: func(x *explore.Found, _ *explore.Result) {
			if time.Since(told) >= 10*time.Second {
				told = time.Now()
				fmt.Fprintf(f.stdout, "%4.0f s  %s\n", time.Since(began).Seconds(), soFar(x))
			}
		},
	})
	took := time.Since(began)
	if err := errors.Join(err, stop()); err != nil {
		return &exitError{exitEnvironment, err}
	}
	return f.conclude(ctx, found, took)
}

// newRunner carries plans out with everything that there is. A simulated run keeps little and throws away much.
func newRunner(ctx context.Context, temp string) *explore.Runner {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	return &explore.Runner{Deps: deps(), Checks: catalog.Checks(), Temp: temp, Interrupted: func() bool { return ctx.Err() != nil }}
}

// soFar is what is known while the search goes on.
func soFar(x *explore.Found) string {
	return fmt.Sprintf("%s, %s", plural(x.Plans, "seed"), plural(len(x.Failures), "cause")+" of failure")
}

// keepRun runs the plan of a result again, which gives the same run, into an invocation that every command on results takes.
func keepRun(out string, x *explore.Result) (string, error) {
	p := x.Plan
	encoded, err := p.Encode()
	if err != nil {
		return "", err
	}
	o := planned{plans: []plan.Plan{p}, resolved: encoded, name: p.Scenario, about: p.About}
	dir, _, err := run.Invoke(deps(), run.Invocation{Plans: o.plans, Resolved: o.resolved, Out: out, Checks: catalog.Checks(), Clock: time.Now, Manifest: manifest(o)})
	return string(dir), err
}

// conclude prints what came of it.
func (f *fuzzing) conclude(ctx context.Context, x *explore.Found, took time.Duration) error {
	minutes := took.Minutes()
	fmt.Fprintf(f.stdout, "\n%s in %.0f s: %.0f a minute, %.0f s of virtual time, %.0f times real time\n",
		plural(x.Plans, "seed"), took.Seconds(), float64(x.Plans)/minutes, x.Virtual.Seconds(), x.Virtual.Seconds()/took.Seconds())
	fmt.Fprintf(f.stdout, "passed    %d; %d say nothing, since one fault hid another, %d of them drawn again; %d run twice, with equal digests\n",
		x.Passed, x.Hidden, x.Redrawn, x.Twice)
	often, pairs := x.Coverage.Pairs()
	passed, points := x.Coverage.Points()
	fmt.Fprintf(f.stdout, "coverage  %d of %d pairs of fault and checkpoint stage %d times or more; %d of %d failpoints; %s, %s\n",
		often, pairs, explore.Often, passed, points, plural(x.Coverage.Rescales, "rescale"), plural(x.Coverage.Checkpoints, "completed checkpoint"))
	f.holes(&x.Coverage)
	for _, c := range x.Failures {
		fmt.Fprintf(f.stdout, "\n%s  %s  %s\n", c.Class, plural(len(c.Plans), "seed"), numbersText(c.Plans))
		fmt.Fprintf(f.stdout, "  %s\n", strings.ReplaceAll(c.Problem, "\n", "\n  "))
		for _, dir := range c.Kept {
			fmt.Fprintf(f.stdout, "  repeat    bench replay %s\n", filepath.ToSlash(dir))
		}
	}
	return finish(f.stdout, fuzzCode(ctx, x))
}

// holes prints what was not covered.
func (f *fuzzing) holes(c *explore.Coverage) {
	if f.table {
		fmt.Fprintf(f.stdout, "\n%s", c.Table())
	}
	const most = 10
	holes := c.Holes()
	for i, h := range holes[:min(most, len(holes))] {
		head := "holes"
		if i > 0 {
			head = ""
		}
		fmt.Fprintf(f.stdout, "%-9s %s\n", head, h)
	}
	if more := len(holes) - most; more > 0 {
		fmt.Fprintf(f.stdout, "%-9s and %d more; --table shows all pairs\n", "", more)
	}
}

// numbersText lists the first few.
func numbersText(all []int) string {
	const most = 12
	text := strings.Trim(fmt.Sprint(all[:min(most, len(all))]), "[]")
	if len(all) > most {
		text += fmt.Sprintf(" and %d more", len(all)-most)
	}
	return text
}

// fuzzCode is the exit code: what is worse comes first.
func fuzzCode(ctx context.Context, x *explore.Found) int {
	switch x.Worst() {
	case explore.Violation:
		return exitViolation
	case explore.Bug:
		return exitBug
	}
	switch {
	case ctx.Err() != nil:
		return exitInterrupted
	case x.Worst() != "" || x.Passed == 0:
		return exitInconclusive
	}
	return exitPass
}
