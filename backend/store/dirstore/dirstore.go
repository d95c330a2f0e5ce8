// Package dirstore is a folder as a store.Bucket: a file an object, durable when a call returns.
//
//	ROOT/objects/...   the objects; see path.go for how a key becomes a path
//	ROOT/tmp/...       bodies under way
//
// A body is written and synced under a temporary name. A conditional put then makes a hard link of it, which fails where
// the name is taken; any other put renames it. No path leaves ROOT, not even through a symbolic link.
package dirstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"strconv"
	"sync/atomic"
	"time"

	"statebench.dev/bench/backend/store"
)

const (
	objectsDir = "objects"
	tempDir    = "tmp"
	// staleTemp is the age at which a temporary file belongs to no put under way.
	staleTemp = time.Hour
	// races is how often a put makes its folders again when deletes take them away.
	races = 100
)

// Bucket is a folder as a bucket. Several processes may use one folder. It knows no multipart uploads.
type Bucket struct {
	root   *os.Root
	unique string
	n      atomic.Uint64
}

var _ store.Bucket = (*Bucket)(nil)

// Open makes the folder where it does not exist and returns the bucket in it.
func Open(folder string) (*Bucket, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("open folder as a bucket: %w", err)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("open folder as a bucket: %w", err)
	}
	b := &Bucket{root: root, unique: fmt.Sprintf("%d-%x", os.Getpid(), time.Now().UnixNano())}
	for _, dir := range []string{objectsDir, tempDir} {
		if err := b.mkdirAll(dir); err != nil {
			root.Close()
			return nil, fmt.Errorf("open folder as a bucket: %w", err)
		}
	}
	b.removeStale()
	return b, nil
}

// removeStale removes what crashed processes left under temporary names.
func (b *Bucket) removeStale() {
	entries, err := fs.ReadDir(b.root.FS(), tempDir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > staleTemp {
			_ = b.root.Remove(path.Join(tempDir, e.Name())) // the next one to open the folder tries again
		}
	}
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

// mapped turns an error of the file system into one of package store; nil stays nil.
func mapped(op, key string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s %q: %w", op, key, store.ErrNotExist)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s %q: %w (%w)", op, key, store.ErrDenied, err)
	}
	return fmt.Errorf("%s %q: %w (%w)", op, key, store.ErrUnavailable, err)
}

// Put implements store.Bucket.
func (b *Bucket) Put(ctx context.Context, key string, body []byte, o store.PutOptions) error {
	if err := check(ctx, key); err != nil {
		return err
	}
	temp := path.Join(tempDir, b.unique+"-"+strconv.FormatUint(b.n.Add(1), 10))
	defer b.root.Remove(temp) // gone already after a rename
	if err := b.writeTemp(temp, body); err != nil {
		return mapped("put", key, err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	name := objectPath(key)
	err := b.place(temp, name, o.IfNotExist)
	switch {
	case errors.Is(err, fs.ErrExist) && o.IfNotExist:
		return fmt.Errorf("put %q: %w", key, store.ErrPrecondition)
	case err != nil:
		return mapped("put", key, err)
	}
	if err := b.syncDir(path.Dir(name)); err != nil && !errors.Is(err, fs.ErrNotExist) { // deleted again by another
		return fmt.Errorf("put %q: sync of its folder: %w (%w)", key, store.ErrAmbiguous, err)
	}
	return nil
}

func (b *Bucket) writeTemp(name string, body []byte) error {
	f, err := b.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// place gives the file temp its name, making folders as needed.
func (b *Bucket) place(temp, name string, ifNotExist bool) error {
	var err error
	for range races {
		if ifNotExist {
			err = b.root.Link(temp, name)
		} else {
			err = b.root.Rename(temp, name)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := b.mkdirAll(path.Dir(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

// mkdirAll makes dir and what is above it, and makes each new folder durable.
func (b *Bucket) mkdirAll(dir string) error {
	err := b.root.Mkdir(dir, 0o755)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		if err := b.mkdirAll(path.Dir(dir)); err != nil {
			return err
		}
		if err = b.root.Mkdir(dir, 0o755); errors.Is(err, fs.ErrExist) {
			return nil
		}
	}
	if err != nil {
		return err
	}
	return b.syncDir(path.Dir(dir))
}

func (b *Bucket) syncDir(dir string) error {
	f, err := b.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Get implements store.Bucket.
func (b *Bucket) Get(ctx context.Context, key string) ([]byte, error) {
	return b.read(ctx, key, func(f *os.File, size int64) ([]byte, error) {
		body := make([]byte, size)
		_, err := io.ReadFull(f, body)
		return body, err
	})
}

// GetRange implements store.Bucket.
func (b *Bucket) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	return b.read(ctx, key, func(f *os.File, size int64) ([]byte, error) {
		off := min(off, size)
		body := make([]byte, min(n, size-off))
		_, err := f.ReadAt(body, off)
		return body, err
	})
}

func (b *Bucket) read(ctx context.Context, key string, read func(*os.File, int64) ([]byte, error)) ([]byte, error) {
	if err := check(ctx, key); err != nil {
		return nil, err
	}
	f, err := b.root.Open(objectPath(key))
	if err != nil {
		return nil, mapped("get", key, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, mapped("get", key, err)
	}
	body, err := read(f, info.Size())
	if err != nil {
		return nil, mapped("get", key, err)
	}
	return body, nil
}

// Stat implements store.Bucket.
func (b *Bucket) Stat(ctx context.Context, key string) (store.Attributes, error) {
	if err := check(ctx, key); err != nil {
		return store.Attributes{}, err
	}
	info, err := b.root.Lstat(objectPath(key))
	if err != nil {
		return store.Attributes{}, mapped("stat", key, err)
	}
	return store.Attributes{Key: key, Size: info.Size(), Modified: info.ModTime()}, nil
}

// List implements store.Bucket. It reads the folders as it goes, so that objects put or deleted meanwhile may show or not.
func (b *Bucket) List(ctx context.Context, prefix, startAfter string) iter.Seq2[store.Attributes, error] {
	return func(yield func(store.Attributes, error) bool) {
		w := walk{b: b, ctx: ctx, prefix: prefix, after: startAfter, yield: yield}
		w.dir(objectsDir, "")
	}
}

// Delete implements store.Bucket. Folders that become empty go too.
func (b *Bucket) Delete(ctx context.Context, keys []string) []store.Deleted {
	out := make([]store.Deleted, len(keys))
	var touched []string // folders, each once, in the order of keys
	seen := map[string]bool{}
	for i, key := range keys {
		out[i] = store.Deleted{Key: key, Err: check(ctx, key)}
		if out[i].Err != nil {
			continue
		}
		name := objectPath(key)
		if err := b.root.Remove(name); err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				out[i].Err = mapped("delete", key, err)
			}
			continue
		}
		if dir := path.Dir(name); !seen[dir] {
			seen[dir] = true
			touched = append(touched, dir)
		}
	}
	var failed error
	for _, dir := range touched {
		failed = errors.Join(failed, b.settle(dir))
	}
	for i := range out {
		if failed != nil && out[i].Err == nil {
			out[i].Err = mapped("delete", keys[i], failed)
		}
	}
	return out
}

// settle removes dir and the folders above it as far as they are empty, and makes the last one that stays durable.
func (b *Bucket) settle(dir string) error {
	for dir != objectsDir && b.root.Remove(dir) == nil {
		dir = path.Dir(dir)
	}
	if err := b.syncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Uploads implements store.Bucket: there are none.
func (b *Bucket) Uploads(ctx context.Context, _ string) ([]store.Upload, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, nil
}

// AbortUpload implements store.Bucket; no upload exists.
func (b *Bucket) AbortUpload(_ context.Context, u store.Upload) error {
	return fmt.Errorf("abort upload %s of %q: %w", u.ID, u.Key, store.ErrNotExist)
}

// Close implements store.Bucket; the folder stays.
func (b *Bucket) Close() error { return b.root.Close() }
