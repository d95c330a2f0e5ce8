// Package report renders finished runs: the table for the terminal, and summary.md.
//
// It works from the files of an invocation alone, so any old result can be rendered again, and the same files always give
// the same bytes. A figure that cannot be trusted is replaced by the reason; ratios stand beside the figures they come from,
// with the number of samples; measured and simulated figures are never mixed, and simulated ones are marked in every unit.
//
// The steps: Load reads a results directory, Terminal and Verdicts give text, Write leaves files in the directory.
package report

import "statebench.dev/bench/internal/results"

// Names of the charts, as a scenario writes them.
const (
	chartDuration = "checkpoint-duration"
	chartSizes    = "size-sawtooth"
	chartRecovery = "recovery-split"
)

// Charts lists the charts that a scenario can name, in the order of the page.
func Charts() []string { return []string{chartDuration, chartSizes, chartRecovery} }

// Write renders summary.md into the invocation's directory; the file is whole or untouched.
func Write(inv *Invocation) error {
	return results.WriteFile(inv.Dir.Path(results.SummaryFile), []byte(summary(inv)))
}
