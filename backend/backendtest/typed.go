package backendtest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/canon"
	"statebench.dev/bench/internal/keygroup"
)

// typed is the typed states of one subtask.
type typed struct {
	c       *backend.Context
	value   *backend.ValueState[string]
	list    *backend.ListState[[]byte]
	counts  *backend.MapState[string, int64]
	largest *backend.ReducingState[uint64]
	mean    *backend.AggregatingState[float64, backend.Pair[float64, int64], float64]
	timers  *backend.TimerState
}

func newTyped(h *harness, k backend.Keyed) *typed {
	s := &typed{c: backend.NewContext(k)}
	var err error
	s.value, err = backend.NewValue[string](s.c, "value", backend.String{})
	h.ok(err)
	s.list, err = backend.NewList[[]byte](s.c, "list", backend.Bytes{})
	h.ok(err)
	s.counts, err = backend.NewMap[string, int64](s.c, "counts", backend.String{}, backend.Int64{})
	h.ok(err)
	s.largest, err = backend.NewReducing[uint64](s.c, "largest", backend.Uint64{}, func(a, b uint64) uint64 { return max(a, b) })
	h.ok(err)
	s.mean, err = backend.NewAggregating(s.c, "mean", backend.PairOf[float64, int64](backend.Float64{}, backend.Int64{}), meanOf())
	h.ok(err)
	s.timers, err = backend.NewTimers(s.c, "timers")
	h.ok(err)
	return s
}

func meanOf() backend.Aggregate[float64, backend.Pair[float64, int64], float64] {
	type acc = backend.Pair[float64, int64]
	return backend.Aggregate[float64, acc, float64]{
		Create: func() acc { return acc{} },
		Add:    func(a acc, in float64) acc { return acc{First: a.First + in, Second: a.Second + 1} },
		Result: func(a acc) float64 { return a.First / float64(a.Second) },
		Merge:  func(a, b acc) acc { return acc{First: a.First + b.First, Second: a.Second + b.Second} },
	}
}

// owner is a (key, namespace) and what its states must hold. The model keeps what it is told, and knows nothing of
// element keys.
type owner struct {
	group   keygroup.ID
	key, ns string
	value   *string
	list    []string
	counts  map[string]int64
	largest *uint64
	sum     float64
	n       int64
	timers  map[int64]bool // those of the key stand in the owner without a namespace
}

// typedModel is all owners, by key and namespace.
type typedModel map[[2]string]*owner

// owner returns that of a drawn key; keys and namespaces are such that wrong encodings would mix them up.
func (h *harness) owner(m typedModel) *owner {
	keys := []string{"", "a", "ab", "b", "\x00", "\x01a", "\x01", "key", "keyb"}
	key := keys[h.rng.IntN(len(keys))]
	if h.rng.IntN(2) == 0 {
		key = fmt.Sprintf("user-%d", h.rng.IntN(20))
	}
	ns := []string{"", "", "a", "b", "\x00", "key"}[h.rng.IntN(6)]
	return h.ownerOf(m, key, ns)
}

func (h *harness) ownerOf(m typedModel, key, ns string) *owner {
	o := m[[2]string{key, ns}]
	if o == nil {
		o = &owner{group: keygroup.Of(keygroup.HashString(key), h.max), key: key, ns: ns, counts: map[string]int64{}, timers: map[int64]bool{}}
		m[[2]string{key, ns}] = o
	}
	return o
}

// typedState drives all types against the model, over restores and rescales.
func typedState(h *harness) {
	m := typedModel{}
	var handles []backend.StateHandle
	for _, p := range []int{1, 3, 2} {
		j := h.open(p, handles)
		states := map[*subtask]*typed{}
		for _, s := range j.subtasks {
			states[s] = newTyped(h, s.keyed)
			h.want(states[s].value.Set("x") != nil, "set without a key gives no error")
		}
		h.compareTyped(m, j, states)
		for range 1500 {
			o := h.owner(m)
			s := states[j.of(o.group)]
			s.c.SetKey(o.group, []byte(o.key))
			if o.ns != "" {
				s.c.SetNamespace([]byte(o.ns))
			}
			h.changeTyped(m, o, s)
			j.breathe()
		}
		h.compareTyped(m, j, states)
		handles = j.checkpoint(newModel()).handles
		j.close()
	}
}

// changeTyped makes one random change.
func (h *harness) changeTyped(m typedModel, o *owner, s *typed) {
	drawn := h.rng.Uint64()
	switch h.rng.IntN(16) {
	case 0, 1:
		v := h.randomValue()
		h.ok(s.value.Set(v))
		o.value = &v
	case 2:
		h.ok(s.value.Clear())
		o.value = nil
	case 3, 4, 5:
		v := h.randomValue()
		h.ok(s.list.Add([]byte(v)))
		o.list = append(o.list, v)
	case 6:
		o.list = o.list[:0:0]
		h.ok(s.list.Clear())
		if drawn%2 == 0 {
			o.list = []string{"one", "", "three"}
			h.ok(s.list.Replace([][]byte{[]byte("one"), nil, []byte("three")}))
		}
	case 7, 8, 9:
		k := []string{"", "x", "xy", "y"}[drawn%4]
		was, ok, err := s.counts.Get(k)
		want, there := o.counts[k]
		h.want(err == nil && ok == there && was == want, "map entry %q of key %q is %d, %t, %v, want %d, %t", k, o.key, was, ok, err, want, there)
		o.counts[k] = was + int64(drawn>>60) - 8
		h.ok(s.counts.Put(k, o.counts[k]))
	case 10:
		h.ok(s.counts.Remove("x"))
		delete(o.counts, "x")
		if drawn%4 == 0 {
			h.ok(s.counts.Clear())
			clear(o.counts)
		}
	case 11:
		h.ok(s.largest.Add(drawn))
		if o.largest == nil || *o.largest < drawn {
			o.largest = &drawn
		}
	case 12:
		h.ok(s.mean.Add(float64(drawn % 100)))
		o.sum, o.n = o.sum+float64(drawn%100), o.n+1
	case 13, 14:
		h.changeTimer(h.ownerOf(m, o.key, ""), s, int64(drawn%9)-4)
	case 15:
		if drawn%4 == 0 {
			h.mergeTyped(m, o, s)
		}
	}
}

func (h *harness) changeTimer(o *owner, s *typed, at int64) {
	if h.rng.IntN(2) == 0 {
		isNew, err := s.timers.Register(at)
		h.want(err == nil && isNew != o.timers[at], "timer of key %q at %d: new is %t, %v", o.key, at, isNew, err)
		o.timers[at] = true
		return
	}
	h.ok(s.timers.Delete(at))
	delete(o.timers, at)
}

// mergeTyped moves what namespaces "a" and "b" have of a key to that of o.
func (h *harness) mergeTyped(m typedModel, o *owner, s *typed) {
	sources := [][]byte{[]byte("a"), []byte("b")}
	h.ok(s.list.Merge([]byte(o.ns), sources...))
	h.ok(s.largest.Merge([]byte(o.ns), sources...))
	h.ok(s.mean.Merge([]byte(o.ns), sources...))
	for _, ns := range sources {
		from := h.ownerOf(m, o.key, string(ns))
		if from == o {
			continue
		}
		o.list = append(o.list, from.list...)
		if from.largest != nil && (o.largest == nil || *o.largest < *from.largest) {
			o.largest = from.largest
		}
		o.sum, o.n = o.sum+from.sum, o.n+from.n
		from.list, from.largest, from.sum, from.n = nil, nil, 0, 0
	}
}

// compareTyped reads every state of every owner, and compares digests in canonical form with those of the model.
func (h *harness) compareTyped(m typedModel, j *job, states map[*subtask]*typed) {
	for _, o := range m { // order-free: each is compared alone
		s := states[j.of(o.group)]
		s.c.SetKey(o.group, []byte(o.key))
		s.c.SetNamespace([]byte(o.ns))
		h.compareOwner(o, s)
	}
	want := m.digests()
	for _, spec := range typedSpecs() {
		for g := range keygroup.ID(h.max) {
			got, err := backend.DigestGroup(j.of(g).keyed, spec, g)
			h.ok(err)
			h.want(got == want[place{spec.Name, g}], "digest of state %s, key group %d: %v of %d elements, want %v of %d",
				spec.Name, g, got, got.Count, want[place{spec.Name, g}], want[place{spec.Name, g}].Count)
		}
	}
}

func (h *harness) compareOwner(o *owner, s *typed) {
	where := fmt.Sprintf("key %q, namespace %q", o.key, o.ns)
	v, ok, err := s.value.Get()
	h.want(err == nil && ok == (o.value != nil) && (!ok || v == *o.value), "%s: value is %s, %t, %v", where, short(v), ok, err)
	var list []string
	h.ok(s.list.Get(func(v []byte) bool { list = append(list, string(v)); return true }))
	h.want(slices.Equal(list, o.list), "%s: list has %d elements, want %d, or other ones", where, len(list), len(o.list))
	counts := map[string]int64{}
	var order []string
	h.ok(s.counts.Range(func(k string, v int64) bool { counts[k] = v; order = append(order, k); return true }))
	h.want(maps.Equal(counts, o.counts) && slices.IsSorted(order), "%s: map is %v, want %v", where, counts, o.counts)
	largest, ok, err := s.largest.Get()
	h.want(err == nil && ok == (o.largest != nil) && (!ok || largest == *o.largest), "%s: reduced value is %d, %t, %v", where, largest, ok, err)
	mean, ok, err := s.mean.Get()
	h.want(err == nil && ok == (o.n > 0) && (!ok || mean == o.sum/float64(o.n)), "%s: mean is %g, %t, %v, want %g", where, mean, ok, err, o.sum/float64(o.n))
	if o.ns != "" {
		return
	}
	timers := map[int64]bool{}
	last := int64(-100)
	h.ok(s.timers.Scan(o.group, func(at int64, key []byte) bool {
		h.want(at >= last, "timer at %d after one at %d", at, last)
		if last = at; string(key) == o.key {
			timers[at] = true
		}
		return true
	}))
	h.want(maps.Equal(timers, o.timers), "%s: timers %v, want %v", where, timers, o.timers)
}

func typedSpecs() []backend.StateSpec {
	return []backend.StateSpec{
		backend.Spec("value", backend.Value), backend.Spec("list", backend.List), backend.Spec("counts", backend.Map),
		backend.Spec("largest", backend.Reducing), backend.Spec("mean", backend.Aggregating), backend.Spec("timers", backend.Timers),
	}
}

// place is a state in a key group.
type place struct {
	state string
	group keygroup.ID
}

// digests encodes the model as a reference model of a workload does: by hand, not by the codecs.
func (m typedModel) digests() map[place]canon.Digest {
	all := map[place]canon.Digest{}
	for _, o := range m { // order-free: digests are sums
		add := func(state string, value []byte) {
			at := place{state, o.group}
			d := all[at]
			d.Add(canon.Element(nil, state, []byte(o.key), []byte(o.ns), value))
			all[at] = d
		}
		if o.value != nil {
			add("value", []byte(*o.value))
		}
		for i, v := range o.list {
			add("list", canon.ListValue(nil, uint32(i), []byte(v)))
		}
		for k, v := range o.counts { // order-free: digests are sums
			add("counts", canon.MapValue(nil, []byte(k), binary.BigEndian.AppendUint64(nil, uint64(v))))
		}
		if o.largest != nil {
			add("largest", binary.BigEndian.AppendUint64(nil, *o.largest))
		}
		if o.n > 0 {
			b := backend.AppendFloat64([]byte{0, 0, 0, 8}, o.sum)
			add("mean", binary.BigEndian.AppendUint64(b, uint64(o.n)))
		}
		for at := range o.timers { // order-free: digests are sums
			add("timers", canon.TimerValue(nil, at))
		}
	}
	return all
}
