package backend

import (
	"encoding/binary"
	"fmt"

	"statebench.dev/bench/internal/keygroup"
)

// signBit turned over makes big-endian two's complement sort by value.
const signBit = 1 << 63

// TimerState holds the timers of all keys: a set of (time, key), in order of time.
type TimerState struct {
	c    *Context
	id   StateID
	name string
}

// NewTimers makes or finds the timer state called name.
func NewTimers(c *Context, name string) (*TimerState, error) {
	id, err := c.register(Spec(name, Timers))
	if err != nil {
		return nil, err
	}
	return &TimerState{c: c, id: id, name: name}, nil
}

func (s *TimerState) at(at int64) (Addr, error) {
	if len(s.c.prefix) == 0 {
		return Addr{}, ErrNoKey
	}
	s.c.elem = binary.BigEndian.AppendUint64(s.c.elem[:0], uint64(at)^signBit)
	s.c.elem = append(s.c.elem, s.c.Key()...)
	return Addr{State: s.id, Group: s.c.group, Key: s.c.elem}, nil
}

// Register adds a timer of the current key at a time in nanoseconds of event time; isNew is false when it is there already.
// Namespaces play no part.
func (s *TimerState) Register(at int64) (isNew bool, err error) {
	a, err := s.at(at)
	if err != nil {
		return false, err
	}
	_, there, err := s.c.keyed.Get(a)
	if err != nil || there {
		return false, err
	}
	return true, s.c.keyed.Put(a, nil)
}

// Has tells whether the current key has a timer at that time.
func (s *TimerState) Has(at int64) (bool, error) {
	a, err := s.at(at)
	if err != nil {
		return false, err
	}
	_, there, err := s.c.keyed.Get(a)
	return there, err
}

// Delete removes the timer of the current key at that time, if there is one.
func (s *TimerState) Delete(at int64) error {
	a, err := s.at(at)
	if err != nil {
		return err
	}
	return s.c.keyed.Delete(a)
}

// Scan calls f for the timers of a key group in order of (time, key) until f returns false. key is borrowed during the
// call. f must not write.
func (s *TimerState) Scan(group keygroup.ID, f func(at int64, key []byte) bool) error {
	var bad error
	err := s.c.keyed.Scan(s.id, group, nil, func(key, _ []byte) bool {
		at, owner, err := splitTimer(key)
		if err != nil {
			bad = fmt.Errorf("state %q: %w", s.name, err)
			return false
		}
		return f(at, owner)
	})
	if err != nil {
		return err
	}
	return bad
}

// splitTimer takes an element's byte key apart.
func splitTimer(b []byte) (at int64, key []byte, err error) {
	if len(b) < 8 {
		return 0, nil, fmt.Errorf("timer key %x: %w", b, ErrEncoding)
	}
	return int64(binary.BigEndian.Uint64(b) ^ signBit), b[8:], nil
}
