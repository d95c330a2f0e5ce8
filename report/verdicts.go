package report

import (
	"fmt"
	"strings"

	"statebench.dev/bench/internal/results"
)

// Verdicts writes the verdicts about one run, a line each and ending with a newline: failures first with their evidence, then
// what is inconclusive, then what passed.
func Verdicts(run string, v []results.Verdict) string {
	var b strings.Builder
	for _, x := range failures(v) {
		writeVerdict(&b, run, x, nil)
	}
	for _, x := range v {
		if x.Verdict == results.Pass {
			writeVerdict(&b, run, x, nil)
		}
	}
	if len(v) == 0 {
		fmt.Fprintf(&b, "%s  no verdicts\n", oneLine(run))
	}
	return b.String()
}

// failures are the verdicts other than pass, failures before inconclusive ones.
func failures(all []results.Verdict) (list []results.Verdict) {
	for _, v := range all {
		if v.Verdict == results.Fail {
			list = append(list, v)
		}
	}
	for _, v := range all {
		if v.Verdict != results.Fail && v.Verdict != results.Pass {
			list = append(list, v)
		}
	}
	return list
}

// word is how an answer is shown: failures shout.
func word(verdict string) string {
	switch verdict {
	case results.Pass:
		return "pass"
	case results.Fail:
		return "FAIL"
	case results.Inconclusive:
		return "inconclusive"
	}
	return oneLine(fmt.Sprintf("%q", verdict))
}

// maxEvidence bounds the lines of evidence that text shows; verdicts.json has all.
const maxEvidence = 8

// findings are the lines that back a verdict, and how many there are of them where the verdict says so.
func findings(v results.Verdict) (size string, evidence []string) {
	if len(v.Evidence) == 0 {
		return "", []string{v.Summary}
	}
	count, first, ok := strings.Cut(v.Summary, "; the first: ")
	if ok && first == v.Evidence[0] {
		return "  " + oneLine(count), v.Evidence
	}
	return "", append([]string{v.Summary}, v.Evidence...)
}

func writeVerdict(b *strings.Builder, run string, v results.Verdict, timeline []string) {
	if v.Verdict == results.Pass {
		fmt.Fprintf(b, "%-4s  %-3s %s  %s: %s\n", word(v.Verdict), oneLine(v.Check), oneLine(v.Name), oneLine(run), oneLine(v.Summary))
		return
	}
	size, evidence := findings(v)
	fmt.Fprintf(b, "%-4s  %-3s %s  %s%s\n", word(v.Verdict), oneLine(v.Check), oneLine(v.Name), oneLine(run), size)
	for i, e := range evidence {
		if i == maxEvidence {
			fmt.Fprintf(b, "      … and %d more in verdicts.json\n", len(evidence)-i)
			break
		}
		wrapped(b, "      ", oneLine(e))
	}
	for _, l := range timeline {
		fmt.Fprintf(b, "    %s\n", l)
	}
}
