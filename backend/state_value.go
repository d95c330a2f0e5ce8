package backend

import "fmt"

// slot is what the states with one value a (key, namespace) have in common.
type slot[T any] struct {
	c     *Context
	id    StateID
	name  string
	codec Codec[T]
	life  *expiry // nil: for ever
}

func newSlot[T any](c *Context, name string, t Type, codec Codec[T], opts []StateOption) (s slot[T], err error) {
	s = slot[T]{c: c, name: name, codec: codec}
	s.id, s.life, err = c.open(name, t, opts)
	return s, err
}

// load returns the value at a. A read begins its time to live anew, where that is wanted.
func (s *slot[T]) load(a Addr, read bool) (v T, ok bool, err error) {
	b, ok, err := s.c.keyed.Get(a)
	switch {
	case err != nil || !ok || s.life == nil:
	case read:
		b, ok, err = s.life.read(a, b)
	default:
		b, ok, err = s.life.body(b)
	}
	if err != nil || !ok {
		return v, false, err
	}
	if v, err = s.codec.Decode(b); err != nil {
		return v, false, fmt.Errorf("state %q: %w", s.name, err)
	}
	return v, true, nil
}

func (s *slot[T]) get(read bool) (v T, ok bool, err error) {
	a, err := s.c.addr(s.id)
	if err != nil {
		return v, false, err
	}
	return s.load(a, read)
}

func (s *slot[T]) set(v T) error {
	a, err := s.c.addr(s.id)
	if err != nil {
		return err
	}
	return s.store(a, v)
}

func (s *slot[T]) store(a Addr, v T) (err error) {
	if s.life == nil {
		s.c.val = s.codec.Append(s.c.val[:0], v)
		return s.c.keyed.Put(a, s.c.val)
	}
	if s.c.val, err = s.life.head(s.c.val[:0]); err != nil {
		return err
	}
	s.c.val = s.codec.Append(s.c.val, v)
	return s.life.put(a, s.c.val)
}

// Clear removes the value of the current key and namespace.
func (s *slot[T]) Clear() error {
	a, err := s.c.addr(s.id)
	if err != nil {
		return err
	}
	return s.remove(a)
}

func (s *slot[T]) remove(a Addr) error {
	if s.life != nil {
		if err := s.life.leave(a); err != nil {
			return err
		}
	}
	return s.c.keyed.Delete(a)
}

// merged combines the values of the source namespaces, in the order given, onto that of target, stores the result there and
// removes the sources, which must be distinct. Only the result is written, so that a log of the writes can be replayed without the function.
func (s *slot[T]) merged(target []byte, sources [][]byte, combine func(a, b T) T) error {
	a, err := s.c.inNamespace(s.id, target)
	if err != nil {
		return err
	}
	sum, have, err := s.load(a, false)
	if err != nil {
		return err
	}
	for _, ns := range sources {
		if string(ns) == string(target) {
			continue
		}
		a, _ := s.c.inNamespace(s.id, ns)
		v, ok, err := s.load(a, false)
		switch {
		case err != nil:
			return err
		case ok && have:
			sum = combine(sum, v)
		case ok:
			sum, have = v, true
		}
	}
	if !have {
		return nil
	}
	a, _ = s.c.inNamespace(s.id, target)
	if err := s.store(a, sum); err != nil {
		return err
	}
	for _, ns := range sources {
		if string(ns) == string(target) {
			continue
		}
		a, _ := s.c.inNamespace(s.id, ns)
		if err := s.remove(a); err != nil {
			return err
		}
	}
	return nil
}

// ValueState is one value a (key, namespace).
type ValueState[T any] struct{ slot[T] }

// NewValue makes or finds the value state called name.
func NewValue[T any](c *Context, name string, codec Codec[T], opts ...StateOption) (*ValueState[T], error) {
	s, err := newSlot(c, name, Value, codec, opts)
	if err != nil {
		return nil, err
	}
	return &ValueState[T]{s}, nil
}

// Get returns the value of the current key and namespace; ok is false when there is none. What refers to bytes is
// borrowed until the next write to any state of the context.
func (s *ValueState[T]) Get() (v T, ok bool, err error) { return s.get(true) }

// Set replaces the value of the current key and namespace.
func (s *ValueState[T]) Set(v T) error { return s.set(v) }

// ReducingState is one value a (key, namespace), to which others are added by a function.
type ReducingState[T any] struct {
	slot[T]
	reduce func(a, b T) T
}

// NewReducing makes or finds the reducing state called name. reduce must be associative; it may return one of its
// arguments, changed or not, when T does not refer to bytes.
func NewReducing[T any](c *Context, name string, codec Codec[T], reduce func(a, b T) T, opts ...StateOption) (*ReducingState[T], error) {
	s, err := newSlot(c, name, Reducing, codec, opts)
	if err != nil {
		return nil, err
	}
	return &ReducingState[T]{s, reduce}, nil
}

// Get returns the reduced value of the current key and namespace; ok is false when nothing was added.
func (s *ReducingState[T]) Get() (v T, ok bool, err error) { return s.get(true) }

// Add reduces v onto the value of the current key and namespace.
func (s *ReducingState[T]) Add(v T) error {
	old, ok, err := s.get(false)
	if err != nil {
		return err
	}
	if ok {
		v = s.reduce(old, v)
	}
	return s.set(v)
}

// Merge reduces the values of the current key in the source namespaces onto that in target, and removes the sources.
func (s *ReducingState[T]) Merge(target []byte, sources ...[]byte) error {
	return s.merged(target, sources, s.reduce)
}

// Aggregate says how inputs become an accumulator and that a result. Functions must not change bytes they are given.
type Aggregate[In, Acc, Out any] struct {
	Create func() Acc
	Add    func(acc Acc, in In) Acc
	Result func(acc Acc) Out
	// Merge is needed by AggregatingState.Merge only.
	Merge func(a, b Acc) Acc
}

// AggregatingState is one accumulator a (key, namespace).
type AggregatingState[In, Acc, Out any] struct {
	slot[Acc]
	fn Aggregate[In, Acc, Out]
}

// NewAggregating makes or finds the aggregating state called name; codec is the accumulator's.
func NewAggregating[In, Acc, Out any](c *Context, name string, codec Codec[Acc], fn Aggregate[In, Acc, Out], opts ...StateOption) (*AggregatingState[In, Acc, Out], error) {
	s, err := newSlot(c, name, Aggregating, codec, opts)
	if err != nil {
		return nil, err
	}
	return &AggregatingState[In, Acc, Out]{s, fn}, nil
}

// Get returns the result for the current key and namespace; ok is false when nothing was added.
func (s *AggregatingState[In, Acc, Out]) Get() (out Out, ok bool, err error) {
	acc, ok, err := s.get(true)
	if err != nil || !ok {
		return out, false, err
	}
	return s.fn.Result(acc), true, nil
}

// Accumulator returns the accumulator of the current key and namespace; ok is false when nothing was added.
func (s *AggregatingState[In, Acc, Out]) Accumulator() (acc Acc, ok bool, err error) {
	return s.get(true)
}

// Add adds in to the accumulator of the current key and namespace.
func (s *AggregatingState[In, Acc, Out]) Add(in In) error {
	acc, ok, err := s.get(false)
	if err != nil {
		return err
	}
	if !ok {
		acc = s.fn.Create()
	}
	return s.set(s.fn.Add(acc, in))
}

// Merge combines the accumulators of the current key in the source namespaces onto that in target, and removes the
// sources. It needs Aggregate.Merge.
func (s *AggregatingState[In, Acc, Out]) Merge(target []byte, sources ...[]byte) error {
	if s.fn.Merge == nil {
		return fmt.Errorf("state %q: its aggregate cannot merge", s.name)
	}
	return s.merged(target, sources, s.fn.Merge)
}
