package engine

import (
	"context"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// zombieBucket is a part of the planted bug accept-zombie: a put that is under way when its worker dies goes on.
type zombieBucket struct {
	store.Bucket
	world world.World
}

// Put runs the request in a process that belongs to no worker.
func (z zombieBucket) Put(ctx context.Context, key string, body []byte, o store.PutOptions) error {
	free, cancel := z.world.WithCancel(context.Background())
	put := world.NewGroup(z.world)
	put.Go(store.WithInfo(free, store.InfoOf(ctx)), "zombie-put", func(ctx context.Context) error {
		defer cancel(nil)
		return z.Bucket.Put(ctx, key, body, o)
	})
	return put.Wait(ctx)
}
