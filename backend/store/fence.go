package store

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"statebench.dev/bench/internal/world"
)

type fenced struct {
	in    Bucket
	alive func(context.Context) error
}

var _ Bucket = (*fenced)(nil)

// WithFence returns b for one worker or one attempt. Before each request and again between its effect and its return, the
// process is unwound when its domain was killed, and the request fails with ErrFenced when alive returns an error; alive
// may be nil and must not block. Close does not close b, which others share.
func WithFence(b Bucket, alive func(ctx context.Context) error) Bucket {
	return &fenced{in: b, alive: alive}
}

func (f *fenced) check(ctx context.Context) error {
	world.CheckAlive(ctx)
	if f.alive == nil {
		return nil
	}
	switch err := f.alive(ctx); {
	case err == nil || errors.Is(err, ErrFenced):
		return err
	default:
		return fmt.Errorf("%w: %w", ErrFenced, err)
	}
}

// fence runs one request between two checks.
func fence[T any](ctx context.Context, f *fenced, do func() (T, error)) (T, error) {
	var zero T
	if err := f.check(ctx); err != nil {
		return zero, err
	}
	v, err := do()
	if ferr := f.check(ctx); ferr != nil {
		return zero, ferr
	}
	return v, err
}

func (f *fenced) Put(ctx context.Context, key string, body []byte, o PutOptions) error {
	_, err := fence(ctx, f, func() (struct{}, error) { return struct{}{}, f.in.Put(ctx, key, body, o) })
	return err
}

func (f *fenced) Get(ctx context.Context, key string) ([]byte, error) {
	return fence(ctx, f, func() ([]byte, error) { return f.in.Get(ctx, key) })
}

func (f *fenced) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	return fence(ctx, f, func() ([]byte, error) { return f.in.GetRange(ctx, key, off, n) })
}

func (f *fenced) Stat(ctx context.Context, key string) (Attributes, error) {
	return fence(ctx, f, func() (Attributes, error) { return f.in.Stat(ctx, key) })
}

func (f *fenced) List(ctx context.Context, prefix, startAfter string) iter.Seq2[Attributes, error] {
	return func(yield func(Attributes, error) bool) {
		if err := f.check(ctx); err != nil {
			yield(Attributes{}, err)
			return
		}
		for a, err := range f.in.List(ctx, prefix, startAfter) {
			if ferr := f.check(ctx); ferr != nil {
				yield(Attributes{}, ferr)
				return
			}
			if !yield(a, err) {
				return
			}
		}
		// An end must not be taken for the answer of a live listing either.
		if err := f.check(ctx); err != nil {
			yield(Attributes{}, err)
		}
	}
}

func (f *fenced) Delete(ctx context.Context, keys []string) []Deleted {
	out, err := fence(ctx, f, func() ([]Deleted, error) { return f.in.Delete(ctx, keys), nil })
	if err != nil {
		return deletedAll(keys, err)
	}
	return out
}

func (f *fenced) Uploads(ctx context.Context, prefix string) ([]Upload, error) {
	return fence(ctx, f, func() ([]Upload, error) { return f.in.Uploads(ctx, prefix) })
}

func (f *fenced) AbortUpload(ctx context.Context, u Upload) error {
	_, err := fence(ctx, f, func() (struct{}, error) { return struct{}{}, f.in.AbortUpload(ctx, u) })
	return err
}

func (f *fenced) Close() error { return nil }
