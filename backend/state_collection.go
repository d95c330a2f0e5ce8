package backend

import (
	"encoding/binary"
	"fmt"
)

// collection is what the states with many elements a (key, namespace) have in common.
type collection struct {
	c    *Context
	id   StateID
	name string
	life *expiry // nil: for ever
	err  error   // of the scan that runs
}

func newCollection(c *Context, name string, t Type, opts []StateOption) (s collection, err error) {
	s = collection{c: c, name: name}
	s.id, s.life, err = c.open(name, t, opts)
	return s, err
}

// Clear removes all elements of the current key and namespace.
func (s *collection) Clear() error {
	a, err := s.c.addr(s.id)
	if err != nil {
		return err
	}
	return s.clear(a)
}

func (s *collection) clear(a Addr) error {
	if s.life != nil {
		if err := s.life.leaveAll(a); err != nil {
			return err
		}
	}
	return s.c.keyed.DeletePrefix(a)
}

// body takes the value out of a stored one during a scan; ok is false when it has expired, or on an error.
func (s *collection) body(stored []byte) (value []byte, ok bool) {
	if s.life == nil {
		return stored, true
	}
	value, ok, s.err = s.life.body(stored)
	return value, ok && s.err == nil
}

// ListState is a list of values a (key, namespace), in the order in which they were added.
type ListState[T any] struct {
	collection
	codec Codec[T]
	visit func(v T) bool // of the Get that runs
	// scan is decodes's method value, made once: a closure a call would be an allocation a call.
	scan func(key, value []byte) bool
}

// NewList makes or finds the list state called name.
func NewList[T any](c *Context, name string, codec Codec[T], opts ...StateOption) (*ListState[T], error) {
	base, err := newCollection(c, name, List, opts)
	if err != nil {
		return nil, err
	}
	s := &ListState[T]{collection: base, codec: codec}
	s.scan = s.decode
	return s, nil
}

func (s *ListState[T]) decode(_, stored []byte) bool {
	value, ok := s.body(stored)
	if !ok {
		return s.err == nil
	}
	v, err := s.codec.Decode(value)
	if err != nil {
		s.err = fmt.Errorf("state %q: %w", s.name, err)
		return false
	}
	return s.visit(v)
}

// Get calls f for each element of the current key and namespace, in order, until f returns false. What refers to bytes is
// borrowed during the call. f must neither write, nor set the key, nor read the same state.
func (s *ListState[T]) Get(f func(v T) bool) error {
	a, err := s.c.addr(s.id)
	if err != nil {
		return err
	}
	s.visit, s.err = f, nil
	err = s.c.keyed.Scan(a.State, a.Group, a.Key, s.scan)
	s.visit = nil
	if err != nil {
		return err
	}
	return s.err
}

// Add puts v at the end of the list of the current key and namespace.
func (s *ListState[T]) Add(v T) error {
	a, err := s.c.addr(s.id)
	if err != nil {
		return err
	}
	s.c.val = s.c.val[:0]
	if s.life != nil {
		if s.c.val, err = s.life.head(s.c.val); err != nil {
			return err
		}
	}
	s.c.val = s.codec.Append(s.c.val, v)
	return s.append(a, s.c.val)
}

// append puts a stored value at the end of the list at a. It uses the elem buffer.
func (s *ListState[T]) append(a Addr, stored []byte) error {
	position, err := s.c.keyed.Append(a, stored)
	if err != nil || s.life == nil {
		return err
	}
	s.c.elem = binary.BigEndian.AppendUint64(append(s.c.elem[:0], a.Key...), position)
	a.Key = s.c.elem
	return s.life.enter(a, stored)
}

// Replace makes vs the whole list of the current key and namespace. vs must not be borrowed from the backend.
func (s *ListState[T]) Replace(vs []T) error {
	if err := s.Clear(); err != nil {
		return err
	}
	for _, v := range vs {
		if err := s.Add(v); err != nil {
			return err
		}
	}
	return nil
}

// Merge moves the elements of the current key in the source namespaces, in the order given, to the end of the list in
// target. They keep the rest of their time to live.
func (s *ListState[T]) Merge(target []byte, sources ...[]byte) error {
	s.c.merge = s.c.merge[:0]
	for _, ns := range sources {
		if string(ns) == string(target) {
			continue
		}
		a, err := s.c.inNamespace(s.id, ns)
		if err != nil {
			return err
		}
		err = s.c.keyed.Scan(a.State, a.Group, a.Key, func(_, value []byte) bool {
			s.c.merge = append(binary.AppendUvarint(s.c.merge, uint64(len(value))), value...)
			return true
		})
		if err != nil {
			return err
		}
		if err := s.clear(a); err != nil {
			return err
		}
	}
	for rest := s.c.merge; len(rest) > 0; {
		value, tail, err := splitPrefixed(rest)
		if err != nil {
			return err
		}
		a, err := s.c.inNamespace(s.id, target)
		if err != nil {
			return err
		}
		if err := s.append(a, value); err != nil {
			return err
		}
		rest = tail
	}
	return nil
}

// MapState is a map a (key, namespace).
type MapState[K, V any] struct {
	collection
	keys   Codec[K]
	values Codec[V]
	skip   int // length of the prefix of the Range that runs
	visit  func(k K, v V) bool
	scan   func(key, value []byte) bool // as in ListState
}

// NewMap makes or finds the map state called name.
func NewMap[K, V any](c *Context, name string, keys Codec[K], values Codec[V], opts ...StateOption) (*MapState[K, V], error) {
	base, err := newCollection(c, name, Map, opts)
	if err != nil {
		return nil, err
	}
	s := &MapState[K, V]{collection: base, keys: keys, values: values}
	s.scan = s.decode
	return s, nil
}

// at is the place of map key k of the current key and namespace.
func (s *MapState[K, V]) at(k K) (Addr, error) {
	a, err := s.c.addr(s.id)
	if err != nil {
		return a, err
	}
	s.c.elem = s.keys.Append(append(s.c.elem[:0], a.Key...), k)
	a.Key = s.c.elem
	return a, nil
}

// Get returns the value under k; ok is false when there is none. What refers to bytes is borrowed until the next write to
// any state of the context.
func (s *MapState[K, V]) Get(k K) (v V, ok bool, err error) {
	a, err := s.at(k)
	if err != nil {
		return v, false, err
	}
	b, ok, err := s.c.keyed.Get(a)
	if err == nil && ok && s.life != nil {
		b, ok, err = s.life.read(a, b)
	}
	if err != nil || !ok {
		return v, false, err
	}
	if v, err = s.values.Decode(b); err != nil {
		return v, false, fmt.Errorf("state %q: %w", s.name, err)
	}
	return v, true, nil
}

// Put stores v under k.
func (s *MapState[K, V]) Put(k K, v V) error {
	a, err := s.at(k)
	if err != nil {
		return err
	}
	if s.life == nil {
		s.c.val = s.values.Append(s.c.val[:0], v)
		return s.c.keyed.Put(a, s.c.val)
	}
	if s.c.val, err = s.life.head(s.c.val[:0]); err != nil {
		return err
	}
	s.c.val = s.values.Append(s.c.val, v)
	return s.life.put(a, s.c.val)
}

// Remove removes the entry under k, if there is one.
func (s *MapState[K, V]) Remove(k K) error {
	a, err := s.at(k)
	if err != nil {
		return err
	}
	if s.life != nil {
		if err := s.life.leave(a); err != nil {
			return err
		}
	}
	return s.c.keyed.Delete(a)
}

func (s *MapState[K, V]) decode(key, stored []byte) bool {
	value, ok := s.body(stored)
	if !ok {
		return s.err == nil
	}
	k, err := s.keys.Decode(key[s.skip:])
	if err != nil {
		s.err = fmt.Errorf("state %q, map key: %w", s.name, err)
		return false
	}
	v, err := s.values.Decode(value)
	if err != nil {
		s.err = fmt.Errorf("state %q: %w", s.name, err)
		return false
	}
	return s.visit(k, v)
}

// Range calls f for each entry of the current key and namespace, in byte order of the encoded map keys, until f returns
// false. What refers to bytes is borrowed during the call. f must neither write, nor set the key, nor range over the same state.
func (s *MapState[K, V]) Range(f func(k K, v V) bool) error {
	a, err := s.c.addr(s.id)
	if err != nil {
		return err
	}
	s.visit, s.skip, s.err = f, len(a.Key), nil
	err = s.c.keyed.Scan(a.State, a.Group, a.Key, s.scan)
	s.visit = nil
	if err != nil {
		return err
	}
	return s.err
}
