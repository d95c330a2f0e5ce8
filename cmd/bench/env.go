package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/embedded"
	"statebench.dev/bench/backend/store/provision"
	"statebench.dev/bench/backend/store/provision/minio"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/run"
	"statebench.dev/bench/internal/world"

	"github.com/spf13/cobra"
)

// guardCommand is the hidden command of the child process that removes the container of a run that was killed.
const guardCommand = "container-guard"

// containerFlags say where the image of MinIO comes from, and what its container may take.
type containerFlags struct {
	source minio.Source
	limits plan.Limits // of the plans; no flag gives them
}

func (f *containerFlags) add(cmd *cobra.Command) {
	set := cmd.Flags()
	if cmd.HasSubCommands() {
		set = cmd.PersistentFlags()
	}
	set.StringVar(&f.source.Image, "image", "", "the image of MinIO, `NAME` or name@sha256:digest, instead of one around a server built here")
	set.BoolVar(&f.source.Pull, "pull", false, "fetch the image when it is not there; it must be named by its digest")
	set.BoolVar(&f.source.NoBuild, "no-build", false, "never build MinIO from source")
}

func (f *containerFlags) check() error {
	if f.source.Pull && f.source.Image == "" {
		return usage("--pull needs an image by its digest: --image name@sha256:digest, or env.store.image of the scenario")
	}
	return nil
}

// options are those of a container, with this very binary as its guard.
func (f *containerFlags) options(stderr io.Writer) minio.Options {
	s := f.source
	s.Announce = func(text string) { fmt.Fprintln(stderr, "bench: "+text) }
	return minio.Options{Source: s, CPUs: f.limits.CPUs, Memory: f.limits.Memory, Guard: minio.GuardOptions{Args: []string{guardCommand}}}
}

// start starts a server for one run.
func (f *containerFlags) start(stderr io.Writer) func(ctx context.Context) (provision.Server, error) {
	return func(ctx context.Context) (provision.Server, error) {
		s, err := minio.Start(ctx, f.options(stderr))
		if err != nil {
			return nil, err // not s: a nil server in an interface is not nil
		}
		return s, nil
	}
}

// deps are all implementations, with containers.
func (f *containerFlags) deps(stderr io.Writer) run.Deps {
	d := deps()
	d.Provision = func(ctx context.Context, w world.World, spec string) (store.Bucket, provision.Description, error) {
		return provision.Open(ctx, w, spec, provision.Options{Embedded: embedded.Options{Args: []string{embeddedCommand}}, MinIO: f.start(stderr)})
	}
	return d
}

// take takes what the plans say of their container, which is the same in all of an invocation; a flag wins. It tells whether
// there is one.
func (f *containerFlags) take(plans []plan.Plan) (needed bool) {
	for i := range plans {
		s := plans[i].Store
		if s.Kind != provision.KindMinIO {
			continue
		}
		needed, f.limits = true, s.Limits
		if f.source.Image == "" {
			f.source.Image = s.Image
		}
	}
	return needed
}

// prepare makes sure, before a run begins, that there is an engine and an image, if a plan needs them: building one takes
// minutes, which belong to no run and which the user may interrupt.
func (f *containerFlags) prepare(ctx context.Context, plans []plan.Plan, stderr io.Writer) error {
	needed := f.take(plans)
	if err := f.check(); err != nil || !needed {
		return err
	}
	e, err := minio.Connect(ctx)
	if err == nil {
		_, err = e.Resolve(ctx, f.options(stderr).Source)
		err = errors.Join(err, e.Close())
	}
	return environment(ctx, err)
}

// environment gives an error of the engine its exit code.
func environment(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &exitError{exitInterrupted, errors.New("interrupted")}
	}
	return &exitError{exitEnvironment, err}
}

func newEnv(stdout, stderr io.Writer) *cobra.Command {
	var f containerFlags
	cmd := &cobra.Command{
		Use:   "env",
		Short: "Keep a MinIO server up between runs: up, status, down",
		Long: "A run with --store minio starts a server of its own and removes it. This keeps one up instead, for several runs with\n" +
			"--store s3://..., and makes the image beforehand. It listens on the loopback address only.",
		Example: "  eval \"$(bench env up)\"\n  bench env status\n  bench env down",
		Args:    func(cmd *cobra.Command, args []string) error { return subcommand(cmd, args) },
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	with := func(name, about string, do func(ctx context.Context, e *minio.Engine) error) *cobra.Command {
		return &cobra.Command{Use: name, Short: about, Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			e, err := minio.Connect(cmd.Context())
			if err == nil {
				err = errors.Join(do(cmd.Context(), e), e.Close())
			}
			return environment(cmd.Context(), err)
		}}
	}
	cmd.AddCommand(
		with("up", "Start the server, or say where it is; prints the credentials as a shell reads them", func(ctx context.Context, e *minio.Engine) error {
			v, err := e.Up(ctx, f.options(stderr), func(ctx context.Context, v minio.Env) error {
				return provision.MakeBucket(ctx, v.Endpoint, v.Access, v.Secret)
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(stdout, "export AWS_ACCESS_KEY_ID=%s\nexport AWS_SECRET_ACCESS_KEY=%s\n", v.Access, v.Secret)
			return printEnv(stderr, v)
		}),
		with("status", "Say whether the server is up and where", func(ctx context.Context, e *minio.Engine) error {
			v, err := e.Status(ctx)
			if err != nil {
				return err
			}
			if v.ID == "" {
				_, err = fmt.Fprintln(stdout, "not up")
				return err
			}
			return printEnv(stdout, v)
		}),
		with("down", "Remove the server, and what killed runs have left", func(ctx context.Context, e *minio.Engine) error {
			removed, err := e.Down(ctx)
			for _, c := range removed {
				fmt.Fprintf(stdout, "removed container %.12s (%s, started %s)\n", c.ID, c.Role, c.Started)
			}
			if err == nil && len(removed) == 0 {
				fmt.Fprintln(stdout, "nothing to remove")
			}
			return err
		}),
	)
	f.add(cmd)
	return cmd
}

// subcommand refuses what is no subcommand.
func subcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return usage("%v", unknownName("command of "+cmd.Name(), args[0], names))
}

func printEnv(w io.Writer, v minio.Env) error {
	_, err := fmt.Fprintf(w, "MinIO %s is %s, container %.12s, since %s\n"+
		"  bench run scenarios/side-by-side.yaml --store 's3://%s/runs?endpoint=http://%s'\n"+
		"  bench env down\n", v.Image, v.State, v.ID, v.Started, provision.BucketName, v.Endpoint)
	return err
}

func newGuard() *cobra.Command {
	return &cobra.Command{Use: guardCommand, Hidden: true, Args: noArgs, RunE: func(*cobra.Command, []string) error {
		if err := minio.Guard(); err != nil {
			return usage("%v", err)
		}
		return nil
	}}
}
