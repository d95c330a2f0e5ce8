package heap

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

func TestClassesFit(t *testing.T) {
	last := 0
	for units := 1; units <= maxUnits; units++ {
		c := classOf(units)
		if c < last || c > last+1 || c >= nClasses {
			t.Fatalf("%d units are of class %d, one less of %d", units, c, last)
		}
		if got := classUnits(c); got < units || c > 0 && classUnits(c-1) >= units || got > units+units/8+1 {
			t.Fatalf("%d units are of class %d with %d", units, c, got)
		}
		last = c
	}
}

func newTestArena() *arena {
	v := &versions{}
	v.init(world.NewSim(world.SimOptions{}))
	a := newArena(v)
	return &a
}

// Ordered tables are driven with many elements, so that leaves split, merge and go.
func TestOrderedTableIsASortedMap(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 0))
		a, tab, model := newTestArena(), &orderedTable{}, map[string]string{}
		for phase := range 6 {
			for i := range 8000 {
				key := fmt.Sprintf("%05d", r.IntN(20000))
				switch grow := phase%2 == 0; {
				case r.IntN(10) == 0 || grow:
					value := fmt.Sprint(i)
					if err := tab.put(a, []byte(key), []byte(value)); err != nil {
						t.Fatal(err)
					}
					model[key] = value
				case r.IntN(200) == 0:
					prefix := key[:3+r.IntN(2)]
					tab.deletePrefix(a, []byte(prefix))
					maps.DeleteFunc(model, func(k, _ string) bool { return strings.HasPrefix(k, prefix) })
				default:
					tab.delete(a, []byte(key))
					delete(model, key)
				}
				if i%2000 == 0 {
					defer a.versions.drop(a.versions.fix())
				}
			}
			compareOrdered(t, seed, a, tab, model)
			if n := len(tab.dir); n > 8 && len(model) < n*leafSize/8 {
				t.Errorf("seed %d: %d elements in %d leaves", seed, len(model), n)
			}
		}
	}
}

func compareOrdered(t *testing.T, seed uint64, a *arena, tab *orderedTable, model map[string]string) {
	t.Helper()
	want := slices.Sorted(maps.Keys(model))
	var got []string
	tab.scan(&a.memory, nil, func(key, value []byte) bool {
		got = append(got, string(key))
		if model[string(key)] != string(value) {
			t.Errorf("seed %d: key %s has %q, want %q", seed, key, value, model[string(key)])
		}
		return true
	})
	if !slices.Equal(got, want) || tab.count != len(want) || a.elements != int64(len(want)) {
		t.Fatalf("seed %d: %d keys, count %d, elements %d, want %d", seed, len(got), tab.count, a.elements, len(want))
	}
}

// Memory that snapshots gave back is used again: it does not grow with the number of snapshots.
func TestMemoryIsUsedAgain(t *testing.T) {
	inRealWorld(t, Options{}, func(ctx context.Context, k *keyed) {
		_, put := load(t, k, backend.Value, 20000)
		_, putOrdered := load(t, k, backend.Map, 20000)
		var chunks, leaves int
		for round := range 8 {
			s, err := k.Snapshot(ctx, uint64(round))
			if err != nil {
				t.Fatal(err)
			}
			for i := range uint64(20000) {
				put(i)
				putOrdered(i)
			}
			s.Release()
			if round == 2 {
				chunks, leaves = len(k.arena.chunks), len(k.arena.leaves)
			}
		}
		if len(k.arena.chunks) > chunks || len(k.arena.leaves) > leaves {
			t.Errorf("%d chunks and %d leaf chunks have become %d and %d", chunks, leaves, len(k.arena.chunks), len(k.arena.leaves))
		}
	})
}

// A steady state of typed operations allocates nothing.
func TestSteadyStateDoesNotAllocate(t *testing.T) {
	inRealWorld(t, Options{}, func(_ context.Context, k *keyed) {
		c := backend.NewContext(k)
		value, err1 := backend.NewValue[[]byte](c, "value", backend.Bytes{})
		list, err2 := backend.NewList(c, "list", backend.Int64{})
		counts, err3 := backend.NewMap(c, "map", backend.Int64{}, backend.Float64{})
		sum, err4 := backend.NewReducing(c, "sum", backend.Int64{}, func(a, b int64) int64 { return a + b })
		timers, err5 := backend.NewTimers(c, "timers")
		for _, err := range []error{err1, err2, err3, err4, err5} {
			if err != nil {
				t.Fatal(err)
			}
		}
		n := 0
		total := int64(0)
		add := func(v int64) bool { total += v; return true }
		addEntry := func(k int64, v float64) bool { total += k + int64(v); return true }
		body := make([]byte, 100)
		var failed error
		record := func() {
			n++
			key := [8]byte{7: byte(n)}
			c.SetKey(keygroup.ID(n%benchGroups), key[:])
			_, _, err := value.Get()
			failed = first(failed, err, value.Set(body[:50+n%50]), list.Add(int64(n)), list.Get(add), counts.Put(int64(n%10), 1))
			_, _, err = counts.Get(3)
			failed = first(failed, err, counts.Range(addEntry), counts.Remove(int64(n%7)), sum.Add(1), timers.Delete(int64(n-500)))
			_, err = timers.Register(int64(n))
			if failed = first(failed, err); n%1024 < 256 {
				failed = first(failed, list.Clear())
			}
		}
		const records = 10000
		many := func() {
			for range records {
				record()
			}
		}
		many()
		if allocs := testing.AllocsPerRun(1, many) / records; allocs > 0.01 || failed != nil {
			t.Errorf("%v allocations a record, %v", allocs, failed)
		}
	})
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
