package backendtest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/keygroup"
)

// lastVersion is the newest version of the programs that the tests of migration run.
const lastVersion = 3

// number stores an int64 as a version of the programs does: as text, in 8 bytes, as a mark and a varint.
type number struct{ version uint32 }

func (c number) Append(dst []byte, v int64) []byte {
	switch c.version {
	case 1:
		return strconv.AppendInt(dst, v, 10)
	case 2:
		return backend.AppendInt64(dst, v)
	}
	return binary.AppendVarint(append(dst, '#'), v)
}

func (c number) Decode(src []byte) (v int64, err error) {
	switch c.version {
	case 1:
		return strconv.ParseInt(string(src), 10, 64)
	case 2:
		return backend.Int64{}.Decode(src)
	}
	v, n := binary.Varint(src[min(1, len(src)):])
	if n <= 0 || src[0] != '#' || n+1 != len(src) {
		return 0, fmt.Errorf("%x: %w", src, backend.ErrEncoding)
	}
	return v, nil
}

// field stores the key of a map, from 0 to 9, as text or in a byte. The third version uses the bytes of the second for
// other keys.
type field struct{ version uint32 }

func (c field) Append(dst []byte, v int) []byte {
	switch c.version {
	case 1:
		return fmt.Appendf(dst, "field-%d", v)
	case 2:
		return append(dst, byte(v))
	}
	return append(dst, byte(9-v))
}

func (c field) Decode(src []byte) (v int, err error) {
	switch {
	case c.version == 1:
		_, err = fmt.Sscanf(string(src), "field-%d", &v)
	case len(src) != 1 || src[0] > 9:
		err = backend.ErrEncoding
	case c.version == 2:
		v = int(src[0])
	default:
		v = 9 - int(src[0])
	}
	return v, err
}

// step converts numbers, and the keys of maps, from a version to the next.
func step(from uint32, keys bool) backend.Migration {
	m := backend.Migration{From: from, To: from + 1,
		Value: backend.Convert(number{from}, number{from + 1}, func(v int64) int64 { return v })}
	if keys {
		m.MapKey = backend.Convert(field{from}, field{from + 1}, func(v int) int { return v })
	}
	return m
}

// schema declares a version of the programs. The first one comes in two kinds: before it declared anything, and after.
func schema(version uint32, unnamed, keys bool) backend.StateOption {
	if unnamed && version == 1 {
		return backend.WithSchema("", 0) // as if it were not there
	}
	var steps []backend.Migration
	for v := uint32(1); v < version; v++ {
		steps = append(steps, step(v, keys))
	}
	return backend.WithSchema("number", version, steps...)
}

// mortalLife is the time to live of those states that have one.
const mortalLife = 100

// versioned is the states of one subtask of such a program.
type versioned struct {
	c       *backend.Context
	value   *backend.ValueState[int64]
	list    *backend.ListState[int64]
	counts  *backend.MapState[int, int64]
	total   *backend.ReducingState[int64]
	sum     *backend.AggregatingState[int64, int64, int64]
	last    *backend.ValueState[int64] // from here on with a time to live
	recent  *backend.ListState[int64]
	fresh   *backend.MapState[int, int64]
	timers  *backend.TimerState
	version uint32
}

// newVersioned makes the states, or gives the error of the first that is refused.
func newVersioned(k backend.Keyed, version uint32, unnamed bool) (*versioned, error) {
	s := &versioned{c: backend.NewContext(k), version: version}
	plain, keyed := schema(version, unnamed, false), schema(version, unnamed, true)
	ttl := backend.WithTTL(backend.TTL{After: mortalLife})
	add := func(a, b int64) int64 { return a + b }
	sum := backend.Aggregate[int64, int64, int64]{Create: func() int64 { return 0 }, Add: add, Result: func(a int64) int64 { return a }, Merge: add}
	var errs [9]error
	s.timers, errs[0] = backend.NewTimers(s.c, "timers")
	s.value, errs[1] = backend.NewValue(s.c, "value", number{version}, plain)
	s.list, errs[2] = backend.NewList(s.c, "list", number{version}, plain)
	s.counts, errs[3] = backend.NewMap(s.c, "counts", field{version}, number{version}, keyed)
	s.total, errs[4] = backend.NewReducing(s.c, "total", number{version}, add, plain)
	s.sum, errs[5] = backend.NewAggregating(s.c, "sum", number{version}, sum, plain)
	s.last, errs[6] = backend.NewValue(s.c, "last", number{version}, plain, ttl)
	s.recent, errs[7] = backend.NewList(s.c, "recent", number{version}, plain, ttl)
	s.fresh, errs[8] = backend.NewMap(s.c, "fresh", field{version}, number{version}, keyed, ttl)
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// lived is a number and when it expires.
type lived struct{ n, until int64 }

// holding is what a (key, namespace) must hold, whatever the version that stores it.
type holding struct {
	group   keygroup.ID
	key, ns string
	value   *int64
	list    []int64
	counts  map[int]int64
	total   *int64
	sum     *int64
	last    *lived
	recent  []lived
	fresh   map[int]lived
	timers  map[int64]bool // those of the key stand in the holding without a namespace
}

// versionedModel is all holdings and the time that it is.
type versionedModel struct {
	now int64
	all map[[2]string]*holding
}

func (m *versionedModel) clone() *versionedModel {
	c := &versionedModel{now: m.now, all: map[[2]string]*holding{}}
	for k, o := range m.all { // order-free: into a map
		n := *o
		n.list, n.recent = slices.Clone(o.list), slices.Clone(o.recent)
		n.counts, n.fresh, n.timers = maps.Clone(o.counts), maps.Clone(o.fresh), maps.Clone(o.timers)
		c.all[k] = &n
	}
	return c
}

// holding returns that of a drawn key and namespace, or that of the same key without one.
func (h *harness) holding(m *versionedModel) (o, plain *holding) {
	key, ns := fmt.Sprintf("user-%d", h.rng.IntN(40)), []string{"", "", "a"}[h.rng.IntN(3)]
	get := func(ns string) *holding {
		at := [2]string{key, ns}
		if m.all[at] == nil {
			m.all[at] = &holding{group: keygroup.Of(keygroup.HashString(key), h.max), key: key, ns: ns,
				counts: map[int]int64{}, fresh: map[int]lived{}, timers: map[int64]bool{}}
		}
		return m.all[at]
	}
	return get(ns), get("")
}

// at makes o the current key of s.
func (s *versioned) at(m *versionedModel, o *holding) {
	s.c.SetKey(o.group, []byte(o.key))
	s.c.SetNamespace([]byte(o.ns))
	s.c.SetTime(m.now)
}

// change makes one random change of o.
func (s *versioned) change(h *harness, m *versionedModel, o, plain *holding) {
	s.at(m, o)
	n, k, until := int64(h.rng.IntN(2000))-1000, h.rng.IntN(10), m.now+mortalLife
	added := func(to *int64) *int64 {
		sum := n
		if to != nil {
			sum += *to
		}
		return &sum
	}
	switch h.rng.IntN(15) {
	case 0, 1:
		h.ok(s.value.Set(n))
		o.value = &n
	case 2:
		h.ok(s.value.Clear())
		o.value = nil
	case 3, 4:
		h.ok(s.list.Add(n))
		o.list = append(o.list, n)
	case 5:
		h.ok(s.list.Replace([]int64{n, k64(k)}))
		o.list = []int64{n, k64(k)}
	case 6, 7:
		h.ok(s.counts.Put(k, n))
		o.counts[k] = n
	case 8:
		h.ok(s.counts.Remove(k))
		delete(o.counts, k)
	case 9:
		h.ok(s.total.Add(n))
		o.total = added(o.total)
	case 10:
		h.ok(s.sum.Add(n))
		o.sum = added(o.sum)
	case 11:
		h.ok(s.last.Set(n))
		o.last = &lived{n, until}
	case 12:
		h.ok(s.recent.Add(n))
		o.recent = append(o.recent, lived{n, until})
	case 13:
		h.ok(s.fresh.Put(k, n))
		o.fresh[k] = lived{n, until}
	case 14:
		_, err := s.timers.Register(n)
		h.ok(err)
		plain.timers[n] = true
	}
}

func k64(k int) int64 { return int64(k) }
