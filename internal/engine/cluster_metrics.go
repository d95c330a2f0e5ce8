package engine

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"statebench.dev/bench/backend"
)

// Metrics are figures of all running subtasks at one moment.
type Metrics struct {
	Subtasks []SubtaskMetrics // in order of workers, then as deployed
	// Gauges are the sums over all subtasks, and of ages the greatest.
	Gauges backend.Gauges
	// Latency is of the records that reached a sink since the last call of Engine.Metrics, and valid until the next one.
	Latency Latencies
}

// Latencies say how late records reached the sink against their due times.
type Latencies struct{ h *hdrhistogram.Histogram }

// Count is the number of records.
func (l Latencies) Count() int64 {
	if l.h == nil {
		return 0
	}
	return l.h.TotalCount()
}

// Quantile is the latency in milliseconds that the share q of the records does not exceed, 0 <= q <= 1; false without records.
func (l Latencies) Quantile(q float64) (ms float64, ok bool) {
	if l.Count() == 0 {
		return 0, false
	}
	return float64(l.h.ValueAtQuantile(q*100)) * float64(latencyUnit) / float64(time.Millisecond), true
}

// Each calls see with every latency that was counted, in rising order: the greatest that falls in with it, in microseconds,
// and the number of records.
func (l Latencies) Each(see func(us, count int64)) {
	if l.h == nil {
		return
	}
	for _, b := range l.h.Distribution() {
		if b.Count > 0 {
			see(b.To, b.Count)
		}
	}
}

// Metrics collects the figures of all live workers. One process calls it at a time.
func (e *Engine) Metrics() Metrics {
	e.mu.Lock()
	var live []*worker
	for _, h := range e.mu.hosts {
		if h.worker != nil && !h.down {
			live = append(live, h.worker)
		}
	}
	e.mu.Unlock()
	m := Metrics{Latency: Latencies{e.latency}}
	if e.latency != nil {
		e.latency.Reset()
	}
	for _, w := range live {
		m.Subtasks = append(m.Subtasks, w.metrics()...)
	}
	for i := range m.Subtasks {
		s := &m.Subtasks[i]
		m.Gauges.LiveBytes += s.State.LiveBytes
		m.Gauges.Elements += s.State.Elements
		m.Gauges.UnsentBytes += s.State.UnsentBytes
		m.Gauges.LogBytes += s.State.LogBytes
		m.Gauges.Materialized += s.State.Materialized
		m.Gauges.InFlight += s.State.InFlight
		m.Gauges.LogAge = max(m.Gauges.LogAge, s.State.LogAge)
		if s.Latency != nil {
			if m.Latency.h == nil {
				e.latency = hdrhistogram.New(1, latencyMax, latencyDigits)
				m.Latency.h = e.latency
			}
			m.Latency.h.Merge(s.Latency)
		}
	}
	return m
}

// Shares are parts of the time of all subtasks. Busy, Backpressured (waiting for credit), Idle (without input) and Throttled
// (waiting for the backend's log) add up to 1, or are all 0 when nothing ran.
type Shares struct {
	Busy, Backpressured, Idle, Throttled float64
	// Exhausted is the part of Throttled in which the log of the worker was full, the rest that in which it was a subtask's share.
	Exhausted float64
}

// Shares are those of the time since an earlier call.
func (m Metrics) Shares(since Metrics) Shares {
	type key struct {
		subtask string
		attempt uint64
	}
	before := map[key]*SubtaskMetrics{}
	for i := range since.Subtasks {
		s := &since.Subtasks[i]
		before[key{s.Subtask, s.Attempt}] = s
	}
	var b, p, i, t, x time.Duration
	for n := range m.Subtasks {
		s := &m.Subtasks[n]
		old := before[key{s.Subtask, s.Attempt}]
		if old == nil {
			old = &SubtaskMetrics{}
		}
		b += s.Busy - old.Busy
		p += s.Backpressured - old.Backpressured
		i += s.Idle - old.Idle
		t += s.Throttled - old.Throttled
		x += s.Exhausted - old.Exhausted
	}
	all := float64(b + p + i + t)
	if all <= 0 {
		return Shares{}
	}
	part := func(d time.Duration) float64 { return float64(d) / all }
	return Shares{Busy: part(b), Backpressured: part(p), Idle: part(i), Throttled: part(t), Exhausted: part(x)}
}
