package dstl_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/backend/dstl/dstltest"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// shelf is the storage of the guide: a table of segments that no worker owns. What a real one sends to a server, it puts into a map.
type shelf struct {
	mu       *world.Mutex // no waiting inside
	segments map[string][]byte
}

// openShelf is a dstl.StorageOpener.
func openShelf(_ context.Context, e dstl.StorageEnv) (dstl.Storage, error) {
	return &shelf{mu: world.NewMutex(e.World), segments: map[string][]byte{}}, nil
}

// ready is what every call begins with: wrong keys and callers that have given up.
func (s *shelf) ready(ctx context.Context, key string) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (s *shelf) Put(ctx context.Context, key string, body []byte) error {
	if err := s.ready(ctx, key); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.segments[key]; ok && !bytes.Equal(old, body) {
		return fmt.Errorf("put %q: %w", key, store.ErrOverwrite)
	}
	s.segments[key] = bytes.Clone(body) // body is the caller's again as soon as Put returns
	return nil
}

func (s *shelf) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	if err := s.ready(ctx, key); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	body, ok := s.segments[key]
	if !ok {
		return nil, fmt.Errorf("get %q: %w", key, store.ErrNotExist)
	}
	off = min(off, int64(len(body)))
	return bytes.Clone(body[off:][:min(n, int64(len(body))-off)]), nil
}

func (s *shelf) Stat(ctx context.Context, key string) (store.Attributes, error) {
	if err := s.ready(ctx, key); err != nil {
		return store.Attributes{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	body, ok := s.segments[key]
	if !ok {
		return store.Attributes{}, fmt.Errorf("stat %q: %w", key, store.ErrNotExist)
	}
	return store.Attributes{Key: key, Size: int64(len(body))}, nil
}

func (s *shelf) List(_ context.Context, prefix, startAfter string) iter.Seq2[store.Attributes, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []store.Attributes
	for key, body := range s.segments { // order-free: sorted below
		if strings.HasPrefix(key, prefix) && key > startAfter {
			all = append(all, store.Attributes{Key: key, Size: int64(len(body))})
		}
	}
	slices.SortFunc(all, func(a, b store.Attributes) int { return strings.Compare(a.Key, b.Key) })
	return func(yield func(store.Attributes, error) bool) {
		for _, a := range all {
			if !yield(a, nil) {
				return
			}
		}
	}
}

func (s *shelf) Delete(ctx context.Context, keys []string) []store.Deleted {
	out := make([]store.Deleted, len(keys))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, key := range keys {
		out[i] = store.Deleted{Key: key, Err: s.ready(ctx, key)}
		if out[i].Err == nil {
			delete(s.segments, key)
		}
	}
	return out
}

func (s *shelf) Close(context.Context) error { return nil }

// TestShelf: the example of docs/changelog-storage.md passes the suite that every storage must.
func TestShelf(t *testing.T) { dstltest.RunStorage(t, openShelf, dstltest.Traits{}) }

// ExampleOver shows one bucket for all that reads checkpoints, with the log elsewhere.
func ExampleOver() {
	w := world.NewSim(world.SimOptions{Seed: 1})
	err := w.Run(func(ctx context.Context) error {
		objects := store.NewMem()
		log, err := openShelf(ctx, dstl.StorageEnv{World: w, Store: objects})
		if err != nil {
			return err
		}
		both := dstl.Over(objects, log)
		for _, key := range []string{"meta/1", "log/1/worker-0/00000000.seg", "base/1/count-0/1"} {
			if err := both.Put(ctx, key, []byte(key), store.PutOptions{}); err != nil {
				return err
			}
		}
		for a, err := range both.List(ctx, "", "") {
			fmt.Println(a.Key, err)
		}
		fmt.Println("in the object store:", objects.Stats().Objects)
		return log.Close(ctx)
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// base/1/count-0/1 <nil>
	// log/1/worker-0/00000000.seg <nil>
	// meta/1 <nil>
	// in the object store: 2
}
