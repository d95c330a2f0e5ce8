package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"statebench.dev/bench/backend/store/provision"
	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/compare"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// comparing is what the compare command was asked to do.
type comparing struct {
	source     sourceFlags
	containers containerFlags
	options    compare.Options
	pairs      int
	extend     int // 0: never
	order      string
	out        string
	save       string
	asWritten  bool
	coolDown   time.Duration

	stdout, stderr io.Writer
}

// Bounds of the flags, and how many pairs with a run that does not count are repeated.
const (
	mostPairs = 200
	repeats   = 3
)

func newCompare(stdout, stderr io.Writer) *cobra.Command {
	c := comparing{stdout: stdout, stderr: stderr}
	cmd := &cobra.Command{
		Use:   "compare <scenario.yaml> | <results> [<results>]",
		Short: "Compare the arms of a scenario, or stored runs, with a verdict on each metric",
		Long: "compare runs the arms of a scenario in pairs, back to back, with the same seed and in balanced order, and tells of each metric\n" +
			"whether the second arm is a regression, an improvement, equivalent, or whether that cannot be told, with an exact interval and\n" +
			"the effect that could have been found. Given one results directory it compares the arms in it, given two it compares what they\n" +
			"have in common, and says first in what they differ. A result is a directory of an invocation or of one run.\n\n" +
			"Exit codes: 0 no regression, 1 a correctness violation, 2 inconclusive, 4 a regression of a primary metric.",
		Example: "  bench compare scenarios/side-by-side.yaml --pairs 8\n" +
			"  bench compare results/side-by-side/<invocation>\n" +
			"  bench compare results/side-by-side/<before> results/side-by-side/<after> --metric steady/recoveryPointAge.p99w",
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args) },
	}
	c.source.add(cmd)
	c.containers.add(cmd)
	f := cmd.Flags()
	f.IntVar(&c.pairs, "pairs", 10, "run each arm `N` times, in pairs")
	f.IntVar(&c.extend, "extend-to", 0, "go on to `N` pairs when the first do not settle all primary metrics, and decide on all of them with 99 % intervals")
	f.StringVar(&c.order, "order", compare.RandomPairs, "which arm of a pair runs first: `random-pairs|alternate`, both balanced")
	f.StringVar(&c.out, "out", "results", "the folder `DIR` that results go to")
	f.StringVar(&c.save, "save", "", "leave summary, JSON lines and plot of stored runs in the folder `DIR`")
	f.BoolVar(&c.asWritten, "as-written", false, "leave phases as short as the scenario has them")
	f.DurationVar(&c.coolDown, "cool-down", 5*time.Second, "wait `D` before each run in the real world")
	f.StringArrayVar(&c.options.Primary, "metric", nil, "a primary `METRIC`, phase/metric, with * as in file names; may be repeated")
	f.StringArrayVar(&c.options.Advisory, "show", nil, "a `METRIC` to show beside, likewise; may be repeated")
	f.Float64Var(&c.options.Floor, "floor", compare.NoisyFloor, "the `SHARE` below which a difference of a noisy metric does not matter")
	f.Float64Var(&c.options.Level, "level", compare.DefaultLevel, "what the intervals cover, a `SHARE`")
	_ = f.MarkHidden("reps") // pairs say it
	return cmd
}

// run does what the arguments ask for.
func (c *comparing) run(cmd *cobra.Command, args []string) error {
	if err := c.check(cmd, args); err != nil {
		return err
	}
	if info, err := os.Stat(args[0]); len(args) == 2 || err == nil && info.IsDir() {
		return c.stored(cmd, args)
	}
	if c.save != "" {
		return usage("--save is for stored runs; those that run now leave everything in their results directory")
	}
	return c.fresh(cmd, args)
}

// check looks at the flags.
func (c *comparing) check(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) < 1 || len(args) > 2:
		return usage("`bench compare` takes one scenario file, or one or two results directories, got %d; for example: bench compare scenarios/side-by-side.yaml --pairs 8", len(args))
	case cmd.Flags().Changed("reps"):
		return usage("--reps: `bench compare` counts in pairs, use --pairs")
	case c.pairs < 1 || c.pairs > mostPairs:
		return usage("--pairs must be 1 to %d, is %d", mostPairs, c.pairs)
	case c.extend != 0 && (c.extend <= c.pairs || c.extend > mostPairs):
		return usage("--extend-to must be more than --pairs, %d, and at most %d, is %d", c.pairs, mostPairs, c.extend)
	case !slices.Contains(compare.Orders(), c.order):
		return usage("--order: %v", unknownName("order", c.order, compare.Orders()))
	case !(c.options.Floor > 0 && c.options.Floor < 1):
		return usage("--floor must be between 0 and 1, such as 0.05, is %v", c.options.Floor)
	case !(c.options.Level >= 0.5 && c.options.Level <= 0.999):
		return usage("--level must be 0.5 to 0.999, is %v", c.options.Level)
	case c.coolDown < 0:
		return usage("--cool-down must not be negative, is %v", c.coolDown)
	}
	return nil
}

// stored compares what lies in results directories.
func (c *comparing) stored(cmd *cobra.Command, args []string) error {
	var other error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"metric", "show", "floor", "level", "save"}, f.Name) {
			other = usage("--%s is for a scenario that is run now; these runs are stored", f.Name)
		}
	})
	if other != nil {
		return other
	}
	var sides [2][]*compare.Run
	for i, path := range args {
		runs, err := compare.Load(path)
		if err != nil {
			return err
		}
		sides[i] = runs
	}
	list, err := c.compare(sides[0], sides[1])
	if err != nil {
		return err
	}
	if c.save != "" {
		if err := os.MkdirAll(c.save, 0o755); err != nil {
			return fmt.Errorf("--save: %w", err)
		}
		if err := c.write(list, c.save, c.save); err != nil {
			return err
		}
	}
	return c.conclude(list, exitPass)
}

// compare judges the runs.
func (c *comparing) compare(a, b []*compare.Run) ([]*compare.Comparison, error) {
	sides, err := compare.Sides(a, b)
	if err != nil {
		return nil, usage("%v", err)
	}
	list, err := compare.Compare(sides, c.options)
	if err != nil && !errors.Is(err, results.ErrDamaged) {
		return nil, usage("%v", err)
	}
	return list, err
}

// write leaves the files of a comparison: plots go to their own folder.
func (c *comparing) write(list []*compare.Comparison, dir, plots string) error {
	var markdown strings.Builder
	var errs []error
	for i, x := range list {
		markdown.WriteString(x.Markdown() + "\n")
		svg, png, err := x.Forest().Draw()
		if err != nil {
			return err
		}
		name := compare.ForestName
		if len(list) > 1 {
			name = fmt.Sprintf("%s-%d", name, i+1)
		}
		rel, err := filepath.Rel(dir, filepath.Join(plots, name+".svg"))
		if err != nil {
			return err
		}
		fmt.Fprintf(&markdown, "![forest](%s)\n\n", filepath.ToSlash(rel))
		errs = append(errs, os.MkdirAll(plots, 0o755), results.WriteFile(filepath.Join(plots, name+".svg"), svg), results.WriteFile(filepath.Join(plots, name+".png"), png))
	}
	lines, err := compare.Lines(list)
	return errors.Join(append(errs, err, results.WriteFile(filepath.Join(dir, compare.LinesFile), lines),
		results.WriteFile(filepath.Join(dir, compare.MarkdownFile), []byte(markdown.String())))...)
}

// conclude prints the comparisons and the end; at least is the exit code of what went before.
func (c *comparing) conclude(list []*compare.Comparison, atLeast int) error {
	code := atLeast
	for i, x := range list {
		if i > 0 {
			fmt.Fprintln(c.stdout)
		}
		fmt.Fprint(c.stdout, x.Text())
		code = worse(code, x.Exit())
	}
	return finish(c.stdout, code)
}

// worse is the exit code that says more: a program or environment that failed, then a violation, a regression, an
// inconclusive answer.
func worse(a, b int) int {
	order := []int{exitPass, exitMissed, exitInconclusive, exitRegression, exitViolation, exitInterrupted, exitEnvironment, exitBug}
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}

// fresh runs the arms of a scenario.
func (c *comparing) fresh(cmd *cobra.Command, args []string) error {
	c.source.overrides.Reps = max(c.pairs, c.extend) + repeats
	p, err := c.source.load(cmd, args)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(p.plans, func(x plan.Plan) bool { return x.Baseline }); i < 0 || !slices.ContainsFunc(p.plans, func(x plan.Plan) bool { return !x.Baseline }) {
		return usage("a comparison takes the baseline and another arm")
	}
	if !c.asWritten {
		var changes []string
		p.plans, changes = compare.Lengthen(p.plans)
		for _, text := range changes {
			fmt.Fprintf(c.stdout, "note  %s, which a comparison takes; --as-written leaves it\n", text)
		}
	}
	if err := fits(p.plans, c.out); err != nil { // as long as they will be: more records can mean more keys
		return err
	}
	if err := c.containers.prepare(cmd.Context(), p.plans, c.stderr); err != nil {
		return err
	}
	s := stages{c: c, ctx: cmd.Context(), all: p, deps: c.containers.deps(c.stderr)}
	if err := s.run(1, c.pairs); err != nil {
		return err
	}
	list, err := s.repeat(c.pairs)
	if err != nil {
		return err
	}
	if c.extend > 0 && s.exit == exitPass && slices.ContainsFunc(list, func(x *compare.Comparison) bool { return !x.Settled() }) {
		fmt.Fprintf(c.stdout, "note  the first %d pairs do not settle it: %d more\n", c.pairs, c.extend-c.pairs)
		c.options.Level = compare.GateLevel
		if err := s.run(c.pairs+1, c.extend); err != nil {
			return err
		}
		if list, err = s.compare(); err != nil {
			return err
		}
	}
	if err := c.write(list, string(s.dirs[0]), s.dirs[0].Path(results.PlotsDir)); err != nil {
		return &exitError{exitEnvironment, err}
	}
	fmt.Fprintln(c.stdout)
	return c.conclude(list, s.exit)
}

// stages are invocations that belong to one comparison.
type stages struct {
	c    *comparing
	ctx  context.Context
	deps run.Deps
	all  planned // of more repetitions than are run
	dirs []results.Dir
	exit int // of the runs, where that stops the comparison
}

// run carries out the repetitions from first to last as one invocation.
func (s *stages) run(first, last int) error {
	p := s.all
	p.plans = nil
	for _, x := range s.all.plans {
		if x.Rep >= first && x.Rep <= last {
			p.plans = append(p.plans, x)
		}
	}
	p.plans = compare.Order(p.plans, s.c.order, p.plans[0].Seed)
	live := newLive(s.c.stdout, p)
	defer context.AfterFunc(s.ctx, live.interrupt)()
	m := manifest(p)
	m.Warnings = append(m.Warnings, fmt.Sprintf("made by `bench compare`, order of the arms: %s", s.c.order))
	dir, m, err := run.Invoke(s.deps, run.Invocation{
		Plans: p.plans, Resolved: p.resolved, Out: s.c.out, Checks: catalog.Checks(), Clock: time.Now, Manifest: m,
		Options: run.Options{Interrupted: func() bool { return s.ctx.Err() != nil }},
		Live:    &watching{live: live, ctx: s.ctx, coolDown: s.c.coolDown},
	})
	live.end()
	switch {
	case dir == "":
		return &exitError{exitEnvironment, fmt.Errorf("%w; choose another place with --out", err)}
	case err != nil:
		return &exitError{m.Exit, err}
	}
	s.dirs = append(s.dirs, dir)
	if m.Exit == exitInterrupted || m.Exit == exitEnvironment || m.Exit == exitBug {
		s.exit = m.Exit
	}
	if _, err := writeReports(dir, nil); err != nil {
		fmt.Fprintf(s.c.stderr, "bench: report: %v\n", err)
	}
	return nil
}

// compare judges all runs so far.
func (s *stages) compare() ([]*compare.Comparison, error) {
	var all []*compare.Run
	for _, dir := range s.dirs {
		runs, err := compare.Load(string(dir))
		if err != nil {
			return nil, err
		}
		all = append(all, runs...)
	}
	return s.c.compare(all, nil)
}

// repeat compares, runs new pairs in place of those with a run that does not count, and compares again. A violation of
// correctness is an answer: nothing is repeated.
func (s *stages) repeat(pairs int) ([]*compare.Comparison, error) {
	list, err := s.compare()
	if err != nil || s.exit != exitPass {
		return list, err
	}
	missing := 0
	for _, x := range list {
		missing = max(missing, pairs-len(x.Pairs))
		if x.Exit() == exitViolation {
			return list, nil
		}
	}
	if missing = min(missing, repeats); missing == 0 {
		return list, nil
	}
	fmt.Fprintf(s.c.stdout, "note  %s with a run that does not count: repeated with other seeds\n", plural(missing, "pair"))
	first := max(s.c.pairs, s.c.extend) + 1
	if err := s.run(first, first+missing-1); err != nil {
		return list, err
	}
	return s.compare()
}

// watching looks at the host around each run in the real world.
type watching struct {
	*live
	ctx      context.Context
	coolDown time.Duration
	dir      results.Dir
	host     *compare.Host
}

// Begin remembers where results go.
func (w *watching) Begin(dir results.Dir) {
	w.dir = dir
	w.live.Begin(dir)
}

// Event keeps count and prints nothing: of that many runs nobody follows each phase.
func (w *watching) Event(e *history.Event) { w.tell(e) }

// RunBegin lets the host come to rest and begins to watch it.
func (w *watching) RunBegin(p *plan.Plan) {
	w.live.RunBegin(p)
	if p.Simulated() {
		return
	}
	t := time.NewTimer(w.coolDown)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.ctx.Done():
	}
	w.host = compare.Watch()
}

// RunEnd writes what the host was like.
func (w *watching) RunEnd(p *plan.Plan, o run.Outcome, verdicts []results.Verdict) {
	if w.host != nil {
		dir := w.dir.Run(run.Name(p))
		// What cannot be written is absent, and nothing is concluded from it; the run itself tells when the disk is full.
		_ = results.WriteJSON(dir.Path(compare.CanaryFile), w.host.End(apart(p, dir), string(w.dir)))
		w.host = nil
	}
	w.live.RunEnd(p, o, verdicts)
}

// apart is the processor time of a store that runs as no child of this program, in seconds.
func apart(p *plan.Plan, dir results.RunDir) float64 {
	if p.Store.Kind != provision.KindMinIO {
		return 0
	}
	rows, err := results.ReadCSV[results.SeriesRow](dir.Path(results.SeriesFile))
	if err != nil || len(rows) == 0 {
		return 0
	}
	return rows[len(rows)-1].StoreCPU.Value
}
