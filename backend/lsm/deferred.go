package lsm

import (
	"encoding/binary"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/keygroup"
)

// A log around this backend need not hear of each change of a point element, only of the last one before it uploads: the rows
// have that value, and which of them changed is a number to remember. Telling a log of every change means to copy and to
// coalesce what was coalesced here already.

// Defer makes the backend remember from now on which point elements change.
func (k *keyed) Defer() { k.rows.deferring = true }

// PutLater is Put and tells whether Changed will hand the element out.
func (k *keyed) PutLater(a backend.Addr, value []byte) (deferred bool, err error) {
	return k.change(a, value, false)
}

// DeleteLater is Delete and tells whether Changed will hand the element out.
func (k *keyed) DeleteLater(a backend.Addr) (deferred bool, err error) { return k.change(a, nil, true) }

// Deferred is the size of what Changed would hand out now, in bytes; urgent says that the rows have no room for more until it did.
func (k *keyed) Deferred() (bytes int64, urgent bool) {
	return k.rows.waiting, len(k.rows.changed) > 0 && k.rows.full()
}

// Changed calls f for each point element that changed since the last call, in the order of the first change of each, with its
// value or that it is gone. What f gets is borrowed; f must not write.
func (k *keyed) Changed(f func(a backend.Addr, value []byte, gone bool) error) error {
	if !k.life.enter() {
		return errClosed
	}
	defer k.life.leave()
	t := k.rows
	for _, n := range t.changed {
		r := &t.entries[n]
		r.flags &^= rowChanged
		if r.flags&rowUnknown != 0 {
			continue
		}
		key := t.key(r)
		a := backend.Addr{State: k.stateOf(key), Group: keygroup.ID(binary.BigEndian.Uint16(key)), Key: key[prefixSize:]}
		if err := f(a, t.value(r), r.flags&rowGone != 0); err != nil {
			return err
		}
	}
	t.changed, t.waiting = t.changed[:0], 0
	return nil
}

// stateOf is the state of a stored key.
func (k *keyed) stateOf(key []byte) backend.StateID {
	tag := binary.BigEndian.Uint32(key[2:])
	for id, s := range k.states {
		if s.tag == tag {
			return backend.StateID(id)
		}
	}
	panic("a row of no state") // rows are written through registered states only
}

// noteCost is what an element adds to a log beside its key and value, about.
const noteCost = 4

// note remembers row n for Changed.
func (t *rows) note(n uint32) {
	r := &t.entries[n]
	if t.deferring && r.flags&rowChanged == 0 {
		r.flags |= rowChanged
		t.changed = append(t.changed, n)
		t.waiting += int64(r.keyLen+r.valLen) - prefixSize + noteCost
	}
}
