package backendtest

import (
	"fmt"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/keygroup"
)

// elements reads what was written, overwrites it with shorter and longer values and deletes it.
func elements(h *harness) {
	b := h.open(2, nil).bind(newModel())
	for _, state := range []int{valueState, mapState} {
		for i := range 300 {
			e := element{state, keygroup.ID(i % h.max), fmt.Sprintf("key-%d", i)}
			b.get(e)
			b.put(e, fmt.Sprintf("value %d", i))
			b.get(e)
		}
		for i := range 300 {
			e := element{state, keygroup.ID(i % h.max), fmt.Sprintf("key-%d", i)}
			if b.put(e, h.randomValue()); i%3 == 0 {
				b.delete(e)
				b.delete(e)
			}
			b.get(e)
		}
		b.put(element{state, 0, ""}, "value of the empty key")
		b.put(element{state, 0, "empty value"}, "")
	}
	b.compare()
	b.j.close()
}

// states registers, finds and lists states, and refuses contradictions.
func states(h *harness) {
	j := h.open(1, nil)
	k := j.subtasks[0].keyed
	for i, spec := range specs() {
		for range 2 {
			id, err := k.Register(spec)
			h.ok(err)
			h.want(int(id) == i, "state %s has id %d, want %d", spec.Name, id, i)
		}
	}
	_, err := k.Register(backend.Spec("v", backend.Reducing))
	h.refused(err, "another type for a known name")
	_, err = k.Register(backend.StateSpec{Name: "v", Type: backend.Value, Access: backend.Ordered})
	h.refused(err, "another access for a known name")
	h.ok(k.Put(backend.Addr{State: 2, Key: []byte("k")}, []byte("v")))
	c := j.checkpoint(newModel())
	j.close()

	j = h.open(1, c.handles)
	k = j.subtasks[0].keyed
	known := k.States()
	found := false
	for _, spec := range known {
		found = found || spec == specs()[2]
	}
	h.want(found, "restored states are %v, without one that has elements", known)
	_, err = k.Register(backend.Spec("m", backend.List))
	h.refused(err, "another type for the name of a restored state")
	id, err := k.Register(specs()[2])
	h.ok(err)
	v, ok, err := k.Get(backend.Addr{State: id, Key: []byte("k")})
	h.want(err == nil && ok && string(v) == "v", "restored element is %q, %t, %v", v, ok, err)
	j.close()
}

// wrongUse is refused without effect.
func wrongUse(h *harness) {
	j := h.open(2, nil)
	k := j.subtasks[1].keyed
	point, err := k.Register(backend.Spec("v", backend.Value))
	h.ok(err)
	list, err := k.Register(backend.Spec("l", backend.List))
	h.ok(err)
	foreign := backend.Addr{State: point, Group: 0, Key: []byte("k")}
	_, _, err = k.Get(foreign)
	h.refused(err, "get in a key group of another subtask")
	h.refused(k.Put(foreign, nil), "put in a key group of another subtask")
	h.refused(k.Delete(foreign), "delete in a key group of another subtask")
	nothing := func(_, _ []byte) bool { return true }
	h.refused(k.Scan(point, 0, nil, nothing), "scan of a key group of another subtask")
	h.refused(k.Put(backend.Addr{State: 99, Group: k.Range().From}, nil), "put in a state that is not registered")
	own := backend.Addr{State: point, Group: k.Range().From, Key: []byte("k")}
	h.refused(k.DeletePrefix(own), "delete prefix of a point state")
	_, err = k.Append(own, nil)
	h.refused(err, "append to a point state")
	own.State, own.Group = list, 0
	_, err = k.Append(own, nil)
	h.refused(err, "append in a key group of another subtask")
	h.refused(k.DeletePrefix(own), "delete prefix in a key group of another subtask")
	g := k.Gauges()
	h.want(g.Elements == 0 && g.LiveBytes == 0, "gauges are %+v after refused operations", g)
	j.close()
}

// scanOrder is that of bytes, from any prefix, and stops when told.
func scanOrder(h *harness) {
	b := h.open(1, nil).bind(newModel())
	for i := range 2000 {
		key := make([]byte, 1+h.rng.IntN(3))
		for at := range key {
			key[at] = byte(h.rng.IntN(4) * 85) // 0, 85, 170, 255
		}
		b.put(element{mapState, keygroup.ID(i % 2), string(key)}, fmt.Sprint(i))
		b.put(element{mapState, 2, fmt.Sprintf("%06d", h.rng.IntN(1e6))}, fmt.Sprint(i))
		b.put(element{mapState, 3, fmt.Sprintf("%06d", i)}, "")
		b.put(element{mapState, 4, fmt.Sprintf("%06d", 2000-i)}, "")
	}
	for _, prefix := range []string{"", "\x00", "\xff", "\xff\xff", "\x55\xaa", "0", "001", "1", "00199", "zzz"} {
		for g := range keygroup.ID(6) {
			b.scan(element{mapState, g, prefix})
		}
	}
	b.compare()
	s, a := b.at(element{mapState, 2, ""})
	calls := 0
	h.ok(s.keyed.Scan(a.State, a.Group, nil, func(_, _ []byte) bool { calls++; return calls < 3 }))
	h.want(calls == 3, "scan went on for %d calls, want 3", calls)
	b.j.close()
}

// deletePrefix removes what begins with the prefix and nothing else.
func deletePrefix(h *harness) {
	b := h.open(2, nil).bind(newModel())
	for i := range 1500 {
		b.put(element{mapState, keygroup.ID(i % 3), fmt.Sprintf("%c%03d", 'a'+i%5, i)}, "v")
	}
	for _, prefix := range []string{"a12", "b", "b", "zzz", "e149", "c0"} {
		for g := range keygroup.ID(4) {
			b.deletePrefix(element{mapState, g, prefix})
		}
		b.compare()
	}
	b.deletePrefix(element{mapState, 1, ""})
	b.compare()
	for i := range 400 {
		b.put(element{mapState, 1, fmt.Sprintf("%c%03d", 'a'+i%5, i)}, "again")
	}
	b.compare()
	b.j.close()
}

// appendPositions grow under each key, also over a restore and with elements deleted.
func appendPositions(h *harness) {
	b := h.open(2, nil).bind(newModel())
	at := func(i int) element { return element{listState, keygroup.ID(i % 5), fmt.Sprintf("list-%d/", i%7)} }
	for round := range 3 {
		for i := range 200 {
			b.append(at(i), fmt.Sprint(round, i))
		}
		b.deletePrefix(at(round))
		b.compare()
		c := b.j.checkpoint(b.m)
		b.j.close()
		b = h.open(1+round, c.handles).bind(c.model.clone())
		b.compare()
	}
	for i := range 50 {
		b.append(at(i), "after")
	}
	b.compare()
	b.j.close()
}

// putAt replays appends: twice is once, and later appends come after.
func putAt(h *harness) {
	b := h.open(1, nil).bind(newModel())
	s, a := b.at(element{listState, 3, "list/"})
	k, ok := s.keyed.(backend.Positioned)
	if !ok {
		b.j.close()
		return
	}
	for _, pos := range []uint64{7, 3, 7, 1 << 40, 3} {
		value := fmt.Sprint("at ", pos)
		h.ok(k.PutAt(a, pos, []byte(value)))
		b.m.group(listState, 3)[positioned("list/", pos)] = value
	}
	b.compare()
	h.want(b.append(element{listState, 3, "list/"}, "next") > 1<<40, "append does not come after what was put at a position")
	b.compare()
	c := b.j.checkpoint(b.m)
	b.j.close()
	b = h.open(2, c.handles).bind(c.model.clone())
	h.want(b.append(element{listState, 3, "list/"}, "next") > 1<<40, "append after a restore does not come after what was put at a position")
	b.compare()
	b.j.close()
}
