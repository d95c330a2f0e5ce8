package workloads

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/keygroup"
)

// splitOperator passes the records of one kind on.
type splitOperator struct{ kind byte }

// Open implements graph.Operator.
func (s *splitOperator) Open(context.Context, graph.OperatorContext) error { return nil }

// Process implements graph.Operator.
func (s *splitOperator) Process(_ context.Context, r *graph.Record, out graph.Collector) error {
	if len(r.Value) == 0 || r.Value[0] != s.kind {
		return nil
	}
	return out.Collect(r)
}

// OnTimer implements graph.Operator.
func (s *splitOperator) OnTimer(context.Context, int64, []byte, graph.Collector) error { return nil }

// enrichTotals are what a key has been through: its events that left, and the sum of their results.
type enrichTotals struct{ count, sum int64 }

// enrichTotalsCodec encodes them.
type enrichTotalsCodec struct{}

func (enrichTotalsCodec) Append(dst []byte, t enrichTotals) []byte {
	return backend.AppendInt64(backend.AppendInt64(dst, t.count), t.sum)
}

func (enrichTotalsCodec) Decode(src []byte) (t enrichTotals, err error) {
	if len(src) != 16 {
		return t, fmt.Errorf("totals of %d bytes: %w", len(src), backend.ErrEncoding)
	}
	return enrichTotals{int64(binary.BigEndian.Uint64(src)), int64(binary.BigEndian.Uint64(src[8:]))}, nil
}

// enrichOperator is the join. It emits at once; see holdingOperator.
type enrichOperator struct {
	shape   enrichShape
	o       graph.OperatorContext
	pending *backend.ListState[[]byte] // events by their time: partition, index and the value as it came
	totals  *backend.ValueState[enrichTotals]
	rules   ruleBook
	latest  time.Duration
	ns      [8]byte
	buf     []byte
	out     graph.Record
	at      int64        // of the events that leave
	now     enrichTotals // of the key whose events leave
	results []byte       // of them: length, partition, index, due, value
	leave   func(event []byte) bool
	bad     error
}

var (
	_ graph.TwoInput = (*enrichOperator)(nil)
	_ graph.Stateful = (*enrichOperator)(nil)
)

func newEnrichOperator(shape enrichShape) *enrichOperator {
	w := &enrichOperator{shape: shape, rules: make(ruleBook, shape.rules), latest: anyTime}
	w.leave = w.enrich
	return w
}

// Open implements graph.Operator.
func (w *enrichOperator) Open(_ context.Context, o graph.OperatorContext) (err error) {
	w.o = o
	if w.pending, err = backend.NewList(o.State(), "pending", backend.Bytes{}); err == nil {
		w.totals, err = backend.NewValue(o.State(), "totals", enrichTotalsCodec{})
	}
	return err
}

// Process implements graph.Operator: an event waits for the rules of its time.
func (w *enrichOperator) Process(_ context.Context, r *graph.Record, _ graph.Collector) error {
	w.latest = r.Due
	w.enter(r.EventTime)
	w.buf = backend.AppendInt64(backend.AppendInt64(w.buf[:0], int64(r.Partition)), r.Index)
	w.buf = append(w.buf, r.Value...)
	if err := w.pending.Add(w.buf); err != nil {
		return err
	}
	// At its own time, records of the same time may still come.
	return w.o.RegisterTimer(r.EventTime + 1)
}

// enter makes the events of a time the namespace.
func (w *enrichOperator) enter(at int64) {
	binary.BigEndian.PutUint64(w.ns[:], uint64(at))
	w.o.State().SetNamespace(w.ns[:])
}

// ProcessSecond implements graph.TwoInput: a rule changes.
func (w *enrichOperator) ProcessSecond(_ context.Context, r *graph.Record, _ graph.Collector) error {
	in, err := readEnrichRecord(r.Value)
	if err != nil {
		return err
	}
	return w.rules.add(in.rule, ruleChange{at: r.EventTime, partition: int64(r.Partition), index: r.Index, factor: in.number}, w.o.Watermark())
}

// OnTimer implements graph.Operator.
func (w *enrichOperator) OnTimer(_ context.Context, at int64, key []byte, out graph.Collector) error {
	if err := w.due(at - 1); err != nil {
		return err
	}
	return w.emit(key, w.results, out)
}

// due makes the results of the events of a time, all of whose rules have come.
func (w *enrichOperator) due(at int64) (err error) {
	if w.now, _, err = w.totals.Get(); err != nil {
		return err
	}
	w.at, w.bad, w.results = at, nil, w.results[:0]
	w.enter(at)
	if err := w.pending.Get(w.leave); err != nil || w.bad != nil {
		return either(err, w.bad)
	}
	if len(w.results) == 0 {
		return fmt.Errorf("timer without an event at %d", at)
	}
	if err := w.pending.Clear(); err != nil {
		return err
	}
	w.o.State().SetNamespace(nil)
	return w.totals.Set(w.now)
}

// either is the first error there is.
func either(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// enrich adds the result of one event.
func (w *enrichOperator) enrich(event []byte) bool {
	in, err := readEnrichRecord(event[min(16, len(event)):])
	if err != nil || int(in.rule) >= len(w.rules) {
		w.bad = fmt.Errorf("event of rule %d: %w", in.rule, either(err, backend.ErrEncoding))
		return false
	}
	rule := w.rules.find(in.rule, w.at)
	result := in.number * rule.factor
	w.now.count++
	w.now.sum += result
	from := len(w.results)
	w.results = append(append(w.results, 0, 0, 0, 0), event[:16]...)
	w.results = backend.AppendInt64(w.results, int64(w.latest))
	for _, v := range [...]int64{w.at, int64(in.rule), rule.at, rule.partition, rule.index, in.number, result, w.now.count, w.now.sum} {
		w.results = backend.AppendInt64(w.results, v)
	}
	w.results = append(w.results, in.payload[:min(8, len(in.payload))]...)
	binary.BigEndian.PutUint32(w.results[from:], uint32(len(w.results)-from-4))
	return true
}

// emit hands results of a key out.
func (w *enrichOperator) emit(key, results []byte, out graph.Collector) error {
	w.out.Key = append(w.out.Key[:0], key...)
	w.out.Hash = keygroup.HashInt64(int64(binary.BigEndian.Uint64(key)))
	for len(results) > 0 {
		n := 4 + binary.BigEndian.Uint32(results)
		one := results[4:n]
		results = results[n:]
		w.out.Partition, w.out.Index = int32(binary.BigEndian.Uint64(one)), int64(binary.BigEndian.Uint64(one[8:]))
		w.out.Due, w.out.Value = time.Duration(binary.BigEndian.Uint64(one[16:])), append(w.out.Value[:0], one[24:]...)
		w.out.EventTime, w.out.Tag = int64(binary.BigEndian.Uint64(one[24:])), 0
		if err := out.Collect(&w.out); err != nil {
			return err
		}
	}
	return nil
}

// SnapshotOperatorState implements graph.Stateful. At a barrier all subtasks have had the same changes and have the same watermark.
func (w *enrichOperator) SnapshotOperatorState(context.Context) ([][]byte, error) {
	if at := w.o.Watermark(); at != math.MinInt64 {
		for rule := range w.rules {
			w.rules.forget(uint32(rule), at)
		}
	}
	return [][]byte{w.rules.encode()}, nil
}

// RestoreOperatorState implements graph.Stateful.
func (w *enrichOperator) RestoreOperatorState(_ context.Context, parts [][]byte) error {
	for _, p := range parts {
		if err := w.rules.decode(p); err != nil {
			return err
		}
	}
	return nil
}

// Redistribution implements graph.Stateful.
func (w *enrichOperator) Redistribution() graph.Redistribution { return graph.Whole }

// holdingOperator is the join that holds its results back.
type holdingOperator struct {
	*enrichOperator
	held *backend.ListState[[]byte]
}

var _ graph.ProcessingTimed = (*holdingOperator)(nil)

// Open implements graph.Operator.
func (h *holdingOperator) Open(ctx context.Context, o graph.OperatorContext) error {
	err := h.enrichOperator.Open(ctx, o)
	if err == nil {
		h.held, err = backend.NewList(o.State(), "held", backend.Bytes{})
	}
	return err
}

// OnTimer implements graph.Operator.
func (h *holdingOperator) OnTimer(_ context.Context, at int64, _ []byte, _ graph.Collector) error {
	if err := h.due(at - 1); err != nil {
		return err
	}
	if err := h.held.Add(h.results); err != nil {
		return err
	}
	hold := time.Duration(h.shape.hold)
	return h.o.RegisterProcessingTimer((h.o.ProcessingTime()/hold + 1) * hold)
}

// OnProcessingTimer implements graph.ProcessingTimed: what is held comes out.
func (h *holdingOperator) OnProcessingTimer(_ context.Context, _ time.Duration, key []byte, out graph.Collector) error {
	h.bad = nil
	err := h.held.Get(func(results []byte) bool {
		h.bad = h.emit(key, results, out)
		return h.bad == nil
	})
	if err = either(err, h.bad); err != nil {
		return err
	}
	return h.held.Clear()
}
