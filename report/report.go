// Package report renders finished runs: the table for the terminal, summary.md, the plots, and report.html, one offline page.
//
// It works from the files of an invocation alone, so any old result can be rendered again, and the same files always give
// the same bytes. A figure that cannot be trusted is replaced by the reason; ratios stand beside the figures they come from,
// with the number of samples; measured and simulated figures are never mixed, and simulated ones are marked in every unit.
//
// The steps: Load reads a results directory, Terminal and Verdicts give text, Write leaves everything else in the directory.
package report

import (
	"errors"
	"fmt"
	"os"

	"statebench.dev/bench/internal/results"
)

// Names of the charts, as a scenario writes them.
const (
	chartDuration = "checkpoint-duration"
	chartSizes    = "size-sawtooth"
	chartRecovery = "recovery-split"
	chartECDF     = "duration-ecdf"
	chartAge      = "recovery-point-age"
	chartParts    = "size-parts"
	chartCurve    = "recovery-curve"
	chartUploads  = "log-uploads"
)

// Charts lists the charts that a scenario can name, in the order of the page.
func Charts() []string {
	return []string{chartDuration, chartECDF, chartSizes, chartParts, chartAge, chartRecovery, chartCurve, chartUploads}
}

// Write renders everything but the terminal's text into the invocation's directory: plots/<chart>.svg and .png for each
// chart of the plans, summary.md, bench.txt, and report.html. Each file is whole or untouched. The error says which file could not be
// written; what could be is.
func Write(inv *Invocation) error {
	pictures, err := inv.draw()
	if err != nil {
		return err
	}
	var errs []error
	if len(pictures) > 0 {
		if err := os.MkdirAll(inv.Dir.Path(results.PlotsDir), 0o755); err != nil {
			errs = append(errs, fmt.Errorf("create plots directory: %w", err))
		}
	}
	for _, p := range pictures {
		errs = append(errs, results.WriteFile(inv.Dir.Path(results.PlotsDir, p.name+".svg"), p.svg))
		png, err := p.png()
		if err == nil {
			err = results.WriteFile(inv.Dir.Path(results.PlotsDir, p.name+".png"), png)
		}
		errs = append(errs, err)
	}
	errs = append(errs, results.WriteFile(inv.Dir.Path(results.SummaryFile), []byte(summary(inv))))
	errs = append(errs, results.WriteFile(inv.Dir.Path(results.BenchFile), []byte(benchText(inv))))
	page, err := page(inv, pictures)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	return errors.Join(append(errs, results.WriteFile(inv.Dir.Path(results.ReportFile), page))...)
}
