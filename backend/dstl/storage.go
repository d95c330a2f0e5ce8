package dstl

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// Prefix begins the keys of all segments.
const Prefix = "log/"

// Storage is where the segments of the logs of a run lie. The log above it, its batches, retries and ownership are the same for
// each of them; docs/changelog-storage.md is the guide to writing one, dstltest.RunStorage tries it.
//
// Keys begin with Prefix and are usable as those of store.Bucket; a key is put with one content only. Errors are those of
// package store. All methods may be called concurrently, by processes that are killed while they wait inside.
type Storage interface {
	// Put returns once body is durable and every later call sees it, also those of other workers. Putting the same once more
	// is no error; with other content it is store.ErrOverwrite. An error that leaves open whether the segment is there is
	// store.ErrAmbiguous; the log then puts its changes again under another key and deletes this one. It neither keeps nor
	// changes body, not even after ctx ended.
	Put(ctx context.Context, key string, body []byte) error
	// GetRange returns n bytes from off; a range that reaches past the end is cut there. What was damaged is store.ErrCorrupt.
	GetRange(ctx context.Context, key string, off, n int64) ([]byte, error)
	// Stat returns the size, or store.ErrNotExist.
	Stat(ctx context.Context, key string) (store.Attributes, error)
	// List yields the segments whose keys begin with prefix and are greater than startAfter, in byte order: the leader's clean-up
	// and audits find orphans by it. An error is yielded once and ends the sequence.
	List(ctx context.Context, prefix, startAfter string) iter.Seq2[store.Attributes, error]
	// Delete returns once the segments are gone for good, also those whose put was ambiguous; one answer a key in the order
	// given. A key that is not there is no error.
	Delete(ctx context.Context, keys []string) []store.Deleted
	// Close ends the storage's processes. What was put stays where it is durable.
	Close(ctx context.Context) error
}

// StorageEnv is what a storage of a run works with.
type StorageEnv struct {
	World world.World
	// Store is the run's object store.
	Store store.Bucket
	// Disk is a directory that survives workers, such as a network file system or a volume that is attached again: made by the
	// first use of it. All workers of a run share it.
	Disk world.Disk
}

// StorageOpener opens a storage. Processes that it starts under ctx belong to no worker, and end with Storage.Close at the latest.
type StorageOpener func(ctx context.Context, e StorageEnv) (Storage, error)

// OpenDFS keeps segments in the run's object store: storage dfs.
func OpenDFS(_ context.Context, e StorageEnv) (Storage, error) { return dfs{e.Store}, nil }

// dfs is a bucket as a storage.
type dfs struct{ b store.Bucket }

func (s dfs) Put(ctx context.Context, key string, body []byte) error {
	return s.b.Put(ctx, key, body, store.PutOptions{})
}

func (s dfs) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	return s.b.GetRange(ctx, key, off, n)
}

func (s dfs) Stat(ctx context.Context, key string) (store.Attributes, error) {
	return s.b.Stat(ctx, key)
}

func (s dfs) List(ctx context.Context, prefix, startAfter string) iter.Seq2[store.Attributes, error] {
	return s.b.List(ctx, prefix, startAfter)
}

func (s dfs) Delete(ctx context.Context, keys []string) []store.Deleted { return s.b.Delete(ctx, keys) }

func (s dfs) Close(context.Context) error { return nil }

// Over returns b with the keys under Prefix taken to s: what reads checkpoints, cleans up or audits sees one bucket, wherever the
// log lies. Close closes b only.
func Over(b store.Bucket, s Storage) store.Bucket {
	if d, ok := s.(dfs); ok && d.b == b {
		return b
	}
	return &beside{Bucket: b, s: s}
}

// beside is a bucket with a storage next to it.
type beside struct {
	store.Bucket
	s Storage
}

var _ store.Bucket = (*beside)(nil)

func ours(key string) bool { return strings.HasPrefix(key, Prefix) }

// Put implements store.Bucket. A segment cannot be put conditionally.
func (b *beside) Put(ctx context.Context, key string, body []byte, o store.PutOptions) error {
	switch {
	case !ours(key):
		return b.Bucket.Put(ctx, key, body, o)
	case o.IfNotExist:
		return fmt.Errorf("put %q: segments are not put conditionally: %w", key, store.ErrDenied)
	}
	return b.s.Put(store.WithInfo(ctx, o.Info), key, body)
}

// Get implements store.Bucket.
func (b *beside) Get(ctx context.Context, key string) ([]byte, error) {
	if !ours(key) {
		return b.Bucket.Get(ctx, key)
	}
	a, err := b.s.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	return b.s.GetRange(ctx, key, 0, a.Size)
}

// GetRange implements store.Bucket.
func (b *beside) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	if !ours(key) {
		return b.Bucket.GetRange(ctx, key, off, n)
	}
	return b.s.GetRange(ctx, key, off, n)
}

// Stat implements store.Bucket.
func (b *beside) Stat(ctx context.Context, key string) (store.Attributes, error) {
	if !ours(key) {
		return b.Bucket.Stat(ctx, key)
	}
	return b.s.Stat(ctx, key)
}

// errStop ends a listing whose caller has seen enough.
var errStop = errors.New("enough")

// List implements store.Bucket: the bucket's keys below Prefix, the storage's, the bucket's above.
func (b *beside) List(ctx context.Context, prefix, startAfter string) iter.Seq2[store.Attributes, error] {
	return func(yield func(store.Attributes, error) bool) {
		pass := func(all iter.Seq2[store.Attributes, error], ends func(key string) bool) error {
			for a, err := range all {
				switch {
				case err == nil && ends(a.Key):
					return nil
				case !yield(a, err):
					return errStop
				case err != nil:
					return err
				}
			}
			return nil
		}
		switch {
		case ours(prefix):
			_ = pass(b.s.List(ctx, prefix, startAfter), func(string) bool { return false }) // yielded
			return
		case !strings.HasPrefix(Prefix, prefix):
			_ = pass(b.Bucket.List(ctx, prefix, startAfter), func(string) bool { return false }) // yielded
			return
		}
		if pass(b.Bucket.List(ctx, prefix, startAfter), func(key string) bool { return key >= Prefix }) != nil {
			return
		}
		if pass(b.s.List(ctx, Prefix, startAfter), func(string) bool { return false }) != nil {
			return
		}
		_ = pass(b.Bucket.List(ctx, prefix, max(startAfter, prefixEnd)), func(string) bool { return false }) // yielded
	}
}

// prefixEnd is above all keys under Prefix.
const prefixEnd = Prefix + "\U0010FFFF\U0010FFFF"

// Delete implements store.Bucket.
func (b *beside) Delete(ctx context.Context, keys []string) []store.Deleted {
	out := make([]store.Deleted, len(keys))
	part := func(mine bool, del func(context.Context, []string) []store.Deleted) {
		var some []string
		var at []int
		for i, key := range keys {
			if ours(key) == mine {
				some, at = append(some, key), append(at, i)
			}
		}
		if len(some) == 0 {
			return
		}
		for j, d := range del(ctx, some) {
			out[at[j]] = d
		}
	}
	part(false, b.Bucket.Delete)
	part(true, b.s.Delete)
	return out
}

// Uploads implements store.Bucket; a storage has none.
func (b *beside) Uploads(ctx context.Context, prefix string) ([]store.Upload, error) {
	if ours(prefix) {
		return nil, nil
	}
	return b.Bucket.Uploads(ctx, prefix)
}
