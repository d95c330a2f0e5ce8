// Command bench runs scenarios of streaming jobs with and without a changelog state backend, injects faults, judges
// correctness and reports checkpoint sizes, durations and recovery times.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"statebench.dev/bench/internal/registry"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/world"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The exit codes, in the words that the last line of output uses.
const (
	exitPass         = 0
	exitViolation    = 1
	exitInconclusive = 2
	exitUsage        = 64
	exitDamaged      = 65
	exitBug          = 70
	exitEnvironment  = 75
	exitInterrupted  = 130
)

var exitWords = map[int]string{ // read-only: words
	exitPass: "pass", exitViolation: "correctness violation", exitInconclusive: "inconclusive", exitUsage: "bad file or flags",
	exitDamaged: "damaged results or store", exitBug: "harness bug", exitEnvironment: "environment could not start", exitInterrupted: "interrupted",
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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Main is the program: it runs one command line and returns the exit code. ctx ends when the user interrupts.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot(stdout, stderr)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitPass
	}
	code := codeOf(err)
	if text := err.Error(); text != "" {
		fmt.Fprintln(stderr, "bench: "+text)
		fmt.Fprintf(stderr, "exit %d  %s\n", code, exitWords[code])
	}
	return code
}

func codeOf(err error) int {
	var e *exitError
	var panicked *world.PanicError
	switch {
	case errors.As(err, &e):
		return e.code
	case errors.Is(err, results.ErrDamaged):
		return exitDamaged
	case errors.As(err, &panicked):
		return exitBug
	}
	return exitUsage // what cobra refuses: unknown commands, flags, arguments
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "bench",
		Short: "Benchmark and chaos tests for changelog state backends",
		Long: "bench runs one streaming job with several variants of its state backend, crashes and rescales it, judges\n" +
			"whether state and output are right, and reports checkpoint sizes, durations and recovery times side by side.",
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
		c, _, err := cmd.Root().Find(args)
		if err != nil {
			return usage("%v", err)
		}
		return c.Help()
	}})
	root.AddCommand(newRun(stdout, stderr), newPlan(stdout), newCheck(stdout), newReport(stdout), newList(stdout), newVersion(stdout), newEmbedded())
	return root
}

func unknownCommand(cmd *cobra.Command, name string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	if near := registry.Nearest(name, names); near != "" {
		return fmt.Errorf("unknown command %q; did you mean %q?", name, near)
	}
	return fmt.Errorf("unknown command %q; there are %s", name, strings.Join(names, ", "))
}

// flagError adds the nearest flag to what pflag says of an unknown one.
func flagError(cmd *cobra.Command, err error) error {
	text := err.Error()
	name, unknown := strings.CutPrefix(text, "unknown flag: --")
	if !unknown {
		return usage("%v", err)
	}
	name, _, _ = strings.Cut(name, "=")
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := registry.Nearest(name, names); near != "" {
		return usage("unknown flag --%s; did you mean --%s?", name, near)
	}
	return usage("unknown flag --%s; `bench %s --help` lists them", name, cmd.Name())
}
