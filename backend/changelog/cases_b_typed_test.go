package changelog_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/backend/heap"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
)

// typed is the states of one subtask that a random sequence of operations works on.
type typed struct {
	c     *backend.Context
	value *backend.ValueState[[]byte]
	list  *backend.ListState[[]byte]
	dict  *backend.MapState[string, []byte]
}

func newTyped(k backend.Keyed) *typed {
	s := &typed{c: backend.NewContext(k)}
	var err error
	s.value, err = backend.NewValue(s.c, "value", backend.Bytes{})
	ok(err)
	s.list, err = backend.NewList(s.c, "list", backend.Bytes{})
	ok(err)
	s.dict, err = backend.NewMap(s.c, "dict", backend.String{}, backend.Bytes{})
	ok(err)
	return s
}

// oddValue is nothing, empty, a zero byte, a short text or a megabyte.
func oddValue(rng *rand.Rand) []byte {
	switch rng.IntN(60) {
	case 0:
		return make([]byte, 1<<20)
	case 1, 2, 3, 4, 5, 6, 7, 8:
		return nil
	case 9, 10, 11, 12, 13, 14, 15, 16:
		return []byte{}
	case 17, 18, 19, 20:
		return []byte{0}
	}
	return fmt.Appendf(nil, "value %d", rng.IntN(1000))
}

// step makes one random operation and returns what it gave.
func (s *typed) step(rng *rand.Rand) (seen string) {
	key := rng.IntN(12)
	s.c.SetKey(keygroup.ID(key), fmt.Appendf(nil, "key %d", key))
	note := func(v []byte, found bool) { seen += fmt.Sprintf("%t %d %08x;", found, len(v), store.CRC32C(v)) }
	field := fmt.Sprint(rng.IntN(6))
	switch rng.IntN(14) {
	case 0, 1:
		ok(s.value.Set(oddValue(rng)))
	case 2:
		ok(s.value.Clear())
	case 3, 4:
		ok(s.list.Add(oddValue(rng)))
	case 5:
		ok(s.list.Replace([][]byte{oddValue(rng), {}, nil, oddValue(rng)}))
	case 6:
		ok(s.list.Clear())
	case 7, 8, 9:
		ok(s.dict.Put(field, oddValue(rng)))
	case 10:
		ok(s.dict.Remove(field))
	case 11: // what an iterator removes
		var fields []string
		ok(s.dict.Range(func(k string, v []byte) bool { fields = append(fields, k); note(v, true); return true }))
		for i, k := range fields {
			if i%2 == 0 {
				ok(s.dict.Remove(k))
			}
		}
	case 12:
		ok(s.dict.Clear())
	}
	v, found, err := s.value.Get()
	ok(err)
	note(v, found)
	v, found, err = s.dict.Get(field)
	ok(err)
	note(v, found)
	ok(s.list.Get(func(v []byte) bool { note(v, true); return true }))
	return seen
}

// dump is all that the states hold, lists in their order and without the positions, which may have gaps.
func dump(k backend.Keyed) (all []string) {
	for id, spec := range k.States() {
		for g := k.Range().From; g < k.Range().To; g++ {
			var part []string
			ok(k.Scan(backend.StateID(id), g, nil, func(key, value []byte) bool {
				if spec.Type == backend.List {
					key = key[:len(key)-8]
				}
				part = append(part, fmt.Sprintf("%s %d %q %d %08x", spec.Name, g, key, len(value), store.CRC32C(value)))
				return true
			}))
			if spec.Access == backend.Point {
				slices.Sort(part)
			}
			all = append(all, part...)
		}
	}
	return all
}

// TestB18LogTakesWhatTheBaseTakes: the same random operations on a backend alone and with a changelog, with values that are nothing,
// empty or large: what they give and what is restored are equal.
func TestB18LogTakesWhatTheBaseTakes(t *testing.T) {
	for seed := range uint64(6) {
		var seen, restored [3][]string
		for i, f := range []backend.Factory{heap.New(heap.Options{}), factory(changelog.Options{MaterializeOff: true}), factory(changelog.Options{Preemptive: 8 << 10})} {
			simulate(t, func(r *rig) {
				rng := rand.New(rand.NewPCG(seed, 1))
				var handles []backend.StateHandle
				for life := range uint64(3) {
					r.start(f)
					s := r.open(0, 1, handles...)
					if states := newTyped(s); life < 2 {
						for n := range 300 {
							seen[i] = append(seen[i], states.step(rng))
							if n == 150 {
								s.sleep(interval)
							}
						}
						handles = []backend.StateHandle{s.checkpoint(life + 1).Handle}
					}
					restored[i] = append(restored[i], dump(s)...)
					r.end(s)
				}
			})
			if len(restored[i]) == 0 || !slices.Equal(seen[i], seen[0]) || !slices.Equal(restored[i], restored[0]) {
				t.Errorf("seed %d: backend %d differs from the first, or %d elements are none", seed, i, len(restored[i]))
			}
		}
	}
}

// TestB17ReplayKnowsTheTimeToLive: a state with a time to live lies in the log alone when it is restored; what has expired stays away,
// and the rest expires when it would have.
func TestB17ReplayKnowsTheTimeToLive(t *testing.T) {
	simulate(t, func(r *rig) {
		f := factory(changelog.Options{MaterializeOff: true})
		ttl := backend.WithTTL(backend.TTL{After: 100})
		states := func(s *sub) (*backend.Context, *backend.MapState[string, int64]) {
			c := backend.NewContext(s)
			m, err := backend.NewMap(c, "mortal", backend.String{}, backend.Int64{}, ttl)
			ok(err)
			return c, m
		}
		r.start(f)
		s := r.open(0, 1)
		c, m := states(s)
		ok(c.Expire(0))
		for i, key := range []string{"early", "late"} {
			c.SetKey(3, []byte("key"))
			c.SetTime(int64(10 + 50*i))
			ok(m.Put(key, 7))
		}
		ever, err := backend.NewValue(c, "immortal", backend.Int64{})
		ok(err)
		ok(ever.Set(1))
		h := s.checkpoint(1).Handle
		want(len(h.Base) == 0 && len(h.Delta) > 0, "the handle has a base: %+v", h)
		r.end(s)
		r.start(f)
		s = r.open(0, 1, h)
		c, m = states(s)
		for _, at := range []struct {
			time        int64
			early, late bool
		}{{100, true, true}, {120, false, true}, {170, false, false}} {
			c.SetKey(3, []byte("key"))
			c.SetTime(at.time)
			for key, there := range map[string]bool{"early": at.early, "late": at.late} {
				_, found, err := m.Get(key)
				ok(err)
				want(found == there, "%s at %d: %t", key, at.time, found)
			}
		}
		ok(c.Expire(170))
		want(s.Gauges().Elements == 1, "%d elements outlived their time", s.Gauges().Elements-1)
		r.end(s)
		// A program that declares the state otherwise is refused, and told what both sides are.
		r.start(f)
		s = r.open(0, 1, h)
		_, plain := backend.NewMap(backend.NewContext(s), "mortal", backend.String{}, backend.Int64{})
		_, value := backend.NewValue(backend.NewContext(s), "mortal", backend.Int64{}, ttl)
		_, mortal := backend.NewValue(backend.NewContext(s), "immortal", backend.Int64{}, ttl)
		for want, err := range map[string]error{"stored with a time to live and is opened without": plain, "stored without a time to live and is opened with": mortal,
			"is of type map with access 2, not value with 1": value} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want one about %q", err, want)
			}
		}
		r.end(s)
	})
}
