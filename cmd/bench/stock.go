package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"statebench.dev/bench/internal/registry"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/report"

	"github.com/spf13/cobra"
)

// stockFlags say which of the stored results a command is about.
type stockFlags struct{ out, scenario string }

func (f *stockFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.out, "out", "results", "the folder `DIR` that results went to")
	cmd.Flags().StringVar(&f.scenario, "scenario", "", "only those of the scenario `NAME`")
}

func (f *stockFlags) read(cmd *cobra.Command, args []string) ([]results.Stored, error) {
	if len(args) > 0 {
		return nil, usage("`%s` takes no argument, got %q; the folder is named by --out", cmd.CommandPath(), args[0])
	}
	all, err := results.Stock(f.out, f.scenario)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usage("--out: there is no folder %q; results go there with the first `bench run`", f.out)
	}
	return all, err
}

func newResults(stdout io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use: "results", Short: "List, show and remove stored results",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("%v", unknownCommand(cmd, args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newResultsList(stdout), newResultsShow(stdout), newResultsPrune(stdout))
	return cmd
}

func newResultsList(stdout io.Writer) *cobra.Command {
	var f stockFlags
	cmd := &cobra.Command{
		Use: "list", Short: "List the invocations in a results folder, the newest first",
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := f.read(cmd, args)
			if err != nil {
				return err
			}
			stockTable(stdout, all)
			return nil
		},
	}
	f.add(cmd)
	return cmd
}

// stockTable is a line for each invocation and their sum.
func stockTable(w io.Writer, all []results.Stored) {
	wide := 0
	for _, x := range all {
		wide = max(wide, len(x.Dir))
	}
	var sum int64
	for _, x := range all {
		fmt.Fprintf(w, "%-*s  %9s  %s\n", wide, x.Dir, registry.Bytes(round(x.Bytes)), strings.ReplaceAll(stockText(&x), "\n", " "))
		sum += x.Bytes
	}
	fmt.Fprintf(w, "%s, %s\n", plural(len(all), "invocation"), registry.Bytes(round(sum)))
}

// stockText says what an invocation is.
func stockText(x *results.Stored) string {
	m := &x.Manifest
	switch {
	case x.Problem != nil:
		return "unreadable: " + x.Problem.Error()
	case !hasEnded(x):
		return "has not ended"
	}
	return fmt.Sprintf("%s · store %s · %s, %s", m.World, m.Store, plural(len(m.Runs), "run"), m.Outcome)
}

// round drops what nobody wants to know of a size.
func round(n int64) int64 {
	unit := int64(1)
	for n/unit >= 10*1024 {
		unit *= 1024
	}
	return n / unit * unit
}

func newResultsShow(stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "show <dir>", Short: "Print the tables of a stored invocation, and write nothing",
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, m, _, err := open(cmd, args)
			if err != nil {
				return err
			}
			warnOtherCommit(cmd.ErrOrStderr(), m, "")
			inv, err := report.Load(dir)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(stdout, report.Terminal(inv))
			return err
		},
	}
}

// pruning is what the prune command was asked to do.
type pruning struct {
	stockFlags
	keep       int
	older      time.Duration
	unreadable bool
	yes        bool
}

// resting is how long nothing may have been written to an invocation that has not ended before prune touches it: a run may be under way.
const resting = time.Hour

func newResultsPrune(stdout io.Writer) *cobra.Command {
	var p pruning
	cmd := &cobra.Command{
		Use: "prune", Short: "Remove old results: says which, and does so with --yes",
		Long: "prune removes invocations of a results folder, all but the newest --keep of each scenario, and of these only what is older than\n" +
			"--older-than. Without --yes it says what it would remove. What cannot be read is kept unless --unreadable is given. What has not\n" +
			"ended, or cannot be read, is kept while something was written to it within the last hour: a run may be under way. Folders\n" +
			"that something else made are not touched.",
		Example: "  bench results prune --keep 5\n" +
			"  bench results prune --older-than 720h --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("keep") && !cmd.Flags().Changed("older-than") {
				return usage("say what may go, by --keep or --older-than; for example: bench results prune --keep 5")
			}
			if p.keep < 0 || p.older < 0 {
				return usage("--keep and --older-than must not be negative")
			}
			all, err := p.read(cmd, args)
			if err != nil {
				return err
			}
			return p.prune(stdout, all, time.Now())
		},
	}
	p.add(cmd)
	cmd.Flags().IntVar(&p.keep, "keep", 0, "keep the newest `N` of each scenario")
	cmd.Flags().DurationVar(&p.older, "older-than", 0, "remove only what was last written `D` ago or before, such as 720h")
	cmd.Flags().BoolVar(&p.unreadable, "unreadable", false, "remove also what cannot be read")
	cmd.Flags().BoolVar(&p.yes, "yes", false, "remove it, instead of saying what would be removed")
	return cmd
}

// prune removes what may go, or says what would. It ends at the first that cannot be removed.
func (p *pruning) prune(w io.Writer, all []results.Stored, now time.Time) error {
	gone := p.choose(all, now)
	if !p.yes {
		stockTable(w, gone)
		if len(gone) > 0 {
			fmt.Fprintln(w, "nothing was removed; --yes removes these")
		}
		return nil
	}
	for i := range gone {
		if err := gone[i].Remove(); err != nil {
			return err
		}
	}
	stockTable(w, gone)
	fmt.Fprintln(w, "removed")
	return nil
}

// choose are those that may go. The newest come first in all; what cannot be read is not one of those to keep.
func (p *pruning) choose(all []results.Stored, now time.Time) (gone []results.Stored) {
	kept := map[string]int{}
	for _, x := range all {
		if x.Problem == nil && kept[x.Scenario] < p.keep {
			kept[x.Scenario]++
			continue
		}
		if age := now.Sub(x.Changed); age < p.older || age < resting && !hasEnded(&x) || x.Problem != nil && !p.unreadable {
			continue
		}
		gone = append(gone, x)
	}
	return gone
}

// hasEnded tells whether an invocation says how it ended.
func hasEnded(x *results.Stored) bool {
	return x.Problem == nil && x.Manifest.Outcome != results.Running
}
