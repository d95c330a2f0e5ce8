package metrics

import (
	"fmt"
	"math"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/stats"
)

// Figure takes the metric over a phase of a run. What is not finite is a reason too.
func (m Metric) Figure(d *Data, phase string) stats.Figure {
	if m.Measured && d.Plan != nil && d.Plan.Simulated() {
		return stats.None(0, "not measured in the simulated world")
	}
	f := m.of(d, phase, &m)
	if f.OK() && (math.IsNaN(f.Value) || math.IsInf(f.Value, 0)) {
		return stats.None(f.N, "too large")
	}
	return f
}

// number is a count: it is what it is, with any number of samples.
func number[N int | int64](n N) stats.Figure { return stats.Figure{Value: float64(n), N: 1} }

func greatest(v []float64) stats.Figure {
	f := stats.Mean(v) // for its warnings
	if !f.OK() {
		return f
	}
	f.Value = v[0]
	for _, x := range v {
		f.Value = max(f.Value, x)
	}
	return f
}

func last(v []float64) stats.Figure {
	f := stats.Mean(v)
	if f.OK() {
		f.Value = v[len(v)-1]
	}
	return f
}

// mostOf takes the greatest of a column that not every row has.
func mostOf(column func(s *results.SeriesRow) results.Opt) func([]results.SeriesRow) stats.Figure {
	return func(rows []results.SeriesRow) stats.Figure {
		var v []float64
		for i := range rows {
			if x := column(&rows[i]); x.Set {
				v = append(v, x.Value)
			}
		}
		if len(v) == 0 && len(rows) > 0 {
			return stats.None(0, "not measured")
		}
		return greatest(v)
	}
}

// meanOf is the mean of a column that not every row has.
func meanOf(column func(s *results.SeriesRow) results.Opt) func([]results.SeriesRow) stats.Figure {
	return func(rows []results.SeriesRow) stats.Figure {
		var v []float64
		for i := range rows {
			if x := column(&rows[i]); x.Set {
				v = append(v, x.Value)
			}
		}
		if len(v) == 0 && len(rows) > 0 {
			return stats.None(0, "not measured")
		}
		return stats.Mean(v)
	}
}

func each(rows []results.SeriesRow, column func(s *results.SeriesRow) float64) (v []float64) {
	for i := range rows {
		v = append(v, column(&rows[i]))
	}
	return v
}

// slope is the growth of the lag in milliseconds a second, by least squares.
func slope(rows []results.SeriesRow) stats.Figure {
	n := float64(len(rows))
	if n < 2 {
		return stats.None(len(rows), "a slope takes two samples")
	}
	var mx, my, xy, xx float64
	for i := range rows {
		mx, my = mx+rows[i].At/n, my+rows[i].Lag/n
	}
	for i := range rows {
		dx := rows[i].At - mx
		xy, xx = xy+dx*(rows[i].Lag-my), xx+dx*dx
	}
	if xx <= 0 {
		return stats.None(len(rows), "all samples are of one moment")
	}
	return stats.Figure{Value: xy / xx, N: len(rows)}
}

// whole takes a figure of a phase that was carried through.
func (d *Data) whole(phase string, of func(p Phase) stats.Figure) stats.Figure {
	p, ok := d.Phase(phase)
	switch {
	case !ok:
		return stats.None(0, "the phase did not begin")
	case !p.Ended:
		return stats.None(0, "the phase was not carried through")
	}
	return of(p)
}

// completed is a column of the checkpoints that completed in a phase.
func (d *Data) completed(phase string, column func(c *results.CheckpointRow) results.Opt) (v []float64) {
	for i := range d.Checkpoints {
		c := &d.Checkpoints[i]
		if x := column(c); c.Status == completed && c.Phase == phase && x.Set {
			v = append(v, x.Value)
		}
	}
	return v
}

// ended counts the checkpoints of a status.
func (d *Data) ended(phase, status string) (n int) {
	for i := range d.Checkpoints {
		if c := &d.Checkpoints[i]; c.Status == status && c.Phase == phase {
			n++
		}
	}
	return n
}

// recovered are the recoveries of a phase, or its rescales or starts, which stand in the same table.
func (d *Data) recovered(phase string, kind Samples) (rows []*results.RecoveryRow) {
	for i := range d.Recoveries {
		r := &d.Recoveries[i]
		is := Recoveries
		switch r.Cause {
		case history.CauseRescale:
			is = Rescales
		case history.CauseStart:
			is = Starts
		}
		if r.Phase == phase && is == kind {
			rows = append(rows, r)
		}
	}
	return rows
}

// worst is the greatest figure of the recoveries of a phase; one that never came so far leaves no figure.
func (d *Data) worst(phase string, kind Samples, missing string, column func(r *results.RecoveryRow) results.Opt) stats.Figure {
	rows := d.recovered(phase, kind)
	var v []float64
	for _, r := range rows {
		if x := column(r); x.Set {
			v = append(v, x.Value)
		}
	}
	if len(v) < len(rows) {
		return stats.None(len(rows), fmt.Sprintf("%d of %d %s", len(rows)-len(v), len(rows), missing))
	}
	return greatest(v)
}

func (d *Data) seconds(phase string) (rows []results.SeriesRow) {
	for _, s := range d.Series {
		if s.Phase == phase {
			rows = append(rows, s)
		}
	}
	return rows
}

func throughput(p Phase) stats.Figure {
	if p.To <= p.From {
		return stats.None(0, "the phase took no time")
	}
	return stats.Figure{Value: float64(p.Records) / (p.To - p.From), N: 1}
}

// latency is the q-quantile, 1 for the greatest, of the records that reached the sink in a phase, in milliseconds.
func (d *Data) latency(phase string, q float64) stats.Figure {
	var total int64
	var rows []results.LatencyRow
	for _, r := range d.Latencies {
		if r.Phase == phase && r.Count > 0 {
			rows, total = append(rows, r), total+r.Count
		}
	}
	n := int(min(total, math.MaxInt))
	if total == 0 {
		return stats.None(0, "no samples")
	}
	if need := stats.Needed(q); q < 1 && n < need {
		return stats.Figure{N: n, Need: need, Warning: fmt.Sprintf("too few samples (%d of %d needed)", n, need)}
	}
	rank := max(1, int64(math.Ceil(q*float64(total)-1e-9)))
	var below int64
	for _, r := range rows { // in order of their latency
		if below += r.Count; below >= rank {
			return stats.Figure{Value: r.UpTo / 1000, N: n}
		}
	}
	return stats.Figure{Value: rows[len(rows)-1].UpTo / 1000, N: n}
}

// PerSecond spreads completed checkpoints over the seconds in which they completed.
func PerSecond(completed int, seconds float64) stats.Figure {
	if seconds <= 0 {
		return stats.None(0, "the phase took no time")
	}
	return stats.Figure{Value: float64(completed) / seconds, N: completed}
}

// perCheckpoint is a sum of the trace over the completed checkpoints of a phase.
func (d *Data) perCheckpoint(phase string, column func(t *Traffic) int64) stats.Figure {
	t, n := d.Traffic[phase], d.ended(phase, completed)
	switch {
	case t == nil:
		return stats.None(0, "the phase did not begin")
	case n == 0:
		return stats.None(0, "no checkpoint completed")
	}
	return stats.Figure{Value: float64(column(t)) / float64(n), N: n}
}

func (d *Data) stored(phase string, column func(t *Traffic) int64) stats.Figure {
	t := d.Traffic[phase]
	if t == nil {
		return stats.None(0, "the object trace was not read")
	}
	return number(column(t))
}

func bytesPerRecord(d *Data, p Phase) stats.Figure {
	if p.Records <= 0 {
		return stats.None(0, "no records")
	}
	f := d.stored(p.Name, func(t *Traffic) int64 { return t.Written })
	f.Value /= float64(p.Records)
	return f
}

// amplification relates what is stored at the end of a phase to the working state of then.
func amplification(d *Data, p Phase) stats.Figure {
	rows := d.seconds(p.Name)
	if len(rows) == 0 || rows[len(rows)-1].Live <= 0 {
		return stats.None(0, "no state")
	}
	f := d.stored(p.Name, func(t *Traffic) int64 { return t.StoredEnd })
	f.Value /= float64(rows[len(rows)-1].Live)
	return f
}

// cpu is microseconds a record, of a column that counts seconds since a process began.
func (d *Data) cpu(phase string, column func(s *results.SeriesRow) results.Opt) stats.Figure {
	var used float64
	var records int64
	n := 0
	for i := 1; i < len(d.Series); i++ {
		before, s := &d.Series[i-1], &d.Series[i]
		if from, to := column(before), column(s); s.Phase == phase && from.Set && to.Set && s.Emitted >= before.Emitted {
			used, records, n = used+to.Value-from.Value, records+s.Emitted-before.Emitted, n+1
		}
	}
	if n == 0 || records == 0 {
		return stats.None(0, "not measured")
	}
	return stats.Figure{Value: used / float64(records) * 1e6, N: n}
}
