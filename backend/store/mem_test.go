package store_test

import (
	"context"
	"testing"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/storetest"
)

func TestMemConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Bucket { return store.NewMem() }, storetest.Options{Strict: true})
}

func TestPrefixConformance(t *testing.T) {
	for _, c := range []struct{ name, outside string }{{"beside", "rum/object"}, {"above", "run"}, {"the prefix itself", "run/"}} {
		t.Run(c.name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) store.Bucket {
				m := store.NewMem()
				t.Cleanup(func() {
					if got, err := m.Get(context.Background(), c.outside); string(got) != "kept" {
						t.Errorf("object outside of the prefix: %q, %v", got, err)
					}
				})
				if err := m.Put(t.Context(), c.outside, []byte("kept"), store.PutOptions{}); err != nil {
					t.Fatal(err)
				}
				return store.WithPrefix(m, "run/")
			}, storetest.Options{Strict: true, Taken: len("run/"), Big: 1 << 20, Races: 5, Racers: 3})
		})
	}
}

func TestMemCountsWhatACarefulProgramDoesNot(t *testing.T) {
	m := store.NewMem()
	put := func(key, body string) error {
		return m.Put(t.Context(), key, []byte(body), store.PutOptions{})
	}
	put("a", "1")
	put("a", "1")
	put("a", "22")
	put("b", "333")
	m.Delete(t.Context(), []string{"b", "b", "c"})
	want := store.MemStats{Objects: 1, Bytes: 1, UnknownDeletes: 2, Overwrites: 1, Repeats: 1}
	if got := m.Stats(); got != want {
		t.Errorf("Stats = %+v, want %+v", got, want)
	}
}
