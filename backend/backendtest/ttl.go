package backendtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/canon"
	"statebench.dev/bench/internal/keygroup"
)

// mortal is states with a time to live of one subtask. Their times are a few nanoseconds.
type mortal struct {
	c       *backend.Context
	value   *backend.ValueState[string]
	list    *backend.ListState[string]
	counts  *backend.MapState[string, int64]
	sum     *backend.ReducingState[uint64]
	reached int64
}

// lifetimes are the times to live by state.
func lifetimes() map[string]backend.TTL {
	return map[string]backend.TTL{
		"value": {After: 50, OnRead: true}, "list": {After: 70, Grain: 20}, "counts": {After: 60, OnRead: true, Grain: 16}, "sum": {After: 40},
	}
}

func newMortal(h *harness, k backend.Keyed, watermark int64) *mortal {
	s := &mortal{c: backend.NewContext(k), reached: watermark}
	ttl, err := lifetimes(), error(nil)
	s.value, err = backend.NewValue(s.c, "value", backend.String{}, backend.WithTTL(ttl["value"]))
	h.ok(err)
	s.list, err = backend.NewList(s.c, "list", backend.String{}, backend.WithTTL(ttl["list"]))
	h.ok(err)
	s.counts, err = backend.NewMap(s.c, "counts", backend.String{}, backend.Int64{}, backend.WithTTL(ttl["counts"]))
	h.ok(err)
	s.sum, err = backend.NewReducing(s.c, "sum", backend.Uint64{}, func(a, b uint64) uint64 { return a + b }, backend.WithTTL(ttl["sum"]))
	h.ok(err)
	h.ok(s.c.Expire(watermark))
	return s
}

// life is an element and when it expires.
type life struct {
	there  bool
	text   string
	number uint64
	until  int64
}

// mortalOwner is a (key, namespace) and what was written there.
type mortalOwner struct {
	group   keygroup.ID
	key, ns string
	value   life
	list    []life
	counts  map[string]life
	sum     life
}

// timeToLive drives states with a time to live against a model that knows when each element was written, over restores
// and rescales. Watermarks of the subtasks come at any moment; after each has come to the same, so has the state.
func timeToLive(h *harness) {
	m := map[[2]string]*mortalOwner{}
	var handles []backend.StateHandle
	now := int64(-100)
	for _, p := range []int{1, 3, 2} {
		j := h.open(p, handles)
		states := map[*subtask]*mortal{}
		for _, s := range j.subtasks {
			states[s] = newMortal(h, s.keyed, now-30)
		}
		for range 1200 {
			now += h.rng.Int64N(3)
			o := h.mortalOwner(m)
			s := states[j.of(o.group)]
			if h.rng.IntN(8) == 0 {
				s.reached += h.rng.Int64N(now - s.reached + 1)
				h.ok(s.c.Expire(s.reached))
			}
			h.changeMortal(m, o, s, now)
			j.breathe()
		}
		for _, s := range states { // order-free: each is advanced alone
			h.ok(s.c.Expire(now - 30))
			s.reached = max(s.reached, now-30)
		}
		h.refuseWrongTimes(states[j.subtasks[0]])
		h.compareMortal(m, j, states, now)
		now += 20
		for _, s := range states { // order-free: each is advanced alone
			h.ok(s.c.Expire(now))
			s.reached = now
		}
		h.compareMortal(m, j, states, now)
		handles = j.checkpoint(newModel()).handles
		j.close()
		now += 30
	}
}

func (h *harness) mortalOwner(m map[[2]string]*mortalOwner) *mortalOwner {
	key, ns := fmt.Sprintf("user-%d", h.rng.IntN(24)), []string{"", "a", "b"}[h.rng.IntN(3)]
	return h.mortalOwnerOf(m, key, ns)
}

func (h *harness) mortalOwnerOf(m map[[2]string]*mortalOwner, key, ns string) *mortalOwner {
	o := m[[2]string{key, ns}]
	if o == nil {
		o = &mortalOwner{group: keygroup.Of(keygroup.HashString(key), h.max), key: key, ns: ns, counts: map[string]life{}}
		m[[2]string{key, ns}] = o
	}
	return o
}

// until is when what is written now to the state expires.
func until(state string, now int64) int64 { return now + int64(lifetimes()[state].After) }

// changeMortal makes one random read or change.
func (h *harness) changeMortal(m map[[2]string]*mortalOwner, o *mortalOwner, s *mortal, now int64) {
	s.c.SetKey(o.group, []byte(o.key))
	s.c.SetNamespace([]byte(o.ns))
	s.c.SetTime(now)
	drawn := h.rng.Uint64()
	where := fmt.Sprintf("key %q, namespace %q at %d", o.key, o.ns, now)
	switch h.rng.IntN(12) {
	case 0:
		o.value = life{there: true, text: h.randomValue(), until: until("value", now)}
		h.ok(s.value.Set(o.value.text))
	case 1:
		v, ok, err := s.value.Get()
		h.want(err == nil && ok == (o.value.there && o.value.until > now) && (!ok || v == o.value.text), "%s: value is %s, %t, %v", where, short(v), ok, err)
		if ok {
			o.value.until = until("value", now)
		}
	case 2:
		h.ok(s.value.Clear())
		o.value = life{}
	case 3, 4:
		o.list = append(o.list, life{there: true, text: h.randomValue(), until: until("list", now)})
		h.ok(s.list.Add(o.list[len(o.list)-1].text))
	case 5:
		h.readMortalList(o, s, now)
	case 6:
		o.list = nil
		h.ok(s.list.Clear())
	case 7:
		k := []string{"", "x", "xy"}[drawn%3]
		o.counts[k] = life{there: true, number: drawn, until: until("counts", now)}
		h.ok(s.counts.Put(k, int64(drawn)))
	case 8:
		h.readMortalMap(o, s, now, []string{"", "x", "xy"}[drawn%3])
	case 9:
		h.ok(s.counts.Remove("x"))
		delete(o.counts, "x")
		if drawn%4 == 0 {
			h.ok(s.counts.Clear())
			clear(o.counts)
		}
	case 10:
		if !o.sum.there || o.sum.until <= now {
			o.sum.number = 0
		}
		o.sum = life{there: true, number: o.sum.number + drawn, until: until("sum", now)}
		h.ok(s.sum.Add(drawn))
	case 11:
		h.mergeMortal(m, o, s, now)
	}
}

func (h *harness) readMortalList(o *mortalOwner, s *mortal, now int64) {
	var got, want []string
	h.ok(s.list.Get(func(v string) bool { got = append(got, v); return true }))
	for _, e := range o.list {
		if e.until > now {
			want = append(want, e.text)
		}
	}
	h.want(slices.Equal(got, want), "key %q, namespace %q at %d: list has %d elements, want %d, or other ones", o.key, o.ns, now, len(got), len(want))
}

// readMortalMap reads all of the map, which changes nothing, then one entry.
func (h *harness) readMortalMap(o *mortalOwner, s *mortal, now int64, k string) {
	where := fmt.Sprintf("key %q, namespace %q at %d", o.key, o.ns, now)
	seen := 0
	h.ok(s.counts.Range(func(k string, v int64) bool {
		e := o.counts[k]
		h.want(e.there && e.until > now && e.number == uint64(v), "%s: map entry %q is %d", where, k, v)
		seen++
		return true
	}))
	for _, e := range o.counts { // order-free: counted
		if e.until > now {
			seen--
		}
	}
	h.want(seen == 0, "%s: %d map entries too few", where, -seen)
	e := o.counts[k]
	v, ok, err := s.counts.Get(k)
	h.want(err == nil && ok == (e.there && e.until > now) && (!ok || uint64(v) == e.number), "%s: map entry %q is %d, %t, %v", where, k, v, ok, err)
	if ok {
		o.counts[k] = life{there: true, number: e.number, until: until("counts", now)}
	}
}

// mergeMortal moves list and sum of namespaces "a" and "b" to that of o: elements of lists as they are, a sum as written now.
func (h *harness) mergeMortal(m map[[2]string]*mortalOwner, o *mortalOwner, s *mortal, now int64) {
	sources := [][]byte{[]byte("a"), []byte("b")}
	h.ok(s.list.Merge([]byte(o.ns), sources...))
	h.ok(s.sum.Merge([]byte(o.ns), sources...))
	var sum uint64
	any := false
	all := []*mortalOwner{o}
	for _, ns := range sources {
		if from := h.mortalOwnerOf(m, o.key, string(ns)); from != o {
			o.list, from.list = append(o.list, from.list...), nil
			all = append(all, from)
		}
	}
	for _, e := range all {
		if e.sum.there && e.sum.until > now {
			sum, any = sum+e.sum.number, true
		}
	}
	if any { // else what expired stays until its time has come
		for _, e := range all {
			e.sum = life{}
		}
		o.sum = life{there: true, number: sum, until: until("sum", now)}
	}
}

// refuseWrongTimes uses a state without a time, with one that is past, and makes one that cannot be.
func (h *harness) refuseWrongTimes(s *mortal) {
	s.c.SetKey(s.c.Keyed().Range().From, []byte("k"))
	_, _, err := s.sum.Get()
	h.ok(err) // nothing there: no time is asked for
	h.want(errors.Is(s.value.Set("x"), backend.ErrNoTime), "set without a time")
	s.c.SetTime(s.reached - 1)
	h.want(errors.Is(s.list.Add("x"), backend.ErrPast), "add at a time before the watermark")
	_, err = backend.NewValue(s.c, "other", backend.String{}, backend.WithTTL(backend.TTL{After: -time.Second}))
	h.refused(err, "negative time to live")
}

// compareMortal compares what is there, expired or not, with the model: what the watermark has not reached.
func (h *harness) compareMortal(m map[[2]string]*mortalOwner, j *job, states map[*subtask]*mortal, now int64) {
	for _, o := range m { // order-free: each is compared alone
		s := states[j.of(o.group)]
		s.c.SetKey(o.group, []byte(o.key))
		s.c.SetNamespace([]byte(o.ns))
		s.c.SetTime(now)
		h.readMortalList(o, s, now)
	}
	want := map[place]canon.Digest{}
	for _, o := range m { // order-free: digests are sums
		o.digests(want, func(g keygroup.ID) int64 { return states[j.of(g)].reached })
	}
	for name := range lifetimes() { // order-free: each state is compared alone
		spec := backend.Spec(name, map[string]backend.Type{"value": backend.Value, "list": backend.List, "counts": backend.Map, "sum": backend.Reducing}[name])
		for g := range keygroup.ID(h.max) {
			for _, spec := range []backend.StateSpec{spec, backend.ExpirySpec(name)} {
				got, err := backend.DigestGroup(j.of(g).keyed, spec, g)
				h.ok(err)
				h.want(got == want[place{spec.Name, g}], "digest of state %s, key group %d: %v of %d elements, want %v of %d",
					spec.Name, g, got, got.Count, want[place{spec.Name, g}], want[place{spec.Name, g}].Count)
			}
		}
	}
}

// digests adds what the owner has.
func (o *mortalOwner) digests(all map[place]canon.Digest, reached func(keygroup.ID) int64) {
	add := func(state string, e life, value func(stored []byte) []byte) bool {
		gone := e.until
		for grain := int64(lifetimes()[state].Grain); grain > 0 && gone%grain != 0; {
			gone++
		}
		if !e.there || gone <= reached(o.group) {
			return false
		}
		stored := binary.BigEndian.AppendUint64(nil, uint64(e.until))
		for _, x := range []struct {
			state string
			value []byte
		}{{state, value(stored)}, {state + "-expiry", canon.TimerValue(nil, gone)}} {
			d := all[place{x.state, o.group}]
			d.Add(canon.Element(nil, x.state, []byte(o.key), []byte(o.ns), x.value))
			all[place{x.state, o.group}] = d
		}
		return true
	}
	number := func(e life) func([]byte) []byte {
		return func(stored []byte) []byte { return binary.BigEndian.AppendUint64(stored, e.number) }
	}
	add("value", o.value, func(stored []byte) []byte { return append(stored, o.value.text...) })
	add("sum", o.sum, number(o.sum))
	for k, e := range o.counts { // order-free: digests are sums
		add("counts", e, func(stored []byte) []byte { return canon.MapValue(nil, []byte(k), number(e)(stored)) })
	}
	n := uint32(0)
	for _, e := range o.list {
		if add("list", e, func(stored []byte) []byte { return canon.ListValue(nil, n, append(stored, e.text...)) }) {
			n++
		}
	}
}
