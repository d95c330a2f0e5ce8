package backend

import (
	"bytes"
	"fmt"

	"statebench.dev/bench/internal/canon"
	"statebench.dev/bench/internal/keygroup"
)

// Elements yields the elements of one state in one key group in canon's canonical form, in the backend's order, until yield
// returns false: for a map entry value is canon.MapValue, for a list element canon.ListValue, for a timer or an expiry
// canon.TimerValue, for the others the stored bytes. The slices are borrowed during the call; yield must not write. A state
// that keyed does not know is registered and empty.
func Elements(keyed Keyed, spec StateSpec, group keygroup.ID, yield func(key, namespace, value []byte) bool) error {
	id, err := keyed.Register(spec)
	if err != nil {
		return fmt.Errorf("elements of state %q: %w", spec.Name, err)
	}
	d := decoder{spec: spec}
	err = keyed.Scan(id, group, nil, func(k, v []byte) bool {
		var key, namespace, value []byte
		if key, namespace, value, d.err = d.element(k, v); d.err != nil {
			return false
		}
		return yield(key, namespace, value)
	})
	if err == nil {
		err = d.err
	}
	if err != nil {
		return fmt.Errorf("elements of state %q in key group %d: %w", spec.Name, group, err)
	}
	return nil
}

// decoder brings stored elements of one state into canonical form.
type decoder struct {
	spec StateSpec
	buf  []byte // the last value built
	err  error
	// list is the (key, namespace) part of the last list element, place the one the next element of it has.
	list  []byte
	place uint32
}

func (d *decoder) element(stored, v []byte) (key, namespace, value []byte, err error) {
	if d.spec.Type == Timers {
		at, key, err := splitTimer(stored)
		d.buf = canon.TimerValue(d.buf[:0], at)
		return key, nil, d.buf, err
	}
	if d.spec.Type == Expiries {
		at, of, err := splitTimer(stored)
		if err == nil {
			key, namespace, _, err = splitKey(of)
		}
		d.buf = canon.TimerValue(d.buf[:0], at)
		return key, namespace, d.buf, err
	}
	key, namespace, rest, err := splitKey(stored)
	if err != nil {
		return nil, nil, nil, err
	}
	switch d.spec.Type {
	case Map:
		d.buf = canon.MapValue(d.buf[:0], rest, v)
		return key, namespace, d.buf, nil
	case List:
		if len(rest) != 8 {
			return nil, nil, nil, fmt.Errorf("list position in %d bytes: %w", len(rest), ErrEncoding)
		}
		if list := stored[:len(stored)-8]; d.list == nil || !bytes.Equal(list, d.list) {
			d.list, d.place = append(d.list[:0], list...), 0
		}
		d.buf = canon.ListValue(d.buf[:0], d.place, v)
		d.place++
		return key, namespace, d.buf, nil
	}
	if len(rest) > 0 {
		return nil, nil, nil, fmt.Errorf("%d bytes after the namespace: %w", len(rest), ErrEncoding)
	}
	return key, namespace, v, nil
}

// DigestGroup returns the canonical digest of the elements of one state in one key group. The state's name in the digest is
// spec.Name: names are unique in an operator, and digests of different operators are kept apart.
func DigestGroup(keyed Keyed, spec StateSpec, group keygroup.ID) (canon.Digest, error) {
	var d canon.Digest
	var buf []byte
	err := Elements(keyed, spec, group, func(key, namespace, value []byte) bool {
		buf = canon.Element(buf[:0], spec.Name, key, namespace, value)
		d.Add(buf)
		return true
	})
	return d, err
}
