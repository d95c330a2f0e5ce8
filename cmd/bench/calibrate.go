package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/provision"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/registry"
	"statebench.dev/bench/internal/scenario"
	"statebench.dev/bench/internal/world"

	"github.com/spf13/cobra"
)

// calibration is what the calibrate command was asked to do.
type calibration struct {
	spec, name, out string
	requests        int
	containers      containerFlags
}

func newCalibrate(stdout, stderr io.Writer) *cobra.Command {
	c := calibration{}
	cmd := &cobra.Command{
		Use:   "calibrate --store SPEC",
		Short: "Measure a store and fit a profile to it",
		Long: "calibrate sends some hundred requests to a store, fits a log-normal time to the first byte to each kind and a bandwidth\n" +
			"to large objects, and writes the profile file that --profile takes. Such a profile adds to what the store of a run itself\n" +
			"takes, which is less than a millisecond for a small request to the embedded one. It has no limits of requests a second,\n" +
			"since no store is overloaded. Of an existing bucket only a fresh prefix is touched, and emptied again; requests there may\n" +
			"cost money.",
		Example: "  bench calibrate --store dir:/mnt/disk/objects --out disk.yaml\n" +
			"  bench calibrate --store 's3://BUCKET/PREFIX?endpoint=https://HOST' --out far.yaml\n" +
			"  bench run scenarios/side-by-side.yaml --profile disk.yaml",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context(), stdout, stderr) },
	}
	cmd.Flags().StringVar(&c.spec, "store", "", "the store to measure: `KIND` mem, dir:PATH, embedded, minio or s3://BUCKET/PREFIX?endpoint=URL")
	cmd.Flags().StringVar(&c.name, "name", "measured", "the `NAME` of the profile, which results carry")
	cmd.Flags().StringVar(&c.out, "out", "", "write the profile to the new `FILE` instead of the terminal")
	cmd.Flags().IntVar(&c.requests, "requests", 100, "`N` requests of each kind, 10 to 2000")
	c.containers.add(cmd)
	return cmd
}

// run measures, prints the fit and writes the profile. The table goes to stderr where the profile goes to stdout.
func (c *calibration) run(ctx context.Context, stdout, stderr io.Writer) error {
	switch {
	case c.spec == "":
		return usage("--store says what to measure: %s", provision.Forms)
	case c.requests < 10 || c.requests > 2000:
		return usage("--requests must be 10 to 2000, is %d", c.requests)
	}
	if err := provision.Check(world.NewReal(0), c.spec); err != nil {
		return usage("--store: %v", err)
	}
	// An endpoint elsewhere is reached because the user named it: no other way leads there.
	if err := c.containers.prepare(ctx, []plan.Plan{{Store: plan.Store{Kind: c.spec}}}, stderr); err != nil {
		return err
	}
	m, err := c.measure(ctx, stderr)
	if err != nil {
		return environment(ctx, err)
	}
	p := profileOf(m, fmt.Sprintf("Fitted to %d requests to store %s on %s.", m.Requests, place(c.spec), time.Now().UTC().Format(time.DateOnly)))
	file := scenario.FormatProfile(c.name, p)
	// What is written must be what --profile takes.
	if _, _, problems := scenario.ReadProfile(c.name+".yaml", file); len(problems) > 0 {
		return usage("the profile cannot be used: %v", problems[0].Message)
	}
	table := stderr
	if c.out != "" {
		if err := writeNew(c.out, file); err != nil {
			return err
		}
		table = stdout
	}
	printFit(table, c.spec, m, p)
	if c.out == "" {
		_, err := stdout.Write(file)
		return err
	}
	_, err = fmt.Fprintf(stdout, "profile  %s; bench run <scenario.yaml> --profile %s uses it\n", c.out, c.out)
	return err
}

// place names a store without its address, which may tell more than its owner likes.
func place(spec string) string {
	if kind, _, _ := strings.Cut(spec, ":"); kind == provision.KindS3 {
		bucket, _, _ := strings.Cut(spec, "?")
		return bucket
	}
	return spec
}

// measure brings the store up and takes it down again.
func (c *calibration) measure(ctx context.Context, stderr io.Writer) (m store.Measurement, err error) {
	w := world.NewReal(0)
	werr := w.Run(func(inner context.Context) error {
		inner, cancel := w.WithCancel(inner)
		defer context.AfterFunc(ctx, func() { cancel(ctx.Err()) })()
		b, _, err := c.containers.deps(stderr).Provision(inner, w, c.spec)
		if err != nil {
			return err
		}
		m, err = store.Measure(inner, w, store.WithPrefix(b, fmt.Sprintf("bench-calibrate-%d/", time.Now().UnixNano())), c.requests)
		if cerr := b.Close(); err == nil {
			err = cerr
		}
		return err
	})
	return m, werr
}

// writeNew writes a file that must not exist.
func writeNew(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if os.IsExist(err) {
		return usage("--out: %s exists; choose another name or remove it", path)
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(f, bytes.NewReader(b))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// profileOf writes a fitted model as a profile. Figures are rounded to what the measurement can carry.
func profileOf(m store.Measurement, about string) plan.Profile {
	l := m.Latency()
	p := plan.Profile{
		About: about, Put: quantiles(l.Put), Get: quantiles(l.Get), Stat: quantiles(l.Stat), List: quantiles(l.List), Delete: quantiles(l.Delete),
	}
	if l.PerByte > 0 {
		p.Bandwidth.Connection = megabytes(1 / l.PerByte)
	}
	p.Bandwidth.Worker = megabytes(l.WorkerBandwidth)
	return p
}

// quantiles are the median and the 99th percentile of a distribution.
func quantiles(f store.FirstByte) plan.FirstByte {
	const z99 = 2.3263478740408408
	return plan.FirstByte{P50: rounded(f.Median), P99: rounded(time.Duration(float64(f.Median) * math.Exp(z99*f.Sigma)))}
}

// rounded keeps three digits or so.
func rounded(d time.Duration) plan.Duration {
	unit := time.Nanosecond
	for d/unit >= 1000 {
		unit *= 10
	}
	return plan.Duration(d.Round(unit))
}

func megabytes(perSecond float64) registry.Bytes {
	return registry.Bytes(max(1, math.Round(perSecond/1e6))) * 1e6
}

// printFit shows what was measured beside what was made of it.
func printFit(w io.Writer, spec string, m store.Measurement, p plan.Profile) {
	fmt.Fprintf(w, "real · store %s · %d requests\n", spec, m.Requests)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "1 KiB\tn\tp50\tp95\tmax\tfitted p50\tfitted p99\t\n")
	for _, x := range []struct {
		name   string
		sample store.Sample
		fit    plan.FirstByte
	}{{"put", m.Put, p.Put}, {"get", m.Get, p.Get}, {"stat", m.Stat, p.Stat}, {"list", m.List, p.List}, {"delete", m.Delete, p.Delete}} {
		q := func(at float64) plan.Duration { return rounded(x.sample.Quantile(at)) }
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t\n", x.name, len(x.sample), q(0.5), q(0.95), q(1), x.fit.P50, x.fit.P99)
	}
	_ = t.Flush() // the terminal's errors are not ours
	fmt.Fprintf(w, "4 MiB   %d MB/s a connection, %d MB/s over four\n", p.Bandwidth.Connection/1e6, p.Bandwidth.Worker/1e6)
}
