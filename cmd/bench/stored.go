package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/provision"
	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/registry"
	"statebench.dev/bench/internal/scrub"
	"statebench.dev/bench/internal/world"

	"github.com/spf13/cobra"
)

// stored is a store that outlived its runs, as scrub and inspect open it.
type stored struct {
	spec   string
	prefix string
	log    string
	stderr io.Writer // for what the store does not show
}

func (s *stored) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.prefix, "prefix", "", "only the run under `PREFIX`, where the store holds several")
	cmd.Flags().StringVar(&s.log, "log", "", "the folder `DIR` of the run's changelog, where that lies in files (log in the run's results)")
}

// storedRun is one run of a store.
type storedRun struct {
	prefix string
	store.Bucket
}

// check refuses what is no store that can hold anything.
func (s *stored) check(cmd *cobra.Command, args []string, most int) error {
	if len(args) < 1 || len(args) > most {
		return usage("`bench %s` takes a store, dir:PATH or s3://BUCKET/PREFIX?endpoint=URL, got %s; for example: bench %s dir:objects", cmd.Name(), plural(len(args), "argument"), cmd.Name())
	}
	s.spec = args[0]
	kind, rest, _ := strings.Cut(s.spec, ":")
	if kind != provision.KindDir && kind != provision.KindS3 {
		return usage("store %q: only what outlives a run can be looked at: dir:PATH or s3://BUCKET/PREFIX?endpoint=URL", s.spec)
	}
	if err := provision.Check(world.NewReal(0), s.spec); err != nil {
		return usage("%v", err)
	}
	if kind == provision.KindS3 {
		return nil
	}
	// Opening a folder as a store makes it one, which somebody who looks does not want.
	if info, err := os.Stat(filepath.Join(rest, "objects")); err != nil || !info.IsDir() {
		return usage("dir:%s: it is no store, it has no folder %q; name the folder that `bench run --store` was given", rest, "objects")
	}
	return nil
}

// with opens the store and calls f in a world, with the runs that lie in it.
func (s *stored) with(ctx context.Context, f func(ctx context.Context, w world.World, runs []storedRun) error) error {
	w := world.NewReal(uint64(time.Now().UnixNano()))
	return w.Run(func(inner context.Context) error {
		inner, cancel := w.WithCancel(inner)
		defer cancel(nil)
		defer context.AfterFunc(ctx, func() { cancel(ctx.Err()) })()
		raw, about, err := deps().Provision(inner, w, s.spec)
		if err != nil {
			return &exitError{exitEnvironment, err}
		}
		if about.Warning != "" {
			fmt.Fprintln(s.stderr, "warning:", about.Warning)
		}
		b := store.WithRetry(raw, store.DefaultRetryPolicy(), w)
		runs, err := s.runs(inner, b)
		var log dstl.Storage
		if err == nil && s.log != "" {
			log, runs, err = s.withLog(inner, w, runs)
		}
		if err == nil {
			err = f(inner, w, runs)
		}
		if log != nil {
			err = errors.Join(err, log.Close(inner))
		}
		return errors.Join(storeFailed(ctx, err), b.Close())
	})
}

// runs finds the runs, or the one that was asked for.
func (s *stored) runs(ctx context.Context, b store.Bucket) ([]storedRun, error) {
	if s.prefix != "" {
		prefix := strings.TrimSuffix(s.prefix, "/") + "/"
		run, err := storedUnder(ctx, b, prefix)
		return []storedRun{run}, err
	}
	prefixes, err := scrub.Prefixes(ctx, b)
	if err != nil {
		return nil, err
	}
	if len(prefixes) == 0 {
		return nil, s.nothing("")
	}
	var runs []storedRun
	for _, p := range prefixes {
		run, err := storedUnder(ctx, b, p)
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// storedUnder is the run under a prefix. Its marker says whether it spread its keys.
func storedUnder(ctx context.Context, b store.Bucket, prefix string) (storedRun, error) {
	inside := store.WithPrefix(b, prefix)
	marker, err := inside.Get(ctx, scrub.Marker)
	if err != nil && !errors.Is(err, store.ErrNotExist) {
		return storedRun{}, err
	}
	n, err := store.SpreadOf(marker)
	if err != nil {
		return storedRun{}, fmt.Errorf("%s%s: %w", prefix, scrub.Marker, err)
	}
	return storedRun{prefix, store.WithSpread(inside, n)}, nil
}

// withLog puts the files of a changelog beside the one run that they belong to.
func (s *stored) withLog(ctx context.Context, w world.World, runs []storedRun) (dstl.Storage, []storedRun, error) {
	r, err := s.only(runs)
	if err != nil {
		return nil, nil, err
	}
	if info, err := os.Stat(s.log); err != nil || !info.IsDir() {
		return nil, nil, usage("--log %s: it is no folder; `bench run --keep-objects` says where it left the logs", s.log)
	}
	entry, err := catalog.LogStorages().Find(plan.LogFile)
	if err != nil {
		return nil, nil, err
	}
	log, err := entry.New(ctx, dstl.StorageEnv{World: w, Store: r.Bucket, Disk: world.NewFolderDisk(s.log)})
	if err != nil {
		return nil, nil, err
	}
	r.Bucket = dstl.Over(r.Bucket, log)
	return log, []storedRun{r}, nil
}

// only is the one run of a store.
func (s *stored) only(runs []storedRun) (storedRun, error) {
	if len(runs) == 1 {
		return runs[0], nil
	}
	var names []string
	for _, r := range runs {
		names = append(names, r.prefix)
	}
	return storedRun{}, usage("%s holds %s: name one with --prefix: %s", s.spec, plural(len(runs), "run"), strings.Join(names, ", "))
}

// nothing says that there is no run.
func (s *stored) nothing(prefix string) error {
	if prefix != "" {
		prefix = " under " + prefix
	}
	return usage("%s%s holds no checkpoints: no run left its marker or a coordinator log there; `bench run --keep-objects` leaves them", s.spec, prefix)
}

// storeFailed gives an error of the store its exit code.
func storeFailed(ctx context.Context, err error) error {
	var coded *exitError
	switch {
	case err == nil || errors.As(err, &coded):
		return err
	case ctx.Err() != nil:
		return &exitError{exitInterrupted, errors.New("interrupted")}
	case errors.Is(err, scrub.ErrUnknown), errors.Is(err, scrub.ErrState):
		return usage("%v", err)
	case errors.Is(err, store.ErrCorrupt), errors.Is(err, store.ErrNotExist):
		return &exitError{exitDamaged, err}
	}
	return &exitError{exitEnvironment, err}
}

// stateOptions open state with the backends of this program, and their files in a folder that the caller removes.
func stateOptions(folder string) scrub.StateOptions {
	return scrub.StateOptions{Factories: catalog.Reader, Folder: folder}
}

// age is how long ago something was, for tables.
func age(now, then time.Time) string {
	if then.IsZero() {
		return "-"
	}
	d := now.Sub(then)
	switch {
	case d < 0:
		return "0s"
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// bytesText is a size in a unit with three digits or so.
func bytesText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, u := float64(n), 0
	for v >= 1000 && (u > 0 || n >= 1024) && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	if u == 0 {
		return registry.Bytes(n).String()
	}
	return fmt.Sprintf("%.3g%s", v, units[u])
}
