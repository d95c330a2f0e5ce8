package store

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math"
	"sort"
	"strings"
	"sync"

	"github.com/tidwall/btree"
)

// memPage is the number of entries that a listing takes under one lock; between pages others may write, as on S3.
const memPage = 1000

// Mem is a strict bucket in memory. It is stricter than S3: an object that exists can be put again with the same content
// only, anything else is ErrOverwrite, and deletes of keys that do not exist are counted. It never waits, so it behaves
// the same in both worlds. The zero value is not usable; see NewMem.
type Mem struct {
	mu struct {
		sync.Mutex // held for map operations and copies only, never across a blocking call
		objects    btree.Map[string, []byte]
		uploads    map[string]memUpload
		begun      uint64
		stats      MemStats
	}
}

type memUpload struct {
	key  string
	part []byte
}

// MemStats counts what a Mem holds and what was done to it that a careful program does not do.
type MemStats struct {
	// Objects and Bytes are what is stored now, open uploads not included.
	Objects, Bytes int64
	// UnknownDeletes counts deletes of keys that did not exist at that moment, a repeated delete included.
	UnknownDeletes int64
	// Overwrites counts puts that were refused with ErrOverwrite, Repeats puts that found the same content there.
	Overwrites, Repeats int64
}

var (
	_ Bucket            = (*Mem)(nil)
	_ MultipartBeginner = (*Mem)(nil)
)

// NewMem returns an empty bucket.
func NewMem() *Mem {
	m := &Mem{}
	m.mu.uploads = map[string]memUpload{}
	return m
}

// Stats returns the counters.
func (m *Mem) Stats() MemStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.mu.stats
	s.Objects = int64(m.mu.objects.Len())
	return s
}

func ctxErr(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Put implements Bucket. It returns ErrOverwrite when key holds other content and IfNotExist is not set.
func (m *Mem) Put(ctx context.Context, key string, body []byte, o PutOptions) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	if err := ctxErr(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old, ok := m.mu.objects.Get(key)
	switch {
	case ok && o.IfNotExist:
		return fmt.Errorf("put %q: %w", key, ErrPrecondition)
	case ok && bytes.Equal(old, body):
		m.mu.stats.Repeats++
		return nil
	case ok:
		m.mu.stats.Overwrites++
		return fmt.Errorf("put %q, %d bytes over %d: %w", key, len(body), len(old), ErrOverwrite)
	}
	m.mu.objects.Set(strings.Clone(key), bytes.Clone(body))
	m.mu.stats.Bytes += int64(len(body))
	return nil
}

func (m *Mem) object(ctx context.Context, op, key string) ([]byte, error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	if err := ctxErr(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	body, ok := m.mu.objects.Get(key)
	if !ok {
		return nil, fmt.Errorf("%s %q: %w", op, key, ErrNotExist)
	}
	return body, nil
}

// Get implements Bucket.
func (m *Mem) Get(ctx context.Context, key string) ([]byte, error) {
	return m.GetRange(ctx, key, 0, math.MaxInt64)
}

// GetRange implements Bucket.
func (m *Mem) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	body, err := m.object(ctx, "get", key)
	if err != nil {
		return nil, err
	}
	off = min(off, int64(len(body)))
	return append([]byte{}, body[off:off+min(n, int64(len(body))-off)]...), nil
}

// Stat implements Bucket.
func (m *Mem) Stat(ctx context.Context, key string) (Attributes, error) {
	body, err := m.object(ctx, "stat", key)
	if err != nil {
		return Attributes{}, err
	}
	return Attributes{Key: key, Size: int64(len(body))}, nil
}

// List implements Bucket.
func (m *Mem) List(ctx context.Context, prefix, startAfter string) iter.Seq2[Attributes, error] {
	return func(yield func(Attributes, error) bool) {
		after := startAfter
		for {
			if err := ctxErr(ctx); err != nil {
				yield(Attributes{}, err)
				return
			}
			page := m.page(prefix, after)
			for _, a := range page {
				if !yield(a, nil) {
					return
				}
			}
			if len(page) < memPage {
				return
			}
			after = page[len(page)-1].Key
		}
	}
}

func (m *Mem) page(prefix, after string) []Attributes {
	m.mu.Lock()
	defer m.mu.Unlock()
	var page []Attributes
	m.mu.objects.Ascend(max(prefix, after), func(key string, body []byte) bool {
		if key <= after && after != "" {
			return true
		}
		if !strings.HasPrefix(key, prefix) {
			return false
		}
		page = append(page, Attributes{Key: key, Size: int64(len(body))})
		return len(page) < memPage
	})
	return page
}

// Delete implements Bucket.
func (m *Mem) Delete(ctx context.Context, keys []string) []Deleted {
	out := make([]Deleted, len(keys))
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, key := range keys {
		out[i].Key = key
		if out[i].Err = CheckKey(key); out[i].Err != nil {
			continue
		}
		if out[i].Err = ctxErr(ctx); out[i].Err != nil {
			continue
		}
		body, ok := m.mu.objects.Delete(key)
		if !ok {
			m.mu.stats.UnknownDeletes++
		}
		m.mu.stats.Bytes -= int64(len(body))
	}
	return out
}

// BeginUpload implements MultipartBeginner.
func (m *Mem) BeginUpload(ctx context.Context, key string, part []byte) (Upload, error) {
	if err := CheckKey(key); err != nil {
		return Upload{}, err
	}
	if err := ctxErr(ctx); err != nil {
		return Upload{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.begun++
	id := fmt.Sprintf("%016x", m.mu.begun) // ids sort in the order of beginning
	m.mu.uploads[id] = memUpload{key: key, part: bytes.Clone(part)}
	return Upload{Key: key, ID: id}, nil
}

// Uploads implements Bucket; they come in the order of keys, then of ids.
func (m *Mem) Uploads(ctx context.Context, prefix string) ([]Upload, error) {
	if err := ctxErr(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Upload
	for id, u := range m.mu.uploads { // order-free: sorted below
		if strings.HasPrefix(u.key, prefix) {
			out = append(out, Upload{Key: u.key, ID: id})
		}
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].Key != out[j].Key {
			return out[i].Key < out[j].Key
		}
		return out[i].ID < out[j].ID
	})
	return out, nil
}

// AbortUpload implements Bucket. It returns ErrNotExist for an upload that is not open.
func (m *Mem) AbortUpload(ctx context.Context, u Upload) error {
	if err := ctxErr(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if open, ok := m.mu.uploads[u.ID]; !ok || open.key != u.Key {
		return fmt.Errorf("abort upload %s of %q: %w", u.ID, u.Key, ErrNotExist)
	}
	delete(m.mu.uploads, u.ID)
	return nil
}

// Close implements Bucket; the objects stay.
func (m *Mem) Close() error { return nil }
