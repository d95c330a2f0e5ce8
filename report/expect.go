package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/results"
)

// promise is a statement of the plans and what became of it in each arm.
type promise struct {
	phase, metric, text, about string
	cells                      []promiseCell // one an arm; the zero value where nothing was expected of it
}

// promiseCell is what became of a statement in the runs of an arm. It shows the worst of them.
type promiseCell struct {
	outcome string
	text    string
}

// promises are the statements of all plans in their order.
func promises(all []*arm) (list []*promise) {
	for i, a := range all {
		byKey := map[*promise][]results.Expectation{}
		for _, r := range a.runs {
			for _, x := range r.Expected {
				k := slices.IndexFunc(list, func(p *promise) bool { return p.phase == x.Phase && p.metric == x.Metric && p.text == x.Text })
				if k < 0 {
					k = len(list)
					list = append(list, &promise{phase: x.Phase, metric: x.Metric, text: x.Text, about: x.About, cells: make([]promiseCell, len(all))})
				}
				byKey[list[k]] = append(byKey[list[k]], x)
			}
		}
		for p, answers := range byKey { // order-free: each promise for itself
			p.cells[i] = worst(answers)
		}
	}
	return list
}

// worst is the cell of an arm's answers about one statement.
func worst(answers []results.Expectation) promiseCell {
	at, missed := 0, 0
	for i := range answers {
		if answers[i].Outcome == results.Missed {
			missed++
		}
		if worse(&answers[i], &answers[at]) {
			at = i
		}
	}
	c := promiseCell{outcome: answers[at].Outcome, text: measured(&answers[at])}
	if x := &answers[at]; !x.Value.Set && x.Need > x.N { // the reason is long and stands elsewhere
		c.text = fmt.Sprintf("%s of %s samples", formatCount(int64(x.N)), formatCount(int64(x.Need)))
	}
	if missed > 0 && len(answers) > 1 {
		c.text = fmt.Sprintf("%s in %d of %d", c.text, missed, len(answers))
	}
	return c
}

// worse orders answers: missed before unknown before met, then by how far they are on the wrong side.
func worse(a, b *results.Expectation) bool {
	rank := func(x *results.Expectation) int {
		return slices.Index([]string{results.Met, results.Unknown, results.Missed}, x.Outcome)
	}
	if rank(a) != rank(b) {
		return rank(a) > rank(b)
	}
	if !a.Value.Set || !b.Value.Set {
		return !a.Value.Set && b.Value.Set
	}
	if strings.HasPrefix(a.Op, ">") {
		return a.Value.Value < b.Value.Value
	}
	return a.Value.Value > b.Value.Value
}

// measured is the value of an expectation with its unit, or the reason why there is none.
func measured(x *results.Expectation) string {
	if !x.Value.Set {
		return oneLine(x.Reason)
	}
	return metricText(x.Value.Value, metrics.Unit(x.Unit), x.Simulated)
}

// metricText writes a value in the unit of a metric.
func metricText(v float64, u metrics.Unit, sim bool) string {
	units := map[metrics.Unit]unit{metrics.Millis: unitMillis, metrics.Micros: unitMicros, metrics.Bytes: unitBytes, metrics.Rate: unitRate, metrics.Dollars: unitDollars}
	if known, ok := units[u]; ok {
		return known.format(v, sim)
	}
	var s string
	switch u {
	case metrics.Share:
		s = digits(v*100) + " %"
	case metrics.PerSec:
		s = digits(v) + " ms/s"
	default:
		if v == math.Trunc(v) && math.Abs(v) < 1e15 {
			return formatCount(int64(v))
		}
		return digits(v)
	}
	if sim {
		s += " sim"
	}
	return s
}

// outcomeWord is how an outcome is shown: what was missed shouts.
func outcomeWord(outcome string) string {
	switch outcome {
	case results.Met:
		return "met"
	case results.Missed:
		return "MISS"
	}
	return "unknown"
}

// String is the cell in words.
func (c promiseCell) String() string {
	if c.outcome == "" {
		return "–"
	}
	if c.outcome == results.Met {
		return c.text
	}
	return outcomeWord(c.outcome) + " " + c.text
}

// expectTally counts the answers about all runs.
func (inv *Invocation) expectTally() (met, missed, unknown int) {
	for _, r := range inv.Runs {
		for _, x := range r.Expected {
			switch x.Outcome {
			case results.Met:
				met++
			case results.Missed:
				missed++
			default:
				unknown++
			}
		}
	}
	return met, missed, unknown
}

// expectText is the tally in words; empty where nothing was expected.
func (inv *Invocation) expectText() string {
	met, missed, unknown := inv.expectTally()
	if met+missed+unknown == 0 {
		return ""
	}
	return fmt.Sprintf("%d met · %d missed · %d unknown", met, missed, unknown)
}

// misses are the statements that runs missed, a line each.
func (inv *Invocation) misses() (lines []string) {
	for _, r := range inv.Runs {
		for i := range r.Expected {
			if x := &r.Expected[i]; x.Outcome == results.Missed {
				lines = append(lines, fmt.Sprintf("%s %s: %s, expected %s, in %s", oneLine(x.Phase), oneLine(x.Metric), measured(x), oneLine(x.Text), oneLine(r.Entry.Name)))
			}
		}
	}
	return lines
}

// maxPromises bounds the statements that the terminal shows; misses come before it.
const maxPromises = 16

// writePromises writes the table of what was expected and what was measured, a few arms at a time.
func (inv *Invocation) writePromises(b *strings.Builder, t *table) {
	all := promises(t.arms)
	if len(all) == 0 {
		return
	}
	for from := 0; from < len(t.arms); from += maxBeside + 1 {
		to := min(from+maxBeside+1, len(t.arms))
		lines := [][]string{{"expected", "", ""}}
		for _, a := range t.arms[from:to] {
			lines[0] = append(lines[0], a.name)
		}
		for i, p := range all {
			if i == maxPromises {
				break
			}
			l := []string{oneLine(p.phase), oneLine(p.metric), oneLine(p.text)}
			for _, c := range p.cells[from:to] {
				l = append(l, c.String())
			}
			lines = append(lines, l)
		}
		writeColumns(b, lines)
	}
	if n := len(all) - maxPromises; n > 0 {
		fmt.Fprintf(b, "and %d more in %s\n", n, results.ReportFile)
	}
	b.WriteByte('\n')
}

// writeColumns aligns cells; all lines have as many.
func writeColumns(b *strings.Builder, lines [][]string) {
	widths := make([]int, len(lines[0]))
	for _, l := range lines {
		for i, c := range l {
			widths[i] = max(widths[i], width(c))
		}
	}
	for _, l := range lines {
		var s strings.Builder
		for i, c := range l {
			s.WriteString(pad(c, widths[i]) + "  ")
		}
		b.WriteString(strings.TrimRight(s.String(), " ") + "\n")
	}
}

// markdownPromises writes the same table for summary.md.
func markdownPromises(b *strings.Builder, t *table) {
	all := promises(t.arms)
	if len(all) == 0 {
		return
	}
	b.WriteString("\n**Expectations**\n\n")
	line := func(cells []string) {
		for _, c := range cells {
			fmt.Fprintf(b, "| %s ", markdown(c))
		}
		b.WriteString("|\n")
	}
	head := []string{"phase", "metric", "expected"}
	for _, a := range t.arms {
		head = append(head, a.name)
	}
	line(head)
	b.WriteString(strings.Repeat("| --- ", len(head)) + "|\n")
	for _, p := range all {
		cells := []string{p.phase, p.metric, p.text}
		for _, c := range p.cells {
			cells = append(cells, c.String())
		}
		line(cells)
	}
}

// Expectations writes what became of the expectations of one run, a line each and ending with a newline: misses first.
// Without expectations it is empty.
func Expectations(run string, all []results.Expectation) string {
	var b strings.Builder
	for _, outcome := range []string{results.Missed, results.Unknown, results.Met} {
		for i := range all {
			x := &all[i]
			if x.Outcome != outcome {
				continue
			}
			fmt.Fprintf(&b, "%-4s  %s %s: %s, expected %s: %s\n", outcomeWord(outcome), oneLine(x.Phase), oneLine(x.Metric), measured(x), oneLine(x.Text), oneLine(run))
		}
	}
	return b.String()
}

// promiseView is a row of the page's table of expectations.
type promiseView struct {
	Phase, Metric, Text, About string
	Cells                      []promiseCellView
}

type promiseCellView struct{ Text, Class string }

func promiseViews(t *table) (list []promiseView) {
	for _, p := range promises(t.arms) {
		v := promiseView{Phase: p.phase, Metric: p.metric, Text: p.text, About: p.about}
		for _, c := range p.cells {
			class := map[string]string{results.Met: "pass", results.Missed: "fail", results.Unknown: "unsure"}[c.outcome]
			v.Cells = append(v.Cells, promiseCellView{c.String(), class})
		}
		list = append(list, v)
	}
	return list
}
