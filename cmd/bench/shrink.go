package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/explore"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"

	"github.com/spf13/cobra"
)

// shrinking is what the shrink command was asked to do.
type shrinking struct {
	time  time.Duration
	seed  int
	check string
	out   string

	stdout, stderr io.Writer
}

// noSeed is the number of no plan.
const noSeed = -1

func newShrink(stdout, stderr io.Writer) *cobra.Command {
	s := shrinking{stdout: stdout, stderr: stderr}
	cmd := &cobra.Command{
		Use:   "shrink <dir>",
		Short: "Look for the smallest plan that fails as a stored run does",
		Long: "shrink takes the plan of a stored run that failed, or that of a seed of `bench fuzz`, and looks for a smaller one by which the\n" +
			"same check fails: fewer faults (delta debugging), fewer rescales, a lower rate, fewer records, keys and partitions, less\n" +
			"parallelism, fewer workers, shorter and earlier faults, again and again until nothing helps or the time is over. All runs\n" +
			"are simulated; the plan of a run of the real world is tried in the simulated one first. The result is a stored plan,\n" +
			"which `bench run --plan FILE` runs.\n\n" +
			"Exit codes: 0 a plan was written, 2 the run does not fail in the simulated world.",
		Example: "  bench shrink results/chaos-5017/<invocation>\n" +
			"  bench shrink --seed 5017\n" +
			"  bench shrink --seed 5017 --check F5 --time 10m --out /tmp/regressions",
		RunE: func(cmd *cobra.Command, args []string) error { return s.run(cmd, args) },
	}
	fs := cmd.Flags()
	fs.DurationVar(&s.time, "time", 2*time.Minute, "begin no other run after `D`")
	fs.IntVar(&s.seed, "seed", noSeed, "the seed `N` of `bench fuzz`, instead of a stored run")
	fs.StringVar(&s.check, "check", "", "the check `ID` that has to fail; default: the first one that does")
	fs.StringVar(&s.out, "out", filepath.Join("scenarios", "regressions"), "the folder `DIR` that the plan goes to")
	return cmd
}

func (s *shrinking) run(cmd *cobra.Command, args []string) error {
	switch {
	case s.time <= 0:
		return usage("--time must be more than 0, is %v", s.time)
	case s.check != "" && !slices.Contains(catalog.Scenario().Checks, s.check):
		return usage("--check: %v", unknownName("check", s.check, catalog.Scenario().Checks))
	}
	p, err := s.plan(cmd, args)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "bench-shrink-")
	if err != nil {
		return &exitError{exitEnvironment, err}
	}
	defer os.RemoveAll(temp)
	runner, began := newRunner(cmd.Context(), temp), time.Now()
	if p, err = runner.Resolve(p); err != nil {
		return &exitError{exitDamaged, err}
	}
	fmt.Fprintf(s.stdout, "%8s  %s\n", "", sizeOf(&p))
	shrunk, err := runner.Shrink(p, explore.ShrinkOptions{
		Check: s.check, Over: func() bool { return time.Since(began) >= s.time },
		Step: func(what string, p *plan.Plan) {
			fmt.Fprintf(s.stdout, "%6.1f s  %s  (%s)\n", time.Since(began).Seconds(), sizeOf(p), what)
		},
	})
	switch {
	case errors.Is(err, explore.ErrPasses) && cmd.Context().Err() != nil:
		return &exitError{exitInterrupted, errors.New("interrupted")}
	case errors.Is(err, explore.ErrPasses):
		return &exitError{exitInconclusive, fmt.Errorf("in the simulated world %w", err)}
	case err != nil:
		return &exitError{exitEnvironment, err}
	}
	return s.write(&shrunk, time.Since(began))
}

// plan is the one to make smaller.
func (s *shrinking) plan(cmd *cobra.Command, args []string) (p plan.Plan, err error) {
	if s.seed != noSeed {
		if len(args) > 0 || s.seed < 0 {
			return p, usage("`bench shrink` takes one results directory or a --seed of 0 or more")
		}
		return explore.Chaos(s.seed), nil
	}
	dir, m, runs, err := open(cmd, args)
	if err != nil {
		return p, err
	}
	i := slices.IndexFunc(m.Runs, func(r results.RunEntry) bool { return r.Verdict == results.Fail && slices.Contains(runs, r.Name) })
	if i < 0 {
		return p, usage("no run of %s failed: there is nothing to shrink", args[0])
	}
	stored, err := storedPlans(dir, m, []string{m.Runs[i].Name})
	if err != nil {
		return p, err
	}
	p = stored.plans[0]
	if !p.Simulated() {
		fmt.Fprintln(s.stderr, "note  the run was of the real world; its plan is tried in the simulated one")
		p.World, p.Store = "sim", plan.Store{Kind: "mem", Profile: "local"}
	}
	return p, nil
}

// sizeOf is what there is to lose.
func sizeOf(p *plan.Plan) string {
	return fmt.Sprintf("%s, %s, %s, parallelism %d", plural(len(p.Faults), "fault"), plural(len(p.Rescales), "rescale"), plural(int(p.TotalRecords()), "record"), p.Job.Parallelism)
}

// write leaves the plan under the name of the check that fails.
func (s *shrinking) write(x *explore.Shrunk, took time.Duration) error {
	text, err := x.Plan.Encode()
	if err != nil {
		return err
	}
	path := filepath.Join(s.out, fmt.Sprintf("%s-%s.plan.json", x.Check, x.Plan.Scenario))
	if err = os.MkdirAll(s.out, 0o755); err == nil {
		err = results.WriteFile(path, text)
	}
	if err != nil {
		return &exitError{exitEnvironment, fmt.Errorf("%w; choose another place with --out", err)}
	}
	fmt.Fprintf(s.stdout, "\n%s\n\n", x.Problem)
	if !x.Whole {
		fmt.Fprintln(s.stdout, "note      the time was over: it may get smaller still with a longer --time")
	}
	fmt.Fprintf(s.stdout, "plan      %s: %s; %d runs in %.0f s\ndigest    %.16s, the same twice\nrepeat    bench run --plan %s\n",
		filepath.ToSlash(path), sizeOf(&x.Plan), x.Runs, took.Seconds(), x.Digest, filepath.ToSlash(path))
	return finish(s.stdout, exitPass)
}
