package workloads

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/keygroup"
)

// numbers are those of one row, of which the first few are in use.
type numbers [maxColumns]int64

// readNumbers reads n numbers and returns what follows them.
func readNumbers(b []byte, n int) (v numbers, rest []byte, err error) {
	if len(b) < 8*n {
		return v, nil, fmt.Errorf("%d numbers in %d bytes: %w", n, len(b), backend.ErrEncoding)
	}
	for i := range n {
		v[i] = int64(binary.BigEndian.Uint64(b[8*i:]))
	}
	return v, b[8*n:], nil
}

func appendNumbers(dst []byte, v numbers, n int) []byte {
	for _, x := range v[:n] {
		dst = backend.AppendInt64(dst, x)
	}
	return dst
}

// stats are the statistics of a key, by column.
type stats struct {
	count               int64
	sum, min, max, last numbers
}

func (s stats) add(v numbers) stats {
	if s.count == 0 {
		s.min, s.max = v, v
	}
	s.count++
	for i, x := range v {
		s.sum[i] += x
		s.min[i], s.max[i] = min(s.min[i], x), max(s.max[i], x)
	}
	s.last = v
	return s
}

// statsCodec encodes stats of that many columns.
type statsCodec int

func (c statsCodec) Append(dst []byte, s stats) []byte {
	dst = backend.AppendInt64(dst, s.count)
	for _, v := range [4]numbers{s.sum, s.min, s.max, s.last} {
		dst = appendNumbers(dst, v, int(c))
	}
	return dst
}

func (c statsCodec) Decode(src []byte) (s stats, err error) {
	if len(src) != 8+32*int(c) {
		return s, fmt.Errorf("statistics of %d bytes: %w", len(src), backend.ErrEncoding)
	}
	s.count, src = int64(binary.BigEndian.Uint64(src)), src[8:]
	for _, v := range [4]*numbers{&s.sum, &s.min, &s.max, &s.last} {
		if *v, src, err = readNumbers(src, int(c)); err != nil {
			return s, err
		}
	}
	return s, nil
}

// traceWindow is what a key has in one bucket of event time: its records, their sums, and identity and second key of
// the last one. A decoded second key is borrowed.
type traceWindow struct {
	records, partition, index int64
	sums                      numbers
	second                    []byte
}

// traceWindowCodec encodes windows with sums of that many columns.
type traceWindowCodec int

func (c traceWindowCodec) Append(dst []byte, w traceWindow) []byte {
	dst = appendWords(dst, uint64(w.records), uint64(w.partition), uint64(w.index))
	return append(appendNumbers(dst, w.sums, int(c)), w.second...)
}

func (c traceWindowCodec) Decode(src []byte) (w traceWindow, err error) {
	head, src, err := readNumbers(src, 3)
	if err != nil {
		return w, err
	}
	w.records, w.partition, w.index = head[0], head[1], head[2]
	w.sums, w.second, err = readNumbers(src, int(c))
	return w, err
}

// statsOperator is stage stats of the trace.
type statsOperator struct {
	shape  traceShape
	o      graph.OperatorContext
	stats  *backend.AggregatingState[numbers, stats, stats]
	labels *backend.MapState[[]byte, int64]
	window *backend.ValueState[traceWindow]
	ns     [8]byte
	label  []byte // number of the column, then the text
	counts []byte // of the record's labels, encoded
	latest time.Duration
	out    graph.Record
}

// Open implements graph.Operator.
func (t *statsOperator) Open(_ context.Context, o graph.OperatorContext) (err error) {
	t.o, t.latest = o, anyTime
	t.stats, err = backend.NewAggregating(o.State(), "stats", statsCodec(t.shape.values), backend.Aggregate[numbers, stats, stats]{
		Create: func() stats { return stats{} },
		Add:    stats.add,
		Result: func(s stats) stats { return s },
	})
	if err != nil {
		return err
	}
	if t.shape.labels > 0 {
		if t.labels, err = backend.NewMap(o.State(), "labels", backend.Bytes{}, backend.Int64{}); err != nil {
			return err
		}
	}
	if t.shape.every > 0 {
		t.window, err = backend.NewValue(o.State(), "window", traceWindowCodec(t.shape.values))
	}
	return err
}

// Process implements graph.Operator.
func (t *statsOperator) Process(_ context.Context, r *graph.Record, out graph.Collector) error {
	t.latest = max(t.latest, r.Due)
	row, rest, err := readNumbers(r.Value, t.shape.values)
	if err != nil {
		return err
	}
	if err := t.stats.Add(row); err != nil {
		return err
	}
	second, err := t.count(rest)
	if err != nil {
		return err
	}
	if t.window != nil {
		if err := t.updateWindow(r, row, second); err != nil {
			return err
		}
	}
	s, _, err := t.stats.Get()
	if err != nil {
		return err
	}
	t.out.Value = statsCodec(t.shape.values).Append(t.head(row, r.Key), s)
	t.out.Value = append(t.out.Value, t.counts...)
	t.out.Due, t.out.Partition, t.out.Index, t.out.Tag, t.out.EventTime = r.Due, r.Partition, r.Index, tagRecord, r.EventTime
	return t.emit(r.Key, second, out)
}

// count counts the labels of a row and returns what follows them, the second key.
func (t *statsOperator) count(rest []byte) ([]byte, error) {
	t.counts = t.counts[:0]
	for column := range t.shape.labels {
		if len(rest) < 4 || uint64(len(rest)-4) < uint64(binary.BigEndian.Uint32(rest)) {
			return nil, fmt.Errorf("label in %d bytes: %w", len(rest), backend.ErrEncoding)
		}
		n := 4 + int(binary.BigEndian.Uint32(rest))
		t.label = append(append(t.label[:0], byte(column)), rest[4:n]...)
		rest = rest[n:]
		c, _, err := t.labels.Get(t.label)
		if err != nil {
			return nil, err
		}
		if err := t.labels.Put(t.label, c+1); err != nil {
			return nil, err
		}
		t.counts = backend.AppendInt64(t.counts, c+1)
	}
	return rest, nil
}

// updateWindow adds the record to the window of its bucket.
func (t *statsOperator) updateWindow(r *graph.Record, row numbers, second []byte) error {
	bucket := floorDiv(r.EventTime, t.shape.every)
	t.enter(bucket)
	w, there, err := t.window.Get()
	if err != nil {
		return err
	}
	if !there {
		if err := t.o.RegisterTimer((bucket + 1) * t.shape.every); err != nil {
			return err
		}
	}
	w.records, w.partition, w.index, w.second = w.records+1, int64(r.Partition), r.Index, second
	for i, x := range row {
		w.sums[i] += x
	}
	if err := t.window.Set(w); err != nil {
		return err
	}
	t.o.State().SetNamespace(nil)
	return nil
}

// enter makes the bucket the namespace.
func (t *statsOperator) enter(bucket int64) {
	binary.BigEndian.PutUint64(t.ns[:], uint64(bucket))
	t.o.State().SetNamespace(t.ns[:])
}

// OnTimer implements graph.Operator. It reads the window only, which is complete; statistics may have gone on.
func (t *statsOperator) OnTimer(_ context.Context, at int64, key []byte, out graph.Collector) error {
	bucket := floorDiv(at, t.shape.every) - 1
	t.enter(bucket)
	w, there, err := t.window.Get()
	if err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("timer of key %x at %d has no window", key, at)
	}
	t.out.Value = appendWords(t.head(w.sums, key), uint64(w.records), uint64(bucket), 0)
	t.label = append(t.label[:0], w.second...) // borrowed until the next write
	if err := t.window.Clear(); err != nil {
		return err
	}
	t.o.State().SetNamespace(nil)
	t.out.Due, t.out.Partition, t.out.Index, t.out.Tag, t.out.EventTime = t.latest, int32(w.partition), w.index, tagWindow, at
	return t.emit(key, t.label, out)
}

// head begins an output value: what stage total adds up, then the key.
func (t *statsOperator) head(addends numbers, key []byte) []byte {
	return backend.AppendBytes(appendNumbers(t.out.Value[:0], addends, t.shape.values), key)
}

// emit sends t.out on to the next stage.
func (t *statsOperator) emit(key, second []byte, out graph.Collector) error {
	if t.shape.second {
		key = second
	}
	t.out.Key = append(t.out.Key[:0], key...)
	t.out.Hash = keygroup.HashBytes(t.out.Key)
	return out.Collect(&t.out)
}

// floorDiv is a/b rounded down, for b > 0.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// traceSum is the sum over the records of a second key. Its parts may be added in any order.
type traceSum struct {
	records, windows int64
	sums             numbers
}

// traceSumCodec encodes sums of that many columns.
type traceSumCodec int

func (c traceSumCodec) Append(dst []byte, s traceSum) []byte {
	return appendNumbers(backend.AppendInt64(backend.AppendInt64(dst, s.records), s.windows), s.sums, int(c))
}

func (c traceSumCodec) Decode(src []byte) (s traceSum, err error) {
	head, src, err := readNumbers(src, 2)
	if err != nil {
		return s, err
	}
	s.records, s.windows = head[0], head[1]
	s.sums, _, err = readNumbers(src, int(c))
	return s, err
}

// sumOperator is stage total of the trace.
type sumOperator struct {
	values int
	total  *backend.ReducingState[traceSum]
}

// Open implements graph.Operator.
func (t *sumOperator) Open(_ context.Context, o graph.OperatorContext) (err error) {
	t.total, err = backend.NewReducing(o.State(), "total", traceSumCodec(t.values), func(a, b traceSum) traceSum {
		a.records, a.windows = a.records+b.records, a.windows+b.windows
		for i, x := range b.sums {
			a.sums[i] += x
		}
		return a
	})
	return err
}

// Process implements graph.Operator. A window's sums are those of records that have been added already.
func (t *sumOperator) Process(_ context.Context, r *graph.Record, out graph.Collector) error {
	one := traceSum{windows: 1}
	if r.Tag == tagRecord {
		row, _, err := readNumbers(r.Value, t.values)
		if err != nil {
			return err
		}
		one = traceSum{records: 1, sums: row}
	}
	if err := t.total.Add(one); err != nil {
		return err
	}
	return out.Collect(r)
}

// OnTimer implements graph.Operator; the stage has no timers.
func (t *sumOperator) OnTimer(_ context.Context, at int64, key []byte, _ graph.Collector) error {
	return fmt.Errorf("timer at %d of key %x, and there are none", at, key)
}
