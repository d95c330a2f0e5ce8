package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"
	"statebench.dev/bench/internal/validate"

	"golang.org/x/term"
)

// live shows how the runs go: on a terminal one line that is redrawn, elsewhere plain lines, one for each phase, fault,
// rescale, failed attempt, aborted checkpoint, and minute.
type live struct {
	mu      sync.Mutex
	out     io.Writer
	tty     bool
	colour  bool
	planned planned
	arm     string
	minute  time.Duration
	faults  map[string]string // in force: id -> kind
	open    bool              // a redrawn line stands
	closed  bool              // nothing more is printed
	width   int               // of the terminal
	column  int               // of the runs' names
	begun   int
	newest  uint64 // completed checkpoint
	aborted int
	ended   time.Duration // when the run ended, by its own clock
}

var _ run.Live = (*live)(nil)

func newLive(out io.Writer, p planned) *live {
	l := &live{out: out, planned: p, faults: map[string]string{}, width: 100}
	for i := range p.plans {
		l.column = max(l.column, len(run.Name(&p.plans[i])))
	}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		l.tty, l.colour = true, os.Getenv("NO_COLOR") == ""
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
			l.width = w - 1
		}
	}
	return l
}

// Begin prints the head.
func (l *live) Begin(dir results.Dir) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.planned.plans[0]
	world := "real"
	if p.Simulated() {
		world = "SIMULATED, times from a cost model"
	}
	arms, reps := map[string]bool{}, map[int]bool{}
	for _, x := range l.planned.plans {
		arms[x.Arm], reps[x.Rep] = true, true
	}
	fmt.Fprintf(l.out, "%s · seed %d · %s · store %s · profile %s · %s × %d rep    %s\n",
		l.planned.name, p.Seed, world, p.Store.Kind, p.Store.Profile, plural(len(arms), "arm"), len(reps), string(dir))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// RunBegin starts the line of a run.
func (l *live) RunBegin(p *plan.Plan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arm, l.begun = run.Name(p), l.begun+1
	l.minute, l.newest, l.aborted, l.ended = 0, 0, 0, 0
	clear(l.faults)
	if l.tty {
		l.draw("", "begins")
		return
	}
	l.line(0, fmt.Sprintf("begins (%d of %d)", l.begun, len(l.planned.plans)))
}

// Event prints what a reader wants to follow. It is called under the recorder's lock and must be quick.
func (l *live) Event(e *history.Event) {
	text := l.tell(e)
	if text == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tty {
		return // the redrawn line tells
	}
	l.line(e.At, text)
}

// line prints a line about a moment of the run.
func (l *live) line(at time.Duration, text string) {
	fmt.Fprintf(l.out, "  %-*s %8.1f s  %s\n", l.column, l.arm, at.Seconds(), text)
}

func (l *live) tell(e *history.Event) string {
	switch e.Kind {
	case history.PhaseBegin:
		return "phase " + e.Phase
	case history.FaultHit:
		l.note(e.Fault, l.kind(e.Fault))
		return "fault " + e.Fault + " hit"
	case history.FaultHealed:
		l.note(e.Fault, "")
		return "fault " + e.Fault + " healed"
	case history.FaultMissed:
		return "fault " + e.Fault + " was not proven: " + e.Text
	case history.RescaleBegin:
		return fmt.Sprintf("rescale from %d to %d", e.From, e.Count)
	case history.AttemptFailed:
		if e.Text == history.CauseRescale {
			return ""
		}
		return fmt.Sprintf("attempt %d failed: %s", e.Attempt, first(e.Error, e.Text))
	case history.CheckpointAborted:
		l.mu.Lock()
		l.aborted++
		l.mu.Unlock()
		return fmt.Sprintf("checkpoint %d aborted: %s", e.Checkpoint, e.Reason)
	case history.CheckpointCompleted:
		l.mu.Lock()
		l.newest = e.Checkpoint
		l.mu.Unlock()
	case history.Note:
		if e.Text != interruption {
			return e.Text
		}
	case history.RunEnd:
		l.mu.Lock()
		l.ended = e.At
		l.mu.Unlock()
	}
	return ""
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// kind is what a fault of the run under way is.
func (l *live) kind(id string) string {
	for _, p := range l.planned.plans {
		for _, f := range p.Faults {
			if f.ID == id {
				return f.Kind
			}
		}
	}
	return "fault"
}

func (l *live) note(fault, state string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if state == "" {
		delete(l.faults, fault)
	} else {
		l.faults[fault] = state
	}
}

// Tick redraws the line, or prints one each minute.
func (l *live) Tick(t run.Tick) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tty {
		l.draw(l.bar(t), l.state(t))
		return
	}
	if t.At >= l.minute+time.Minute {
		l.minute = t.At.Truncate(time.Minute)
		l.line(t.At, l.state(t))
	}
}

func (l *live) state(t run.Tick) string {
	s := fmt.Sprintf("%s  ckpt #%d  %s records  lag %.1f s", t.Phase, t.Completed, count(t.Emitted), t.Lag.Seconds())
	if t.State != "running" {
		s += "  " + t.State
	}
	return s
}

// bar shows how much of the input was read; nothing where that is not known.
func (l *live) bar(t run.Tick) string {
	const cells = 12
	if t.Total <= 0 {
		return ""
	}
	done := min(cells, int(cells*t.Emitted/t.Total))
	return strings.Repeat("█", done) + strings.Repeat("░", cells-done) + "  "
}

// draw puts the line of the run under way in place of the one before. Where it is too long, the faults' kinds go first,
// then the bar.
func (l *live) draw(bar, text string) {
	head := fmt.Sprintf("  %-*s ", l.column, l.arm)
	short, long := "", ""
	for _, id := range slices.Sorted(maps.Keys(l.faults)) {
		short += "   ● " + id
		long += "   ● " + id + " (" + l.faults[id] + ")"
	}
	var line []rune
	for _, s := range []string{bar + text + long, bar + text + short, text + short} {
		if line = []rune(head + s); len(line) <= l.width {
			break
		}
	}
	l.wipe()
	fmt.Fprint(l.out, string(line[:min(len(line), l.width)]))
	l.open = true
}

// wipe makes room for a line of its own.
func (l *live) wipe() {
	if l.open {
		fmt.Fprint(l.out, "\r\x1b[K")
		l.open = false
	}
}

// interruption is the note of a run that was interrupted, which the user knows.
const interruption = "interrupted"

// interrupt tells a user who wants to end the program what comes of it.
func (l *live) interrupt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.wipe()
	fmt.Fprintln(l.out, "interrupted: the run ends and what was measured is kept; a second interrupt ends the program at once")
}

// RunEnd prints one line about a finished run.
func (l *live) RunEnd(p *plan.Plan, o run.Outcome, verdicts []results.Verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wipe()
	verdict := validate.Overall(verdicts)
	mark, end := "", ""
	if l.colour {
		mark, end = map[string]string{results.Pass: "\x1b[32m", results.Fail: "\x1b[31m", results.Inconclusive: "\x1b[33m"}[verdict], "\x1b[0m"
	}
	aborted := ""
	if l.aborted > 0 {
		aborted = fmt.Sprintf("  %d aborted", l.aborted)
	}
	fmt.Fprintf(l.out, "  %-*s %8.1f s  %s  %s records  newest checkpoint %d%s  %s%s%s\n",
		l.column, run.Name(p), l.ended.Seconds(), o.Status, count(o.Records), l.newest, aborted, mark, verdict, end)
	if o.Err != nil && !endsAll(o.Err) {
		text, _, _ := strings.Cut(o.Err.Error(), "\n")
		fmt.Fprintf(l.out, "  %-*s             %s\n", l.column, "", text)
	}
}

// endsAll tells whether an error ends the invocation, so that it is told in the end.
func endsAll(err error) bool {
	var setup *run.SetupError
	var write *run.WriteError
	return errors.As(err, &setup) || errors.As(err, &write)
}

// end leaves the terminal as it should be and ends all output of l.
func (l *live) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.open {
		fmt.Fprintln(l.out)
		l.open = false
	}
}

func count(n int64) string {
	switch {
	case n >= 1_000_000:
		return fmt.Sprintf("%.2f M", float64(n)/1e6)
	case n >= 10_000:
		return fmt.Sprintf("%.1f k", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}
