package main

import (
	"fmt"
	"io"
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
	last    run.Tick
	faults  map[string]string // in force: id -> kind
	open    bool              // a redrawn line stands
	width   int
	begun   int
	aborted int
}

var _ run.Live = (*live)(nil)

func newLive(out io.Writer, p planned) *live {
	l := &live{out: out, planned: p, faults: map[string]string{}, width: 100}
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
	p := l.planned.plans[0]
	world := "real"
	if p.Simulated() {
		world = "SIMULATED, times from a cost model"
	}
	arms := map[string]bool{}
	reps := 0
	for _, x := range l.planned.plans {
		arms[x.Arm] = true
		reps = max(reps, x.Rep)
	}
	fmt.Fprintf(l.out, "%s · seed %d · %s · store %s · profile %s · %d arms × %d rep    %s\n",
		l.planned.name, p.Seed, world, p.Store.Kind, p.Store.Profile, len(arms), reps, string(dir))
}

// RunBegin starts the line of a run.
func (l *live) RunBegin(p *plan.Plan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arm, l.minute, l.last, l.begun, l.aborted = run.Name(p), 0, run.Tick{}, l.begun+1, 0
	clear(l.faults)
	if !l.tty {
		fmt.Fprintf(l.out, "  %-16s begins (%d of %d)\n", l.arm, l.begun, len(l.planned.plans))
	}
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
	fmt.Fprintf(l.out, "  %-16s %8.1f s  %s\n", l.arm, e.At.Seconds(), text)
}

func (l *live) tell(e *history.Event) string {
	switch e.Kind {
	case history.PhaseBegin:
		return "phase " + e.Phase
	case history.FaultHit:
		l.note(e.Fault, "hit")
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
	case history.Note:
		return e.Text
	}
	return ""
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
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
	l.last = t
	if l.tty {
		l.draw(t)
		return
	}
	if t.At >= l.minute+time.Minute {
		l.minute = t.At.Truncate(time.Minute)
		fmt.Fprintf(l.out, "  %-16s %8.1f s  %s\n", l.arm, t.At.Seconds(), l.state(t))
	}
}

func (l *live) state(t run.Tick) string {
	s := fmt.Sprintf("%s  ckpt #%d  %s records  lag %.1f s", t.Phase, t.Completed, count(t.Emitted), t.Lag.Seconds())
	if t.State != "running" {
		s += "  " + t.State
	}
	return s
}

func (l *live) draw(t run.Tick) {
	bar := ""
	if t.Total > 0 {
		done := int(20 * t.Emitted / t.Total)
		bar = strings.Repeat("█", min(done, 20)) + strings.Repeat("░", max(0, 20-done)) + "  "
	}
	s := fmt.Sprintf("  %-16s %s%s", l.arm, bar, l.state(t))
	for _, id := range sorted(l.faults) {
		s += "   ● " + id
	}
	if r := []rune(s); len(r) > l.width {
		s = string(r[:l.width])
	}
	fmt.Fprintf(l.out, "\r\x1b[K%s", s)
	l.open = true
}

// RunEnd prints one line about a finished run.
func (l *live) RunEnd(p *plan.Plan, o run.Outcome, verdicts []results.Verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open {
		fmt.Fprint(l.out, "\r\x1b[K")
		l.open = false
	}
	verdict := validate.Overall(verdicts)
	mark, end := "", ""
	if l.colour {
		mark, end = map[string]string{results.Pass: "\x1b[32m", results.Fail: "\x1b[31m", results.Inconclusive: "\x1b[33m"}[verdict], "\x1b[0m"
	}
	aborted := ""
	if l.aborted > 0 {
		aborted = fmt.Sprintf("  %d aborted", l.aborted)
	}
	fmt.Fprintf(l.out, "  %-16s %s  %.1f s  %s records  newest checkpoint %d%s  %s%s%s\n",
		run.Name(p), o.Status, l.last.At.Seconds(), count(o.Records), l.last.Completed, aborted, mark, verdict, end)
}

// end leaves the terminal as it should be.
func (l *live) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open {
		fmt.Fprintln(l.out)
		l.open = false
	}
}

func count(n int64) string {
	switch {
	case n >= 10_000_000:
		return fmt.Sprintf("%.1f M", float64(n)/1e6)
	case n >= 10_000:
		return fmt.Sprintf("%.1f k", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}

func sorted(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
