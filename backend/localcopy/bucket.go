package localcopy

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/world"
)

// bucket is a worker's bucket that copies what it puts and reads what is restored from the copies.
type bucket struct {
	store.Bucket
	c *copies
}

var _ store.Bucket = (*bucket)(nil)

// tally counts what one Open read of the objects that its worker restores.
type tally struct{ bytes, hits, misses atomic.Int64 }

type tallyKey struct{}

func withTally(ctx context.Context, t *tally) context.Context {
	return context.WithValue(ctx, tallyKey{}, t)
}

func tallyOf(ctx context.Context) *tally {
	if t, ok := ctx.Value(tallyKey{}).(*tally); ok {
		return t
	}
	return &tally{}
}

// ofState tells whether an object may be restored from: savepoints are not, they outlive the job.
func ofState(key string) bool {
	return strings.HasPrefix(key, checkpoint.LogPrefix) || strings.HasPrefix(key, checkpoint.BasePrefix)
}

// Put implements store.Bucket. It returns when the copy has ended too, since body is the caller's then.
func (b *bucket) Put(ctx context.Context, key string, body []byte, o store.PutOptions) error {
	if !ofState(key) || !b.c.reserve(key, sizeOf(int64(len(body)))) {
		return b.Bucket.Put(ctx, key, body, o)
	}
	copying := world.NewGroup(b.c.e.World)
	copying.Go(ctx, "local-copy "+key, func(ctx context.Context) error { return b.copy(ctx, key, body) })
	err := b.Bucket.Put(ctx, key, body, o)
	copied := copying.Wait(ctx)
	b.c.made(key)
	if copied != nil || err != nil {
		b.c.drop(key)
		if copied != nil && ctx.Err() == nil {
			b.c.failed(ctx, key, copied)
		}
	}
	return err
}

// copy makes the copy of an object between the two failpoints of that stage.
func (b *bucket) copy(ctx context.Context, key string, body []byte) error {
	points, who := b.c.e.Failpoints, b.c.e.Worker
	err := points.Hit(ctx, failpoint.CheckpointLocalCopyBegin, who)
	if err == nil {
		err = b.c.write(ctx, key, body)
	}
	if err == nil {
		err = points.Hit(ctx, failpoint.CheckpointLocalCopyEnd, who)
	}
	return err
}

// Get implements store.Bucket.
func (b *bucket) Get(ctx context.Context, key string) ([]byte, error) {
	want, ok := b.c.wanted[key]
	if !ok {
		return b.Bucket.Get(ctx, key)
	}
	return b.read(ctx, key, 0, want.bytes, func() ([]byte, error) { return b.Bucket.Get(ctx, key) })
}

// GetRange implements store.Bucket.
func (b *bucket) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	far := func() ([]byte, error) { return b.Bucket.GetRange(ctx, key, off, n) }
	if _, ok := b.c.wanted[key]; !ok {
		return far()
	}
	return b.read(ctx, key, off, n, far)
}

// read reads from the copy, or by far where that does not do.
func (b *bucket) read(ctx context.Context, key string, off, n int64, far func() ([]byte, error)) ([]byte, error) {
	t := tallyOf(ctx)
	body, err := b.c.read(ctx, key, off, n)
	if err == nil {
		t.hits.Add(1)
		t.bytes.Add(int64(len(body)))
		return body, nil
	}
	t.misses.Add(1)
	if !errors.Is(err, fs.ErrNotExist) {
		b.c.spoiled(ctx, key, err)
	}
	return far()
}

// Delete implements store.Bucket.
func (b *bucket) Delete(ctx context.Context, keys []string) []store.Deleted {
	for _, key := range keys {
		b.c.drop(key)
	}
	return b.Bucket.Delete(ctx, keys)
}
