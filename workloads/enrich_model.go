package workloads

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"statebench.dev/bench/internal/canon"
	"statebench.dev/bench/internal/keygroup"
)

// enrichModel is the reference for the join. It reads the records up to the positions, lines up the events that the watermark
// has passed by time, and looks each one's rule up in all changes there ever were.
type enrichModel struct {
	in        *enrichInput
	shape     enrichShape
	watermark int64
	parts     []enrichPart
	changes   [][]enrichChange // by rule
	element   []byte           // buffers
	value     []byte
	pay       []byte
}

// enrichPart is one source partition: no key of it is in another.
type enrichPart struct {
	next    int64 // index of the next record
	waiting []enrichWaiting
	keys    []enrichKey
	emitted []uint64       // bitmap of the indices that output carries
	output  []canon.Digest // by key group
}

// enrichWaiting is an event that has not left.
type enrichWaiting struct{ at, index int64 }

type enrichKey struct{ count, sum int64 }

// enrichChange is a change of a rule by a record.
type enrichChange struct{ at, partition, index int64 }

func newEnrichModel(in *enrichInput, shape enrichShape) *enrichModel {
	m := &enrichModel{in: in, shape: shape, watermark: math.MinInt64, parts: make([]enrichPart, len(in.partitions)),
		changes: make([][]enrichChange, shape.rules), pay: make([]byte, in.size)}
	for p := range m.parts {
		m.parts[p].keys = make([]enrichKey, in.partitions[p].keys)
		m.parts[p].output = make([]canon.Digest, shape.maxParallelism)
	}
	return m
}

// Advance implements Model.
func (m *enrichModel) Advance(positions []int64) error {
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
			draw := m.in.draw(p, part.next)
			at := m.in.at(p, part.next, draw)
			if m.in.change(draw) {
				rule := m.in.rule(draw)
				m.changes[rule] = append(m.changes[rule], enrichChange{at, int64(p), part.next})
			} else {
				part.waiting = append(part.waiting, enrichWaiting{at, part.next})
			}
		}
	}
	for _, changes := range m.changes {
		slices.SortFunc(changes, func(a, b enrichChange) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.partition, b.partition), cmp.Compare(a.index, b.index))
		})
	}
	for p := range m.parts {
		m.leave(p)
	}
	return nil
}

// leave lets go the events of a partition that are before the watermark: what comes now is not.
func (m *enrichModel) leave(p int) {
	part := &m.parts[p]
	var due []enrichWaiting
	part.waiting = slices.DeleteFunc(part.waiting, func(e enrichWaiting) bool {
		if e.at < m.watermark {
			due = append(due, e)
		}
		return e.at < m.watermark
	})
	slices.SortFunc(due, func(a, b enrichWaiting) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.index, b.index)) })
	for _, e := range due {
		m.emit(p, e)
	}
}

// emit computes the result of an event.
func (m *enrichModel) emit(p int, e enrichWaiting) {
	part, draw := &m.parts[p], m.in.draw(p, e.index)
	local := m.in.local(p, e.index, draw)
	key, rule := m.in.key(p, local), m.in.rule(draw)
	in, factor := enrichChange{-1, -1, -1}, int64(0)
	for i := len(m.changes[rule]) - 1; i >= 0; i-- {
		if c := m.changes[rule][i]; c.at <= e.at {
			in, factor = c, m.in.number(m.in.draw(int(c.partition), c.index))
			break
		}
	}
	number, k := m.in.number(draw), &part.keys[local]
	k.count++
	k.sum += number * factor
	m.value = words(m.value[:0], []int64{e.at, int64(rule), in.at, in.partition, in.index, number, number * factor, k.count, k.sum})
	n := min(8, m.in.size)
	m.in.payload(m.pay[:n], draw)
	m.value = append(m.value, m.pay[:n]...)
	for int64(len(part.emitted)) <= e.index/64 {
		part.emitted = append(part.emitted, 0)
	}
	part.emitted[e.index/64] |= 1 << (e.index % 64)
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], key)
	m.element = canon.Output(m.element[:0], int32(p), e.index, 0, b[:], m.value)
	part.output[m.group(key)].Add(m.element)
}

func (m *enrichModel) group(key uint64) keygroup.ID {
	return keygroup.Of(keygroup.HashInt64(int64(key)), m.shape.maxParallelism)
}

// Output implements Model.
func (m *enrichModel) Output(f func(partition int, group keygroup.ID, d canon.Digest)) {
	for p := range m.parts {
		eachOutput(p, m.parts[p].output, f)
	}
}

// OutputHas implements Model.
func (m *enrichModel) OutputHas(partition int, index int64, tag uint8) bool {
	if partition < 0 || partition >= len(m.parts) || index < 0 || tag != 0 {
		return false
	}
	marks := m.parts[partition].emitted
	return marked(marks, index)
}

// OutputTags implements Model.
func (m *enrichModel) OutputTags() int { return 1 }

// Timely implements Timely: what is held, and until when, follows from when its watermark came. All of it has come out when
// the input has ended.
func (m *enrichModel) Timely(operator, state string) bool {
	return operator == "enrich" && (state == "held" || state == "processing-timers")
}

// Groups implements Model.
func (m *enrichModel) Groups(f func(operator, state string, group keygroup.ID, d canon.Digest)) {
	all := newStateDigests("enrich", m.shape.maxParallelism, "pending", "totals", "timers")
	m.state(func(keygroup.ID) bool { return true }, all.add)
	all.report(f)
}

// Elements implements Model.
func (m *enrichModel) Elements(operator, state string, group keygroup.ID, f func(element []byte)) {
	if operator != "enrich" {
		return
	}
	m.state(func(g keygroup.ID) bool { return g == group }, func(name string, _ keygroup.ID, element []byte) {
		if name == state {
			f(element)
		}
	})
}

// state walks the state of the wanted key groups.
func (m *enrichModel) state(want func(keygroup.ID) bool, f func(state string, group keygroup.ID, element []byte)) {
	for p := range m.parts {
		part := &m.parts[p]
		for local, k := range part.keys {
			if k.count == 0 {
				continue
			}
			if key := m.in.key(p, int64(local)); want(m.group(key)) {
				m.put(key, "totals", nil, words(nil, []int64{k.count, k.sum}), f)
			}
		}
		m.waiting(p, want, f)
	}
}

// waiting walks the events of a partition that wait, and their timers.
func (m *enrichModel) waiting(p int, want func(keygroup.ID) bool, f func(state string, group keygroup.ID, element []byte)) {
	type event struct {
		key       uint64
		at, index int64
	}
	var all []event
	for _, e := range m.parts[p].waiting {
		if key := m.in.key(p, m.in.local(p, e.index, m.in.draw(p, e.index))); want(m.group(key)) {
			all = append(all, event{key, e.at, e.index})
		}
	}
	slices.SortFunc(all, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.at, b.at), cmp.Compare(a.index, b.index))
	})
	place := uint32(0)
	for i, e := range all {
		if place++; i == 0 || all[i-1].key != e.key || all[i-1].at != e.at {
			place = 0
			m.put(e.key, "timers", nil, canon.TimerValue(nil, e.at+1), f)
		}
		draw := m.in.draw(p, e.index)
		m.value = append(words(m.value[:0], []int64{int64(p), e.index}), 'e')
		m.value = binary.BigEndian.AppendUint32(m.value, m.in.rule(draw))
		m.value = words(m.value, []int64{m.in.number(draw)})
		m.in.payload(m.pay, draw)
		m.value = append(m.value, m.pay...)
		m.put(e.key, "pending", binary.BigEndian.AppendUint64(nil, uint64(e.at)), canon.ListValue(nil, place, m.value), f)
	}
}

// put hands an element over.
func (m *enrichModel) put(key uint64, state string, ns, value []byte, f func(state string, group keygroup.ID, element []byte)) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], key)
	m.element = canon.Element(m.element[:0], state, b[:], ns, value)
	f(state, m.group(key), m.element)
}
