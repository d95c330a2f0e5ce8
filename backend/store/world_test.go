package store_test

import (
	"context"
	"testing"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// inSim runs f as the main process of a simulated world.
func inSim(t testing.TB, seed uint64, f func(ctx context.Context, w world.World)) {
	t.Helper()
	w := world.NewSim(world.SimOptions{Seed: seed})
	if err := w.Run(func(ctx context.Context) error { f(ctx, w); return nil }); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
}

// rows collects a trace in a simulated world.
type rows []history.Request

func (r *rows) add(q history.Request) { *r = append(*r, q) }

func (r *rows) last(t testing.TB) history.Request {
	t.Helper()
	if len(*r) == 0 {
		t.Fatal("no row was written")
	}
	return (*r)[len(*r)-1]
}

func rule(t testing.TB, text string) store.Rule {
	t.Helper()
	r, err := store.ParseRule(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const ms = time.Millisecond
