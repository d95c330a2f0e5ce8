package report

import (
	"fmt"
	"strings"

	"statebench.dev/bench/internal/results"
)

// summary is summary.md: what Terminal says, for a pull request or a wiki.
func summary(inv *Invocation) string {
	var b strings.Builder
	m := &inv.Manifest
	fmt.Fprintf(&b, "# %s\n\n", markdown(m.Scenario))
	if inv.simulated() {
		b.WriteString("**SIMULATED:** every duration and rate comes from a cost model, none was measured.\n\n")
	}
	fmt.Fprintf(&b, "**%s** · seed %d · %s · %s\n\n", markdown(m.Outcome), m.Seed, markdown(inv.head()), m.Started.UTC().Format("2006-01-02 15:04:05 UTC"))
	for _, r := range inv.Runs {
		for _, v := range failures(r.Verdicts) {
			size, evidence := findings(v)
			fmt.Fprintf(&b, "- **%s %s** %s, in %s%s\n", word(v.Verdict), markdown(v.Check), markdown(v.Name), markdown(r.Entry.Name), markdown(size))
			for i, e := range evidence {
				if i == maxEvidence {
					fmt.Fprintf(&b, "  - and %d more in %s\n", len(evidence)-i, results.VerdictsFile)
					break
				}
				fmt.Fprintf(&b, "  - %s\n", markdown(e))
			}
		}
	}
	for _, m := range inv.misses() {
		fmt.Fprintf(&b, "- **MISS** %s\n", markdown(m))
	}
	t := newTable(inv)
	for _, part := range t.split() {
		fmt.Fprintf(&b, "\n**%s**\n\n", markdown(dotted(inv.head(), part.against())))
		part.markdown(&b)
	}
	markdownPromises(&b, t)
	n := inv.tally()
	fmt.Fprintf(&b, "\nChecks: %d pass, %d fail, %d inconclusive.", n.pass, n.fail, n.inconclusive)
	if s := inv.disturbed(", "); s != "" {
		b.WriteString(" " + strings.ToUpper(s[:1]) + s[1:] + ".")
	}
	b.WriteString("\n\n")
	if s := inv.expectText(); s != "" {
		fmt.Fprintf(&b, "Expectations: %s.\n\n", s)
	}
	for _, w := range inv.warnings(t) {
		fmt.Fprintf(&b, "- warning: %s\n", markdown(w))
	}
	for _, c := range compare(t) {
		fmt.Fprintf(&b, "- result: %s\n", markdown(c.sentence(t.base.name)))
	}
	for _, s := range inv.notes(t) {
		fmt.Fprintf(&b, "- note: %s\n", markdown(s))
	}
	if names := inv.charts(); len(names) > 0 {
		b.WriteByte('\n')
		for _, name := range names {
			fmt.Fprintf(&b, "![%s](%s/%s.svg)\n", name, results.PlotsDir, name)
		}
	}
	fmt.Fprintf(&b, "\nThe page is [%s](%s). Again:\n\n```\n%s\n```\n", results.ReportFile, results.ReportFile, strings.Join(inv.again(), "\n"))
	return b.String()
}

// markdown writes the table.
func (t *table) markdown(b *strings.Builder) {
	columns := append([]string{"figure", ""}, t.columns()...)
	if len(t.arms) == 0 {
		columns = append(columns, "")
	}
	columns = append(columns, "n", "")
	line := func(cells []string) {
		for _, c := range cells {
			fmt.Fprintf(b, "| %s ", markdown(strings.TrimSpace(c)))
		}
		b.WriteString("|\n")
	}
	line(columns)
	b.WriteString(strings.Repeat("| --- ", len(columns)) + "|\n")
	label := ""
	for _, r := range t.rows {
		cells, reason := t.cells(r)
		if reason != "" {
			cells = append([]string{reason}, make([]string, max(1, len(t.columns()))-1)...)
		}
		if r.label != "" {
			label = r.label
		}
		line(append(append([]string{label, r.stat}, cells...), r.samples(), r.note))
	}
}

// charts are those that the plans ask for, in the order of Charts.
func (inv *Invocation) charts() (names []string) {
	asked := map[string]bool{}
	for _, r := range inv.Runs {
		if r.Plan != nil {
			for _, c := range r.Plan.Charts {
				asked[c] = true
			}
		}
	}
	for _, c := range Charts() {
		if asked[c] {
			names = append(names, c)
		}
	}
	return names
}

// markdown keeps text of unknown origin from being taken for markup.
func markdown(s string) string {
	s = oneLine(s)
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune("\\`*_[]<>|#&", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
