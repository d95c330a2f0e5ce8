package compare

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"statebench.dev/bench/internal/metrics"
)

// head names world, store and profile, as each table must.
func (c *Comparison) head() string {
	world := "real"
	if c.simulated() {
		world = "SIMULATED, times from a cost model"
	}
	return oneLine(fmt.Sprintf("%s · store %s · profile %s", world, c.Store, c.Profile))
}

// Text is the comparison for a terminal: what differs, which runs count, the metrics, and what follows.
func (c *Comparison) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s · %s\n", oneLine(c.Scenario), c.head())
	for i, s := range []Side{c.A, c.B} {
		fmt.Fprintf(&b, "%c         %s  %s\n", 'A'+i, oneLine(s.Name), strings.Join(places(s), ", "))
	}
	lines := c.differing()
	for _, l := range lines {
		fmt.Fprintf(&b, "differs   %s\n", l)
	}
	if len(lines) == 0 {
		b.WriteString("differs   nothing: settings, program and host are the same\n")
	}
	fmt.Fprintf(&b, "runs      %s\n", c.runs())
	for _, r := range c.Invalid {
		fmt.Fprintf(&b, "invalid   %s: %s\n", r.Name, oneLine(strings.Join(r.Invalid, "; ")))
	}
	if c.Void != "" {
		fmt.Fprintf(&b, "void      %s\n", oneLine(c.Void))
	}
	for _, t := range c.tables() {
		fmt.Fprintf(&b, "\n%s\n", t.title)
		align(&b, append([][]string{t.columns}, t.cells...))
	}
	b.WriteByte('\n')
	for _, w := range c.Warnings {
		fmt.Fprintf(&b, "warning   %s\n", oneLine(w))
	}
	for _, s := range c.Sentences() {
		fmt.Fprintf(&b, "result    %s\n", s)
	}
	return b.String()
}

// places are the directories of a variant.
func places(s Side) (list []string) {
	for _, r := range s.Runs {
		if p := string(r.Invocation); !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	return list
}

// differing are the differences in words; settings of the backend that only one variant has are put together.
func (c *Comparison) differing() (lines []string) {
	var only [2][]string
	for _, d := range c.Differences {
		name := strings.TrimPrefix(d.Key, "backend.changelog.")
		switch {
		case d.Arm && d.A == "–":
			only[1] = append(only[1], name+" "+d.B)
		case d.Arm && d.B == "–":
			only[0] = append(only[0], name+" "+d.A)
		default:
			lines = append(lines, fmt.Sprintf("%s: %s against %s", d.Key, d.A, d.B))
		}
	}
	for i, s := range []Side{c.A, c.B} {
		if len(only[i]) > 0 {
			lines = append(lines, fmt.Sprintf("backend of %s only: %s", oneLine(s.Name), strings.Join(only[i], ", ")))
		}
	}
	return lines
}

// runs says how many count.
func (c *Comparison) runs() string {
	n := len(c.A.Runs) + len(c.B.Runs)
	if c.Unpaired {
		return fmt.Sprintf("%d, of which %d do not count: %d against %d, not paired", n, len(c.Invalid), len(c.A.valid()), len(c.B.valid()))
	}
	return fmt.Sprintf("%d, of which %d do not count: %s of the same seed", n, len(c.Invalid), plural(len(c.Pairs), "pair"))
}

// table is a part of the metrics.
type table struct {
	title   string
	columns []string
	cells   [][]string
}

// tables are the primary metrics, then those of each phase.
func (c *Comparison) tables() (list []table) {
	tested := 0
	for i := range c.Rows {
		if c.Rows[i].Primary && c.Rows[i].tested {
			tested++
		}
	}
	for i := range c.Rows {
		r := &c.Rows[i]
		title := fmt.Sprintf("advisory, phase %s", oneLine(r.Phase))
		if r.Phase == wholeRun {
			title = wholeRun
		}
		if r.Primary {
			title = fmt.Sprintf("primary · %s intervals · %s tested together · %s", percent(c.Level), plural(tested, "metric"), c.head())
		}
		if n := len(list); n == 0 || list[n-1].title != title {
			list = append(list, table{title: title, columns: []string{"metric", oneLine(c.A.Name), oneLine(c.B.Name), "change", "interval", "adjusted p", "verdict", "shows from", "n", ""}})
		}
		t := &list[len(list)-1]
		t.cells = append(t.cells, c.cells(r))
	}
	return list
}

// cells are the texts of a row.
func (c *Comparison) cells(r *Row) []string {
	name := oneLine(r.Name())
	if !r.Primary {
		name = r.Metric.Name
	}
	cells := []string{name, "–", "–", "–", "–", "–", string(r.Verdict), "–", fmt.Sprint(r.Pairs), oneLine(r.note())}
	if r.Pairs == 0 {
		return cells
	}
	cells[1], cells[2] = value(r.Metric, r.A, c.simulated()), value(r.Metric, r.B, c.simulated())
	cells[3] = r.change(r.Estimate)
	if r.Bounded {
		cells[4] = r.change(r.Low) + " to " + r.change(r.High)
	}
	if r.tested && r.Bounded {
		cells[5] = probability(r.Adjusted)
	}
	if r.Detectable > 0 && r.Bounded {
		cells[7] = strings.TrimPrefix(r.change(r.Detectable), "+")
	}
	return cells
}

// change writes a difference: a share, or in the unit of the metric.
func (r *Row) change(v float64) string {
	if !r.Plain {
		return signed(v)
	}
	if v < 0 {
		return "−" + value(r.Metric, -v, false)
	}
	return "+" + value(r.Metric, v, false)
}

// note is the reason of the verdict and what would help.
func (r *Row) note() string {
	parts := []string{}
	if r.Reason != "" {
		parts = append(parts, r.Reason)
	}
	if r.More > 0 {
		parts = append(parts, more(r.More))
	}
	if r.Missing != "" {
		parts = append(parts, r.Missing)
	}
	if r.Weak {
		parts = append(parts, "weak evidence")
	}
	return strings.Join(parts, "; ")
}

// manyPairs is more than anybody runs.
const manyPairs = 1000

func more(n int) string {
	if n > manyPairs {
		return fmt.Sprintf("more than %d further pairs would tell", manyPairs)
	}
	return fmt.Sprintf("%s more should tell", plural(n, "pair"))
}

// probability writes p.
func probability(p float64) string {
	if p < 0.0001 {
		return "<0.0001"
	}
	return fmt.Sprintf("%.4f", p)
}

// Sentences say which variant is better at what, how much and how sure, of the primary metrics first.
func (c *Comparison) Sentences() (list []string) {
	for _, primary := range []bool{true, false} {
		kind := "advisory"
		if primary {
			kind = "primary"
		}
		var words []string
		for _, v := range []struct {
			verdict Verdict
			word    string
		}{{Improvement, "better"}, {Regression, "worse"}, {Equivalent, "the same"}, {Inconclusive, "undecided"}} {
			var names []string
			for i := range c.Rows {
				r := &c.Rows[i]
				if r.Primary != primary || r.Verdict != v.verdict || !primary && (v.verdict == Equivalent || v.verdict == Inconclusive || r.rule.Class == Exact) {
					continue
				}
				name := r.Name()
				if v.verdict == Improvement || v.verdict == Regression {
					name += " " + r.change(r.Estimate)
					if r.Bounded && r.tested {
						name += " (" + r.change(r.Low) + " to " + r.change(r.High) + ")"
					}
				}
				names = append(names, name)
			}
			if len(names) > 0 {
				words = append(words, v.word+": "+strings.Join(names, ", "))
			}
		}
		if len(words) > 0 {
			list = append(list, oneLine(fmt.Sprintf("%s against %s, %s: %s", c.B.Name, c.A.Name, kind, strings.Join(words, " · "))))
		}
	}
	if len(list) == 0 {
		list = append(list, "nothing could be compared")
	}
	return list
}

// align writes rows in columns: the first and the last two to the left, figures to the right.
func align(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	left := func(i int) bool { return i == 0 || i == 6 || i == len(widths)-1 }
	for _, r := range rows {
		var line strings.Builder
		for i, cell := range r {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if left(i) {
				line.WriteString(cell + pad + "  ")
			} else {
				line.WriteString(pad + cell + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// Exit codes of a comparison, those of the program.
const (
	exitPass         = 0
	exitViolation    = 1
	exitInconclusive = 2
	exitRegression   = 4
)

// Exit is what a comparison comes to: 1 for a correctness violation in any run, since correctness is no statistic; 4 for a
// regression of a primary metric; 2 when one is inconclusive, or there is none; else 0.
func (c *Comparison) Exit() int {
	for _, r := range c.Invalid {
		if r.Violation != "" {
			return exitViolation
		}
	}
	code, primary := exitPass, 0
	for i := range c.Rows {
		r := &c.Rows[i]
		if !r.Primary {
			if r.rule.Class == Exact && r.Verdict != Equivalent && code == exitPass {
				code = exitInconclusive
			}
			continue
		}
		primary++
		switch r.Verdict {
		case Regression:
			return exitRegression
		case Inconclusive:
			code = exitInconclusive
		}
	}
	if primary == 0 || c.Void != "" {
		return exitInconclusive
	}
	return code
}

// Settled tells whether the first look of two is enough: there are primary metrics, every one that is tested is equivalent,
// and those that need no test have an answer.
func (c *Comparison) Settled() bool {
	primary := false
	for i := range c.Rows {
		r := &c.Rows[i]
		primary = primary || r.Primary
		if r.Primary && r.Verdict != Equivalent && (r.rule.Class != NearExact || r.Verdict == Inconclusive) {
			return false
		}
	}
	return primary
}

// timed tells whether a row's values come from the cost model of a simulated run.
func (c *Comparison) timed(m metrics.Metric) bool { return c.simulated() && m.Timed() }
