package report

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"statebench.dev/bench/internal/metrics"
)

// benchMetrics are the figures of bench.txt, in their order. All of them in all statistics would be more tables than anybody
// reads; the rest is a command away (bench list metrics).
var benchMetrics = []string{ // read-only: a selection
	"checkpoint.duration.p50", "checkpoint.duration.p90", "checkpoint.duration.max", "checkpoint.late.p90", "checkpoint.sync.p50",
	"checkpoint.checkpointed.p50", "checkpoint.checkpointed.max", "checkpoint.size.full.p50", "checkpoint.size.full.max",
	"checkpoints.completed", "checkpoints.aborted", "recoveryPointAge.p50w", "recoveryPointAge.p99w",
	"recovery.total", "recovery.restore", "rescale.total", "rescale.restore",
	"throughput", "lag.max", "latency.p50", "latency.p99",
	"requestsPerCheckpoint", "bytesPerCheckpoint", "store.bytesPerRecord", "storedBytes.max", "amplification",
	"cpuPerRecord", "storeCpuPerRecord", "heap.max",
}

// benchText is bench.txt: the figures of each run and phase in the format of Go's benchmarks, for benchstat. An operation is
// a completed checkpoint and ns/op the mean duration of one. World and profile are parts of the name, so that figures of
// different ones are never put together.
func benchText(inv *Invocation) string {
	var b strings.Builder
	m := &inv.Manifest
	config := func(key, value string) {
		if value = oneLine(value); value != "" {
			fmt.Fprintf(&b, "%s: %s\n", key, value)
		}
	}
	config("goos", m.Host.OS)
	config("goarch", m.Host.Arch)
	config("pkg", "statebench.dev/bench")
	config("scenario", m.Scenario)
	config("world", m.World)
	config("store", m.Store)
	config("profile", m.Profile)
	config("seed", fmt.Sprint(m.Seed))
	config("commit", m.Version.Commit)
	if inv.simulated() {
		config("note", "simulated: durations and rates come from a cost model, none was measured")
	}
	b.WriteByte('\n')
	var chosen []metrics.Metric
	for _, name := range benchMetrics {
		if x, err := metrics.Lookup(name); err == nil {
			chosen = append(chosen, x)
			if x.Better != metrics.Neither {
				_, unit := benchValue(0, x)
				fmt.Fprintf(&b, "Unit %s better=%s\n", unit, x.Better)
			}
		}
	}
	b.WriteByte('\n')
	list := phases(inv.arms())
	for _, r := range inv.Runs {
		if r.Plan == nil {
			continue
		}
		for _, p := range list {
			r.benchLine(&b, inv, p.name, chosen)
		}
	}
	return b.String()
}

// benchLine is one result: a run and a phase that was carried through.
func (r *Run) benchLine(b *strings.Builder, inv *Invocation, phase string, chosen []metrics.Metric) {
	if p, ok := r.data.Phase(phase); !ok || !p.Ended {
		return
	}
	m := &inv.Manifest
	var pairs []string
	for _, x := range chosen {
		if f := x.Figure(&r.data, phase); f.OK() {
			v, unit := benchValue(f.Value, x)
			pairs = append(pairs, strconv.FormatFloat(v, 'g', 6, 64)+" "+unit)
		}
	}
	n := 0
	mean, err := metrics.Lookup("checkpoint.duration.mean")
	if err == nil {
		if f := mean.Figure(&r.data, phase); f.OK() {
			n = f.N
			pairs = append([]string{strconv.FormatFloat(f.Value*1e6, 'f', 0, 64) + " ns/op"}, pairs...)
		}
	}
	if len(pairs) == 0 {
		return
	}
	fmt.Fprintf(b, "Benchmark%s/world=%s/profile=%s/phase=%s/arm=%s-%d %d %s\n", camel(m.Scenario), benchWord(m.World), benchWord(m.Profile),
		benchWord(phase), benchWord(r.Entry.Arm), max(1, m.Host.Cores), max(1, n), strings.Join(pairs, " "))
}

// benchValue converts to the units that benchstat scales: seconds and bytes. The name of a metric is a part of its unit.
func benchValue(v float64, x metrics.Metric) (float64, string) {
	switch x.Unit {
	case metrics.Millis:
		return v / 1000, x.Name + "-sec"
	case metrics.Micros:
		return v / 1e6, x.Name + "-sec/record"
	case metrics.Bytes:
		return v, x.Name + "-B"
	case metrics.Rate:
		return v, x.Name + "-records/sec"
	case metrics.Dollars:
		return v, x.Name + "-USD"
	}
	return v, x.Name
}

// camel makes the name of a benchmark: side-by-side becomes SideBySide.
func camel(name string) string {
	var b strings.Builder
	up := true
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			up = true
			continue
		case up:
			r = unicode.ToUpper(r)
		}
		b.WriteRune(r)
		up = false
	}
	s := b.String()
	if s == "" || !unicode.IsUpper([]rune(s)[0]) {
		s = "X" + s // a lower-case letter or a digit must not follow "Benchmark"
	}
	return s
}

// benchWord is text of unknown origin as a part of a benchmark's name: no blanks, no slashes.
func benchWord(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.IsControl(r) || r == '/' || r == '=' {
			return '_'
		}
		return r
	}, s)
}
