package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/scrub"
	"statebench.dev/bench/internal/world"
	"statebench.dev/bench/workloads"

	"github.com/spf13/cobra"
)

// inspection is what the inspect command was asked to do.
type inspection struct {
	stored
	checkpoint      string
	operator, state string
	group, limit    int
	json, noStates  bool
	stdout          io.Writer
}

func newInspect(stdout, stderr io.Writer) *cobra.Command {
	s := &inspection{stdout: stdout, stored: stored{stderr: stderr}}
	cmd := &cobra.Command{
		Use:   "inspect <store> [checkpoint]",
		Short: "Show the checkpoints and savepoints in a store, and the state in them",
		Long: "inspect lists the checkpoints and savepoints that runs left in a store. With the id of one, or latest, it shows its handles\n" +
			"by subtask, its objects and its states with their numbers of elements. With --operator, --state and --key-group it prints\n" +
			"the elements themselves: keys and values as numbers or texts where they are such, values decoded where a workload knows them.",
		Example: "  bench inspect dir:objects\n" +
			"  bench inspect dir:objects latest\n" +
			"  bench inspect dir:objects 7 --operator count --state value --key-group 12",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.check(cmd, args, 2); err != nil {
				return err
			}
			if len(args) == 2 {
				s.checkpoint = args[1]
			}
			if err := s.combined(cmd); err != nil {
				return err
			}
			return s.with(cmd.Context(), s.run)
		},
	}
	s.add(cmd)
	cmd.Flags().StringVar(&s.operator, "operator", "", "print elements of the operator `OP`")
	cmd.Flags().StringVar(&s.state, "state", "", "print elements of its state `NAME`")
	cmd.Flags().IntVar(&s.group, "key-group", -1, "print elements of the key group `N`")
	cmd.Flags().IntVar(&s.limit, "limit", 100, "print `N` elements or objects at most; 0: all")
	cmd.Flags().BoolVar(&s.noStates, "no-states", false, "do not restore the state to count its elements")
	cmd.Flags().BoolVar(&s.json, "json", false, "JSON instead of tables: one document, or a line for each element")
	return cmd
}

// combined refuses flags that mean nothing together.
func (s *inspection) combined(cmd *cobra.Command) error {
	given := 0
	for _, name := range []string{"operator", "state", "key-group"} {
		if cmd.Flags().Changed(name) {
			given++
		}
	}
	switch {
	case given > 0 && given < 3:
		return usage("elements are those of one state in one key group: give all of --operator, --state and --key-group")
	case given > 0 && s.checkpoint == "":
		return usage("say which checkpoint, by its id or latest: bench inspect %s latest --operator ...", s.spec)
	case given > 0 && (s.group < 0 || s.group >= keygroup.MaxParallelism):
		return usage("--key-group takes a key group, 0 or more, not %d", s.group)
	case s.limit < 0:
		return usage("--limit takes a whole number, 0 or more, not %d", s.limit)
	}
	return nil
}

func (s *inspection) run(ctx context.Context, w world.World, runs []storedRun) error {
	if s.checkpoint == "" {
		return s.overviews(ctx, w, runs)
	}
	r, err := s.only(runs)
	if err != nil {
		return err
	}
	report, err := scrub.Overview(ctx, w, r)
	if errors.Is(err, scrub.ErrNothing) {
		return s.nothing(r.prefix)
	}
	if err != nil {
		return err
	}
	line, err := report.Find(s.checkpoint)
	if err != nil {
		return err
	}
	m, err := scrub.Open(ctx, w, r, line)
	if err != nil {
		return fmt.Errorf("%w; `bench scrub` tells what else is damaged", err)
	}
	folder, err := os.MkdirTemp("", "bench-inspect-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // temporary
	if s.operator != "" {
		return s.elements(ctx, w, r, m, folder)
	}
	return s.details(ctx, w, r, line, m, folder)
}

// overviews lists what each run left.
func (s *inspection) overviews(ctx context.Context, w world.World, runs []storedRun) error {
	type overview struct {
		Prefix string `json:"prefix"`
		*scrub.Report
	}
	var all []overview
	now := time.Now()
	for i, r := range runs {
		report, err := scrub.Overview(ctx, w, r)
		if errors.Is(err, scrub.ErrNothing) {
			return s.nothing(r.prefix)
		}
		if err != nil {
			return err
		}
		if s.json {
			all = append(all, overview{r.prefix, report})
			continue
		}
		if i > 0 {
			fmt.Fprintln(s.stdout)
		}
		t := scrubText{out: s.stdout, now: now}
		t.head(s.spec, r.prefix, report)
		t.checkpoints("checkpoint", report.Checkpoints)
		t.checkpoints("savepoint", report.Savepoints)
		if report.Verdict() == scrub.Damaged {
			fmt.Fprintf(s.stdout, "something is damaged: `bench scrub %s` tells what\n", s.spec)
		}
	}
	if s.json {
		return indented(s.stdout, all)
	}
	return nil
}

func indented(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// details shows one checkpoint.
func (s *inspection) details(ctx context.Context, w world.World, r storedRun, line *scrub.CheckpointLine, m *checkpoint.Metadata, folder string) error {
	var states []scrub.StateLine
	if !s.noStates {
		var err error
		if states, err = scrub.States(ctx, w, r, m, stateOptions(folder)); err != nil {
			return fmt.Errorf("%w; --no-states shows the rest", err)
		}
	}
	if s.json {
		return indented(s.stdout, struct {
			*scrub.CheckpointLine
			Checkpoint *checkpoint.Metadata   `json:"metadataContent"`
			Uses       []checkpoint.ObjectUse `json:"objectUses"`
			States     []scrub.StateLine      `json:"states,omitempty"`
		}{line, m, m.Objects(), states})
	}
	t := detailText{out: s.stdout, limit: s.limit}
	t.head(line, m)
	t.subtasks(m)
	t.objects(m)
	t.states(states)
	return nil
}

// detailText writes a checkpoint for people.
type detailText struct {
	out   io.Writer
	limit int
}

func (t detailText) table() *tabwriter.Writer { return tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0) }

func (t detailText) head(l *scrub.CheckpointLine, m *checkpoint.Metadata) {
	what := "checkpoint"
	if scrub.ClassOf(l.Metadata) == scrub.ClassSavepoint {
		what = "savepoint"
	}
	fmt.Fprintf(t.out, "%s %d  %s, written %s ago; attempt %d, term %d, triggered %v after the run began\n", what, m.ID, l.Metadata,
		age(time.Now(), l.Written), m.Attempt, m.Term, m.TriggeredAt.Round(time.Millisecond))
	fmt.Fprintf(t.out, "parallelism %d of %d  full %s: base %s, delta %s in %s\n", m.Parallelism, m.MaxParallelism,
		bytesText(l.Full), bytesText(l.Base), bytesText(l.Delta), plural(l.Objects, "object"))
}

// subtasks lists the handles, and what else the subtasks keep.
func (t detailText) subtasks(m *checkpoint.Metadata) {
	w := t.table()
	fmt.Fprintln(w, "\nsubtask\tkey groups\tform\tbase\tdelta\tmaterialization\tbeside")
	for i := range m.Subtasks {
		s := &m.Subtasks[i]
		name := fmt.Sprintf("%s-%d", s.Operator, s.Index)
		if h := s.Keyed; h != nil {
			fmt.Fprintf(w, "%s\t%v\t%s\t%d parts, %s\t%d parts, %s\t%d\t%s\n", name, h.Range, h.Backend, len(h.Base), bytesText(h.BaseBytes()),
				len(h.Delta), bytesText(h.DeltaBytes()), h.Materialization, beside(s))
			continue
		}
		fmt.Fprintf(w, "%s\t-\t-\t-\t-\t-\t%s\n", name, beside(s))
	}
	_ = w.Flush() // the terminal's errors are not ours
}

// beside is the operator state of a subtask.
func beside(s *checkpoint.SubtaskState) string {
	var all []string
	for _, p := range s.Positions {
		all = append(all, fmt.Sprintf("partition %d at %d", p.Partition, p.Next))
	}
	if n := len(s.Parts); n > 0 {
		all = append(all, plural(n, "part")+" of operator state")
	}
	if n := len(s.Transactions); n > 0 {
		all = append(all, plural(n, "transaction"))
	}
	return strings.Join(all, ", ")
}

func (t detailText) objects(m *checkpoint.Metadata) {
	all := m.Objects()
	if len(all) == 0 {
		return
	}
	w := t.table()
	fmt.Fprintln(w, "\nobject\tbytes\tcrc32c")
	for i, o := range all {
		if t.limit > 0 && i == t.limit {
			fmt.Fprintf(w, "and %d more; --limit 0 lists all\t\t\n", len(all)-i)
			break
		}
		fmt.Fprintf(w, "%s\t%d\t%08x\n", o.Key, o.Bytes, o.CRC32C)
	}
	_ = w.Flush()
}

func (t detailText) states(states []scrub.StateLine) {
	if len(states) == 0 {
		return
	}
	w := t.table()
	fmt.Fprintln(w, "\noperator\tstate\ttype\telements\tbytes\tkey groups")
	for _, s := range states {
		kind := s.Type
		if s.Schema != "" {
			kind += ", " + s.Schema
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%d\n", s.Operator, s.State, kind, s.Elements, bytesText(s.Bytes), s.Groups)
	}
	_ = w.Flush()
}

// elementLine is an element as JSON has it: each part in hexadecimal digits and, where it is a number or a text, as that.
type elementLine struct {
	Key       string `json:"key"`
	Namespace string `json:"namespace,omitempty"`
	MapKey    string `json:"mapKey,omitempty"`
	Place     *int64 `json:"place,omitempty"` // of a list element, from 0
	Time      *int64 `json:"time,omitempty"`  // of a timer or expiry, in ns of event time
	Expires   *int64 `json:"expires,omitempty"`
	Value     string `json:"value"`
	Text      struct {
		Key       string `json:"key"`
		Namespace string `json:"namespace,omitempty"`
		MapKey    string `json:"mapKey,omitempty"`
		Value     string `json:"value,omitempty"`
	} `json:"text"`
}

// elements prints the elements of one state in one key group.
func (s *inspection) elements(ctx context.Context, w world.World, r storedRun, m *checkpoint.Metadata, folder string) error {
	n, more := 0, false
	lines := json.NewEncoder(s.stdout)
	at := scrub.Selection{Operator: s.operator, State: s.state, Group: keygroup.ID(s.group)}
	var problem error
	err := scrub.Elements(ctx, w, r, m, at, stateOptions(folder), func(e scrub.Element) bool {
		if more = s.limit > 0 && n == s.limit; more {
			return false
		}
		n++
		var l elementLine
		if l, problem = lineOf(s.operator, e); problem != nil {
			return false
		}
		if s.json {
			problem = lines.Encode(l)
		} else {
			_, problem = fmt.Fprintln(s.stdout, l.text())
		}
		return problem == nil
	})
	if err = errors.Join(err, problem); err != nil || s.json {
		return err
	}
	if more {
		_, err = fmt.Fprintf(s.stdout, "%s shown, there are more; --limit 0 prints all\n", plural(n, "element"))
	} else {
		_, err = fmt.Fprintf(s.stdout, "%s\n", plural(n, "element"))
	}
	return err
}

// lineOf takes an element's canonical value apart.
func lineOf(operator string, e scrub.Element) (l elementLine, err error) {
	l.Key, l.Text.Key = hex.EncodeToString(e.Key), legible(e.Key)
	if len(e.Namespace) > 0 {
		l.Namespace, l.Text.Namespace = hex.EncodeToString(e.Namespace), legible(e.Namespace)
	}
	value := e.Value
	r := backend.NewReader(value)
	switch e.Spec.Type {
	case backend.Timers, backend.Expiries:
		at := r.Int64()
		l.Time, value = &at, nil
	case backend.Map:
		key := r.Bytes()
		l.MapKey, l.Text.MapKey, value = hex.EncodeToString(key), legible(key), r.Rest()
	case backend.List:
		place := int64(r.Uint32())
		l.Place, value = &place, r.Rest()
	default:
		r.Rest()
	}
	if err := r.Close(); err != nil {
		return l, fmt.Errorf("element with key %x: %w", e.Key, err)
	}
	if e.Expires && len(value) >= 8 {
		head := backend.NewReader(value[:8])
		at := head.Int64()
		l.Expires, value = &at, value[8:]
	}
	l.Value = hex.EncodeToString(value)
	if text, ok := workloads.Show(operator, e.Spec, value); ok {
		l.Text.Value = text
	} else {
		l.Text.Value = legible(value)
	}
	return l, nil
}

// text is the line for people.
func (l elementLine) text() string {
	var b strings.Builder
	b.WriteString(l.Text.Key)
	if l.Text.Namespace != "" {
		b.WriteString("  namespace " + l.Text.Namespace)
	}
	if l.MapKey != "" {
		b.WriteString("  [" + l.Text.MapKey + "]")
	}
	if l.Place != nil {
		fmt.Fprintf(&b, "  #%d", *l.Place)
	}
	if l.Time != nil {
		fmt.Fprintf(&b, "  at %d ns", *l.Time)
	} else {
		b.WriteString("  " + l.Text.Value)
	}
	if l.Expires != nil {
		fmt.Fprintf(&b, "  expires at %d ns", *l.Expires)
	}
	return b.String()
}

// legible writes bytes as a text, as a number when there are eight of them, or in hexadecimal digits.
func legible(b []byte) string {
	switch {
	case len(b) == 0:
		return "(empty)"
	case utf8.Valid(b) && strings.IndexFunc(string(b), func(r rune) bool { return !unicode.IsPrint(r) }) < 0:
		return strconv.Quote(string(b))
	case len(b) == 8:
		r := backend.NewReader(b)
		return strconv.FormatInt(r.Int64(), 10)
	}
	return "0x" + hex.EncodeToString(b)
}
