package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"

	"github.com/spf13/cobra"
)

func newReplay(stdout, stderr io.Writer) *cobra.Command {
	var out string
	var containers containerFlags
	cmd := &cobra.Command{
		Use:   "replay <dir>",
		Short: "Run the stored plans of an invocation, or of one run, again and compare",
		Long: "replay runs the plans that an invocation or one of its runs has stored, into a new invocation, and compares each run with\n" +
			"the stored one. In the simulated world the same plan and commit give the same events: a run whose digest differs is\n" +
			"shown with the first event in which it does, and the exit code is 1. In the real world nothing repeats exactly: both\n" +
			"verdicts are printed. Where nothing differs the exit code is that of the new runs.",
		Example: "  bench replay results/side-by-side/<invocation>\n" +
			"  bench replay results/side-by-side/<invocation>/runs/changelog-on-1",
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, m, runs, err := open(cmd, args)
			if err != nil {
				return err
			}
			p, err := storedPlans(dir, m, runs)
			if err != nil {
				return err
			}
			if err := fits(p.plans, out); err != nil {
				return err
			}
			if err := containers.prepare(cmd.Context(), p.plans, stderr); err != nil {
				return err
			}
			warnOtherCommit(stderr, m, ": a run may differ for that alone")
			again, repeated, err := perform(cmd.Context(), containers.deps(stderr), order{planned: p, out: out}, stdout, stderr)
			if err != nil {
				return err
			}
			code := repeated.Exit
			if !compareRuns(stdout, dir, m, again, repeated) {
				code = exitViolation
			}
			return finish(stdout, code)
		},
	}
	containers.add(cmd)
	cmd.Flags().StringVar(&out, "out", "results", "the folder `DIR` that the new results go to")
	return cmd
}

// storedPlans reads the plans of runs. Inputs come from the invocation that they lie in.
func storedPlans(dir results.Dir, m results.Manifest, runs []string) (planned, error) {
	p := planned{name: m.Scenario, about: m.About}
	var all []byte
	for _, name := range runs {
		path := dir.Run(name).Path(results.PlanFile)
		x, err := readPlan(path)
		if err != nil {
			return planned{}, &exitError{exitDamaged, err}
		}
		inputsFrom(&x, dir)
		encoded, err := x.Encode()
		if err != nil {
			return planned{}, err
		}
		p.plans, all = append(p.plans, x), append(all, encoded...)
	}
	if len(p.plans) == 0 {
		return planned{}, &exitError{exitDamaged, fmt.Errorf("%s holds no plan: none of its runs began", dir)}
	}
	p.resolved = all
	// The whole invocation has its scenario; of a single run there is the plan.
	if len(runs) == len(m.Runs) && len(runs) > 1 {
		if src, err := os.ReadFile(dir.Path(results.ResolvedFile)); err == nil {
			p.resolved = src
		}
	}
	return p, nil
}

// readPlan reads a stored plan and makes sure that what it names exists.
func readPlan(path string) (plan.Plan, error) {
	in, err := os.Open(path)
	if err != nil {
		return plan.Plan{}, err
	}
	defer in.Close()
	p, err := plan.Read(in)
	if err == nil {
		err = namesExist(p)
	}
	if err != nil {
		return plan.Plan{}, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// inputsFrom points the inputs of a stored plan at the copies of an invocation.
func inputsFrom(p *plan.Plan, dir results.Dir) {
	for i := range p.Inputs {
		if p.Inputs[i].File == "" {
			p.Inputs[i].File = filepath.Join(dir.Path(results.InputsDir), p.Inputs[i].SHA256)
		}
	}
}

// compareRuns prints run by run what came of the repetition. ok is false when a simulated run differs from the stored one.
func compareRuns(w io.Writer, dir results.Dir, m results.Manifest, again results.Dir, repeated results.Manifest) (ok bool) {
	ok = true
	fmt.Fprintf(w, "\nreplay of %s\n", dir)
	if m.World != "sim" {
		fmt.Fprintln(w, "best effort: in the real world no run repeats exactly; these are the verdicts")
	}
	for _, old := range m.Runs {
		i := slices.IndexFunc(repeated.Runs, func(r results.RunEntry) bool { return r.Name == old.Name })
		if i < 0 {
			continue // it never began, and has no plan
		}
		now := repeated.Runs[i]
		switch {
		case m.World != "sim":
			fmt.Fprintf(w, "  %s   stored: %s   again: %s\n", old.Name, outcome(old), outcome(now))
		case old.Digest == "" || now.Digest == "":
			fmt.Fprintf(w, "  %s   unknown: a run without an end has no digest (stored: %s, again: %s)\n", old.Name, outcome(old), outcome(now))
		case old.Digest == now.Digest:
			fmt.Fprintf(w, "  %s   equal   digest %.16s   %s\n", old.Name, now.Digest, outcome(now))
		default:
			ok = false
			fmt.Fprintf(w, "  %s   different   digest %.16s was %.16s   stored: %s   again: %s\n", old.Name, now.Digest, old.Digest, outcome(old), outcome(now))
			fmt.Fprint(w, firstDifference(dir.Run(old.Name), again.Run(now.Name)))
		}
	}
	return ok
}

// outcome is how a run ended, in a word or two.
func outcome(r results.RunEntry) string {
	if r.Verdict == "" || r.Status != "finished" {
		return r.Status
	}
	return r.Verdict
}

// firstDifference shows the first event in which two histories differ.
func firstDifference(stored, again results.RunDir) string {
	next, stop := iter.Pull2(results.ReadLines[json.RawMessage](again.Path(results.HistoryFile)))
	defer stop()
	line := 0
	for a, err := range results.ReadLines[json.RawMessage](stored.Path(results.HistoryFile)) {
		line++
		if err != nil {
			return fmt.Sprintf("    the stored history cannot be compared: %v\n", err)
		}
		a = bytes.Clone(a)
		b, err, more := next()
		switch {
		case !more:
			return fmt.Sprintf("    event %d is the first that differs\n      stored  %s\n      again   no such event\n", line, a)
		case err != nil:
			return fmt.Sprintf("    the new history cannot be compared: %v\n", err)
		case !bytes.Equal(a, b):
			return fmt.Sprintf("    event %d is the first that differs\n      stored  %s\n      again   %s\n", line, a, b)
		}
	}
	if b, _, more := next(); more {
		return fmt.Sprintf("    event %d is the first that differs\n      stored  no such event\n      again   %s\n", line+1, b)
	}
	return "    the events are the same: what differs is not in them\n"
}
