package workloads

import (
	"encoding/binary"

	"statebench.dev/bench/internal/canon"
	"statebench.dev/bench/internal/keygroup"
)

// stateDigests collects the digests of one operator's states by key group.
type stateDigests struct {
	operator string
	names    []string
	sums     [][]canon.Digest // by state, then key group
}

func newStateDigests(operator string, maxParallelism int, names ...string) *stateDigests {
	s := &stateDigests{operator: operator, names: names, sums: make([][]canon.Digest, len(names))}
	for i := range s.sums {
		s.sums[i] = make([]canon.Digest, maxParallelism)
	}
	return s
}

// report calls f for what is not empty.
func (s *stateDigests) report(f func(operator, state string, group keygroup.ID, d canon.Digest)) {
	for i, name := range s.names {
		for g, d := range s.sums[i] {
			if d.Count > 0 {
				f(s.operator, name, keygroup.ID(g), d)
			}
		}
	}
}

// add adds an element to the state called name.
func (s *stateDigests) add(name string, group keygroup.ID, element []byte) {
	for i := range s.names {
		if s.names[i] == name {
			s.sums[i][group].Add(element)
			return
		}
	}
}

// Groups implements Model.
func (m *counterModel) Groups(f func(operator, state string, group keygroup.ID, d canon.Digest)) {
	count := newStateDigests("count", m.shape.maxParallelism, "value", "map", "list", "window", "fired", "timers")
	m.count(func(keygroup.ID) bool { return true }, count.add)
	count.report(f)
	total := newStateDigests("total", m.shape.maxParallelism, "total")
	m.total(total.add)
	total.report(f)
}

// Stored implements Versioned.
func (m *counterModel) Stored(schema int) { m.schema = schema }

// number appends a number as the elements of maps and lists are stored.
func (m *counterModel) number(dst []byte, v uint64) []byte {
	if m.schema < 2 {
		return binary.BigEndian.AppendUint64(dst, v)
	}
	return binary.AppendUvarint(dst, v)
}

// Elements implements Model.
func (m *counterModel) Elements(operator, state string, group keygroup.ID, f func(element []byte)) {
	pick := func(name string, g keygroup.ID, element []byte) {
		if name == state && g == group {
			f(element)
		}
	}
	switch operator {
	case "count":
		m.count(func(g keygroup.ID) bool { return g == group }, pick)
	case "total":
		m.total(pick)
	}
}

// count walks the state of stage count in the wanted key groups.
func (m *counterModel) count(want func(keygroup.ID) bool, f func(state string, group keygroup.ID, element []byte)) {
	var key [8]byte
	var word [binary.MaxVarintLen64]byte
	for p := range m.parts {
		part := &m.parts[p]
		for local := range part.keys {
			k, number := &part.keys[local], m.g.key(p, int64(local))
			group := m.group(number)
			if k.count+uint64(k.fired) == 0 || !want(group) {
				continue
			}
			binary.BigEndian.PutUint64(key[:], number)
			if k.fired > 0 {
				fired := binary.BigEndian.AppendUint64(word[:0], uint64(k.fired))
				if m.schema >= 2 {
					fired = binary.AppendVarint(word[:0], k.fired)
				}
				m.put("fired", group, key[:], nil, fired, f)
			}
			if k.count > 0 {
				m.collections(k, number, group, key[:], f)
				m.g.payload(m.pay, m.g.draw(p, k.last))
				if m.schema < 2 {
					m.value = append(binary.BigEndian.AppendUint64(m.value[:0], k.count), m.pay...)
				} else {
					m.value = binary.BigEndian.AppendUint64(append(m.value[:0], m.pay...), k.count)
				}
				m.put("value", group, key[:], nil, m.value, f)
			}
		}
		for i := range part.windows {
			if w := &part.windows[i]; w.records > 0 {
				if number := m.g.key(p, w.local); want(m.group(number)) {
					m.window(p, w, number, f)
				}
			}
		}
	}
}

// put encodes one element.
func (m *counterModel) put(state string, group keygroup.ID, key, ns, value []byte, f func(string, keygroup.ID, []byte)) {
	m.element = canon.Element(m.element[:0], state, key, ns, value)
	f(state, group, m.element)
}

// collections walks the map of a key, or its list where no windows hold lists.
func (m *counterModel) collections(k *counterKey, number uint64, group keygroup.ID, key []byte, f func(string, keygroup.ID, []byte)) {
	bound := uint64(m.shape.listCap)
	var slot [8]byte
	var word [binary.MaxVarintLen64]byte
	switch {
	case m.shape.maps:
		for c := k.count - min(k.count, bound) + 1; c <= k.count; c++ {
			at := binary.BigEndian.AppendUint64(slot[:0], (c-1)%bound)
			if m.schema >= 2 {
				at = at[4:]
			}
			m.value = canon.MapValue(m.value[:0], at, m.number(word[:0], mix(number+c)))
			m.put("map", group, key, nil, m.value, f)
		}
	case m.shape.lists && m.shape.every == 0:
		m.list(number, k.count, (k.count-1)%bound+1, group, key, nil, f)
	}
}

// list walks a list of n elements that ends with that of count.
func (m *counterModel) list(number, count, n uint64, group keygroup.ID, key, ns []byte, f func(string, keygroup.ID, []byte)) {
	var word [binary.MaxVarintLen64]byte
	for place := range n {
		m.value = canon.ListValue(m.value[:0], uint32(place), m.number(word[:0], mix(number+count-n+1+place)))
		m.put("list", group, key, ns, m.value, f)
	}
}

// window walks an open window, its list and its timer.
func (m *counterModel) window(p int, w *counterWindow, number uint64, f func(string, keygroup.ID, []byte)) {
	group := m.group(number)
	var key, bucket [8]byte
	binary.BigEndian.PutUint64(key[:], number)
	binary.BigEndian.PutUint64(bucket[:], uint64(w.bucket))
	m.value = binary.BigEndian.AppendUint64(m.value[:0], uint64(w.records))
	m.value = binary.BigEndian.AppendUint64(m.value, uint64(w.list))
	m.value = binary.BigEndian.AppendUint64(m.value, uint64(p))
	m.value = binary.BigEndian.AppendUint64(m.value, uint64(w.index))
	m.put("window", group, key[:], bucket[:], m.value, f)
	if m.shape.lists {
		m.list(number, w.count, uint64(w.list), group, key[:], bucket[:], f)
	}
	m.value = canon.TimerValue(m.value[:0], (w.bucket+1)*m.shape.every)
	m.put("timers", group, key[:], nil, m.value, f)
}

// total walks the state of stage total.
func (m *counterModel) total(f func(state string, group keygroup.ID, element []byte)) {
	var key [8]byte
	for number, t := range m.totals {
		if t.records+t.windows == 0 || m.shape.stages != 2 {
			continue
		}
		binary.BigEndian.PutUint64(key[:], uint64(number))
		m.value = append(m.value[:0], m.words(uint64(t.records), uint64(t.windows), t.sum)...)
		m.put("total", m.group(uint64(number)), key[:], nil, m.value, f)
	}
}
