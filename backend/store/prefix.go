package store

import (
	"context"
	"iter"
	"strings"
)

type prefixed struct {
	in     Bucket
	prefix string
}

var _ Bucket = (*prefixed)(nil)

// WithPrefix returns a bucket whose keys are those of b that begin with prefix, without it. The prefix is taken as it is:
// it should end in a slash. Close closes b.
func WithPrefix(b Bucket, prefix string) Bucket {
	if prefix == "" {
		return b
	}
	return &prefixed{in: b, prefix: prefix}
}

// full returns the key in the bucket below. An empty key stays empty, so that it is refused there.
func (p *prefixed) full(key string) string {
	if key == "" {
		return ""
	}
	return p.prefix + key
}

func (p *prefixed) Put(ctx context.Context, key string, body []byte, o PutOptions) error {
	return p.in.Put(ctx, p.full(key), body, o)
}

func (p *prefixed) Get(ctx context.Context, key string) ([]byte, error) {
	return p.in.Get(ctx, p.full(key))
}

func (p *prefixed) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	return p.in.GetRange(ctx, p.full(key), off, n)
}

func (p *prefixed) Stat(ctx context.Context, key string) (Attributes, error) {
	a, err := p.in.Stat(ctx, p.full(key))
	a.Key = strings.TrimPrefix(a.Key, p.prefix)
	return a, err
}

func (p *prefixed) List(ctx context.Context, prefix, startAfter string) iter.Seq2[Attributes, error] {
	return func(yield func(Attributes, error) bool) {
		// The prefix itself as startAfter hides an object of that very name, which would have an empty key here.
		for a, err := range p.in.List(ctx, p.prefix+prefix, p.prefix+startAfter) {
			a.Key = strings.TrimPrefix(a.Key, p.prefix)
			if !yield(a, err) {
				return
			}
		}
	}
}

func (p *prefixed) Delete(ctx context.Context, keys []string) []Deleted {
	full := make([]string, len(keys))
	for i, key := range keys {
		full[i] = p.full(key)
	}
	out := p.in.Delete(ctx, full)
	for i := range out {
		out[i].Key = keys[i]
	}
	return out
}

func (p *prefixed) Uploads(ctx context.Context, prefix string) ([]Upload, error) {
	out, err := p.in.Uploads(ctx, p.prefix+prefix)
	for i := range out {
		out[i].Key = strings.TrimPrefix(out[i].Key, p.prefix)
	}
	return out, err
}

func (p *prefixed) AbortUpload(ctx context.Context, u Upload) error {
	u.Key = p.full(u.Key)
	return p.in.AbortUpload(ctx, u)
}

func (p *prefixed) Close() error { return p.in.Close() }
