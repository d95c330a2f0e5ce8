// Package memory is a changelog storage for tests: segments lie in the memory of the worker that put them, and are gone once it
// crashes. A job whose worker crashes cannot be restored from checkpoints with a log.
package memory

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/tidwall/btree"

	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// page is the number of entries that a listing takes under one lock.
const page = 1000

// segment is what one worker holds.
type segment struct {
	body  []byte
	owner *world.Domain // nil: put by nobody who can die
}

func (s segment) lost() bool { return s.owner != nil && s.owner.Dead() }

type storage struct {
	mu       *world.Mutex
	segments btree.Map[string, segment]
}

var _ dstl.Storage = (*storage)(nil)

// Open returns an empty storage.
func Open(_ context.Context, e dstl.StorageEnv) (dstl.Storage, error) {
	return &storage{mu: world.NewMutex(e.World)}, nil
}

// check is what every call begins with.
func check(ctx context.Context, key string) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// find returns a segment that is there, with mu held; one of a dead worker is dropped.
func (m *storage) find(key string) (segment, bool) {
	s, ok := m.segments.Get(key)
	if ok && s.lost() {
		m.segments.Delete(key)
		ok = false
	}
	return s, ok
}

// Put implements dstl.Storage: the segment belongs to the domain of ctx.
func (m *storage) Put(ctx context.Context, key string, body []byte) error {
	if err := check(ctx, key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch old, ok := m.find(key); {
	case ok && bytes.Equal(old.body, body):
		return nil
	case ok:
		return fmt.Errorf("put %q, %d bytes over %d: %w", key, len(body), len(old.body), store.ErrOverwrite)
	}
	m.segments.Set(strings.Clone(key), segment{body: bytes.Clone(body), owner: world.DomainOf(ctx)})
	return nil
}

func (m *storage) get(ctx context.Context, op, key string) ([]byte, error) {
	if err := check(ctx, key); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.find(key)
	if !ok {
		return nil, fmt.Errorf("%s %q: no worker that is alive holds it: %w", op, key, store.ErrNotExist)
	}
	return s.body, nil
}

// GetRange implements dstl.Storage.
func (m *storage) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	body, err := m.get(ctx, "get", key)
	if err != nil {
		return nil, err
	}
	off = min(off, int64(len(body)))
	return append([]byte{}, body[off:off+min(n, int64(len(body))-off)]...), nil
}

// Stat implements dstl.Storage.
func (m *storage) Stat(ctx context.Context, key string) (store.Attributes, error) {
	body, err := m.get(ctx, "stat", key)
	if err != nil {
		return store.Attributes{}, err
	}
	return store.Attributes{Key: key, Size: int64(len(body))}, nil
}

// List implements dstl.Storage.
func (m *storage) List(ctx context.Context, prefix, startAfter string) iter.Seq2[store.Attributes, error] {
	return func(yield func(store.Attributes, error) bool) {
		for after, more := startAfter, true; more; {
			if ctx.Err() != nil {
				yield(store.Attributes{}, context.Cause(ctx))
				return
			}
			var some []store.Attributes
			some, after, more = m.page(prefix, after)
			for _, a := range some {
				if !yield(a, nil) {
					return
				}
			}
		}
	}
}

// page lists some segments behind after; last is where the next page begins.
func (m *storage) page(prefix, after string) (some []store.Attributes, last string, more bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	m.segments.Ascend(max(prefix, after), func(key string, s segment) bool {
		if key <= after && after != "" {
			return true
		}
		if !strings.HasPrefix(key, prefix) {
			return false
		}
		if !s.lost() {
			some = append(some, store.Attributes{Key: key, Size: int64(len(s.body))})
		}
		last, n = key, n+1
		return n < page
	})
	return some, last, n == page
}

// Delete implements dstl.Storage.
func (m *storage) Delete(ctx context.Context, keys []string) []store.Deleted {
	out := make([]store.Deleted, len(keys))
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, key := range keys {
		out[i] = store.Deleted{Key: key, Err: check(ctx, key)}
		if out[i].Err == nil {
			m.segments.Delete(key)
		}
	}
	return out
}

// Close implements dstl.Storage.
func (m *storage) Close(context.Context) error { return nil }
