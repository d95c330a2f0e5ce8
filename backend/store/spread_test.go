package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/storetest"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

func TestSpreadConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Bucket { return store.WithSpread(store.NewMem(), 5) },
		storetest.Options{Strict: true, Taken: len("00/"), Big: 1 << 20, Races: 5, Racers: 3})
}

// TestD21KeysAreSpread (docs/known-faults.md): 400 puts of data objects in two seconds pass where one prefix takes 40 a second, once
// their keys are spread; each prefix gets its part, and what is no data object stays where it can be found.
func TestD21KeysAreSpread(t *testing.T) {
	for _, n := range []int{0, 16} {
		inSim(t, 1, func(ctx context.Context, w world.World) {
			m := store.NewMem()
			refused := 0
			b := store.WithSpread(store.WithLatencyModel(m, w, store.Latency{WriteRate: 40}), n)
			for i := range 400 {
				key := fmt.Sprintf("log/1/worker-%d/%08d.seg", i%4, i)
				if i%2 == 1 {
					key = fmt.Sprintf("base/1/count-%d/%d", i%4, i)
				}
				if err := b.Put(ctx, key, []byte("x"), store.PutOptions{}); err != nil {
					refused++
				}
				w.Sleep(ctx, 5*ms)
			}
			if n == 0 && refused < 100 || n > 0 && refused > 0 {
				t.Errorf("spread over %d, %d are refused", n, refused)
			}
			for _, key := range []string{"meta/1-1", "coord/1", "savepoint/1/base/0", "run"} {
				if err := b.Put(ctx, key, nil, store.PutOptions{}); err != nil {
					t.Error(err)
				}
				if _, err := m.Stat(ctx, key); err != nil {
					t.Errorf("%s has moved: %v", key, err)
				}
			}
			count := map[string]int{}
			for a, err := range m.List(ctx, "", "") {
				if err != nil {
					t.Fatal(err)
				}
				if prefix, rest, _ := strings.Cut(a.Key, "/"); strings.HasPrefix(rest, "log/") || strings.HasPrefix(rest, "base/") && prefix != "savepoint" {
					count[prefix]++
				}
			}
			if len(count) != n {
				t.Errorf("%d prefixes: %v", len(count), count)
			}
		})
	}
}

// TestSpreadIsFoundInAMarker: what a line says is read again, and what is none is damage.
func TestSpreadIsFoundInAMarker(t *testing.T) {
	for _, n := range []int{0, 2, 256} {
		if got, err := store.SpreadOf([]byte("run a, arm b, seed 1\n" + store.SpreadLine(n))); got != n || err != nil {
			t.Errorf("%d is read as %d, %v", n, got, err)
		}
	}
	for _, text := range []string{"spread 1\n", "spread 257", "spread many\n"} {
		if n, err := store.SpreadOf([]byte(text)); err == nil {
			t.Errorf("%q is read as %d", text, n)
		}
	}
}

// TestSpreadKeepsOutcomes: the trace of a bulk delete tells the outcome of each key, though they are called otherwise below.
func TestSpreadKeepsOutcomes(t *testing.T) {
	inSim(t, 1, func(ctx context.Context, w world.World) {
		var rows []history.Request
		b := store.WithTrace(store.WithSpread(store.WithLatencyModel(store.NewMem(), w, store.Latency{WriteRate: 1}), 4), func(r history.Request) { rows = append(rows, r) }, w)
		keys := []string{"log/1", "log/2", "meta/1"}
		b.Delete(ctx, keys)
		b.Delete(ctx, keys)
		want := []history.Applied{history.AppliedYes, history.AppliedYes, history.AppliedYes, history.AppliedNo, history.AppliedNo, history.AppliedNo}
		if len(rows) != len(want) {
			t.Fatalf("%d rows: %+v", len(rows), rows)
		}
		for i, r := range rows {
			if r.Key != keys[i%3] || r.Applied != want[i] {
				t.Errorf("row %d is %+v, want %s of %s", i, r, want[i], keys[i%3])
			}
		}
	})
}
