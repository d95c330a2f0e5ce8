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

// gathering is what a key has gathered in a pane or a window: count, sum, minimum and maximum of its records' numbers, and
// of the last record identity, event time, number, session and, where wanted, payload. A decoded payload is borrowed.
type gathering struct {
	partition, index, at       int64
	count, sum, min, max, last int64
	session                    int64
	payload                    []byte
}

// gatheringCodec encodes gatherings.
type gatheringCodec struct{}

const gatheringWords = 9

func (gatheringCodec) Append(dst []byte, g gathering) []byte {
	for _, v := range [gatheringWords]int64{g.partition, g.index, g.at, g.count, g.sum, g.min, g.max, g.last, g.session} {
		dst = backend.AppendInt64(dst, v)
	}
	return append(dst, g.payload...)
}

func (gatheringCodec) Decode(src []byte) (g gathering, err error) {
	if len(src) < 8*gatheringWords {
		return g, fmt.Errorf("gathering of %d bytes: %w", len(src), backend.ErrEncoding)
	}
	for i, v := range [gatheringWords]*int64{&g.partition, &g.index, &g.at, &g.count, &g.sum, &g.min, &g.max, &g.last, &g.session} {
		*v = int64(binary.BigEndian.Uint64(src[8*i:]))
	}
	g.payload = src[8*gatheringWords:]
	return g, nil
}

// with is both gatherings together. The last record is that with the higher index: all of a key are of one partition.
func (g gathering) with(o gathering) gathering {
	if g.count == 0 {
		return o
	}
	sum := g
	if o.index > g.index {
		sum = o
	}
	sum.count, sum.sum, sum.min, sum.max = g.count+o.count, g.sum+o.sum, min(g.min, o.min), max(g.max, o.max)
	return sum
}

// windowOperator is the keyed stage of the windows.
type windowOperator struct {
	shape    windowShape
	o        graph.OperatorContext
	gathered *backend.ValueState[gathering] // by pane or by window
	elements *backend.ListState[[]byte]     // likewise
	late     *backend.ReducingState[int64]
	session  *backend.ValueState[int64]
	ns       [8]byte
	prefix   [8]byte // of the payload that a window ends with
	latest   time.Duration
	out      graph.Record
	check    uint64 // sum over the elements of a window
	add      func(payload []byte) bool
}

// Open implements graph.Operator.
func (w *windowOperator) Open(_ context.Context, o graph.OperatorContext) (err error) {
	w.o, w.latest = o, anyTime
	w.add = func(payload []byte) bool { w.check += leadingWord(payload); return true }
	if w.gathered, err = backend.NewValue(o.State(), w.shape.gathered(), gatheringCodec{}); err != nil {
		return err
	}
	if w.shape.all {
		if w.elements, err = backend.NewList(o.State(), "elements", backend.Bytes{}); err != nil {
			return err
		}
	}
	if w.late, err = backend.NewReducing(o.State(), "late", backend.Int64{}, func(a, b int64) int64 { return a + b }); err != nil {
		return err
	}
	if w.shape.ttl > 0 {
		ttl := backend.TTL{After: time.Duration(w.shape.ttl), Grain: time.Duration(w.shape.grain), OnRead: w.shape.onRead}
		w.session, err = backend.NewValue(o.State(), "session", backend.Int64{}, backend.WithTTL(ttl))
	}
	return err
}

// Process implements graph.Operator. Whether the record is late follows from the record alone: the watermark of the
// operator, which depends on the other partitions, is never after that of the record's own.
func (w *windowOperator) Process(_ context.Context, r *graph.Record, out graph.Collector) error {
	in, err := readWindowRecord(r.Value)
	if err != nil {
		return err
	}
	w.latest = max(w.latest, r.Due)
	w.o.State().SetTime(in.watermark)
	pane := floorDiv(r.EventTime, w.shape.slide)
	first := pane - w.shape.overlap + 1
	late := w.shape.ends(first) <= in.watermark
	session, err := w.visit(late)
	if err != nil {
		return err
	}
	if late {
		return w.putAside(r, in, session, out)
	}
	one := gathering{partition: int64(r.Partition), index: r.Index, at: r.EventTime, count: 1, sum: in.number, min: in.number,
		max: in.number, last: in.number, session: session}
	if w.shape.last {
		one.payload = in.payload
	}
	if w.shape.shared {
		isNew, err := w.gather(pane, one, in.payload)
		for window := first; isNew && err == nil && window <= pane; window++ {
			err = w.o.RegisterTimer(w.shape.ends(window))
		}
		return err
	}
	for window := first; window <= pane; window++ {
		isNew, err := w.gather(window, one, in.payload)
		if err == nil && isNew {
			err = w.o.RegisterTimer(w.shape.ends(window))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// visit counts the records of the key since it was quiet last; late ones only look.
func (w *windowOperator) visit(late bool) (int64, error) {
	if w.session == nil {
		return 0, nil
	}
	n, _, err := w.session.Get()
	if err != nil || late {
		return n, err
	}
	return n + 1, w.session.Set(n + 1)
}

// gather adds a record to a pane or window; isNew tells that it is the first one there.
func (w *windowOperator) gather(number int64, one gathering, payload []byte) (isNew bool, err error) {
	w.enter(number)
	g, there, err := w.gathered.Get()
	if err != nil {
		return false, err
	}
	if err := w.gathered.Set(g.with(one)); err != nil {
		return false, err
	}
	if w.elements != nil {
		err = w.elements.Add(payload)
	}
	w.o.State().SetNamespace(nil)
	return !there, err
}

// enter makes a pane or window the namespace.
func (w *windowOperator) enter(number int64) {
	binary.BigEndian.PutUint64(w.ns[:], uint64(number))
	w.o.State().SetNamespace(w.ns[:])
}

// putAside takes a late record.
func (w *windowOperator) putAside(r *graph.Record, in windowRecord, session int64, out graph.Collector) error {
	if err := w.late.Add(1); err != nil || !w.shape.emitLate {
		return err
	}
	n, _, err := w.late.Get()
	if err != nil {
		return err
	}
	w.out.Key, w.out.Hash = append(w.out.Key[:0], r.Key...), r.Hash
	w.out.Value = appendWords(w.out.Value[:0], uint64(r.EventTime), uint64(in.watermark), uint64(n))
	w.out.Value = appendWords(w.out.Value, uint64(in.number), uint64(session), leadingWord(in.payload))
	w.out.Due, w.out.Partition, w.out.Index, w.out.Tag, w.out.EventTime = r.Due, r.Partition, r.Index, uint8(w.shape.overlap), r.EventTime
	return out.Collect(&w.out)
}

// OnTimer implements graph.Operator. The window is complete: a record that comes now is late for it.
func (w *windowOperator) OnTimer(_ context.Context, at int64, key []byte, out graph.Collector) error {
	window := (at-w.shape.lateness)/w.shape.slide - w.shape.overlap
	all, err := w.collect(window)
	if err != nil {
		return err
	}
	if all.count == 0 {
		return fmt.Errorf("timer of key %x at %d has no window", key, at)
	}
	n := copy(w.prefix[:], all.payload) // the payload is borrowed until the next write
	if err := w.forget(window); err != nil {
		return err
	}
	w.out.Key = append(w.out.Key[:0], key...)
	w.out.Hash = keygroup.HashInt64(int64(binary.BigEndian.Uint64(key)))
	w.out.Value = appendWords(w.out.Value[:0], uint64(window), uint64(all.at), uint64(all.session))
	w.out.Value = appendWords(w.out.Value, uint64(all.count), uint64(all.sum), uint64(all.min))
	w.out.Value = appendWords(w.out.Value, uint64(all.max), uint64(all.last), w.check)
	w.out.Value = append(w.out.Value, w.prefix[:n]...)
	w.out.Due, w.out.Partition, w.out.Index, w.out.EventTime = w.latest, int32(all.partition), all.index, at-w.shape.lateness
	// One record can be the last of several windows: which of them this is makes its identity.
	w.out.Tag = uint8(floorDiv(all.at, w.shape.slide) - window)
	return out.Collect(&w.out)
}

// collect is what a window has gathered; w.check then stands for its elements.
func (w *windowOperator) collect(window int64) (all gathering, err error) {
	w.check = 0
	last := window
	if w.shape.shared {
		last = window + w.shape.overlap - 1
	}
	for number := window; number <= last; number++ {
		w.enter(number)
		g, there, err := w.gathered.Get()
		if err == nil && there && w.elements != nil {
			err = w.elements.Get(w.add)
		}
		if err != nil {
			return all, err
		}
		if there {
			all = all.with(g)
		}
	}
	return all, nil
}

// forget removes the window, or the pane that it was the last one to need.
func (w *windowOperator) forget(number int64) error {
	w.enter(number)
	if w.elements != nil {
		if err := w.elements.Clear(); err != nil {
			return err
		}
	}
	err := w.gathered.Clear()
	w.o.State().SetNamespace(nil)
	return err
}

// leadingWord is the first eight bytes of a payload, fewer when it is shorter.
func leadingWord(payload []byte) (v uint64) {
	for _, b := range payload[:min(8, len(payload))] {
		v = v<<8 | uint64(b)
	}
	return v
}
