package backendtest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/keygroup"
)

// specs are the states of the tests that work on bytes.

func specs() []backend.StateSpec {
	return []backend.StateSpec{
		backend.Spec("v", backend.Value), backend.Spec("l", backend.List), backend.Spec("m", backend.Map), backend.Spec("r", backend.Reducing),
	}
}

// model is what the state must be: for each state of specs and key group the elements.
type model struct {
	specs []backend.StateSpec
	elems []map[keygroup.ID]map[string]string
}

func newModel() *model {
	m := &model{specs: specs()}
	for range m.specs {
		m.elems = append(m.elems, map[keygroup.ID]map[string]string{})
	}
	return m
}

func (m *model) clone() *model {
	c := newModel()
	for s, groups := range m.elems {
		for g, elems := range groups { // order-free: it fills another map
			c.elems[s][g] = maps.Clone(elems)
		}
	}
	return c
}

// group is the elements of one state and key group, to be changed.
func (m *model) group(s int, g keygroup.ID) map[string]string {
	elems := m.elems[s][g]
	if elems == nil {
		elems = map[string]string{}
		m.elems[s][g] = elems
	}
	return elems
}

// element is a place in the model.
type element struct {
	state int
	group keygroup.ID
	key   string
}

// bind finds the ids of the model's states in each subtask; after a restore they need not be equal.
func (j *job) bind(m *model) bound {
	b := bound{j: j, m: m}
	for _, spec := range m.specs {
		b.ids = append(b.ids, j.each(spec))
	}
	return b
}

// bound is a job and the model of its state: each operation is made on both and must give the same.
type bound struct {
	j   *job
	m   *model
	ids []map[*subtask]backend.StateID
}

func (b bound) at(e element) (*subtask, backend.Addr) {
	s := b.j.of(e.group)
	return s, backend.Addr{State: b.ids[e.state][s], Group: e.group, Key: []byte(e.key)}
}

func (b bound) put(e element, value string) {
	s, a := b.at(e)
	given := []byte(value)
	b.j.h.ok(s.keyed.Put(a, given))
	scribble(a.Key, given)
	b.m.group(e.state, e.group)[e.key] = value
}

func (b bound) delete(e element) {
	s, a := b.at(e)
	b.j.h.ok(s.keyed.Delete(a))
	scribble(a.Key)
	delete(b.m.group(e.state, e.group), e.key)
}

func (b bound) deletePrefix(e element) {
	s, a := b.at(e)
	b.j.h.ok(s.keyed.DeletePrefix(a))
	scribble(a.Key)
	maps.DeleteFunc(b.m.group(e.state, e.group), func(key, _ string) bool { return strings.HasPrefix(key, e.key) })
}

func (b bound) append(e element, value string) uint64 {
	s, a := b.at(e)
	given := []byte(value)
	pos, err := s.keyed.Append(a, given)
	b.j.h.ok(err)
	scribble(a.Key, given)
	elems := b.m.group(e.state, e.group)
	for key := range elems { // order-free: each is compared alone
		if rest, ok := strings.CutPrefix(key, e.key); ok && len(rest) == 8 {
			last := binary.BigEndian.Uint64([]byte(rest))
			b.j.h.want(pos > last, "append under %q gave position %d, but %d is in use", e.key, pos, last)
		}
	}
	elems[positioned(e.key, pos)] = value
	return pos
}

func positioned(key string, pos uint64) string {
	return string(binary.BigEndian.AppendUint64([]byte(key), pos))
}

// scribble overwrites what was passed to a backend, which must have copied it.
func scribble(all ...[]byte) {
	for _, b := range all {
		for i := range b {
			b[i] ^= 0xA5
		}
	}
}

func (b bound) get(e element) {
	s, a := b.at(e)
	got, ok, err := s.keyed.Get(a)
	b.j.h.ok(err)
	want, there := b.m.elems[e.state][e.group][e.key]
	b.j.h.want(ok == there && string(got) == want, "state %s, key group %d, key %q: got %s (%t), want %s (%t)",
		b.m.specs[e.state].Name, e.group, e.key, short(string(got)), ok, short(want), there)
}

// scan compares the elements of one state and key group under a prefix, with their order if the state is ordered.
func (b bound) scan(e element) {
	s, a := b.at(e)
	var keys, values []string
	b.j.h.ok(s.keyed.Scan(a.State, a.Group, a.Key, func(key, value []byte) bool {
		keys, values = append(keys, string(key)), append(values, string(value))
		return true
	}))
	var want []string
	for key := range b.m.elems[e.state][e.group] { // order-free: sorted below
		if strings.HasPrefix(key, e.key) {
			want = append(want, key)
		}
	}
	slices.Sort(want)
	where := fmt.Sprintf("state %s, key group %d, prefix %q", b.m.specs[e.state].Name, e.group, e.key)
	inOrder := slices.Clone(keys)
	slices.Sort(inOrder)
	b.j.h.want(slices.Equal(inOrder, want), "%s: %d elements, want %d; %s", where, len(keys), len(want), difference(inOrder, want))
	b.j.h.want(b.m.specs[e.state].Access == backend.Point || slices.Equal(keys, inOrder), "%s: scan is not in order", where)
	for i, key := range keys {
		if want := b.m.elems[e.state][e.group][key]; values[i] != want {
			b.j.h.want(false, "%s: key %q has %s, want %s", where, key, short(values[i]), short(want))
		}
	}
}

// compare compares all state with the model, and the gauges with both.
func (b bound) compare() {
	count, bytes := map[*subtask]int64{}, map[*subtask]int64{}
	for state := range b.m.specs {
		for g := range keygroup.ID(b.j.h.max) {
			b.scan(element{state: state, group: g})
			for key, value := range b.m.elems[state][g] { // order-free: sums
				s := b.j.of(g)
				count[s]++
				bytes[s] += int64(len(key) + len(value))
			}
		}
		// Thousands of scans are many seconds under the race detector: a step that long looks like a process that never parks.
		b.j.h.ok(b.j.h.w.Sleep(b.j.h.ctx, 0))
	}
	for i, s := range b.j.subtasks {
		g := s.keyed.Gauges()
		b.j.h.want(g.Elements == count[s] && g.LiveBytes == bytes[s], "gauges of subtask %d: %d elements, %d bytes, want %d, %d", i, g.Elements, g.LiveBytes, count[s], bytes[s])
	}
}

// difference shows the first key that only one of two sorted lists has.
func difference(got, want []string) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i == len(got) || i < len(want) && want[i] < got[i]:
			return fmt.Sprintf("%q is missing", want[i])
		case i == len(want) || got[i] < want[i]:
			return fmt.Sprintf("%q is too many", got[i])
		}
	}
	return "keys are equal"
}

func short(s string) string {
	if len(s) > 24 {
		return fmt.Sprintf("%q... (%d bytes)", s[:24], len(s))
	}
	return fmt.Sprintf("%q", s)
}
