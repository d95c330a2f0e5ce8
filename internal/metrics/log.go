package metrics

import (
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/stats"
)

// LogTraffic are bytes of the changelog's segments by what they were put for. First, Retried and Hedged make up what was put.
type LogTraffic struct {
	// First is what first attempts put, Retried what was put again under the same key, Hedged what second attempts beside
	// the first one put under keys of their own.
	First, Retried, Hedged int64
	// Discarded is what was stored and then deleted by the worker itself: no completed checkpoint has named it.
	Discarded int64
}

// Put is all that was put.
func (t LogTraffic) Put() int64 { return t.First + t.Retried + t.Hedged }

// Causes of requests of the changelog's log.
const (
	causeLog   = "log"
	causeHedge = "hedge"
)

// segment counts a request for a segment of the log. A key's attempts follow one another.
func (r *TrafficReader) segment(q *history.Request) {
	if q.Cause != causeLog && q.Cause != causeHedge {
		return
	}
	var t LogTraffic
	size, before := r.logs[q.Key]
	switch {
	case q.Op == history.OpDelete && q.Applied == history.AppliedYes:
		t.Discarded = size
		delete(r.logs, q.Key)
	case q.Op != history.OpPut:
		return
	case before:
		t.Retried = q.Bytes
	case q.Cause == causeHedge:
		t.Hedged = q.Bytes
	default:
		t.First = q.Bytes
	}
	if q.Op == history.OpPut {
		if q.Applied != history.AppliedNo {
			size = q.Bytes
		}
		r.logs[q.Key] = size
	}
	if i := phaseAt(r.phases, q.Start.Seconds()); i >= 0 {
		sum := &r.byPhase[r.phases[i].Name].Log
		sum.First, sum.Retried = sum.First+t.First, sum.Retried+t.Retried
		sum.Hedged, sum.Discarded = sum.Hedged+t.Hedged, sum.Discarded+t.Discarded
	}
}

// logTraffic are the metrics of it; stored makes one of a whole phase.
func logTraffic(stored func(name, about string, unit Unit, of func(d *Data, p Phase) stats.Figure) Metric) (all []Metric) {
	for _, m := range []struct {
		name, about string
		of          func(t LogTraffic) int64
	}{
		{"logPut", "bytes of log put, each attempt of an upload counted", LogTraffic.Put},
		{"logRetried", "of that, put again under the same key after an attempt that failed", func(t LogTraffic) int64 { return t.Retried }},
		{"logHedged", "of that, put by second attempts beside the first", func(t LogTraffic) int64 { return t.Hedged }},
		{"logDiscarded", "bytes of log stored and deleted again by the worker, without being part of a completed checkpoint", func(t LogTraffic) int64 { return t.Discarded }},
	} {
		all = append(all, stored(m.name, m.about, Bytes, func(d *Data, p Phase) stats.Figure {
			return d.stored(p.Name, func(t *Traffic) int64 { return m.of(t.Log) })
		}))
	}
	return all
}
