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

// Tags of the counter's and the trace's output.
const (
	tagRecord = 0 // one for each source record
	tagWindow = 1 // one for each window, with the identity of the last record in it
)

// held is the value of a key: records since the last removal, and the payload of the last.
type held struct {
	count   uint64
	payload []byte
}

// heldCodec encodes held; decoded payloads are borrowed.
type heldCodec struct{}

func (heldCodec) Append(dst []byte, v held) []byte {
	return append(backend.AppendUint64(dst, v.count), v.payload...)
}

func (heldCodec) Decode(src []byte) (held, error) {
	if len(src) < 8 {
		return held{}, fmt.Errorf("value of %d bytes: %w", len(src), backend.ErrEncoding)
	}
	return held{count: binary.BigEndian.Uint64(src), payload: src[8:]}, nil
}

// anyTime is the due time of a record that may be sent at any time.
const anyTime = -1

// window is what a key has in one bucket of event time: records since it was opened, the elements of its list, and the
// identity of its last record.
type window struct {
	records, list, partition, index int64
}

type windowCodec struct{}

func (windowCodec) Append(dst []byte, v window) []byte {
	return backend.AppendInt64(appendWords(dst, uint64(v.records), uint64(v.list), uint64(v.partition)), v.index)
}

func (windowCodec) Decode(src []byte) (window, error) {
	if len(src) != 32 {
		return window{}, fmt.Errorf("window of %d bytes: %w", len(src), backend.ErrEncoding)
	}
	word := func(i int) int64 { return int64(binary.BigEndian.Uint64(src[8*i:])) }
	return window{word(0), word(1), word(2), word(3)}, nil
}

// countOperator is stage count of the counter.
type countOperator struct {
	shape   counterShape
	schema  int
	o       graph.OperatorContext
	value   *backend.ValueState[held]
	entries *backend.MapState[uint64, uint64]
	list    *backend.ListState[uint64]
	window  *backend.ValueState[window]
	fired   *backend.ReducingState[int64]
	ns      [8]byte       // namespace of the current bucket
	prefix  [8]byte       // of the payload that the current record replaces
	latest  time.Duration // due time of the newest record: what made the watermark that fires a timer is about as old
	out     graph.Record
	sum     uint64
	add     func(v uint64) bool // adds to sum; made once
}

// Open implements graph.Operator.
func (c *countOperator) Open(_ context.Context, o graph.OperatorContext) (err error) {
	c.o, c.latest = o, anyTime
	c.add = func(v uint64) bool { c.sum += v; return true }
	s := counterStores(c.schema)
	if c.value, err = backend.NewValue(o.State(), "value", s.held, s.ofHeld...); err != nil {
		return err
	}
	if c.shape.maps {
		if c.entries, err = backend.NewMap(o.State(), "map", s.slot, s.element, s.ofMap...); err != nil {
			return err
		}
	}
	if c.shape.lists {
		if c.list, err = backend.NewList(o.State(), "list", s.element, s.ofElement...); err != nil {
			return err
		}
	}
	if c.shape.every == 0 {
		return nil
	}
	if c.window, err = backend.NewValue(o.State(), "window", windowCodec{}); err != nil {
		return err
	}
	c.fired, err = backend.NewReducing(o.State(), "fired", s.fired, func(a, b int64) int64 { return a + b }, s.ofFired...)
	return err
}

// Process implements graph.Operator.
func (c *countOperator) Process(_ context.Context, r *graph.Record, out graph.Collector) error {
	before, _, err := c.value.Get()
	if err != nil {
		return err
	}
	c.latest = max(c.latest, r.Due)
	n := copy(c.prefix[:], before.payload) // the payload is borrowed until the next write
	key := binary.BigEndian.Uint64(r.Key)
	var count, replaced uint64
	if len(r.Value) == 0 {
		err = c.remove(r)
	} else {
		count = before.count + 1
		replaced, err = c.update(r, key, count)
	}
	if err != nil {
		return err
	}
	c.out.Value = appendWords(c.out.Value[:0], key, count, replaced)
	c.out.Value = append(c.out.Value, c.prefix[:n]...)
	c.out.Due, c.out.Partition, c.out.Index, c.out.Tag, c.out.EventTime = r.Due, r.Partition, r.Index, tagRecord, r.EventTime
	return c.emit(key, out)
}

// update adds the record to the state of its key, and returns the map entry it replaced, 0 for none.
func (c *countOperator) update(r *graph.Record, key, count uint64) (replaced uint64, err error) {
	if err := c.value.Set(held{count: count, payload: r.Value}); err != nil {
		return 0, err
	}
	element := mix(key + count)
	if c.entries != nil {
		slot := (count - 1) % uint64(c.shape.listCap)
		if replaced, _, err = c.entries.Get(slot); err != nil {
			return 0, err
		}
		if err := c.entries.Put(slot, element); err != nil {
			return 0, err
		}
	}
	if c.window != nil {
		return replaced, c.updateWindow(r, element)
	}
	if c.list != nil {
		return replaced, c.push(int64((count-1)%uint64(c.shape.listCap)), element)
	}
	return replaced, nil
}

// push adds to a list of n elements, which begins anew at the first.
func (c *countOperator) push(n int64, element uint64) error {
	if n == 0 {
		if err := c.list.Clear(); err != nil {
			return err
		}
	}
	return c.list.Add(element)
}

// updateWindow adds the record to the window of its bucket.
func (c *countOperator) updateWindow(r *graph.Record, element uint64) error {
	bucket := r.EventTime / c.shape.every
	c.enter(bucket)
	w, there, err := c.window.Get()
	if err != nil {
		return err
	}
	if !there {
		if err := c.o.RegisterTimer((bucket + 1) * c.shape.every); err != nil {
			return err
		}
	}
	w.records, w.partition, w.index = w.records+1, int64(r.Partition), r.Index
	if c.list != nil {
		w.list %= c.shape.listCap
		if err := c.push(w.list, element); err != nil {
			return err
		}
		w.list++
	}
	if err := c.window.Set(w); err != nil {
		return err
	}
	c.o.State().SetNamespace(nil)
	return nil
}

// enter makes the bucket the namespace.
func (c *countOperator) enter(bucket int64) {
	binary.BigEndian.PutUint64(c.ns[:], uint64(bucket))
	c.o.State().SetNamespace(c.ns[:])
}

// remove takes away what the key has, the window of the record's bucket and its timer included.
func (c *countOperator) remove(r *graph.Record) error {
	if err := c.value.Clear(); err != nil {
		return err
	}
	if c.entries != nil {
		if err := c.entries.Clear(); err != nil {
			return err
		}
	}
	if c.window == nil {
		if c.list == nil {
			return nil
		}
		return c.list.Clear()
	}
	bucket := r.EventTime / c.shape.every
	c.enter(bucket)
	_, there, err := c.window.Get()
	if err == nil && there {
		err = c.close((bucket + 1) * c.shape.every)
	}
	c.o.State().SetNamespace(nil)
	return err
}

// close removes the window of the current namespace, whose timer is at at.
func (c *countOperator) close(at int64) error {
	if err := c.o.DeleteTimer(at); err != nil {
		return err
	}
	if c.list != nil {
		if err := c.list.Clear(); err != nil {
			return err
		}
	}
	return c.window.Clear()
}

// OnTimer implements graph.Operator. All records of the window have been processed: they are before at, which the
// watermark has reached. Later records of the key may have been too, so only the window's own state is read.
func (c *countOperator) OnTimer(_ context.Context, at int64, key []byte, out graph.Collector) error {
	bucket := at/c.shape.every - 1
	k := binary.BigEndian.Uint64(key)
	c.enter(bucket)
	w, there, err := c.window.Get()
	if err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("timer of key %x at %d has no window", key, at)
	}
	c.sum = 0
	if c.list != nil {
		if err := c.list.Get(c.add); err != nil {
			return err
		}
		if err := c.list.Clear(); err != nil {
			return err
		}
	}
	if err := c.window.Clear(); err != nil {
		return err
	}
	c.o.State().SetNamespace(nil)
	if err := c.fired.Add(1); err != nil {
		return err
	}
	c.out.Value = appendWords(c.out.Value[:0], k, uint64(w.records), c.sum)
	c.out.Value = binary.BigEndian.AppendUint64(c.out.Value, uint64(bucket))
	c.out.Due, c.out.Partition, c.out.Index, c.out.Tag, c.out.EventTime = c.latest, int32(w.partition), w.index, tagWindow, at
	return c.emit(k, out)
}

// emit sends c.out on to the next stage.
func (c *countOperator) emit(key uint64, out graph.Collector) error {
	if c.shape.stages == 2 {
		key = totalOf(key, c.shape.totals)
	}
	c.out.Key = binary.BigEndian.AppendUint64(c.out.Key[:0], key)
	c.out.Hash = keygroup.HashInt64(int64(key))
	return out.Collect(&c.out)
}

// totalOf is the coarser key that a key belongs to.
func totalOf(key, totals uint64) uint64 { return mix(key) % totals }

func appendWords(dst []byte, a, b, c uint64) []byte {
	dst = binary.BigEndian.AppendUint64(dst, a)
	dst = binary.BigEndian.AppendUint64(dst, b)
	return binary.BigEndian.AppendUint64(dst, c)
}

// total is the sum over the output of a group of keys. Its parts may be added in any order.
type total struct {
	records, windows int64
	sum              uint64
}

type totalCodec struct{}

func (totalCodec) Append(dst []byte, v total) []byte {
	return appendWords(dst, uint64(v.records), uint64(v.windows), v.sum)
}

func (totalCodec) Decode(src []byte) (total, error) {
	if len(src) != 24 {
		return total{}, fmt.Errorf("total of %d bytes: %w", len(src), backend.ErrEncoding)
	}
	return total{int64(binary.BigEndian.Uint64(src)), int64(binary.BigEndian.Uint64(src[8:])), binary.BigEndian.Uint64(src[16:])}, nil
}

// totalOperator is stage total of the counter.
type totalOperator struct {
	total *backend.AggregatingState[*graph.Record, total, total]
}

// Open implements graph.Operator.
func (t *totalOperator) Open(_ context.Context, o graph.OperatorContext) (err error) {
	t.total, err = backend.NewAggregating(o.State(), "total", totalCodec{}, backend.Aggregate[*graph.Record, total, total]{
		Create: func() total { return total{} },
		Add: func(acc total, r *graph.Record) total {
			if r.Tag == tagRecord {
				acc.records++
			} else {
				acc.windows++
			}
			acc.sum += binary.BigEndian.Uint64(r.Value[8:])
			return acc
		},
		Result: func(acc total) total { return acc },
	})
	return err
}

// Process implements graph.Operator.
func (t *totalOperator) Process(_ context.Context, r *graph.Record, out graph.Collector) error {
	if len(r.Value) < 16 {
		return fmt.Errorf("record of %d bytes: %w", len(r.Value), backend.ErrEncoding)
	}
	if err := t.total.Add(r); err != nil {
		return err
	}
	return out.Collect(r)
}

// OnTimer implements graph.Operator; the stage has no timers.
func (t *totalOperator) OnTimer(_ context.Context, at int64, key []byte, _ graph.Collector) error {
	return fmt.Errorf("timer at %d of key %x, and there are none", at, key)
}
