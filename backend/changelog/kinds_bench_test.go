package changelog_test

import (
	"encoding/binary"
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/backend/heap"
	"statebench.dev/bench/backend/lsm"
	"statebench.dev/bench/internal/keygroup"
)

// kindKeys is the number of keys that operations of BenchmarkKinds are spread over.
const kindKeys = 10_000

// kind is a kind of state and an operation on it; open returns the operation, to be called with the current key set and a number
// that grows.
type kind struct {
	name string
	open func(c *backend.Context) (func(n int64) error, error)
}

// kinds are those that BenchmarkKinds compares.
func kinds() []kind {
	value := func(op func(s *backend.ValueState[string], n int64) error, opts ...backend.StateOption) func(c *backend.Context) (func(int64) error, error) {
		return func(c *backend.Context) (func(int64) error, error) {
			s, err := backend.NewValue(c, "v", backend.String{}, opts...)
			return func(n int64) error { return op(s, n) }, err
		}
	}
	text := string(make([]byte, 100))
	set := func(s *backend.ValueState[string], _ int64) error { return s.Set(text) }
	update := func(s *backend.ValueState[string], _ int64) error {
		if _, _, err := s.Get(); err != nil {
			return err
		}
		return s.Set(text)
	}
	list := func(op func(s *backend.ListState[int64], n int64) error) func(c *backend.Context) (func(int64) error, error) {
		return func(c *backend.Context) (func(int64) error, error) {
			s, err := backend.NewList(c, "l", backend.Int64{})
			return func(n int64) error { return op(s, n) }, err
		}
	}
	table := func(op func(s *backend.MapState[int64, string], n int64) error) func(c *backend.Context) (func(int64) error, error) {
		return func(c *backend.Context) (func(int64) error, error) {
			s, err := backend.NewMap(c, "m", backend.Int64{}, backend.String{})
			return func(n int64) error { return op(s, n) }, err
		}
	}
	return []kind{
		{"value/set", value(set)},
		{"value/update", value(update)},
		{"value-ttl/update", value(update, backend.WithTTL(backend.TTL{After: 1 << 40, OnRead: true}))},
		{"list/add", list(func(s *backend.ListState[int64], n int64) error { return s.Add(n) })},
		{"list/replace", list(func(s *backend.ListState[int64], n int64) error { return s.Replace([]int64{n, n + 1, n + 2, n + 3}) })},
		{"map/put", table(func(s *backend.MapState[int64, string], n int64) error { return s.Put(n%8, text) })},
		{"map/put-remove", table(func(s *backend.MapState[int64, string], n int64) error {
			if err := s.Put(n%8, text); err != nil {
				return err
			}
			return s.Remove(n % 8)
		})},
		{"timer/register-delete", func(c *backend.Context) (func(int64) error, error) {
			s, err := backend.NewTimers(c, "t")
			return func(n int64) error {
				if _, err := s.Register(n); err != nil {
					return err
				}
				return s.Delete(n)
			}, err
		}},
	}
}

// BenchmarkKinds is one operation by kind of state, nested backend, and changelog off or on. The store keeps nothing, nothing is
// materialized: what differs between off and on is the log's part of the operation. make bench-changelog compares the two.
func BenchmarkKinds(b *testing.B) {
	for _, nested := range []struct {
		name string
		f    backend.Factory
	}{{heap.Name, heap.New(heap.Options{})}, {lsm.Name, lsm.New(lsm.Options{})}} {
		for _, log := range []string{"off", "on"} {
			f := nested.f
			if log == "on" {
				f = changelog.New(changelog.Options{Nested: nested.f, NestedName: nested.name, MaterializeOff: true})
			}
			for _, k := range kinds() {
				b.Run(k.name+"/backend="+nested.name+"/changelog="+log, func(b *testing.B) { benchKind(b, f, k) })
			}
		}
	}
}

func benchKind(b *testing.B, f backend.Factory, of kind) {
	benchKeyed(b, f, func(k backend.Keyed) (func(x uint64, n int64) error, error) {
		c := backend.NewContext(k)
		op, err := of.open(c)
		key := make([]byte, 8)
		return func(x uint64, n int64) error {
			i := (x >> 33) % kindKeys
			binary.BigEndian.PutUint64(key, i)
			c.SetKey(keygroup.ID(i%benchGroups), key)
			c.SetTime(n)
			return op(n)
		}, err
	})
}
