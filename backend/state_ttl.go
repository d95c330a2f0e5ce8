package backend

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"statebench.dev/bench/internal/keygroup"
)

// Errors of states with a time to live.
var (
	// ErrNoTime is returned when Context.SetTime was not called since the key was set.
	ErrNoTime = errors.New("no current time is set")
	// ErrPast is returned when the current time is before what Context.Expire has reached: what it removed would be missed.
	ErrPast = errors.New("current time is before the watermark")
)

// TTL is how long an element of a state lives after it was written: an element whose expiry, the time of the write plus
// After, is not after the current time is never returned. Times are event times, in nanoseconds, which the operator sets
// (Context.SetTime); see docs/state.md for what they must be and why it is done in this way.
type TTL struct {
	After time.Duration // at least 1 ns
	// OnRead makes a read of a single element (ValueState.Get and its like, MapState.Get) a write: the element begins to
	// live anew. Lists and MapState.Range do not have it.
	OnRead bool
	// Grain rounds up the time at which an expired element is removed, not the one from which it is no longer returned. A
	// write then costs no more than a read beside it, unless the rounded time changes. 0: not rounded.
	Grain time.Duration
}

// StateOption changes how a state is made.
type StateOption func(o *stateOptions)

type stateOptions struct {
	ttl    TTL
	schema Schema
	steps  []Migration
}

// WithTTL gives the elements of a state a time to live: of a map or list each on its own. The stored value begins with the
// expiry in 8 bytes. A second state, ExpirySpec(name), tells which element is to be removed when. A restored state that
// holds something must be made with a time to live, of any length, if and only if it was stored with one.
func WithTTL(ttl TTL) StateOption { return func(o *stateOptions) { o.ttl = ttl } }

// ExpirySpec describes the state that a state called name with a time to live has beside it: a set of (time, element) in
// order of time.
func ExpirySpec(name string) StateSpec { return Spec(name+"-expiry", Expiries) }

// noTime is the current time that was not set.
const noTime = math.MinInt64

// expiry is the time to live of one state.
type expiry struct {
	c     *Context
	data  StateID
	index StateID
	name  string
	ttl   TTL
	from  keygroup.ID
	// next is, for each key group of the range, a time before which the index has nothing.
	next []int64
	key  []byte // buffer for a key of the index
	kept []byte // buffer for a value that a read refreshes
	due  []byte // buffer for keys of the index that are to go, each with its length
}

// lives makes the time to live of a state; nil when it has none.
func (c *Context) lives(data StateID, name string, ttl TTL) (*expiry, error) {
	spec, r := ExpirySpec(name), c.keyed.Range()
	if known := slices.Contains(c.keyed.States(), spec); known == (ttl == TTL{}) {
		if held, err := c.holds(data); err != nil {
			return nil, err
		} else if held {
			return nil, &mixedTTL{name: name, stored: known}
		}
	}
	switch {
	case ttl == TTL{}:
		return nil, nil
	case ttl.After <= 0 || ttl.Grain < 0:
		return nil, fmt.Errorf("state %q cannot live %v with a grain of %v", name, ttl.After, ttl.Grain)
	}
	index, err := c.register(spec)
	if err != nil {
		return nil, err
	}
	return &expiry{c: c, data: data, index: index, name: name, ttl: ttl, from: r.From, next: make([]int64, r.Len())}, nil
}

// begin looks up what the index has, and makes the state one that Expire looks after. It may be called for nil.
func (l *expiry) begin() error {
	if l == nil {
		return nil
	}
	for i := range l.next {
		if _, err := l.collect(l.from+keygroup.ID(i), math.MinInt64); err != nil {
			return err
		}
	}
	l.c.mortal = append(l.c.mortal, l)
	return nil
}

// mixedTTL refuses to take values with an expiry in front for plain ones, or the other way round.
type mixedTTL struct {
	name   string
	stored bool // with a time to live
}

func (e *mixedTTL) Error() string {
	if e.stored {
		return fmt.Sprintf("state %q was stored with a time to live and is opened without one", e.name)
	}
	return fmt.Sprintf("state %q was stored without a time to live and is opened with one", e.name)
}

// holds tells whether a state has an element.
func (c *Context) holds(s StateID) (held bool, err error) {
	r := c.keyed.Range()
	for g := r.From; g < r.To && !held && err == nil; g++ {
		err = c.keyed.Scan(s, g, nil, func(_, _ []byte) bool { held = true; return false })
	}
	return held, err
}

// SetTime makes now the current time of the current key. It must follow from the record being processed alone, and must
// not be before the operator's watermark.
func (c *Context) SetTime(now int64) { c.now = now }

// Expire removes what expired at or before watermark, which never falls. The subtask calls it with each watermark, after
// the timers that the watermark makes due, so that what is left at a barrier follows from the watermark there.
func (c *Context) Expire(watermark int64) error {
	if watermark <= c.reached {
		return nil
	}
	c.reached = watermark
	for _, l := range c.mortal {
		for i, next := range l.next {
			if next > watermark {
				continue
			}
			if err := l.sweep(l.from+keygroup.ID(i), watermark); err != nil {
				return fmt.Errorf("remove expired elements of state %q: %w", l.name, err)
			}
		}
	}
	return nil
}

// sweepBytes bounds the keys that are collected at a time.
const sweepBytes = 1 << 16

// sweep removes what is due in one key group.
func (l *expiry) sweep(g keygroup.ID, watermark int64) error {
	for more := true; more; {
		var err error
		if more, err = l.collect(g, watermark); err != nil {
			return err
		}
		for rest := l.due; len(rest) > 0; {
			var key []byte
			if key, rest, err = splitPrefixed(rest); err != nil {
				return err
			}
			if err := l.c.keyed.Delete(Addr{State: l.index, Group: g, Key: key}); err != nil {
				return err
			}
			if err := l.c.keyed.Delete(Addr{State: l.data, Group: g, Key: key[8:]}); err != nil {
				return err
			}
		}
	}
	return nil
}

// collect puts the first keys that are due into l.due; more tells that there are others. It brings l.next up to date.
func (l *expiry) collect(g keygroup.ID, watermark int64) (more bool, err error) {
	l.due = l.due[:0]
	first := int64(math.MaxInt64)
	var bad error
	err = l.c.keyed.Scan(l.index, g, nil, func(key, _ []byte) bool {
		at, _, err := splitTimer(key)
		switch {
		case err != nil:
			bad = err
		case at > watermark:
			first = at
		case len(l.due) >= sweepBytes:
			more = true
		default:
			l.due = append(binary.AppendUvarint(l.due, uint64(len(key))), key...)
			return true
		}
		return false
	})
	l.next[g-l.from] = first
	if err == nil {
		err = bad
	}
	return more, err
}

// time is the current time.
func (l *expiry) time() (int64, error) {
	switch now := l.c.now; {
	case now == noTime:
		return 0, fmt.Errorf("state %q has a time to live: %w", l.name, ErrNoTime)
	case now < l.c.reached:
		return 0, fmt.Errorf("state %q at %d, watermark %d: %w", l.name, now, l.c.reached, ErrPast)
	default:
		return now, nil
	}
}

// head begins a stored value: its expiry when it is written now.
func (l *expiry) head(dst []byte) ([]byte, error) {
	now, err := l.time()
	if err != nil {
		return dst, err
	}
	at := int64(math.MaxInt64)
	if after := int64(l.ttl.After); now <= math.MaxInt64-after {
		at = now + after
	}
	return binary.BigEndian.AppendUint64(dst, uint64(at)), nil
}

// body takes the value out of a stored one; ok is false when it has expired.
func (l *expiry) body(stored []byte) (value []byte, ok bool, err error) {
	at, err := l.of(stored)
	if err != nil {
		return nil, false, err
	}
	now, err := l.time()
	return stored[8:], at > now, err
}

// of is the expiry of a stored value.
func (l *expiry) of(stored []byte) (int64, error) {
	if len(stored) < 8 {
		return 0, fmt.Errorf("state %q: %d bytes with an expiry: %w", l.name, len(stored), ErrEncoding)
	}
	return int64(binary.BigEndian.Uint64(stored)), nil
}

// removal is when an element with that expiry is removed.
func (l *expiry) removal(at int64) int64 {
	grain := int64(l.ttl.Grain)
	if grain == 0 || at > math.MaxInt64-grain {
		return at
	}
	if past := at % grain; past > 0 {
		return at - past + grain
	} else if past < 0 {
		return at - past
	}
	return at
}

// entry is the place in the index of the element with that key and expiry.
func (l *expiry) entry(g keygroup.ID, key []byte, at int64) Addr {
	l.key = append(binary.BigEndian.AppendUint64(l.key[:0], uint64(l.removal(at))^signBit), key...)
	return Addr{State: l.index, Group: g, Key: l.key}
}

// enter adds an element with the stored value to the index.
func (l *expiry) enter(a Addr, stored []byte) error {
	at, err := l.of(stored)
	if err != nil {
		return err
	}
	next := &l.next[a.Group-l.from]
	*next = min(*next, l.removal(at))
	return l.c.keyed.Put(l.entry(a.Group, a.Key, at), nil)
}

// leave takes the element at a, if there is one, out of the index.
func (l *expiry) leave(a Addr) error {
	stored, ok, err := l.c.keyed.Get(a)
	if err != nil || !ok {
		return err
	}
	at, err := l.of(stored)
	if err != nil {
		return err
	}
	return l.c.keyed.Delete(l.entry(a.Group, a.Key, at))
}

// put stores a value, which begins with its expiry, at a.
func (l *expiry) put(a Addr, stored []byte) error {
	old, ok, err := l.c.keyed.Get(a)
	if err != nil {
		return err
	}
	at, err := l.of(stored)
	if err != nil {
		return err
	}
	if ok {
		was, err := l.of(old)
		switch {
		case err != nil:
			return err
		case l.removal(was) == l.removal(at):
			return l.c.keyed.Put(a, stored)
		}
		if err := l.c.keyed.Delete(l.entry(a.Group, a.Key, was)); err != nil {
			return err
		}
	}
	if err := l.enter(a, stored); err != nil {
		return err
	}
	return l.c.keyed.Put(a, stored)
}

// read takes the value out of a stored one, and makes it live anew where reads do. The value is borrowed until the next
// write.
func (l *expiry) read(a Addr, stored []byte) (value []byte, ok bool, err error) {
	value, ok, err = l.body(stored)
	if err != nil || !ok || !l.ttl.OnRead {
		return value, ok, err
	}
	if l.kept, err = l.head(l.kept[:0]); err != nil {
		return nil, false, err
	}
	if string(l.kept) == string(stored[:8]) {
		return value, true, nil
	}
	l.kept = append(l.kept, value...)
	return l.kept[8:], true, l.put(a, l.kept)
}

// leaveAll takes all elements whose key begins with a.Key out of the index.
func (l *expiry) leaveAll(a Addr) error {
	l.due = l.due[:0]
	var bad error
	err := l.c.keyed.Scan(a.State, a.Group, a.Key, func(key, stored []byte) bool {
		var at int64
		if at, bad = l.of(stored); bad != nil {
			return false
		}
		e := l.entry(a.Group, key, at)
		l.due = append(binary.AppendUvarint(l.due, uint64(len(e.Key))), e.Key...)
		return true
	})
	if err == nil {
		err = bad
	}
	for rest := l.due; err == nil && len(rest) > 0; {
		var key []byte
		if key, rest, err = splitPrefixed(rest); err == nil {
			err = l.c.keyed.Delete(Addr{State: l.index, Group: a.Group, Key: key})
		}
	}
	return err
}
