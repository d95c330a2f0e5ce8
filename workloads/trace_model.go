package workloads

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"statebench.dev/bench/internal/canon"
	"statebench.dev/bench/internal/keygroup"
)

// traceInput is the trace's job in plain terms.
type traceInput struct {
	file                        string
	open                        func(path string) (io.ReadCloser, error)
	timeColumn                  string
	timePlaces                  int // decimal places that make a nanosecond
	key, second, values, labels []string
	partitions                  int
	total                       int64
	every                       int64
	maxParallelism              int
}

// traceModel is the reference for the trace: maps over keys and a loop over the rows, which it reads for itself.
type traceModel struct {
	in        traceInput
	parts     []tracePart // nil before the first Advance
	watermark int64
	keys      map[string]*traceKey
	order     []*traceKey // in order of appearance
	totals    map[string]*traceTotal
	element   []byte // buffers
	value     []byte
}

// tracePart is one source partition.
type tracePart struct {
	rows   []traceRow
	limit  int64
	next   int64
	open   []*traceSpan   // windows, in order of bucket
	fired  []uint64       // bitmap of the indices that window output carries
	output []canon.Digest // by key group
}

// traceRow is one row that could be read.
type traceRow struct {
	at          int64
	key, second string
	values      []int64
	labels      []string
}

// traceKey is the state of one key.
type traceKey struct {
	name                []byte
	group               keygroup.ID
	count               int64
	sum, min, max, last []int64
	labels              []map[string]int64 // by column
	newest              *traceSpan
}

// traceSpan is what a key has in one bucket.
type traceSpan struct {
	key     *traceKey
	bucket  int64
	records int64
	index   int64
	sum     []int64
	second  *traceTotal
}

// traceTotal is the state of one second key.
type traceTotal struct {
	name             []byte
	group            keygroup.ID
	records, windows int64
	sum              []int64
}

func newTraceModel(in traceInput) *traceModel {
	return &traceModel{in: in, watermark: math.MinInt64, keys: map[string]*traceKey{}, totals: map[string]*traceTotal{}}
}

// Advance implements Model.
func (m *traceModel) Advance(positions []int64) error {
	if m.parts == nil {
		parts, err := m.in.read()
		if err != nil {
			return fmt.Errorf("model reads %s: %w", m.in.file, err)
		}
		m.parts = parts
	}
	watermark, err := watermarkAt(positions, len(m.parts),
		func(p int) (next, limit int64) { return m.parts[p].next, m.parts[p].limit },
		func(p int, to int64) int64 {
			part := &m.parts[p]
			if part.limit == 0 {
				return math.MaxInt64 // a partition without a record holds nothing back
			}
			return part.rows[min(to, int64(len(part.rows))-1)].at
		})
	if err != nil {
		return err
	}
	if watermark < math.MaxInt64 {
		m.watermark = watermark
	}
	for p, to := range positions {
		for part := &m.parts[p]; part.next < to; part.next++ {
			at := part.rows[part.next].at
			m.fire(p, min(at, m.watermark))
			m.step(p, part.next)
		}
		m.fire(p, m.watermark)
	}
	return nil
}

// step takes one row.
func (m *traceModel) step(p int, index int64) {
	part := &m.parts[p]
	row := &part.rows[index]
	k := m.keys[row.key]
	if k == nil {
		n := len(row.values)
		k = &traceKey{name: []byte(row.key), group: m.group([]byte(row.key)), sum: make([]int64, n), min: slices.Clone(row.values), max: slices.Clone(row.values),
			last: make([]int64, n), labels: make([]map[string]int64, len(row.labels))}
		for i := range k.labels {
			k.labels[i] = map[string]int64{}
		}
		m.keys[row.key] = k
		m.order = append(m.order, k)
	}
	k.count++
	for i, v := range row.values {
		k.sum[i] += v
		k.min[i], k.max[i], k.last[i] = min(k.min[i], v), max(k.max[i], v), v
	}
	m.value = k.stats(m.head(row.values, k.name))
	for i, l := range row.labels {
		k.labels[i][l]++
		m.value = binary.BigEndian.AppendUint64(m.value, uint64(k.labels[i][l]))
	}
	t := m.total(row.second)
	t.records++
	for i, v := range row.values {
		t.sum[i] += v
	}
	m.span(part, k, t, row, index)
	m.emit(p, index, 0, k, t)
}

// span adds a row to the key's window.
func (m *traceModel) span(part *tracePart, k *traceKey, t *traceTotal, row *traceRow, index int64) {
	if m.in.every == 0 {
		return
	}
	bucket := int64(math.Floor(float64(row.at) / float64(m.in.every)))
	for bucket*m.in.every > row.at { // the quotient was rounded
		bucket--
	}
	for (bucket+1)*m.in.every <= row.at {
		bucket++
	}
	w := k.newest
	if w == nil || w.bucket != bucket {
		w = &traceSpan{key: k, bucket: bucket, sum: make([]int64, len(row.values))}
		k.newest, part.open = w, append(part.open, w)
	}
	w.records, w.index, w.second = w.records+1, index, t
	for i, v := range row.values {
		w.sum[i] += v
	}
}

// fire closes the windows of a partition that end at or before at.
func (m *traceModel) fire(p int, at int64) {
	part := &m.parts[p]
	for len(part.open) > 0 && (part.open[0].bucket+1)*m.in.every <= at {
		w := part.open[0]
		part.open = part.open[1:]
		for int(w.index/64) >= len(part.fired) {
			part.fired = append(part.fired, 0)
		}
		part.fired[w.index/64] |= 1 << (w.index % 64)
		m.value = m.head(w.sum, w.key.name)
		for _, word := range [3]int64{w.records, w.bucket, 0} {
			m.value = binary.BigEndian.AppendUint64(m.value, uint64(word))
		}
		w.second.windows++
		m.emit(p, w.index, 1, w.key, w.second)
	}
}

// head begins an output value in the value buffer.
func (m *traceModel) head(values []int64, key []byte) []byte {
	b := words(m.value[:0], values)
	b = binary.BigEndian.AppendUint32(b, uint32(len(key)))
	return append(b, key...)
}

// stats encodes the statistics of a key.
func (k *traceKey) stats(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(k.count))
	return words(words(words(words(dst, k.sum), k.min), k.max), k.last)
}

func words(dst []byte, values []int64) []byte {
	for _, v := range values {
		dst = binary.BigEndian.AppendUint64(dst, uint64(v))
	}
	return dst
}

// total is the state of a second key.
func (m *traceModel) total(name string) *traceTotal {
	t := m.totals[name]
	if t == nil {
		t = &traceTotal{name: []byte(name), group: m.group([]byte(name)), sum: make([]int64, len(m.in.values))}
		m.totals[name] = t
	}
	return t
}

// emit takes the value buffer to the sink.
func (m *traceModel) emit(p int, index int64, tag uint8, k *traceKey, t *traceTotal) {
	key, group := k.name, k.group
	if len(m.in.second) > 0 {
		key, group = t.name, t.group
	}
	m.element = canon.Output(m.element[:0], int32(p), index, tag, key, m.value)
	m.parts[p].output[group].Add(m.element)
}

func (m *traceModel) group(key []byte) keygroup.ID {
	return keygroup.Of(keygroup.HashBytes(key), m.in.maxParallelism)
}

// Output implements Model.
func (m *traceModel) Output(f func(partition int, group keygroup.ID, d canon.Digest)) {
	for p := range m.parts {
		eachOutput(p, m.parts[p].output, f)
	}
}

// OutputHas implements Model.
func (m *traceModel) OutputHas(partition int, index int64, tag uint8) bool {
	if partition < 0 || partition >= len(m.parts) || index < 0 || index >= m.parts[partition].next {
		return false
	}
	fired := m.parts[partition].fired
	return tag == 0 || tag == 1 && marked(fired, index)
}

// OutputTags implements Model.
func (m *traceModel) OutputTags() int {
	if m.in.every == 0 {
		return 1
	}
	return 2
}

// Groups implements Model.
func (m *traceModel) Groups(f func(operator, state string, group keygroup.ID, d canon.Digest)) {
	first := newStateDigests("stats", m.in.maxParallelism, "stats", "labels", "window", "timers")
	m.state(func(keygroup.ID) bool { return true }, first.add)
	first.report(f)
	second := newStateDigests("total", m.in.maxParallelism, "total")
	m.sums(second.add)
	second.report(f)
}

// Elements implements Model.
func (m *traceModel) Elements(operator, state string, group keygroup.ID, f func(element []byte)) {
	pick := func(name string, g keygroup.ID, element []byte) {
		if name == state && g == group {
			f(element)
		}
	}
	switch operator {
	case "stats":
		m.state(func(g keygroup.ID) bool { return g == group }, pick)
	case "total":
		m.sums(pick)
	}
}

// state walks the state of stage stats in the wanted key groups.
func (m *traceModel) state(want func(keygroup.ID) bool, f func(state string, group keygroup.ID, element []byte)) {
	put := func(state string, k *traceKey, ns, value []byte) {
		m.element = canon.Element(m.element[:0], state, k.name, ns, value)
		f(state, k.group, m.element)
	}
	for _, k := range m.order {
		if !want(k.group) {
			continue
		}
		put("stats", k, nil, k.stats(nil))
		for column, counts := range k.labels {
			for _, l := range sortedKeys(counts) {
				mapKey := append([]byte{byte(column)}, l...)
				put("labels", k, nil, canon.MapValue(nil, mapKey, words(nil, []int64{counts[l]})))
			}
		}
	}
	for p := range m.parts {
		for _, w := range m.parts[p].open {
			if !want(w.key.group) {
				continue
			}
			value := words(words(nil, []int64{w.records, int64(p), w.index}), w.sum)
			put("window", w.key, words(nil, []int64{w.bucket}), append(value, w.second.name...))
			put("timers", w.key, nil, canon.TimerValue(nil, (w.bucket+1)*m.in.every))
		}
	}
}

// sums walks the state of stage total.
func (m *traceModel) sums(f func(state string, group keygroup.ID, element []byte)) {
	if len(m.in.second) == 0 {
		return
	}
	for _, name := range sortedKeys(m.totals) {
		t := m.totals[name]
		value := words(words(nil, []int64{t.records, t.windows}), t.sum)
		m.element = canon.Element(m.element[:0], "total", t.name, nil, value)
		f("total", t.group, m.element)
	}
}

// sortedKeys are the keys of a map in order.
func sortedKeys[V any](in map[string]V) []string {
	keys := make([]string, 0, len(in))
	for k := range in { // order-free: sorted below
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
