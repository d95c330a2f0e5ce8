package backendtest

import (
	"context"
	"fmt"

	"statebench.dev/bench/backend/store"
)

// failingBucket refuses puts while failing is set, as a store does that cannot be reached.
type failingBucket struct {
	store.Bucket
	failing bool
}

// Put implements store.Bucket.
func (b *failingBucket) Put(ctx context.Context, key string, body []byte, o store.PutOptions) error {
	if b.failing {
		return fmt.Errorf("put %q: %w", key, store.ErrUnavailable)
	}
	return b.Bucket.Put(ctx, key, body, o)
}
