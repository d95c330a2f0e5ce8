package heap

import (
	"slices"

	"github.com/zeebo/xxh3"
)

// pointSlot is a slot of a hash table: 32 bits of the key's hash, whose low bits are its home, and the entry; ref 0 is empty.
type pointSlot struct{ tag, ref uint32 }

// pointTable is the elements of one point state in one key group: open addressing with linear probing over slots without
// pointers. The zero value is empty.
//
// Note: it grows by doubling in one step, about 5 ns a slot. With the usual 128 key groups that is well below a millisecond
// even at 10 M keys.
type pointTable struct {
	slots   []pointSlot
	count   int
	version uint32 // when slots was made: not newer than a live snapshot means shared with it
}

const minSlots = 8

// find returns the key's slot, or the empty one where it belongs; the table must have slots.
func (t *pointTable) find(m *memory, tag uint32, key []byte) (i, ref uint32) {
	mask := uint32(len(t.slots) - 1)
	for i = tag & mask; ; i = (i + 1) & mask {
		s := t.slots[i]
		if s.ref == 0 || s.tag == tag && m.sameKey(s.ref, key) {
			return i, s.ref
		}
	}
}

func (t *pointTable) get(m *memory, key []byte) ([]byte, bool) {
	if t.count == 0 {
		return nil, false
	}
	_, ref := t.find(m, uint32(xxh3.Hash(key)), key)
	if ref == 0 {
		return nil, false
	}
	_, value := m.keyValue(ref)
	return value, true
}

func (t *pointTable) put(a *arena, key, value []byte) error {
	if 4*(t.count+1) > 3*len(t.slots) {
		t.resize(a, max(minSlots, 2*len(t.slots)))
	}
	tag := uint32(xxh3.Hash(key))
	i, ref := t.find(&a.memory, tag, key)
	if ref != 0 {
		fresh, err := a.update(ref, value)
		if err == nil && fresh != ref {
			t.own(a)
			t.slots[i].ref = fresh
		}
		return err
	}
	ref, err := a.put(key, value)
	if err != nil {
		return err
	}
	t.own(a)
	t.slots[i] = pointSlot{tag, ref}
	t.count++
	return nil
}

// delete closes the gap by moving back what probed past it, so that no mark stays behind.
func (t *pointTable) delete(a *arena, key []byte) {
	if t.count == 0 {
		return
	}
	gap, ref := t.find(&a.memory, uint32(xxh3.Hash(key)), key)
	if ref == 0 {
		return
	}
	t.own(a)
	mask := uint32(len(t.slots) - 1)
	for i := (gap + 1) & mask; t.slots[i].ref != 0; i = (i + 1) & mask {
		if home := t.slots[i].tag & mask; (i-home)&mask >= (i-gap)&mask {
			t.slots[gap] = t.slots[i]
			gap = i
		}
	}
	t.slots[gap] = pointSlot{}
	t.count--
	a.remove(ref)
	if len(t.slots) > minSlots && 8*t.count < len(t.slots) {
		t.resize(a, len(t.slots)/2)
	}
}

// own copies slots if a snapshot shares them.
func (t *pointTable) own(a *arena) {
	if t.version <= a.versions.newest() {
		t.slots, t.version = slices.Clone(t.slots), a.versions.current
	}
}

func (t *pointTable) resize(a *arena, n int) {
	old := t.slots
	t.slots, t.version = make([]pointSlot, n), a.versions.current
	mask := uint32(n - 1)
	for _, s := range old {
		if s.ref == 0 {
			continue
		}
		i := s.tag & mask
		for t.slots[i].ref != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = s
	}
}

// scanSlots calls f for the elements in order of slots until it returns false.
func scanSlots(m *memory, slots []pointSlot, f func(key, value []byte) bool) bool {
	for _, s := range slots {
		if s.ref != 0 {
			if key, value := m.keyValue(s.ref); !f(key, value) {
				return false
			}
		}
	}
	return true
}
