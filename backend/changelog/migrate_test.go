package changelog_test

import (
	"errors"
	"strings"
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/backend/heap"
	"statebench.dev/bench/backend/lsm"
)

// texts opens the state of the first version of a program, lengths that of the second.
func texts(s *sub) (*backend.Context, *backend.ValueState[string], error) {
	c := backend.NewContext(s.Keyed)
	v, err := backend.NewValue(c, "v", backend.String{}, backend.WithSchema("value", 1))
	return c, v, err
}

func lengths(s *sub) (*backend.Context, *backend.ValueState[int64], error) {
	c := backend.NewContext(s.Keyed)
	v, err := backend.NewValue(c, "v", backend.Int64{}, backend.WithSchema("value", 2, backend.Migration{From: 1, To: 2,
		Value: backend.Convert(backend.String{}, backend.Int64{}, func(s string) int64 { return int64(len(s)) })}))
	return c, v, err
}

// each calls f with every key in turn.
func each(s *sub, c *backend.Context, f func(n int)) {
	for n := range 200 {
		c.SetKey(s.Range().From, []byte{byte(n)})
		f(n)
	}
}

// TestMigrationIsNotLogged: what a migration rewrites is no change. The first checkpoint after it has a base of its own and none
// of the log of the old schema, also where another one was aborted before; the one after that has the changes since.
func TestMigrationIsNotLogged(t *testing.T) {
	for name, nested := range map[string]backend.Factory{heap.Name: heap.New(heap.Options{}), lsm.Name: lsm.New(lsm.Options{})} { // order-free: each alone
		simulate(t, func(r *rig) {
			f := changelog.New(changelog.Options{Nested: nested, NestedName: name, MaterializeOff: true})
			r.start(f)
			s := r.open(0, 1)
			c, old, err := texts(s)
			ok(err)
			each(s, c, func(n int) { ok(old.Set(strings.Repeat("x", n))) })
			h := s.checkpoint(1).Handle
			want(len(h.Base) == 0 && len(h.Delta) == 1, "%s: the handle is %+v", name, h)
			r.end(s)
			r.start(f)
			s = r.open(0, 1, h)
			c, now, err := lengths(s)
			ok(err)
			want(s.Gauges().UnsentBytes == 0, "%s: %d bytes to be logged", name, s.Gauges().UnsentBytes)
			aborted := s.begin(2)
			aborted.Release()
			ok(s.Aborted(r.worker.Ctx, 2))
			first := s.checkpoint(3).Handle
			want(len(first.Base) > 0 && len(first.Delta) == 0 && first.Materialization > 0, "%s: the first handle is %+v", name, first)
			c.SetKey(s.Range().From, []byte{7})
			ok(now.Set(-7))
			second := s.checkpoint(4)
			want(second.Handle.Base[0] == first.Base[0] && len(second.Handle.Delta) == 1 && second.Checkpointed < 200, "%s: the second is %+v", name, second)
			r.end(s)
			for i, h := range []backend.StateHandle{first, second.Handle} {
				r.start(f)
				s = r.open(0, 1, h)
				c, now, err = lengths(s)
				ok(err)
				each(s, c, func(n int) {
					v, there, err := now.Get()
					ok(err)
					want(there && v == int64(n) || i == 1 && n == 7 && v == -7, "%s: value %d is %d (%t)", name, n, v, there)
				})
				r.end(s)
			}
		})
	}
}

// TestMigrationComesFirst: once a snapshot was begun it is too late, since what that uploads is described as it was.
func TestMigrationComesFirst(t *testing.T) {
	simulate(t, func(r *rig) {
		r.start(factory(changelog.Options{}))
		s := r.open(0, 1)
		c, old, err := texts(s)
		ok(err)
		each(s, c, func(int) { ok(old.Set("text")) })
		h := s.checkpoint(1).Handle
		r.end(s)
		r.start(factory(changelog.Options{}))
		s = r.open(0, 1, h)
		s.checkpoint(2)
		_, _, err = lengths(s)
		want(err != nil && strings.Contains(err.Error(), "has begun a snapshot") && !errors.Is(err, backend.ErrSchema), "error %v", err)
		r.end(s)
	})
}
