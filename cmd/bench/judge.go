package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"
	"statebench.dev/bench/internal/scenario"
	"statebench.dev/bench/internal/validate"
	"statebench.dev/bench/report"

	"github.com/spf13/cobra"
)

func newPlan(stdout io.Writer) *cobra.Command {
	var f sourceFlags
	var check bool
	cmd := &cobra.Command{
		Use: "plan <scenario.yaml>", Short: "Check a scenario and show what it would do, each setting with its origin",
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := f.load(cmd, args)
			if err != nil {
				return err
			}
			if check {
				if err := readable(p.plans); err != nil {
					return usage("%v", err)
				}
				_, err = fmt.Fprintf(stdout, "%s is a valid scenario: %s\n", args[0], plural(len(p.plans), "run"))
				return err
			}
			_, err = fmt.Fprint(stdout, scenario.Explain(p.scenario, p.plans))
			return err
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&check, "check", false, "only check the file, and what stands in the files that it reads")
	return cmd
}

// readable reads the input files of plans, as a run would, and says what is wrong with what stands in them.
func readable(plans []plan.Plan) error {
	d := deps()
	d.Open = func(in plan.Input) (io.ReadCloser, error) { return results.OpenInput("", in) }
	for i := range plans {
		if p := &plans[i]; len(p.Inputs) > 0 && p.Rep == 1 {
			if _, err := run.OpenWorkload(d, p); err != nil {
				return fmt.Errorf("%s: %w", p.Arm, err)
			}
		}
	}
	return nil
}

func newCheck(stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "check <dir>", Short: "Judge a stored run or invocation again, from its files alone",
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, m, runs, err := open(cmd, args)
			if err != nil {
				return err
			}
			warnOtherCommit(cmd.ErrOrStderr(), m, judgedAllTheSame)
			code, err := judge(stdout, dir, m, runs)
			if err != nil {
				return err
			}
			return finish(stdout, code)
		},
	}
}

// judge judges the given runs of an invocation, all or one of them, prints what it found and returns the exit code.
func judge(stdout io.Writer, dir results.Dir, m results.Manifest, runs []string) (int, error) {
	fails, unsure, misses := false, false, 0
	for _, name := range runs {
		verdicts, err := run.Judge(deps(), dir, name, catalog.Checks())
		if err != nil {
			return 0, &exitError{exitDamaged, err}
		}
		fmt.Fprint(stdout, report.Verdicts(name, verdicts))
		expected, err := run.Expectations(dir, name)
		if err != nil {
			return 0, &exitError{exitDamaged, err}
		}
		fmt.Fprint(stdout, report.Expectations(name, expected))
		misses += run.Misses(expected)
		overall := validate.Overall(verdicts)
		fails = fails || overall == results.Fail
		unsure = unsure || overall != results.Pass
	}
	for _, r := range m.Runs {
		if r.Status == "not-run" {
			fmt.Fprintf(stdout, "inconclusive  %s was not run\n", r.Name)
			unsure = true
		}
	}
	switch {
	case fails:
		return exitViolation, nil
	case unsure:
		return exitInconclusive, nil
	case misses > 0:
		return exitMissed, nil
	}
	return exitPass, nil
}

// open finds what the argument names. For one run the manifest is cut down to it.
func open(cmd *cobra.Command, args []string) (results.Dir, results.Manifest, []string, error) {
	if len(args) != 1 {
		return "", results.Manifest{}, nil, usage("`bench %s` takes one results directory, an invocation or one of its runs; got %d", cmd.Name(), len(args))
	}
	dir, m, runs, err := results.Open(args[0])
	if err == nil && filepath.Clean(args[0]) != string(dir) {
		m.Runs = slices.DeleteFunc(m.Runs, func(r results.RunEntry) bool { return !slices.Contains(runs, r.Name) })
	}
	return dir, m, runs, err
}

// warnOtherCommit says so when the results were made by another program than this, and what that means.
func warnOtherCommit(w io.Writer, m results.Manifest, means string) {
	if b := build(); m.Version != b {
		fmt.Fprintln(w, "warning  these results were made by another commit or build than the one at work"+means)
	}
}

const judgedAllTheSame = "; judged all the same"

func newReport(stdout io.Writer) *cobra.Command {
	var prices string
	cmd := &cobra.Command{
		Use: "report <dir>", Short: "Make the reports of a stored invocation again, from its files",
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, m, _, err := open(cmd, args)
			if err != nil {
				return err
			}
			warnOtherCommit(cmd.ErrOrStderr(), m, judgedAllTheSame)
			var other *plan.Prices
			if prices != "" {
				p, err := scenario.LoadPrices(prices)
				if err != nil {
					return usage("--prices: %v", err)
				}
				other = &p
			}
			text, err := writeReports(dir, other)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(stdout, text)
			return err
		},
	}
	cmd.Flags().StringVar(&prices, "prices", "", "what requests and bytes are billed at: the `FILE`, instead of what the runs were made with")
	return cmd
}

func listKinds() []string {
	return []string{"workloads", "faults", "backends", "stores", "metrics", "checks", "charts", "events"}
}

func newList(stdout io.Writer) *cobra.Command {
	kinds := listKinds()
	return &cobra.Command{
		Use: "list [" + strings.Join(kinds, "|") + "]", Short: "List what scenarios can name", ValidArgs: kinds,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = kinds
			}
			for _, kind := range args {
				if !slices.Contains(kinds, kind) {
					return usage("%v", unknownName("list", kind, kinds))
				}
			}
			for i, kind := range args {
				if i > 0 {
					fmt.Fprintln(stdout)
				}
				fmt.Fprintf(stdout, "%s\n", kind)
				for _, l := range listing(kind) {
					fmt.Fprintf(stdout, "  %s\n", strings.TrimRight(fmt.Sprintf("%-22s %s", l[0], l[1]), " "))
				}
			}
			return nil
		},
	}
}

// unitText is the unit of a metric in front of what it is.
func unitText(m metrics.Metric) string {
	if m.Unit == metrics.Count {
		return ""
	}
	return "[" + string(m.Unit) + "] "
}

func listing(kind string) (lines [][2]string) {
	switch kind {
	case "workloads":
		for _, e := range catalog.Workloads().Entries() {
			lines = append(lines, [2]string{e.Name, e.About})
		}
	case "faults":
		for _, e := range catalog.Faults().Entries() {
			lines = append(lines, [2]string{e.Name, e.About})
		}
	case "backends":
		for _, e := range catalog.Backends().Entries() {
			lines = append(lines, [2]string{e.Name, e.About})
		}
	case "stores":
		for _, e := range catalog.Stores().Entries() {
			lines = append(lines, [2]string{e.New, e.About})
		}
	case "metrics":
		for _, m := range metrics.All() {
			lines = append(lines, [2]string{m.Name, unitText(m) + m.About})
		}
	case "checks":
		for _, c := range catalog.Checks() {
			lines = append(lines, [2]string{c.ID, c.Name})
		}
	case "charts":
		for _, c := range catalog.Charts() {
			lines = append(lines, [2]string{c, ""})
		}
	case "events":
		for _, k := range catalog.Events() {
			lines = append(lines, [2]string{string(k), ""})
		}
	}
	return lines
}
