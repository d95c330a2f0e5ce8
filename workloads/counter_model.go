package workloads

import (
	"encoding/binary"
	"math"

	"statebench.dev/bench/internal/canon"
	"statebench.dev/bench/internal/keygroup"
)

// counterModel is the reference for the counter: an array over the keys and a loop over the records. It stores no
// payload; that of a key follows from the index of its last record.
type counterModel struct {
	g         *generator
	shape     counterShape
	schema    int // in which it gives states; 0 is 1
	watermark int64
	parts     []counterPart
	totals    []counterTotal
	value     []byte // buffers
	element   []byte
	pay       []byte
}

// counterPart is one source partition: no key of it is in another.
type counterPart struct {
	next    int64 // index of the next record
	keys    []counterKey
	windows []counterWindow // open or removed ones, in order of bucket
	closed  int64           // windows dropped from the front
	fired   []uint64        // bitmap of the indices that window output carries
	output  []canon.Digest  // by key group
}

type counterKey struct {
	count  uint64 // records since the last removal; 0: no state
	last   int64  // index of the last of them
	opened int64  // number of its newest window, from 1
	fired  int64
}

type counterWindow struct {
	local, bucket, records, index int64 // records 0: removed
	list                          int64 // elements, which are those of the counts up to count
	count                         uint64
}

type counterTotal struct {
	records, windows int64
	sum              uint64
}

func newCounterModel(g *generator, shape counterShape) *counterModel {
	m := &counterModel{g: g, shape: shape, watermark: math.MinInt64, parts: make([]counterPart, len(g.partitions)),
		totals: make([]counterTotal, shape.totals), pay: make([]byte, g.size)}
	for p := range m.parts {
		m.parts[p] = counterPart{keys: make([]counterKey, g.partitions[p].keys), output: make([]canon.Digest, shape.maxParallelism)}
	}
	return m
}

// Advance implements Model.
func (m *counterModel) Advance(positions []int64) error {
	watermark, err := watermarkAt(positions, len(m.parts),
		func(p int) (next, limit int64) { return m.parts[p].next, m.g.partitions[p].limit }, m.g.watermark)
	if err != nil {
		return err
	}
	if watermark < math.MaxInt64 { // else no partition has a record
		m.watermark = watermark
	}
	for p, to := range positions {
		part := &m.parts[p]
		for ; part.next < to; part.next++ {
			at := m.g.eventTime(p, part.next)
			m.fire(p, min(at, m.watermark))
			m.step(p, part.next, at)
		}
		m.fire(p, m.watermark)
	}
	return nil
}

// step takes one record.
func (m *counterModel) step(p int, index, at int64) {
	part, draw := &m.parts[p], m.g.draw(p, index)
	local := m.g.local(p, index, draw)
	k, key := &part.keys[local], m.g.key(p, local)
	var prefix [8]byte
	old := prefix[:0]
	if k.count > 0 {
		old = prefix[:min(8, m.g.size)]
		m.g.payload(old, m.g.draw(p, k.last))
	}
	var count, replaced uint64
	if m.g.removes(draw) {
		k.count = 0
		if w := m.newest(part, k, at); w != nil {
			w.records = 0
		}
	} else {
		k.count, k.last = k.count+1, index
		if count = k.count; m.shape.maps && count > uint64(m.shape.listCap) {
			replaced = mix(key + count - uint64(m.shape.listCap))
		}
		m.keep(part, k, local, index, at)
	}
	m.value = append(append(m.value[:0], m.words(key, count, replaced)...), old...)
	m.emit(p, index, tagOfRecord, key, count, m.value)
}

// newest is the key's window of the bucket of at; nil if there is none.
func (m *counterModel) newest(part *counterPart, k *counterKey, at int64) *counterWindow {
	if m.shape.every == 0 || k.opened <= part.closed {
		return nil
	}
	w := &part.windows[k.opened-part.closed-1]
	if w.bucket != at/m.shape.every || w.records == 0 {
		return nil
	}
	return w
}

// keep adds a record to the key's window.
func (m *counterModel) keep(part *counterPart, k *counterKey, local, index, at int64) {
	if m.shape.every == 0 {
		return
	}
	w := m.newest(part, k, at)
	if w == nil {
		part.windows = append(part.windows, counterWindow{local: local, bucket: at / m.shape.every})
		k.opened = part.closed + int64(len(part.windows))
		w = &part.windows[len(part.windows)-1]
	}
	w.records, w.index, w.count = w.records+1, index, k.count
	if m.shape.lists {
		w.list = w.list%m.shape.listCap + 1
	}
}

// fire closes the windows of a partition that end at or before at. They are complete: the partition has passed at.
func (m *counterModel) fire(p int, at int64) {
	part, n := &m.parts[p], 0
	for ; n < len(part.windows) && (part.windows[n].bucket+1)*m.shape.every <= at; n++ {
		w := part.windows[n]
		if w.records == 0 {
			continue
		}
		k, key, sum := &part.keys[w.local], m.g.key(p, w.local), uint64(0)
		k.fired++
		for i := range w.list {
			sum += mix(key + w.count - uint64(i))
		}
		for int(w.index/64) >= len(part.fired) {
			part.fired = append(part.fired, 0)
		}
		part.fired[w.index/64] |= 1 << (w.index % 64)
		m.value = append(m.value[:0], m.words(key, uint64(w.records), sum)...)
		m.value = binary.BigEndian.AppendUint64(m.value, uint64(w.bucket))
		m.emit(p, w.index, tagOfWindow, key, uint64(w.records), m.value)
	}
	part.closed += int64(n)
	if n == len(part.windows) {
		n, part.windows = 0, part.windows[:0] // keeps the memory
	}
	part.windows = part.windows[n:]
}

// The tags of output, as the job gives them.
const (
	tagOfRecord = 0
	tagOfWindow = 1
)

// emit takes an output record of stage count through stage total to the sink.
func (m *counterModel) emit(p int, index int64, tag uint8, key, addend uint64, value []byte) {
	if m.shape.stages == 2 {
		key = mix(key) % m.shape.totals
		t := &m.totals[key]
		t.sum += addend
		if tag == tagOfRecord {
			t.records++
		} else {
			t.windows++
		}
	}
	var k [8]byte
	binary.BigEndian.PutUint64(k[:], key)
	m.element = canon.Output(m.element[:0], int32(p), index, tag, k[:], value)
	m.parts[p].output[m.group(key)].Add(m.element)
}

func (m *counterModel) group(key uint64) keygroup.ID {
	return keygroup.Of(keygroup.HashInt64(int64(key)), m.shape.maxParallelism)
}

// words encodes three numbers in the element buffer.
func (m *counterModel) words(a, b, c uint64) []byte {
	m.element = binary.BigEndian.AppendUint64(m.element[:0], a)
	m.element = binary.BigEndian.AppendUint64(m.element, b)
	m.element = binary.BigEndian.AppendUint64(m.element, c)
	return m.element
}

// Output implements Model.
func (m *counterModel) Output(f func(partition int, group keygroup.ID, d canon.Digest)) {
	for p := range m.parts {
		eachOutput(p, m.parts[p].output, f)
	}
}

// OutputHas implements Model.
func (m *counterModel) OutputHas(partition int, index int64, tag uint8) bool {
	if partition < 0 || partition >= len(m.parts) || index < 0 || index >= m.parts[partition].next {
		return false
	}
	fired := m.parts[partition].fired
	return tag == tagOfRecord || tag == tagOfWindow && marked(fired, index)
}

// OutputTags implements Model.
func (m *counterModel) OutputTags() int {
	if m.shape.every == 0 {
		return 1
	}
	return 2
}
