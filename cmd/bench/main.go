// Command bench runs scenarios of streaming jobs with and without a changelog state backend, injects faults, judges
// correctness and reports checkpoint sizes, durations and recovery times.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"statebench.dev/bench/internal/registry"
	"statebench.dev/bench/internal/results"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The exit codes, in the words that the last line of output uses.
const (
	exitPass         = 0
	exitViolation    = 1
	exitInconclusive = 2
	exitMissed       = 3
	exitRegression   = 4
	exitUsage        = 64
	exitDamaged      = 65
	exitBug          = 70
	exitEnvironment  = 75
	exitInterrupted  = 130
)

var exitWords = map[int]string{ // read-only: words
	exitPass: "pass", exitViolation: "correctness violation", exitInconclusive: "inconclusive", exitMissed: "expectation missed", exitRegression: "confirmed regression", exitUsage: "bad file or flags",
	exitDamaged: "damaged results or store", exitBug: "harness bug", exitEnvironment: "environment could not start", exitInterrupted: "interrupted",
}

// exitTable lists the exit codes for the help.
func exitTable() string {
	text := "Exit codes:"
	for _, code := range slices.Sorted(maps.Keys(exitWords)) {
		text += fmt.Sprintf("\n  %-4d %s", code, exitWords[code])
	}
	return text
}

// exitError ends the program with a code after its message was printed; an empty message prints nothing more.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

func main() { os.Exit(mainCode()) }

// mainCode is main without the exit. The first interrupt ends the context, the second the program, at once.
func mainCode() int {
	signalled, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer context.AfterFunc(signalled, func() {
		stop() // before anybody is told that a second interrupt counts
		cancel()
	})()
	signal.Ignore(syscall.SIGXFSZ) // a limit of file sizes is an error of the write, as a full disk is
	return Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// Main is the program: it runs one command line and returns the exit code. ctx ends when the user interrupts.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(stderr, "bench: %v\n%s%s\n", p, debug.Stack(), pleaseReport)
			code = end(stderr, exitBug)
		}
	}()
	root := newRoot(stdout, stderr)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitPass
	}
	code = codeOf(err)
	if text := err.Error(); text != "" {
		fmt.Fprintln(stderr, "bench: "+text)
		end(stderr, code)
	}
	return code
}

// pleaseReport stands below what should never have happened.
const pleaseReport = "this is a bug of bench, not of the scenario: please report it with the text above and the output of `bench version`"

// end prints the last line of a command.
func end(w io.Writer, code int) int {
	fmt.Fprintf(w, "exit %d  %s\n", code, exitWords[code])
	return code
}

// finish prints the last line of a command that came to its end, and returns its exit code as an error.
func finish(w io.Writer, code int) error {
	if end(w, code) == exitPass {
		return nil
	}
	return &exitError{code, nil}
}

// codeOf is the exit code of an error. What cobra and our own commands refuse comes as an exitError or from before a
// command ran; the rest is the system's: files that cannot be read or written.
func codeOf(err error) int {
	var e *exitError
	var path *fs.PathError
	switch {
	case errors.As(err, &e):
		return e.code
	case errors.Is(err, results.ErrDamaged):
		return exitDamaged
	case errors.As(err, &path):
		return exitEnvironment
	}
	return exitUsage
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "bench",
		Short: "Benchmark and chaos tests for changelog state backends",
		Long: "bench runs one streaming job with several variants of its state backend, crashes and rescales it, judges\n" +
			"whether state and output are right, and reports checkpoint sizes, durations and recovery times side by side.\n\n" + exitTable(),
		SilenceUsage: true, SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("%v", unknownCommand(cmd, args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(&cobra.Command{Use: "help [command]", Short: "Help about a command", Hidden: true, RunE: func(cmd *cobra.Command, args []string) error {
		c, rest, err := cmd.Root().Find(args)
		if err != nil || len(rest) > 0 {
			return usage("%v", unknownCommand(cmd.Root(), args[0]))
		}
		return c.Help()
	}})
	root.AddCommand(newRun(stdout, stderr), newPlan(stdout), newCheck(stdout), newReport(stdout), newCompare(stdout, stderr), newList(stdout), newDescribe(stdout), newCalibrate(stdout, stderr), newReplay(stdout, stderr), newSchema(stdout), newCompletion(stdout), newVersion(stdout), newEnv(stdout, stderr), newDoctor(stdout), newEmbedded(), newGuard())
	root.AddCommand(newScrub(stdout, stderr), newInspect(stdout, stderr), newResults(stdout))
	root.AddCommand(newFuzz(stdout, stderr), newShrink(stdout, stderr), newSelftest(stdout, stderr))
	complete(root)
	return root
}

func unknownCommand(cmd *cobra.Command, name string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return unknownName("command", name, names)
}

// unknownName says what the user may have meant.
func unknownName(what, name string, names []string) error {
	if near := registry.Nearest(name, names); near != "" {
		return fmt.Errorf("unknown %s %q; did you mean %q?", what, name, near)
	}
	return fmt.Errorf("unknown %s %q; there are %s", what, name, strings.Join(names, ", "))
}

// flagError adds the nearest flag to what pflag says of an unknown one.
func flagError(cmd *cobra.Command, err error) error {
	var absent *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		wants := map[string]string{"uint64": "a whole number, 0 or more", "bool": "true or false"}[f.Value.Type()]
		return usage("--%s takes %s, not %q", f.Name, wants, invalid.GetValue())
	case !errors.As(err, &absent):
		return usage("%v", err)
	}
	name := absent.GetSpecifiedName()
	if absent.GetSpecifiedShortnames() != "" {
		return usage("unknown flag -%s; `%s --help` lists them, each begins with two hyphens", name, cmd.CommandPath())
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := registry.Nearest(name, names); near != "" {
		return usage("unknown flag --%s; did you mean --%s?", name, near)
	}
	return usage("unknown flag --%s; `%s --help` lists them", name, cmd.CommandPath())
}
