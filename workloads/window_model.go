package workloads

import (
	"encoding/binary"
	"math"
	"slices"

	"statebench.dev/bench/internal/canon"
	"statebench.dev/bench/internal/keygroup"
)

// windowModel is the reference for the windows: an array over the keys, each with its open panes, and a loop over the
// records. What a window holds is put together from panes when it is asked for, whatever the operators do.
type windowModel struct {
	in        *disordered
	shape     windowShape
	watermark int64
	parts     []windowPart
	element   []byte // buffers
	value     []byte
	pay       []byte
	indices   []int64
}

// windowPart is one source partition: no key of it is in another.
type windowPart struct {
	next    int64 // index of the next record
	keys    []windowKey
	first   int64          // number of the first window that has not been emitted; panes before it are gone
	touched [][]int32      // by pane from first on: the keys with a record in it
	emitted [][]uint64     // by tag: bitmap of the indices that output carries
	output  []canon.Digest // by key group
}

// windowKey is what a key has.
type windowKey struct {
	panes   []windowPane // open ones, in order of number
	done    int64        // the last window that was emitted
	late    int64
	session int64
	until   int64 // when session is forgotten
}

// windowPane is a pane, or several put together.
type windowPane struct {
	number                int64
	count, sum, low, high int64
	index, at, session    int64 // of the last record
	check                 uint64
	indices               []int64 // of all records, if their payloads are kept
}

func newWindowModel(in *disordered, shape windowShape) *windowModel {
	m := &windowModel{in: in, shape: shape, watermark: math.MinInt64, parts: make([]windowPart, len(in.partitions)), pay: make([]byte, in.size)}
	for p := range m.parts {
		keys := make([]windowKey, in.partitions[p].keys)
		for i := range keys {
			keys[i].done = math.MinInt64
		}
		m.parts[p] = windowPart{keys: keys, first: 1 - shape.overlap, emitted: make([][]uint64, shape.overlap+1),
			output: make([]canon.Digest, shape.maxParallelism)}
	}
	return m
}

// Advance implements Model.
func (m *windowModel) Advance(positions []int64) error {
	watermark, err := watermarkAt(positions, len(m.parts),
		func(p int) (next, limit int64) { return m.parts[p].next, m.in.partitions[p].limit }, m.in.watermark)
	if err != nil {
		return err
	}
	if watermark < math.MaxInt64 { // else no partition has a record
		m.watermark = watermark
	}
	for p, to := range positions {
		part := &m.parts[p]
		for ; part.next < to; part.next++ {
			// Windows may end as early as this partition lets them, which saves memory.
			own := m.in.watermark(p, part.next)
			m.end(p, min(own, m.watermark))
			m.step(p, part.next, own)
		}
		m.end(p, m.watermark)
	}
	return nil
}

// step takes one record, before which its partition's watermark is own.
func (m *windowModel) step(p int, index, own int64) {
	part, draw := &m.parts[p], m.in.draw(p, index)
	local := m.in.local(p, index, draw)
	k, at := &part.keys[local], m.in.at(p, index, draw)
	number := at / m.shape.slide
	late := (number+1)*m.shape.slide+m.shape.lateness <= own
	session := int64(0)
	if m.shape.ttl > 0 {
		session = m.visit(k, own, late)
	}
	if late {
		k.late++
		if m.shape.emitLate {
			m.value = m.words(at, own, k.late, m.in.number(draw), session, m.lead(p, index))
			m.emit(p, index, m.shape.overlap, m.in.key(p, local))
		}
		return
	}
	one := windowPane{number: number, count: 1, sum: m.in.number(draw), index: index, at: at, session: session}
	one.low, one.high = one.sum, one.sum
	if m.shape.all {
		one.check, one.indices = uint64(m.lead(p, index)), []int64{index}
	}
	i, there := slices.BinarySearchFunc(k.panes, number, func(x windowPane, n int64) int { return int(x.number - n) })
	if there {
		k.panes[i].add(&one)
		return
	}
	k.panes = slices.Insert(k.panes, i, one)
	for int64(len(part.touched)) <= number-part.first {
		part.touched = append(part.touched, nil)
	}
	part.touched[number-part.first] = append(part.touched[number-part.first], int32(local))
}

// visit is the number of records of the key since it was quiet last, this one included unless it is late.
func (m *windowModel) visit(k *windowKey, now int64, late bool) int64 {
	seen := k.session
	if k.until <= now { // forgotten, though it may still be there
		seen = 0
	}
	if !late {
		seen++
		k.session = seen
	}
	if seen > 0 && (!late || m.shape.onRead) {
		k.until = now + m.shape.ttl
	}
	return seen
}

// add puts another pane of the same key to this one. Indices are not kept in order.
func (a *windowPane) add(b *windowPane) {
	if a.count == 0 {
		a.low, a.high, a.index = b.low, b.high, -1
	}
	if b.index > a.index {
		a.index, a.at, a.session = b.index, b.at, b.session
	}
	a.count, a.sum, a.check = a.count+b.count, a.sum+b.sum, a.check+b.check
	a.low, a.high = min(a.low, b.low), max(a.high, b.high)
	a.indices = append(a.indices, b.indices...)
}

// window is what the key has in window number w, which it holds in buffers of the model until the next call.
func (m *windowModel) window(k *windowKey, w int64) windowPane {
	sum := windowPane{number: w, indices: m.indices[:0]}
	for i := range k.panes {
		if n := k.panes[i].number; n >= w && n < w+m.shape.overlap {
			sum.add(&k.panes[i])
		}
	}
	m.indices = sum.indices
	return sum
}

// end emits the windows of a partition whose time has come at at. They are complete: the partition has passed at.
func (m *windowModel) end(p int, at int64) {
	part, size := &m.parts[p], m.shape.overlap*m.shape.slide
	for part.first*m.shape.slide+size+m.shape.lateness <= at {
		if len(part.touched) == 0 { // nothing is open: go on to the first window that is not due
			part.first = max(part.first+1, (at-size-m.shape.lateness)/m.shape.slide)
			continue
		}
		w := part.first
		for _, keys := range part.touched[:min(int64(len(part.touched)), m.shape.overlap)] {
			for _, local := range keys {
				if k := &part.keys[local]; k.done != w {
					k.done = w
					m.close(p, k, m.in.key(p, int64(local)), w)
				}
			}
		}
		for _, local := range part.touched[0] {
			k := &part.keys[local]
			k.panes = slices.DeleteFunc(k.panes, func(x windowPane) bool { return x.number == w })
		}
		part.touched = part.touched[1:]
		part.first++
	}
}

// close emits one window.
func (m *windowModel) close(p int, k *windowKey, key uint64, w int64) {
	x := m.window(k, w)
	last := m.in.number(m.in.draw(p, x.index))
	m.value = m.words(w, x.at, x.session, x.count, x.sum, x.low, x.high, last, int64(x.check))
	if m.shape.last {
		n := min(8, m.in.size)
		m.in.payload(m.pay[:n], m.in.draw(p, x.index))
		m.value = append(m.value, m.pay[:n]...)
	}
	m.emit(p, x.index, x.at/m.shape.slide-w, key)
}

// lead is the number that the first eight bytes of a payload make.
func (m *windowModel) lead(p int, index int64) int64 {
	b := m.pay[:min(8, m.in.size)]
	m.in.payload(b, m.in.draw(p, index))
	v := uint64(0)
	for i := range b {
		v = v<<8 + uint64(b[i])
	}
	return int64(v)
}

// words encodes numbers in the value buffer.
func (m *windowModel) words(numbers ...int64) []byte { return words(m.value[:0], numbers) }

// emit takes the value buffer to the sink.
func (m *windowModel) emit(p int, index, tag int64, key uint64) {
	part := &m.parts[p]
	for int64(len(part.emitted[tag])) <= index/64 {
		part.emitted[tag] = append(part.emitted[tag], 0)
	}
	part.emitted[tag][index/64] |= 1 << (index % 64)
	var k [8]byte
	binary.BigEndian.PutUint64(k[:], key)
	m.element = canon.Output(m.element[:0], int32(p), index, uint8(tag), k[:], m.value)
	part.output[m.group(key)].Add(m.element)
}

func (m *windowModel) group(key uint64) keygroup.ID {
	return keygroup.Of(keygroup.HashInt64(int64(key)), m.shape.maxParallelism)
}

// Output implements Model.
func (m *windowModel) Output(f func(partition int, group keygroup.ID, d canon.Digest)) {
	for p := range m.parts {
		eachOutput(p, m.parts[p].output, f)
	}
}

// OutputHas implements Model.
func (m *windowModel) OutputHas(partition int, index int64, tag uint8) bool {
	if partition < 0 || partition >= len(m.parts) || index < 0 || int(tag) >= m.OutputTags() {
		return false
	}
	marks := m.parts[partition].emitted[tag]
	return marked(marks, index)
}

// OutputTags implements Model.
func (m *windowModel) OutputTags() int {
	if m.shape.emitLate {
		return int(m.shape.overlap) + 1
	}
	return int(m.shape.overlap)
}

// Groups implements Model.
func (m *windowModel) Groups(f func(operator, state string, group keygroup.ID, d canon.Digest)) {
	all := newStateDigests("window", m.shape.maxParallelism, "pane", "window", "elements", "late", "session", "session-expiry", "timers")
	m.state(func(keygroup.ID) bool { return true }, all.add)
	all.report(f)
}

// Elements implements Model.
func (m *windowModel) Elements(operator, state string, group keygroup.ID, f func(element []byte)) {
	if operator != "window" {
		return
	}
	m.state(func(g keygroup.ID) bool { return g == group }, func(name string, _ keygroup.ID, element []byte) {
		if name == state {
			f(element)
		}
	})
}

// windowWalk is one walk over the state of a key.
type windowWalk struct {
	m      *windowModel
	p      int
	key    [8]byte
	number [8]byte // namespace
	group  keygroup.ID
	f      func(state string, group keygroup.ID, element []byte)
}

// state walks the state of the wanted key groups.
func (m *windowModel) state(want func(keygroup.ID) bool, f func(state string, group keygroup.ID, element []byte)) {
	for p := range m.parts {
		part := &m.parts[p]
		for local := range part.keys {
			key := m.in.key(p, int64(local))
			w := windowWalk{m: m, p: p, group: m.group(key), f: f}
			if binary.BigEndian.PutUint64(w.key[:], key); want(w.group) {
				w.walk(&part.keys[local], part.first)
			}
		}
	}
}

// walk walks the state of one key, of which windows from first on are open.
func (w *windowWalk) walk(k *windowKey, first int64) {
	m := w.m
	if k.late > 0 {
		w.put("late", nil, words(nil, []int64{k.late}))
	}
	if gone := roundedUp(k.until, m.shape.grain); k.session > 0 && gone > m.watermark {
		w.put("session", nil, words(nil, []int64{k.until, k.session}))
		w.put("session-expiry", nil, words(nil, []int64{gone}))
	}
	if len(k.panes) == 0 {
		return
	}
	if m.shape.shared {
		for i := range k.panes {
			w.gathered("pane", &k.panes[i])
		}
	}
	for n := max(first, k.panes[0].number-m.shape.overlap+1); n <= k.panes[len(k.panes)-1].number; n++ {
		x := m.window(k, n)
		if x.count == 0 {
			continue
		}
		if !m.shape.shared {
			w.gathered("window", &x)
		}
		w.put("timers", nil, canon.TimerValue(nil, (n+m.shape.overlap)*m.shape.slide+m.shape.lateness))
	}
}

// roundedUp is at rounded up to a multiple of grain.
func roundedUp(at, grain int64) int64 {
	if grain == 0 {
		return at
	}
	return (at + grain - 1) / grain * grain
}

// gathered is a pane or window and its elements.
func (w *windowWalk) gathered(state string, x *windowPane) {
	m := w.m
	binary.BigEndian.PutUint64(w.number[:], uint64(x.number))
	last := m.in.draw(w.p, x.index)
	m.value = m.words(int64(w.p), x.index, x.at, x.count, x.sum, x.low, x.high, m.in.number(last), x.session)
	if m.shape.last {
		m.in.payload(m.pay, last)
		m.value = append(m.value, m.pay...)
	}
	w.put(state, w.number[:], m.value)
	slices.Sort(x.indices)
	for place, index := range x.indices {
		m.in.payload(m.pay, m.in.draw(w.p, index))
		w.put("elements", w.number[:], canon.ListValue(nil, uint32(place), m.pay))
	}
}

// put hands an element over.
func (w *windowWalk) put(state string, ns, value []byte) {
	w.m.element = canon.Element(w.m.element[:0], state, w.key[:], ns, value)
	w.f(state, w.group, w.m.element)
}
