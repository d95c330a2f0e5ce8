package main

import (
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/scrub"
	"statebench.dev/bench/internal/world"

	"github.com/spf13/cobra"
)

// shownFindings is how many findings of a kind the table has; --json has all.
const shownFindings = 20

// scrubbing is what the scrub command was asked to do.
type scrubbing struct {
	stored
	json, shallow, restore, repair, yes bool
	grace, quiet                        time.Duration
	graceSet, quietSet                  bool
	stdout                              io.Writer
}

func newScrub(stdout, stderr io.Writer) *cobra.Command {
	s := &scrubbing{stdout: stdout, stored: stored{stderr: stderr}}
	cmd := &cobra.Command{
		Use:   "scrub <store>",
		Short: "Audit what runs left in a store: dangling, damaged and orphaned objects",
		Long: "scrub reads the coordinator log of a run, the metadata of what it retains, and each object that those name: does it exist,\n" +
			"has it its size and checksum, can its format be read. It lists what is dangling, damaged or orphaned. It needs no run and\n" +
			"no results. The exit code is 0 if all is well, 2 if there are only orphans, 65 if anything is dangling or damaged.\n\n" +
			"--repair says which orphans could be removed, --repair --yes removes them. It needs the marker of a run, spares what is\n" +
			"younger than --grace, everything of savepoints and what no run would write, and does nothing while a coordinator may live.",
		Example: "  bench scrub dir:objects\n" +
			"  bench scrub 's3://bucket/prefix?endpoint=http://127.0.0.1:9000' --json\n" +
			"  bench scrub dir:objects --repair --yes --grace 24h",
		RunE: func(cmd *cobra.Command, args []string) error {
			s.graceSet, s.quietSet = cmd.Flags().Changed("grace"), cmd.Flags().Changed("quiet")
			if err := s.check(cmd, args, 1); err != nil {
				return err
			}
			if err := s.combined(); err != nil {
				return err
			}
			return s.with(cmd.Context(), s.run)
		},
	}
	s.add(cmd)
	cmd.Flags().BoolVar(&s.json, "json", false, "a line of JSON for each finding, and one for the summary, instead of tables")
	cmd.Flags().BoolVar(&s.shallow, "shallow", false, "do not read objects: only whether they exist and have their size")
	cmd.Flags().BoolVar(&s.restore, "restore", false, "restore each checkpoint and savepoint too")
	cmd.Flags().BoolVar(&s.repair, "repair", false, "say which orphans can be removed; with --yes remove them")
	cmd.Flags().BoolVar(&s.yes, "yes", false, "with --repair: remove")
	cmd.Flags().DurationVar(&s.grace, "grace", scrub.DefaultGrace, "with --repair: spare what is younger than the age `D`")
	cmd.Flags().DurationVar(&s.quiet, "quiet", 0, "with --repair: the coordinator counts as dead once its log was silent for `D` (default 2m, or five times its usual pause)")
	return cmd
}

// combined refuses flags that mean nothing together.
func (s *scrubbing) combined() error {
	switch {
	case !s.repair && (s.yes || s.graceSet || s.quietSet):
		return usage("--yes, --grace and --quiet belong to --repair")
	case s.grace < 0 || s.quiet < 0:
		return usage("--grace and --quiet take a duration of 0s or more, like 1h")
	case s.shallow && s.restore:
		return usage("--restore reads all objects and --shallow none: give one of them")
	}
	return nil
}

// run audits the runs of the store, one after the other.
func (s *scrubbing) run(ctx context.Context, w world.World, runs []storedRun) error {
	if s.repair {
		one, err := s.only(runs)
		if err != nil {
			return err
		}
		runs = []storedRun{one}
	}
	code := exitPass
	for i, r := range runs {
		if i > 0 && !s.json {
			fmt.Fprintln(s.stdout)
		}
		one, err := s.one(ctx, w, r)
		if err != nil {
			return err
		}
		if code == exitPass || one == exitDamaged {
			code = one
		}
	}
	if !s.json {
		words := map[int]string{exitPass: "clean", exitInconclusive: "orphans only", exitDamaged: "dangling or damaged objects"}
		fmt.Fprintf(s.stdout, "exit %d  %s\n", code, words[code])
	}
	if code != exitPass {
		return &exitError{code, nil}
	}
	return nil
}

// one audits, and where asked for restores and repairs, one run, and returns its exit code.
func (s *scrubbing) one(ctx context.Context, w world.World, r storedRun) (code int, err error) {
	now := time.Now()
	out := &findings{prefix: r.prefix, shown: map[scrub.Kind][]scrub.Finding{}}
	if s.json {
		out.lines = json.NewEncoder(s.stdout)
	}
	report, err := scrub.Audit(ctx, w, r, scrub.Options{Formats: catalog.Formats(), Shallow: s.shallow, Now: now, Found: out.found})
	if errors.Is(err, scrub.ErrNothing) {
		return 0, s.nothing(r.prefix)
	}
	if err == nil && s.restore {
		err = s.restored(ctx, w, r, report, out)
	}
	if err != nil {
		return 0, err
	}
	if !s.json {
		t := scrubText{out: s.stdout, now: now}
		t.report(s.spec, r.prefix, report, out)
	}
	code = map[scrub.Verdict]int{scrub.Clean: exitPass, scrub.Litter: exitInconclusive, scrub.Damaged: exitDamaged}[report.Verdict()]
	done, err := s.repaired(ctx, w, r, report, now)
	if err != nil {
		return 0, err
	}
	if done != nil && code == exitInconclusive && done.Left()+report.Counts[scrub.Foreign] == 0 {
		code = exitPass
	}
	if s.json {
		err = out.lines.Encode(summaryLine{Summary: report, Store: s.spec, Prefix: r.prefix, Repair: done, Exit: code})
	}
	return code, err
}

// restored restores all that is retained, with files in a folder of its own.
func (s *scrubbing) restored(ctx context.Context, w world.World, r storedRun, report *scrub.Report, out *findings) error {
	folder, err := os.MkdirTemp("", "bench-scrub-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // temporary
	return scrub.Restore(ctx, w, r, report, stateOptions(folder), out.found)
}

// repaired removes orphans where that is asked for; nil: it is not.
func (s *scrubbing) repaired(ctx context.Context, w world.World, r storedRun, report *scrub.Report, now time.Time) (*scrub.Repaired, error) {
	if !s.repair {
		return nil, nil
	}
	var token [8]byte
	if _, err := crand.Read(token[:]); err != nil {
		return nil, err
	}
	o := scrub.RepairOptions{Yes: s.yes, Now: now, Owner: fmt.Sprintf("%x", token)}
	if s.graceSet {
		o.Grace = &s.grace
	}
	if s.quietSet {
		o.Quiet = &s.quiet
	}
	done, err := scrub.Repair(ctx, w, r, report, o)
	var refused *scrub.RefusedError
	if errors.As(err, &refused) {
		return nil, usage("repair refused: %v", refused)
	}
	if err == nil && !s.json {
		printRepaired(s.stdout, done, s.grace)
	}
	return &done, err
}

// summaryLine is the last line of JSON of a run.
type summaryLine struct {
	Summary *scrub.Report   `json:"summary"`
	Store   string          `json:"store"`
	Prefix  string          `json:"prefix"`
	Repair  *scrub.Repaired `json:"repair,omitempty"`
	Exit    int             `json:"exit"`
}

// findings keeps some findings of each kind, or writes all as lines.
type findings struct {
	prefix string
	lines  *json.Encoder
	shown  map[scrub.Kind][]scrub.Finding
}

func (f *findings) found(x scrub.Finding) error {
	if f.lines != nil {
		return f.lines.Encode(struct {
			scrub.Finding
			Prefix string `json:"prefix"`
		}{x, f.prefix})
	}
	if list := f.shown[x.Kind]; len(list) < shownFindings {
		f.shown[x.Kind] = append(list, x)
	}
	return nil
}

// scrubText writes a report for people.
type scrubText struct {
	out io.Writer
	now time.Time
}

func (t scrubText) report(spec, prefix string, r *scrub.Report, f *findings) {
	t.head(spec, prefix, r)
	t.checkpoints("checkpoint", r.Checkpoints)
	t.checkpoints("savepoint", r.Savepoints)
	t.classes(r)
	t.causes(r)
	for _, kind := range []scrub.Kind{scrub.Dangling, scrub.Corrupt, scrub.Foreign, scrub.Upload, scrub.Loose} {
		t.findings(kind, f.shown[kind], r.Counts[kind])
	}
	if r.Moved {
		fmt.Fprintln(t.out, "the job runs: what it dropped during the audit may look dangling; stop it, or audit again")
	}
	if r.Unsure != "" {
		fmt.Fprintf(t.out, "orphans are not certain: %s\n", r.Unsure)
	}
}

// head says where this is, whose it is and how its coordinator is.
func (t scrubText) head(spec, prefix string, r *scrub.Report) {
	fmt.Fprint(t.out, "store  "+spec)
	if prefix != "" {
		fmt.Fprint(t.out, " under "+prefix)
	}
	fmt.Fprintln(t.out)
	run := r.Run
	if !r.Marked {
		run = "not marked as a run's"
	}
	fmt.Fprintf(t.out, "run    %s\n", strings.TrimPrefix(run, "run "))
	fmt.Fprintf(t.out, "log    entries %d, term %d of %s", r.Log.Entries, r.Log.Term, r.Log.Leader)
	if !r.Log.Newest.IsZero() {
		fmt.Fprintf(t.out, ", the last %s ago", age(t.now, r.Log.Newest))
		if t.now.Sub(r.Log.Newest) < r.Quiet() {
			fmt.Fprint(t.out, ": if the job still runs, what it is writing counts as orphaned")
		}
	}
	fmt.Fprintln(t.out)
	if r.Content {
		fmt.Fprintf(t.out, "read   %s\n", bytesText(r.Read))
	}
}

func (t scrubText) table() *tabwriter.Writer { return tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0) }

func (t scrubText) checkpoints(what string, list []scrub.CheckpointLine) {
	if len(list) == 0 {
		return
	}
	w := t.table()
	fmt.Fprintf(w, "\n%s\tage\tattempt\tparallelism\tobjects\tfull\tbase\tdelta\t\n", what)
	for _, l := range list {
		note := l.Problem
		switch {
		case l.Removed:
			note = "removed by its owner"
		case l.Restored:
			note = "restored"
		}
		if l.Removed || l.Problem != "" && l.Objects == 0 {
			fmt.Fprintf(w, "%d\t-\t-\t-\t-\t-\t-\t-\t%s\n", l.ID, note)
			continue
		}
		fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", l.ID, age(t.now, l.Written), l.Attempt, l.Parallelism, l.Objects,
			bytesText(l.Full), bytesText(l.Base), bytesText(l.Delta), note)
	}
	_ = w.Flush() // the terminal's errors are not ours
}

func (t scrubText) classes(r *scrub.Report) {
	w := t.table()
	fmt.Fprintln(w, "\nclass\tobjects\tbytes\tneeded\toldest\tnewest")
	for _, c := range r.Classes {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", c.Class, c.Objects, bytesText(c.Bytes), bytesText(c.Needed), age(t.now, c.Oldest), age(t.now, c.Newest))
	}
	_ = w.Flush()
}

func (t scrubText) causes(r *scrub.Report) {
	if len(r.Orphans) == 0 {
		return
	}
	w := t.table()
	fmt.Fprintln(w, "\norphaned\tattempt\tobjects\tbytes\toldest\tnewest\tcause")
	for _, c := range r.Orphans {
		attempt := "-"
		if c.Attempt > 0 {
			attempt = fmt.Sprint(c.Attempt)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", c.Class, attempt, c.Objects, bytesText(c.Bytes), age(t.now, c.Oldest), age(t.now, c.Newest), c.Cause)
	}
	_ = w.Flush()
}

// findings writes the findings of a kind.
func (t scrubText) findings(kind scrub.Kind, list []scrub.Finding, all int64) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(t.out)
	for _, f := range list {
		place := ""
		if f.Offset != nil {
			place = fmt.Sprintf(" at offset %d", *f.Offset)
		}
		text := f.Problem
		if text == "" {
			text = f.Cause
		}
		if len(f.Needed) > 0 {
			text += "; needed by " + strings.Join(f.Needed, ", ")
		}
		fmt.Fprintf(t.out, "%s  %s%s: %s\n", kind, f.Key, place, text)
	}
	if n := all - int64(len(list)); n > 0 {
		fmt.Fprintf(t.out, "%s  and %d more; --json lists all\n", kind, n)
	}
}

// printRepaired says what was removed and what was spared.
func printRepaired(w io.Writer, r scrub.Repaired, grace time.Duration) {
	verb := "would remove"
	if r.Done {
		verb = "removed"
	}
	fmt.Fprintf(w, "\nrepair %s %s of %s", verb, plural(int(r.Objects), "object"), bytesText(r.Bytes))
	if r.Uploads > 0 {
		fmt.Fprintf(w, " and %s", plural(int(r.Uploads), "open upload"))
	}
	if r.Young > 0 {
		fmt.Fprintf(w, "; spared %d younger than %s (--grace)", r.Young, grace)
	}
	if r.Ageless > 0 {
		fmt.Fprintf(w, "; spared %d whose age the store does not tell (--grace 0s)", r.Ageless)
	}
	if r.Failed > 0 {
		fmt.Fprintf(w, "; %d could not be removed: %s", r.Failed, r.Problem)
	}
	if !r.Done {
		fmt.Fprint(w, "; --yes does it")
	}
	fmt.Fprintln(w)
}
