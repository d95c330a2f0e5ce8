package dstl

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/seed"
)

// elements is the state that changes lead to: (state, group, key) to value.
type elements map[string]string

func place(s backend.StateID, g keygroup.ID, key []byte) string {
	return fmt.Sprintf("%d/%d/%s", s, g, key)
}

func (e elements) apply(op Op, s backend.StateID, g keygroup.ID, key []byte, pos uint64, value []byte) {
	switch op {
	case OpPut:
		e[place(s, g, key)] = string(value)
	case OpAppend:
		e[place(s, g, binary.BigEndian.AppendUint64(bytes.Clone(key), pos))] = string(value)
	case OpDelete:
		delete(e, place(s, g, key))
	case OpDeletePrefix:
		for k := range e { // order-free: deletes all that match
			if p := place(s, g, key); len(k) >= len(p) && k[:len(p)] == p {
				delete(e, k)
			}
		}
	}
}

func (e elements) equal(o elements) bool {
	if len(e) != len(o) {
		return false
	}
	for k, v := range e { // order-free: a comparison
		if w, ok := o[k]; !ok || v != w {
			return false
		}
	}
	return true
}

// randomChange draws a change over few keys, so that coalescing matters.
func randomChange(r *rand.Rand, groups keygroup.Range) (op Op, a backend.Addr, value []byte) {
	a = backend.Addr{State: backend.StateID(r.IntN(3)), Group: groups.From + keygroup.ID(r.IntN(groups.Len()))}
	a.Key = []byte("abcdefg"[:1+r.IntN(5)])
	a.Key[0] += byte(r.IntN(3))
	switch n := r.IntN(20); {
	case n < 10:
		op, value = OpPut, bytes.Repeat([]byte{byte('a' + r.IntN(26))}, []int{0, 5, 5, 5, 300}[r.IntN(5)])
	case n < 14:
		op = OpDelete
	case n < 15:
		op, a.Key = OpDeletePrefix, a.Key[:r.IntN(len(a.Key))]
	default:
		op, value = OpAppend, bytes.Repeat([]byte("z"), r.IntN(9))
	}
	return op, a, value
}

// section frames sets and returns the bytes of their section.
func frameSection(sets []*set, groups keygroup.Range, blockSize int) (body []byte, sec Section, object []byte) {
	return frameSchema(sets, groups, blockSize, backend.Schema{})
}

// frameSchema is frameSection with a schema of the second state.
func frameSchema(sets []*set, groups keygroup.Range, blockSize int, schema backend.Schema) (body []byte, sec Section, object []byte) {
	f := framer{blockSize: blockSize}
	f.begin(nil, 0)
	sec = f.section(sectionOf{log: "1/count-0", groups: groups, states: []State{
		{ID: 0, Spec: backend.StateSpec{Name: "a", Type: backend.Value, Access: backend.Point}},
		{ID: 1, Spec: backend.StateSpec{Name: "b", Type: backend.List, Access: backend.Ordered, Schema: schema}},
		{ID: 2, Spec: backend.StateSpec{Name: "c", Type: backend.Map, Access: backend.Ordered}},
	}}, sets, make([]int64, len(sets)))
	object = f.end()
	return object[sec.Offset : sec.Offset+sec.Length], sec, object
}

// replayAll decodes a section and applies all changes in r.
func replayAll(b []byte, r keygroup.Range) (elements, error) {
	sec, err := decodeSection(b, int64(len(b)))
	if err != nil {
		return nil, err
	}
	e := elements{}
	var c Change
	for _, bl := range sec.blocks {
		if bl.offset < 0 {
			return nil, damaged("section begins behind its first block")
		}
		if err := checkBlock(b[bl.offset:][:bl.length], bl); err != nil {
			return nil, err
		}
		payload, err := openBlock(b[bl.offset:][:bl.length], nil)
		if err != nil {
			return nil, err
		}
		err = eachChange(payload, r, &c, func(c *Change) error {
			e.apply(c.Op, c.State, c.Group, c.Key, c.Pos, c.Value)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return e, nil
}

func TestCoalescedChangesLeadToTheSameState(t *testing.T) {
	groups := keygroup.Range{From: 3, To: 8}
	for n := range uint64(300) {
		r := seed.Stream(n, "changeset")
		want, pos := elements{}, uint64(0)
		var sets []*set
		blockSize := []int{1, 100, 32 << 10}[r.IntN(3)]
		for seq := range uint64(1 + r.IntN(3)) {
			c := &changeSet{}
			c.reset(r.IntN(100))
			if r.IntN(2) == 0 {
				c.compactAt = 200 // compact often
			}
			for range r.IntN(400) + 1 {
				op, a, value := randomChange(r, groups)
				pos++
				c.add(op, a, pos, value)
				want.apply(op, a.State, a.Group, a.Key, pos, value)
				if c.compactAt > 200 && r.IntN(50) == 0 {
					c.compactAt = len(c.arena)
				}
			}
			sets = append(sets, &set{seq: seq, changes: c})
		}
		b, _, object := frameSection(sets, groups, blockSize)
		got, err := replayAll(b, groups)
		if err != nil || !got.equal(want) {
			t.Fatalf("seed %d: got %v, %v, want %v", n, got, err, want)
		}
		if _, err := DecodeObject(object); err != nil {
			t.Fatalf("seed %d: %v", n, err)
		}
		again, _, _ := frameSection(sets, groups, blockSize)
		if !bytes.Equal(again, b) {
			t.Fatalf("seed %d: framing a second time gave other bytes", n)
		}
		half := keygroup.Range{From: 4, To: 6}
		for k := range want { // order-free: deletes all that match
			if g := k[2]; g != '4' && g != '5' {
				delete(want, k)
			}
		}
		if got, err = replayAll(b, half); err != nil || !got.equal(want) {
			t.Fatalf("seed %d: narrowed to %v: got %v, %v, want %v", n, half, got, err, want)
		}
	}
}

func TestDeadBytesAreNotFramed(t *testing.T) {
	c := &changeSet{}
	c.reset(0)
	a := backend.Addr{Key: []byte("key")}
	for i := range 1000 {
		c.add(OpPut, a, 0, make([]byte, 100+i%2)) // never the same length twice in a row
	}
	if len(c.arena) > 2*minCompactAt {
		t.Errorf("arena holds %d bytes for one live entry", len(c.arena))
	}
	b, _, _ := frameSection([]*set{{changes: c}}, keygroup.Range{To: 1}, 1<<10)
	if len(b) > 400 {
		t.Errorf("section of %d bytes for one live entry of 104", len(b))
	}
}

// TestFramingCopiesOnce: an object of values that do not compress stays in the memory that it was begun in.
func TestFramingCopiesOnce(t *testing.T) {
	c, r := &changeSet{}, rand.NewChaCha8([32]byte{1})
	c.reset(0)
	value := make([]byte, 200)
	for i := range 10_000 {
		r.Read(value)
		c.add(OpPut, backend.Addr{Group: keygroup.ID(i % 64), Key: binary.BigEndian.AppendUint64(nil, uint64(i))}, 0, value)
	}
	f := framer{blockSize: 32 << 10}
	f.begin(nil, c.size())
	began := &f.body[0]
	f.section(sectionOf{log: "1/count-0", groups: keygroup.Range{To: 64}}, []*set{{changes: c}}, []int64{0})
	if body := f.end(); len(body) < 2_000_000 || &body[0] != began {
		t.Errorf("the memory of an object of %d bytes was exchanged", len(body))
	}
}

// benchAppend appends b.N changes over keys keys and ends a change set every 5 MiB; frame says whether it is framed too.
func benchAppend(b *testing.B, keys int, frame bool) {
	const threshold = 5 << 20
	groups := keygroup.Range{To: 64}
	f := framer{blockSize: 32 << 10}
	c := &changeSet{}
	c.reset(threshold / 112)
	value, key := make([]byte, 100), make([]byte, 8)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range value {
		value[i] = byte(r.IntN(64))
	}
	var body []byte
	sizes := []int64{0}
	cut := func() {
		if frame {
			f.begin(body, c.size())
			f.section(sectionOf{log: "1/count-0", groups: groups}, []*set{{changes: c}}, sizes)
			body = f.end()
		}
		c.reset(len(c.entries))
	}
	// One change set ahead, so that all memory is there.
	for i := range threshold / 112 {
		binary.BigEndian.PutUint64(key, uint64(i))
		c.add(OpPut, backend.Addr{Group: keygroup.ID(i % 64), Key: key}, 0, value)
	}
	cut()
	b.ReportAllocs()
	b.SetBytes(108)
	x := uint64(1)
	for b.Loop() {
		x = x*6364136223846793005 + 1442695040888963407
		k := (x >> 33) % uint64(keys)
		binary.BigEndian.PutUint64(key, k)
		value[0]++
		c.add(OpPut, backend.Addr{Group: keygroup.ID(k % 64), Key: key}, 0, value)
		if c.size() > threshold {
			cut()
		}
	}
}

// BenchmarkAppend is the cost of one change of an 8-byte key and a 100-byte value.
func BenchmarkAppend(b *testing.B) {
	b.Run("distinct", func(b *testing.B) { benchAppend(b, 1<<40, false) })
	b.Run("distinct-framed", func(b *testing.B) { benchAppend(b, 1<<40, true) })
	b.Run("hot", func(b *testing.B) { benchAppend(b, 10_000, false) })
	b.Run("hot-framed", func(b *testing.B) { benchAppend(b, 10_000, true) })
	b.Run("zipf-like", func(b *testing.B) { benchAppend(b, 60_000, true) })
}
