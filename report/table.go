package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/stats"
)

// table is the key table: arms side by side. Terminal, Markdown and page show the same one.
type table struct {
	arms     []*arm
	base     *arm // nil: nothing is compared
	window   window
	compared bool
	sim      bool
	rows     []row
}

// row is one figure of all arms.
type row struct {
	label, stat string
	name        string // in prose, with its statistic
	unit        unit
	figures     []stats.Figure // one an arm
	texts       []string       // instead of figures
	better      direction
	counted     bool // show the numbers of samples
	note        string
	sub         bool // part of the row before
}

// direction says which way a figure is better.
type direction int

const (
	neither direction = iota
	lower
	higher
)

// figure adds a row of figures.
func (t *table) figure(r row, of func(a *arm) stats.Figure) *row {
	for _, a := range t.arms {
		f := of(a)
		if f.OK() && (math.IsNaN(f.Value) || math.IsInf(f.Value, 0)) {
			f = stats.None(f.N, "too large")
		}
		r.figures = append(r.figures, f)
	}
	t.rows = append(t.rows, r)
	return &t.rows[len(t.rows)-1]
}

// newTable computes the key table of an invocation.
func newTable(inv *Invocation) *table {
	t := &table{arms: inv.arms(), sim: inv.simulated()}
	list := phases(t.arms)
	t.window, t.compared = comparedWindow(list)
	if b := base(t.arms); b != nil && len(t.arms) > 1 && t.compared {
		t.base = b
	}
	t.checkpointRows()
	t.recoveryRows(inv.Manifest.Detection)
	t.figure(row{label: "recovery-point age", name: "recovery-point age p99w", stat: "p99w", unit: unitMillis, better: lower}, func(a *arm) stats.Figure { return a.age(t.window, 0.99) })
	t.loadRow()
	t.storeRows()
	t.cpuRows()
	return t
}

// checkpointRows are durations and sizes.
func (t *table) checkpointRows() {
	add := func(r row, q float64, column func(*results.CheckpointRow) results.Opt) {
		r.better = lower
		t.figure(r, func(a *arm) stats.Figure { return stats.Quantile(a.sample(t.window, column), q) })
	}
	duration := func(c *results.CheckpointRow) results.Opt { return c.Duration }
	add(row{label: "checkpoint duration", stat: "p50", name: "checkpoint duration p50", unit: unitMillis, counted: true}, 0.5, duration)
	add(row{stat: "p99", name: "checkpoint duration p99", unit: unitMillis, sub: true}, 0.99, duration)
	add(row{label: "  of it synchronous", stat: "p50", name: "synchronous part p50", unit: unitMillis, sub: true}, 0.5, func(c *results.CheckpointRow) results.Opt { return c.Sync })
	add(row{label: "checkpointed size", stat: "p50", name: "checkpointed size p50", unit: unitBytes}, 0.5, func(c *results.CheckpointRow) results.Opt { return c.Checkpointed })
	add(row{label: "full size", stat: "p50", name: "full size p50", unit: unitBytes}, 0.5, func(c *results.CheckpointRow) results.Opt { return c.Full })
	t.partRows()
	t.pacingRows()
	ends := row{label: "completed, aborted, skipped"}
	for _, a := range t.arms {
		ends.texts = append(ends.texts, fmt.Sprintf("%d, %d, %d", a.checkpoints(t.window, completed), a.checkpoints(t.window, aborted), a.checkpoints(t.window, skipped)))
	}
	t.rows = append(t.rows, ends)
}

// recoveryRows are one pair a cause.
func (t *table) recoveryRows(detection string) {
	for _, cause := range causes(t.arms, t.window) {
		said := oneLine(cause)
		r := t.figure(row{label: "recovery, " + said, name: "recovery after " + said, unit: unitMillis, better: lower, counted: true}, func(a *arm) stats.Figure {
			return meanOf(a.recoveries(t.window, cause), func(r *results.RecoveryRow) results.Opt { return r.Recovery }, "not caught up")
		})
		r.stat = meanMark(r.figures)
		if cause != history.CauseRescale && cause != history.CauseStart && detection != "" {
			r.note = "detection: " + oneLine(detection)
		}
		r = t.figure(row{label: "  of it base + replay", name: "base + replay after " + said, unit: unitMillis, better: lower, sub: true}, func(a *arm) stats.Figure {
			return meanOf(a.recoveries(t.window, cause), metrics.Restore, "not restored")
		})
		r.stat = meanMark(r.figures)
	}
}

// meanMark says that a row shows means, when one is over more than one sample.
func meanMark(figures []stats.Figure) string {
	for _, f := range figures {
		if f.OK() && f.N > 1 {
			return "mean"
		}
	}
	return ""
}

// minReached is the share of the offered rate below which a phase did not keep it, however short it was.
const minReached = 0.8

// loadRow is the throughput and whether the source kept its schedule.
func (t *table) loadRow() {
	r := t.figure(row{label: "throughput", name: "throughput", unit: unitRate, better: higher}, func(a *arm) stats.Figure { return a.throughput(t.window) })
	var kept, behind []string
	worst, scheduled := 0.0, false
	for _, a := range t.arms {
		if len(a.runs) == 0 {
			continue
		}
		most, end := a.lag(t.window)
		scheduled = scheduled || rate(a.plan) > 0 || most > 0
		worst = max(worst, most)
		switch share := a.reached(t.window); {
		case end > 1000:
			behind = append(behind, fmt.Sprintf("%s (%s behind at the end of a phase)", a.short, unitMillis.format(end, t.sim)))
		case share < minReached:
			behind = append(behind, fmt.Sprintf("%s (%.0f %% of the rate over a phase)", a.short, share*100))
		default:
			kept = append(kept, a.name)
		}
	}
	switch {
	case len(behind) > 0:
		r.note = "source did not keep its schedule: " + list(behind)
	case len(kept) > 0 && scheduled:
		r.note = "source kept its schedule, never more than " + unitMillis.format(worst, t.sim) + " behind"
	case len(kept) > 0:
		r.note = "source without a schedule"
	}
}

// storeRows say what the store was asked for.
func (t *table) storeRows() {
	t.figure(row{label: "store requests / ckpt", name: "store requests a checkpoint", unit: unitCount, better: lower}, func(a *arm) stats.Figure {
		return a.perCheckpoint(t.window, func(p *metrics.Traffic) int64 { return p.Requests })
	})
	t.figure(row{label: "bytes written / ckpt", name: "bytes written a checkpoint", unit: unitBytes, better: lower}, func(a *arm) stats.Figure {
		return a.perCheckpoint(t.window, func(p *metrics.Traffic) int64 { return p.Written })
	})
	t.costRows()
}

// costRows are what a store with the prices of the plans would bill.
func (t *table) costRows() {
	names := t.prices()
	r := t.figure(row{label: "cost an hour", name: "cost an hour", unit: unitDollars, better: lower}, func(a *arm) stats.Figure { return a.cost(t.window).hour })
	switch {
	case len(names) == 1:
		r.note = "prices: " + oneLine(names[0])
	case len(names) > 1:
		r.note = "not of one price list: " + list(names)
	}
	t.figure(row{label: "  a checkpoint", name: "cost a checkpoint", unit: unitDollars, better: lower, sub: true}, func(a *arm) stats.Figure { return a.cost(t.window).checkpoint })
	t.figure(row{label: "  a million records", name: "cost of a million records", unit: unitDollars, better: lower, sub: true}, func(a *arm) stats.Figure { return a.cost(t.window).million })
}

// prices names the price lists of the runs, each once.
func (t *table) prices() (names []string) {
	for _, a := range t.arms {
		for _, r := range a.runs {
			if name := r.data.Prices().Name; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// cpuRows are what the process used, and the store where it is a process of its own.
func (t *table) cpuRows() {
	if t.sim {
		return // nothing is measured: the process is the simulator
	}
	t.figure(row{label: "CPU, store apart", name: "CPU a record", unit: unitMicros, better: lower}, func(a *arm) stats.Figure {
		return a.cpu(t.window, func(s *results.SeriesRow) results.Opt { return s.CPU })
	})
	at := len(t.rows) - 1
	store := t.figure(row{label: "CPU of the store", name: "CPU of the store a record", unit: unitMicros, better: lower}, func(a *arm) stats.Figure {
		return a.cpu(t.window, func(s *results.SeriesRow) results.Opt { return s.StoreCPU })
	})
	if sharedReason(store.figures) == "" {
		return
	}
	t.rows = t.rows[:at+1]
	if r := &t.rows[at]; sharedReason(r.figures) == "" {
		r.label, r.note = "CPU", "the store's work is in it"
	}
}

// cells are the texts of a row in the order of columns: each arm, and behind each arm but the baseline its ratio. reason is
// set when no arm has a figure, and is the same for all.
func (t *table) cells(r row) (cells []string, reason string) {
	if r.texts == nil {
		if reason = sharedReason(r.figures); reason != "" {
			return nil, reason
		}
	}
	var baseline stats.Figure
	for i, a := range t.arms {
		if a == t.base && r.texts == nil {
			baseline = r.figures[i]
		}
	}
	for i, a := range t.arms {
		switch {
		case r.texts != nil:
			cells = append(cells, r.texts[i])
		case r.figures[i].OK():
			cells = append(cells, r.unit.format(r.figures[i].Value, t.sim))
		default:
			cells = append(cells, brief(r.figures[i]))
		}
		if t.base == nil || a == t.base {
			continue
		}
		ratio := ""
		if r.texts == nil {
			ratio = "–"
			if f := stats.Ratio(r.figures[i], baseline); f.OK() {
				ratio = formatRatio(f.Value)
			}
		}
		cells = append(cells, ratio)
	}
	return cells, ""
}

// sharedReason is the reason why no arm has a figure; empty when one has.
func sharedReason(figures []stats.Figure) string {
	var counts []string
	need := 0
	for _, f := range figures {
		if f.OK() {
			return ""
		}
		counts = append(counts, formatCount(int64(f.N)))
		need = max(need, f.Need)
	}
	if len(figures) == 0 {
		return "nothing was run"
	}
	if need > 0 {
		return fmt.Sprintf("too few samples (%s of %s needed)", list(counts), formatCount(int64(need)))
	}
	return figures[0].Warning
}

// brief is a reason that fits in a cell.
func brief(f stats.Figure) string {
	if f.Need > 0 {
		return fmt.Sprintf("%s of %s needed", formatCount(int64(f.N)), formatCount(int64(f.Need)))
	}
	return f.Warning
}

// samples are the numbers of samples of a row, an arm each.
func (r row) samples() string {
	if !r.counted || sharedReason(r.figures) != "" {
		return ""
	}
	var n []string
	same := true
	for _, f := range r.figures {
		n = append(n, formatCount(int64(f.N)))
		same = same && f.N == r.figures[0].N
	}
	if same && len(n) > 2 {
		return n[0] + " each"
	}
	return strings.Join(n, " / ")
}

// columns are the names over cells.
func (t *table) columns() (names []string) {
	for _, a := range t.arms {
		names = append(names, a.name)
		if t.base != nil && a != t.base {
			names = append(names, t.ratioName(a))
		}
	}
	return names
}

// maxRatioName is the width from which on a column of ratios has no names of arms over it, where there are several.
const maxRatioName = 12

// ratioName is what stands over the ratios of an arm.
func (t *table) ratioName(a *arm) string {
	name := a.short + "/" + t.base.short
	if len(t.arms) > 2 && width(name) > maxRatioName {
		return "ratio"
	}
	return name
}

// against says what ratios without names relate to; empty where all have names.
func (t *table) against() string {
	for _, a := range t.arms {
		if t.base != nil && a != t.base && t.ratioName(a) == "ratio" {
			return "ratios are to " + t.base.name
		}
	}
	return ""
}
