package s3store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"statebench.dev/bench/backend/store"
)

// uploads are those that this client began and has not seen end, by key. Servers differ in what they list: MinIO takes the
// prefix for a key, and forgets the uploads of a whole bucket when it is restarted, but knows those of a key.
type uploads struct {
	mu   sync.Mutex
	open map[string]map[string]bool // key, id; the id is empty for one whose beginning has an unknown outcome
}

func (u *uploads) begin(key, id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open == nil {
		u.open = map[string]map[string]bool{}
	}
	if u.open[key] == nil {
		u.open[key] = map[string]bool{}
	}
	u.open[key][id] = true
}

func (u *uploads) end(key, id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.open[key], id)
	if len(u.open[key]) == 0 {
		delete(u.open, key)
	}
}

// keys are those under prefix, in order.
func (u *uploads) keys(prefix string) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	keys := slices.Sorted(maps.Keys(u.open))
	return slices.DeleteFunc(keys, func(key string) bool { return !strings.HasPrefix(key, prefix) })
}

// beginGrace is how long an upload may still take to begin once the caller is gone: cut short, the server may have begun one
// of which nobody knows the id, so that nobody can abort it.
const beginGrace = time.Second

// begin opens an upload and remembers it.
func (b *Bucket) begin(ctx context.Context, key string) (id string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	bctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(beginGrace, cancel) })()
	id, err = b.core.NewMultipartUpload(bctx, b.name, key, minio.PutObjectOptions{})
	if err == nil || errors.Is(mapped(ctx, kindWrite, "", key, err), store.ErrAmbiguous) || ctx.Err() != nil {
		b.begun.begin(key, id)
	}
	return id, err
}

// BeginUpload implements store.MultipartBeginner.
func (b *Bucket) BeginUpload(ctx context.Context, key string, part []byte) (store.Upload, error) {
	ctx = listening(ctx)
	id, err := b.begin(ctx, key)
	if err != nil {
		return store.Upload{}, mapped(ctx, kindWrite, "begin upload of", key, err)
	}
	_, err = b.core.PutObjectPart(ctx, b.name, key, id, 1, bytes.NewReader(part), int64(len(part)),
		minio.PutObjectPartOptions{DisableContentSha256: b.unsigned})
	return store.Upload{Key: key, ID: id}, mapped(ctx, kindWrite, "put part of", key, err)
}

// Uploads implements store.Bucket. It asks for the prefix, and for each key of which an upload may be open beside.
func (b *Bucket) Uploads(ctx context.Context, prefix string) ([]store.Upload, error) {
	out, err := b.uploads(ctx, prefix)
	if err != nil {
		return nil, err
	}
	for _, key := range b.begun.keys(prefix) {
		more, err := b.uploads(ctx, key)
		if err != nil {
			return nil, err
		}
		for _, u := range more {
			if u.Key == key && !slices.ContainsFunc(out, func(o store.Upload) bool { return o.Key == u.Key && o.ID == u.ID }) {
				out = append(out, u)
			}
		}
	}
	slices.SortStableFunc(out, func(x, y store.Upload) int { return cmp.Compare(x.Key, y.Key) })
	return out, nil
}

// uploads lists all pages of what the server has under prefix.
func (b *Bucket) uploads(ctx context.Context, prefix string) ([]store.Upload, error) {
	ctx = listening(ctx)
	var out []store.Upload
	keyMarker, idMarker := "", ""
	for {
		page, err := b.core.ListMultipartUploads(ctx, b.name, prefix, keyMarker, idMarker, "", deletePage)
		if err != nil {
			return nil, mapped(ctx, kindRead, "list uploads under", prefix, err)
		}
		for _, u := range page.Uploads {
			out = append(out, store.Upload{Key: u.Key, ID: u.UploadID, Begun: u.Initiated})
		}
		if !page.IsTruncated {
			return out, nil
		}
		if page.NextKeyMarker == keyMarker && page.NextUploadIDMarker == idMarker {
			return nil, fmt.Errorf("list uploads under %q: page without a successor: %w", prefix, store.ErrUnavailable)
		}
		keyMarker, idMarker = page.NextKeyMarker, page.NextUploadIDMarker
	}
}

// AbortUpload implements store.Bucket.
func (b *Bucket) AbortUpload(ctx context.Context, u store.Upload) error {
	ctx = listening(ctx)
	err := mapped(ctx, kindDelete, "abort upload of", u.Key, b.core.AbortMultipartUpload(ctx, b.name, u.Key, u.ID))
	if err == nil || errors.Is(err, store.ErrNotExist) {
		b.begun.end(u.Key, u.ID)
	}
	return err
}
