package store

import (
	"context"
	"iter"

	"statebench.dev/bench/internal/history"
)

// Hooks are called by the process that makes a request, where triggers and failpoints act; either may be nil. They may
// kill that process, and must not use the bucket.
type Hooks struct {
	// Begin runs before the request reaches the bucket below, End once its answer is there.
	Begin func(ctx context.Context, c Call)
	End   func(ctx context.Context, c Call, err error)
}

type hooked struct {
	in Bucket
	h  Hooks
}

var _ Bucket = (*hooked)(nil)

// WithHooks returns b with h around each request, each key of a bulk delete being one. Close is no request.
func WithHooks(b Bucket, h Hooks) Bucket { return &hooked{in: b, h: h} }

func (h *hooked) begin(ctx context.Context, c Call) {
	if h.h.Begin != nil {
		h.h.Begin(ctx, c)
	}
}

func (h *hooked) end(ctx context.Context, c Call, err error) {
	if h.h.End != nil {
		h.h.End(ctx, c, err)
	}
}

func (h *hooked) Put(ctx context.Context, key string, body []byte, o PutOptions) error {
	c := Call{Op: history.OpPut, Key: key, Bytes: int64(len(body)), IfNotExist: o.IfNotExist}
	h.begin(ctx, c)
	err := h.in.Put(ctx, key, body, o)
	h.end(ctx, c, err)
	return err
}

func (h *hooked) Get(ctx context.Context, key string) ([]byte, error) {
	c := Call{Op: history.OpGet, Key: key}
	h.begin(ctx, c)
	body, err := h.in.Get(ctx, key)
	c.Bytes = int64(len(body))
	h.end(ctx, c, err)
	return body, err
}

func (h *hooked) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	c := Call{Op: history.OpGet, Key: key}
	h.begin(ctx, c)
	body, err := h.in.GetRange(ctx, key, off, n)
	c.Bytes = int64(len(body))
	h.end(ctx, c, err)
	return body, err
}

func (h *hooked) Stat(ctx context.Context, key string) (Attributes, error) {
	c := Call{Op: history.OpStat, Key: key}
	h.begin(ctx, c)
	a, err := h.in.Stat(ctx, key)
	h.end(ctx, c, err)
	return a, err
}

func (h *hooked) List(ctx context.Context, prefix, startAfter string) iter.Seq2[Attributes, error] {
	return func(yield func(Attributes, error) bool) {
		c := Call{Op: history.OpList, Key: prefix}
		h.begin(ctx, c)
		var last error
		for a, err := range h.in.List(ctx, prefix, startAfter) {
			last = err
			if !yield(a, err) {
				break
			}
		}
		h.end(ctx, c, last)
	}
}

func (h *hooked) Delete(ctx context.Context, keys []string) []Deleted {
	for _, key := range keys {
		h.begin(ctx, Call{Op: history.OpDelete, Key: key})
	}
	out := h.in.Delete(ctx, keys)
	for _, d := range out {
		h.end(ctx, Call{Op: history.OpDelete, Key: d.Key}, d.Err)
	}
	return out
}

func (h *hooked) Uploads(ctx context.Context, prefix string) ([]Upload, error) {
	c := Call{Op: history.OpUploads, Key: prefix}
	h.begin(ctx, c)
	out, err := h.in.Uploads(ctx, prefix)
	h.end(ctx, c, err)
	return out, err
}

func (h *hooked) AbortUpload(ctx context.Context, u Upload) error {
	c := Call{Op: history.OpAbort, Key: u.Key}
	h.begin(ctx, c)
	err := h.in.AbortUpload(ctx, u)
	h.end(ctx, c, err)
	return err
}

func (h *hooked) Close() error { return h.in.Close() }
