package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/explore"
	"statebench.dev/bench/internal/failpoint"

	"github.com/spf13/cobra"
)

// selftesting is what the selftest command was asked to do.
type selftesting struct {
	seeds    int
	jobs     int
	only     []string
	markdown bool

	stdout, stderr io.Writer
}

func newSelftest(stdout, stderr io.Writer) *cobra.Command {
	s := selftesting{stdout: stdout, stderr: stderr}
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Plant known bugs and show that the checks find each",
		Long: "selftest plants one known bug after the other in runs of the simulated world that pass without it, and prints which checks see\n" +
			"it: X where that is demanded, x where it happened besides. The bugs are compiled in with the build tag mutants only; a program\n" +
			"without them builds one that has them where this project's source is the current folder and there is a go command, and\n" +
			"says what to do elsewhere.\n\n" +
			"Exit codes: 0 every bug was found, 1 one survived, 130 interrupted.",
		Example: "  bench selftest\n" +
			"  bench selftest --only replay-twice --only drop-key-group\n" +
			"  bench selftest --markdown > docs/selftest.md",
		RunE: func(cmd *cobra.Command, args []string) error { return s.run(cmd.Context(), args) },
	}
	fs := cmd.Flags()
	fs.IntVar(&s.seeds, "seeds", explore.SelftestSeeds, "try each bug with `N` seeds at most")
	fs.IntVar(&s.jobs, "jobs", runtime.NumCPU(), "`N` bugs at a time")
	fs.StringArrayVar(&s.only, "only", nil, "only the bug `NAME`; may be repeated")
	fs.BoolVar(&s.markdown, "markdown", false, "print the page docs/selftest.md")
	return cmd
}

func (s *selftesting) run(ctx context.Context, args []string) error {
	list := explore.Mutants()
	var names []string
	for _, m := range list {
		names = append(names, m.Name)
	}
	switch {
	case len(args) > 0:
		return usage("`bench selftest` takes no arguments, only flags; got %q", args[0])
	case s.seeds < 1:
		return usage("--seeds must be 1 or more, is %d", s.seeds)
	case s.jobs < 1 || s.jobs > mostJobs:
		return usage("--jobs must be 1 to %d, is %d", mostJobs, s.jobs)
	}
	for _, name := range s.only {
		if !slices.Contains(names, name) {
			return usage("--only: %v", unknownName("planted bug", name, names))
		}
	}
	if !failpoint.MutantsBuilt {
		return s.rebuilt(ctx)
	}
	if len(s.only) > 0 {
		list = slices.DeleteFunc(list, func(m explore.Mutant) bool { return !slices.Contains(s.only, m.Name) })
	}
	temp, err := os.MkdirTemp("", "bench-selftest-")
	if err != nil {
		return &exitError{exitEnvironment, err}
	}
	defer os.RemoveAll(temp)
	began := time.Now()
	kills, err := newRunner(ctx, temp).Selftest(list, s.seeds, s.jobs, func(k *explore.Kill) {
		fmt.Fprintf(s.stderr, "%4.0f s  %s  %s\n", time.Since(began).Seconds(), map[bool]string{true: "found   ", false: "survived"}[k.Killed()], k.Name)
	})
	switch {
	case ctx.Err() != nil:
		return &exitError{exitInterrupted, errors.New("interrupted")}
	case err != nil:
		return &exitError{exitEnvironment, err}
	}
	return s.conclude(kills)
}

// rebuilt runs this command in a program that has the bugs.
func (s *selftesting) rebuilt(ctx context.Context) error {
	const remedy = "planted bugs are not compiled in: run `go run -tags mutants ./cmd/bench selftest` in this project's source"
	src, err := os.ReadFile("go.mod")
	if err != nil || !strings.HasPrefix(string(src), "module statebench.dev/bench\n") {
		return usage(remedy)
	}
	temp, err := os.MkdirTemp("", "bench-mutants-")
	if err != nil {
		return &exitError{exitEnvironment, err}
	}
	defer os.RemoveAll(temp)
	fmt.Fprintln(s.stderr, "note  this program has no planted bugs; one that has them is built: go build -tags mutants ./cmd/bench")
	program := filepath.Join(temp, "bench")
	if out, err := exec.CommandContext(ctx, "go", "build", "-tags", "mutants", "-o", program, "./cmd/bench").CombinedOutput(); err != nil {
		return &exitError{exitEnvironment, fmt.Errorf("%s\n%w: %s", remedy, err, out)}
	}
	// An interrupt reaches the other program as well, which ends by itself.
	again := exec.Command(program, append([]string{"selftest"}, s.flags()...)...)
	again.Stdout, again.Stderr = s.stdout, s.stderr
	var ended *exec.ExitError
	switch err := again.Run(); {
	case errors.As(err, &ended):
		return &exitError{max(ended.ExitCode(), exitViolation), nil}
	case err != nil:
		return &exitError{exitEnvironment, err}
	}
	return nil
}

// flags are those of this command line.
func (s *selftesting) flags() []string {
	all := []string{fmt.Sprintf("--seeds=%d", s.seeds), fmt.Sprintf("--jobs=%d", s.jobs), fmt.Sprintf("--markdown=%t", s.markdown)}
	for _, name := range s.only {
		all = append(all, "--only="+name)
	}
	return all
}

// conclude prints the matrix.
func (s *selftesting) conclude(kills []explore.Kill) error {
	var survived []string
	for i := range kills {
		if k := &kills[i]; !k.Killed() {
			survived = append(survived, fmt.Sprintf("%s: %s had to fail, there failed %s", k.Name, strings.Join(k.Must, ", "), strings.Join(k.Failed, ", ")))
			if k.Wrong != "" {
				survived = append(survived, "  its plan does not pass without the bug: "+k.Wrong)
			}
		}
	}
	if s.markdown {
		fmt.Fprint(s.stdout, matrixPage(kills, s.seeds))
	} else {
		fmt.Fprint(s.stdout, matrixText(kills))
	}
	to := s.stdout
	if s.markdown {
		to = s.stderr
	}
	for _, line := range survived {
		fmt.Fprintln(to, "survived  "+line)
	}
	if len(survived) > 0 {
		return finish(to, exitViolation)
	}
	fmt.Fprintf(to, "\n%s, all found\n", plural(len(kills), "planted bug"))
	return finish(to, exitPass)
}

// mark is what stands in the matrix for a bug and a check.
func mark(k *explore.Kill, id string) string {
	switch {
	case !slices.Contains(k.Failed, id):
		return "."
	case slices.Contains(k.Must, id):
		return "X"
	}
	return "x"
}

// seen are the checks that saw any of the bugs, in their order.
func seen(kills []explore.Kill) (ids []string) {
	for _, c := range catalog.Checks() {
		if slices.ContainsFunc(kills, func(k explore.Kill) bool { return slices.Contains(k.Failed, c.ID) }) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// matrixText is the matrix for a terminal.
func matrixText(kills []explore.Kill) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "planted bug\tarea\t%s\tseed\n", strings.Join(seen(kills), "\t"))
	for i := range kills {
		k := &kills[i]
		fmt.Fprintf(w, "%s\t%s", k.Name, k.Area)
		for _, id := range seen(kills) {
			fmt.Fprint(w, "\t", mark(k, id))
		}
		fmt.Fprintf(w, "\t%d\n", k.Seed)
	}
	_ = w.Flush()
	return b.String()
}

// matrixPage is docs/selftest.md.
func matrixPage(kills []explore.Kill, seeds int) string {
	ids := seen(kills)
	var b strings.Builder
	fmt.Fprintf(&b, "# Planted bugs\n\nMade by `bench selftest --markdown`. Each bug is planted in a simulated run that passes without it, with up to %d seeds; the last\n"+
		"column has the first one with which all checks failed that must: X is a check that must fail, x one that fails too. What the checks\n"+
		"say is in `bench list checks`; a bug is planted by its name in the code, behind the build tag `mutants`, so that no program that is used\n"+
		"has it. No bug may survive: the test `TestMutantsAreKilled` wants the same.\n\n", seeds)
	fmt.Fprintf(&b, "| bug | area | what it does wrong | %s | seed |\n| --- | --- | --- |%s --- |\n", strings.Join(ids, " | "), strings.Repeat(" --- |", len(ids)))
	for i := range kills {
		k := &kills[i]
		fmt.Fprintf(&b, "| `%s` | %s | %s |", k.Name, k.Area, k.About)
		for _, id := range ids {
			fmt.Fprintf(&b, " %s |", strings.TrimSuffix(mark(k, id), "."))
		}
		fmt.Fprintf(&b, " %d |\n", k.Seed)
	}
	fmt.Fprintf(&b, "\n%s.\n", plural(len(kills), "planted bug"))
	return b.String()
}
