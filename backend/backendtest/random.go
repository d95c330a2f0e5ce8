package backendtest

import (
	"encoding/binary"
	"fmt"
	"slices"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/keygroup"
)

// randomElement draws a place from few keys, so that places are met again; half of them share long prefixes.
func (h *harness) randomElement(state int) element {
	g := keygroup.ID(h.rng.IntN(h.max))
	if h.rng.IntN(3) > 0 {
		g = keygroup.ID(h.rng.IntN(min(4, h.max))) // some key groups have much more than others
	}
	key := fmt.Sprintf("%c/%d", 'a'+h.rng.IntN(3), h.rng.IntN(40))
	if h.rng.IntN(50) == 0 {
		key = ""
	}
	return element{state, g, key}
}

func (h *harness) randomValue() string {
	n := h.rng.IntN(100)
	switch h.rng.IntN(40) {
	case 0:
		n = h.rng.IntN(5000)
	case 1:
		n = 0
	}
	return h.randomBytes(n)
}

func (h *harness) randomBytes(n int) string {
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, h.rng.Uint64())
	}
	return string(b[:n])
}

// Which states of specs are what.
const (
	valueState, listState, mapState, reducingState = 0, 1, 2, 3
)

// change makes one random change or read on job and model.
func (b bound) change() {
	h := b.j.h
	point, ordered := valueState+h.rng.IntN(2)*(reducingState-valueState), listState+h.rng.IntN(2)
	switch n := h.rng.IntN(100); {
	case n < 35:
		b.put(h.randomElement(point), h.randomValue())
	case n < 50:
		b.put(h.randomElement(mapState), h.randomValue())
	case n < 68:
		b.append(h.randomElement(listState), h.randomValue())
	case n < 78:
		b.delete(h.randomElement(point))
	case n < 84:
		b.delete(h.randomElement(ordered))
	case n < 87:
		e := h.randomElement(ordered)
		e.key = e.key[:h.rng.IntN(len(e.key)+1)]
		b.deletePrefix(e)
	case n < 96:
		b.get(h.randomElement(h.rng.IntN(len(b.m.specs))))
	default:
		e := h.randomElement(ordered)
		e.key = e.key[:h.rng.IntN(len(e.key)+1)]
		b.scan(e)
	}
}

// randomRun drives a job and its model through random changes, checkpoints that complete or do not, and restores with other
// parallelism, one or two in a row, from savepoints too, as the job's own or borrowed. The last checkpoint needs no savepoint that was not
// the job's own.
func randomRun(h *harness, steps int) {
	last := &checkpointed{model: newModel()}
	b := h.open(1+h.rng.IntN(5), nil).bind(last.model.clone())
	var under []*pending // checkpoints under way, oldest first
	claimed := false
	for range steps {
		switch n := h.rng.IntN(100); {
		case n < 80:
			for range 1 + h.rng.IntN(20) {
				b.change()
				b.j.breathe()
			}
		case n < 85:
			b.j.sleep(h.nap)
		case n < 90 && len(under) < 2:
			p := b.j.begin(b.m)
			if under = append(under, p); h.rng.IntN(4) > 0 {
				b.j.start(p)
			}
		case n < 94 && len(under) > 0:
			c, err := b.j.finish(under[0])
			h.ok(err)
			last, under = c, under[1:]
		case n < 95 && len(under) > 0:
			b.j.abort(under[0])
			under = under[1:]
		case n < 96:
			u := b.j.fix([]string{backend.Canonical, backend.Native}[h.rng.IntN(2)], b.m)
			b.change()
			if c := b.j.written(u); h.rng.IntN(2) == 0 {
				last = c
			}
		case n < 98:
			if h.w.Simulated() && h.rng.IntN(2) == 0 {
				b.j.crash()
			} else {
				for _, p := range under {
					b.j.abort(p)
				}
				b.j.close()
			}
			under = nil
			handles := last.handles
			if h.rng.IntN(2) == 0 {
				handles = h.dealt(1+h.rng.IntN(5), handles)
			}
			if p := 1 + h.rng.IntN(5); h.rng.IntN(2) == 0 {
				b = h.borrow(p, handles).bind(last.model.clone())
			} else {
				b = h.open(p, handles).bind(last.model.clone())
				claimed = claimed || slices.ContainsFunc(objectsOf(last), func(r backend.ObjectRef) bool { return backend.OfSavepoint(r.Key) })
			}
			b.compare()
		}
	}
	for _, p := range under {
		b.j.abort(p)
	}
	b.compare()
	c := b.j.checkpoint(b.m)
	b.j.close()
	if !claimed {
		h.only(false)
	}
	b = h.open(1+h.rng.IntN(5), c.handles).bind(c.model.clone())
	b.compare()
	b.j.close()
}
