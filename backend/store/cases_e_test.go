package store_test

import (
	"context"
	"testing"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// TestE05AttemptsAreNoCalls (docs/known-faults.md): the third attempt wins, after one that had no answer and one that was refused: one call, three
// attempts, no call that failed.
func TestE05AttemptsAreNoCalls(t *testing.T) {
	retried(t, five, []string{"op=put request=1 timeout", "op=put request=2 status=503"},
		func(ctx context.Context, _ world.World, b *store.Retrying, m *store.Mem, _ *store.Injector) {
			if err := b.Put(ctx, "log/1", []byte("x"), store.PutOptions{}); err != nil {
				t.Fatal(err)
			}
			n := b.Counts()
			if n.Requests != 1 || n.Attempts != 3 || n.Retries() != 2 || n.Timeouts != 1 || n.Throttled != 1 || n.GivenUp != 0 {
				t.Errorf("%+v", n)
			}
			if _, err := m.Stat(ctx, "log/1"); err != nil {
				t.Error(err)
			}
		})
}
