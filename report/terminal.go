package report

import (
	"fmt"
	"slices"
	"strings"

	"statebench.dev/bench/internal/results"
)

// Columns of a line of the terminal, and how many arms stand beside the baseline in one table.
const (
	maxLine   = 118
	maxBeside = 3
)

// Terminal is what a user sees at the end of a run: failures first, then the arms side by side, what was judged and what
// limits the figures, where to look, how to repeat. It ends with a newline and has no line about the exit code.
func Terminal(inv *Invocation) string {
	var b strings.Builder
	for _, r := range inv.Runs {
		if list := failures(r.Verdicts); len(list) > 0 {
			r.writeFailures(&b, list)
			fmt.Fprintf(&b, "again %s\n", inv.repeat(r))
		}
	}
	for i, m := range inv.misses() {
		if i == maxEvidence {
			fmt.Fprintf(&b, "      … and more in %s\n", results.ReportFile)
			break
		}
		wrapped(&b, "MISS  ", m)
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	t := newTable(inv)
	for _, part := range t.split() {
		fmt.Fprintf(&b, "%s\n", dotted(inv.head(), part.against()))
		part.text(&b)
		b.WriteByte('\n')
	}
	inv.writePromises(&b, t)
	fmt.Fprintf(&b, "checks   %s", inv.tally().text())
	if s := inv.disturbed("          "); s != "" {
		b.WriteString("          " + s)
	}
	b.WriteByte('\n')
	if s := inv.expectText(); s != "" {
		fmt.Fprintf(&b, "expect   %s\n", s)
	}
	for _, w := range inv.warnings(t) {
		wrapped(&b, "warning  ", w)
	}
	for _, c := range compare(t) {
		wrapped(&b, "result   ", c.sentence(t.base.name))
	}
	for _, s := range inv.notes(t) {
		wrapped(&b, "note     ", s)
	}
	fmt.Fprintf(&b, "page     %s\n", inv.Dir.Path(results.ReportFile))
	for i, c := range inv.again() {
		fmt.Fprintf(&b, "%s%s\n", pad(map[bool]string{true: "again"}[i == 0], 9), c)
	}
	return b.String()
}

// writeFailures writes the verdicts of a run that are no pass. What could not be judged because the run did not come to its
// end is one fact, not one for each check.
func (r *Run) writeFailures(b *strings.Builder, list []results.Verdict) {
	var unsure []string
	var last []string
	for _, v := range list {
		if v.Verdict == results.Fail || r.Entry.Status == statusFinished {
			writeVerdict(b, r.Entry.Name, v, r.story.timeline.cut(v))
			continue
		}
		unsure = append(unsure, v.Check)
		if v.Check == "H2" { // what the history ended with
			last = r.story.timeline.cut(v)
		}
	}
	if len(unsure) == 0 {
		return
	}
	fmt.Fprintf(b, "%s  %s\n", word(results.Inconclusive), oneLine(strings.TrimSuffix(r.Entry.Name+" "+r.Entry.Status+": "+r.Entry.Error, ": ")))
	wrapped(b, "      ", fmt.Sprintf("%s could not be judged: %s; verdicts.json has the reasons", plural(len(unsure), "check"), oneLine(strings.Join(unsure, ", "))))
	for _, l := range last {
		fmt.Fprintf(b, "    %s\n", l)
	}
}

// head names world, store and store profile; it stands over every table.
func (inv *Invocation) head() string {
	m := &inv.Manifest
	world := m.World
	if inv.simulated() {
		world = "SIMULATED"
	}
	return oneLine(dotted(fmt.Sprintf("%s · store %s · profile %s", world, m.Store, m.Profile), inv.startModes()))
}

// dotted joins what is not empty.
func dotted(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " · ")
}

// split makes one table for the baseline and every few other arms.
func (t *table) split() (parts []*table) {
	if len(t.arms) <= maxBeside+1 {
		return []*table{t}
	}
	var rest []int
	at := slices.Index(t.arms, t.base)
	for i := range t.arms {
		if i != at {
			rest = append(rest, i)
		}
	}
	for chunk := range slices.Chunk(rest, maxBeside) {
		if at >= 0 {
			chunk = append([]int{at}, chunk...)
		}
		p := &table{base: t.base, window: t.window, compared: t.compared, sim: t.sim}
		for _, i := range chunk {
			p.arms = append(p.arms, t.arms[i])
		}
		for _, r := range t.rows {
			figures, texts := r.figures, r.texts
			r.figures, r.texts = nil, nil
			for _, i := range chunk {
				if texts != nil {
					r.texts = append(r.texts, texts[i])
				} else {
					r.figures = append(r.figures, figures[i])
				}
			}
			p.rows = append(p.rows, r)
		}
		parts = append(parts, p)
	}
	return parts
}

// text writes the table in aligned columns.
func (t *table) text(b *strings.Builder) {
	lines := [][]string{append([]string{"", ""}, append(t.columns(), "n")...)}
	for _, r := range t.rows {
		cells, reason := t.cells(r)
		line := []string{r.label, r.stat}
		if reason == "" {
			line = append(line, cells...)
			line = append(line, r.samples(), r.note)
		} else {
			line = append(line, reason)
		}
		lines = append(lines, line)
	}
	columns := len(lines[0])
	widths := make([]int, columns)
	for _, l := range lines {
		if len(l) < columns && len(l) != 2 { // a reason spans the columns
			l = l[:2]
		}
		for i, c := range l {
			if i < columns {
				widths[i] = max(widths[i], width(c))
			}
		}
	}
	for _, l := range lines {
		var s strings.Builder
		for i, c := range l {
			if i < columns {
				s.WriteString(pad(c, widths[i]) + "  ")
				continue
			}
			s.WriteString(c)
		}
		line := strings.TrimRight(s.String(), " ")
		if note := l[len(l)-1]; note != "" && len(l) > columns && width(line) > maxLine+20 {
			b.WriteString(strings.TrimRight(strings.TrimSuffix(line, note), " ") + "\n")
			wrapped(b, "    ", note)
			continue
		}
		b.WriteString(line + "\n")
	}
}

// wrapped writes text behind a first word and breaks long lines under it.
func wrapped(b *strings.Builder, first, text string) {
	line := first
	for i, w := range strings.Fields(text) {
		if i > 0 {
			if width(line)+1+width(w) > maxLine {
				b.WriteString(line + "\n")
				line = strings.Repeat(" ", width(first)-1)
			}
			line += " "
		}
		line += w
	}
	b.WriteString(line + "\n")
}
