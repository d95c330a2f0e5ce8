package backend

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"statebench.dev/bench/internal/keygroup"
)

// ErrNoKey is returned by typed state that is used before Context.SetKey.
var ErrNoKey = errors.New("no current key is set")

// Access is how elements of a state of type t are reached.
func (t Type) Access() Access {
	if t == List || t == Map || t == Timers || t == Expiries {
		return Ordered
	}
	return Point
}

// String is the type's name as reports write it.
func (t Type) String() string {
	names := [...]string{Value: "value", List: "list", Map: "map", Reducing: "reducing", Aggregating: "aggregating", Timers: "timers", Expiries: "expiries"}
	if int(t) < len(names) && t != 0 {
		return names[t]
	}
	return fmt.Sprintf("type-%d", uint8(t))
}

// Spec describes a state called name of type t, with the access that the type has.
func Spec(name string, t Type) StateSpec {
	return StateSpec{Name: name, Type: t, Access: t.Access()}
}

// Context is where typed state is made, and the current key and namespace that its operations work on. It belongs to the
// subtask's loop, like the Keyed below it.
//
// The byte key of an element is, for all types but timers: length of the key as a varint, key, length of the namespace as a
// varint, namespace, then the map key or the 8 bytes of the list position. So no two elements share a key, and all of one
// (key, namespace) share a prefix. The key of a timer is its time in 8 bytes in order of time, then the key; that of an
// expiry likewise, then the byte key of the element that expires.
type Context struct {
	keyed  Keyed
	group  keygroup.ID
	prefix []byte // of the current key and namespace; empty: no key set
	key    [2]int // where the key stands in prefix
	elem   []byte // buffer for prefix ‖ map key
	val    []byte // buffer for an encoded value
	merge  []byte // buffer for lists that are merged

	mortal  []*expiry // the states with a time to live
	now     int64     // current time of the current key
	reached int64     // the time up to which expired elements were removed
}

// NewContext returns a context over keyed, without a current key.
func NewContext(keyed Keyed) *Context {
	return &Context{keyed: keyed, now: noTime, reached: math.MinInt64}
}

// Keyed is what the context works on.
func (c *Context) Keyed() Keyed { return c.keyed }

// SetKey makes key, which is of group, the current one and the namespace void; the key has no current time yet. It copies key.
func (c *Context) SetKey(group keygroup.ID, key []byte) {
	c.group, c.now = group, noTime
	c.prefix = binary.AppendUvarint(c.prefix[:0], uint64(len(key)))
	c.key[0] = len(c.prefix)
	c.prefix = append(c.prefix, key...)
	c.key[1] = len(c.prefix)
	c.prefix = append(c.prefix, 0)
}

// ClearKey leaves no key current: what needs one fails with ErrNoKey.
func (c *Context) ClearKey() { c.prefix = c.prefix[:0] }

// SetNamespace changes the namespace of the current key; nil and empty are the void one. It copies ns.
func (c *Context) SetNamespace(ns []byte) {
	if len(c.prefix) == 0 {
		return
	}
	c.prefix = appendNamespace(c.prefix[:c.key[1]], ns)
}

func appendNamespace(dst, ns []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(ns))), ns...)
}

// Group is the current key's group.
func (c *Context) Group() keygroup.ID { return c.group }

// Key is the current key; it is borrowed until the next SetKey.
func (c *Context) Key() []byte { return c.prefix[c.key[0]:c.key[1]] }

// addr is the place of the current key's element in a point state, or the prefix of its elements in an ordered one.
func (c *Context) addr(id StateID) (Addr, error) {
	if len(c.prefix) == 0 {
		return Addr{}, ErrNoKey
	}
	return Addr{State: id, Group: c.group, Key: c.prefix}, nil
}

// inNamespace is addr with another namespace. It uses the elem buffer.
func (c *Context) inNamespace(id StateID, ns []byte) (Addr, error) {
	if len(c.prefix) == 0 {
		return Addr{}, ErrNoKey
	}
	c.elem = appendNamespace(append(c.elem[:0], c.prefix[:c.key[1]]...), ns)
	return Addr{State: id, Group: c.group, Key: c.elem}, nil
}

// register makes the state known to the backend.
func (c *Context) register(spec StateSpec) (StateID, error) {
	id, err := c.keyed.Register(spec)
	if err != nil {
		return 0, fmt.Errorf("register %s state %q: %w", spec.Type, spec.Name, err)
	}
	return id, nil
}

// open makes a state known, with the time to live and in the schema that opts say: one that was restored in an older schema is
// converted.
func (c *Context) open(name string, t Type, opts []StateOption) (id StateID, life *expiry, err error) {
	var o stateOptions
	for _, set := range opts {
		set(&o)
	}
	if err := o.check(t); err != nil {
		return 0, nil, fmt.Errorf("%s state %q: %w", t, name, err)
	}
	spec := Spec(name, t)
	spec.Schema = o.schema
	states := c.keyed.States()
	stored := slices.IndexFunc(states, func(s StateSpec) bool { return s.Name == name })
	if id, err = c.register(spec); err != nil {
		return 0, nil, err
	}
	if life, err = c.lives(id, name, o.ttl); err != nil {
		return 0, nil, err
	}
	if stored >= 0 {
		var index *StateID
		if life != nil {
			index = &life.index
		}
		if err := c.agree(id, states[stored], &o, index); err != nil {
			return 0, nil, err
		}
	}
	return id, life, life.begin()
}

// splitKey takes the key and the namespace off the front of an element's byte key.
func splitKey(b []byte) (key, namespace, rest []byte, err error) {
	if key, b, err = splitPrefixed(b); err != nil {
		return nil, nil, nil, err
	}
	if namespace, b, err = splitPrefixed(b); err != nil {
		return nil, nil, nil, err
	}
	return key, namespace, b, nil
}

func splitPrefixed(b []byte) (part, rest []byte, err error) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return nil, nil, fmt.Errorf("element key %x: %w", b, ErrEncoding)
	}
	return b[w : w+int(n)], b[w+int(n):], nil
}
