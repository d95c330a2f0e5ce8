package lsm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/cockroachdb/pebble/v2/objstorage/remote"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// locator names the attached tables to the database.
const locator remote.Locator = "attached"

// attached is the tables of earlier attempts that were, or are being, downloaded into a folder. The database knows them by
// the keys of their objects and reads them where they are; they go when its compactions have replaced them.
type attached struct {
	fs  vfs.FS
	dir string
	// objects are those that the database refers to, by its number for them. The loop's.
	objects map[pebbleFile]object

	mu    sync.RWMutex // the database's own threads read
	files map[string]string
	far   map[string]*farTable // of those whose content may be in the store
	next  int
}

var _ remote.Storage = (*attached)(nil)

func newAttached(fs vfs.FS, dir string) *attached {
	return &attached{fs: fs, dir: dir, objects: map[pebbleFile]object{}, files: map[string]string{}, far: map[string]*farTable{}}
}

// write stores the content of an object. It may be called concurrently.
func (a *attached) write(key string, body []byte) error {
	f, _, err := a.create(key)
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	return errors.Join(err, f.Close())
}

// create makes the file of an object.
func (a *attached) create(key string) (f vfs.File, name string, err error) {
	a.mu.Lock()
	if err := a.fs.MkdirAll(a.dir, 0o755); err != nil {
		a.mu.Unlock()
		return nil, "", err
	}
	name = a.fs.PathJoin(a.dir, strconv.Itoa(a.next))
	a.next++
	a.files[key] = name
	a.mu.Unlock()
	f, err = a.fs.Create(name, vfs.WriteCategoryUnspecified)
	return f, name, err
}

// expect makes room for an object whose content comes later.
func (a *attached) expect(l *lazy, o object) (*farTable, error) {
	f, name, err := a.create(o.key)
	if err != nil {
		return nil, err
	}
	t := &farTable{l: l, object: o, name: name}
	a.mu.Lock()
	a.far[o.key] = t
	a.mu.Unlock()
	return t, f.Close()
}

// retain removes the files of objects that no table of the database is part of any more.
func (a *attached) retain(live map[pebbleFile]bool) {
	used := map[string]bool{}        // an object has two numbers if it took two calls to attach it
	for file, o := range a.objects { // order-free: a set
		used[o.key] = used[o.key] || live[file]
	}
	for file, o := range a.objects { // order-free: independent entries
		if live[file] {
			continue
		}
		delete(a.objects, file)
		if used[o.key] {
			continue
		}
		a.mu.Lock()
		name := a.files[o.key]
		delete(a.files, o.key)
		if t := a.far[o.key]; t != nil {
			t.gone.Store(true)
			delete(a.far, o.key)
		}
		a.mu.Unlock()
		_ = a.fs.Remove(name) // else with the subtask's folder
	}
}

// path is where the content of an object lies.
func (a *attached) path(key string) string {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.files[key]
}

// ReadObject implements remote.Storage.
func (a *attached) ReadObject(_ context.Context, key string) (remote.ObjectReader, int64, error) {
	a.mu.RLock()
	name, ok := a.files[key]
	far := a.far[key]
	a.mu.RUnlock()
	if !ok {
		return nil, 0, fmt.Errorf("object %q: %w", key, errNotAttached)
	}
	f, err := a.fs.Open(name)
	if err != nil {
		return nil, 0, err
	}
	if far != nil {
		return farReader{far, f}, far.bytes, nil
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return attachedReader{f}, info.Size(), nil
}

var (
	errNotAttached = errors.New("not among the attached tables")
	errReadOnly    = errors.New("attached tables are only read")
)

// CreateObject implements remote.Storage: it is refused.
func (a *attached) CreateObject(string) (io.WriteCloser, error) { return nil, errReadOnly }

// List implements remote.Storage: it is refused.
func (a *attached) List(string, string) ([]string, error) { return nil, errReadOnly }

// Delete implements remote.Storage: it is refused.
func (a *attached) Delete(string) error { return errReadOnly }

// Size implements remote.Storage.
func (a *attached) Size(key string) (int64, error) {
	r, n, err := a.ReadObject(context.Background(), key)
	if err != nil {
		return 0, err
	}
	return n, r.Close()
}

// IsNotExistError implements remote.Storage.
func (a *attached) IsNotExistError(err error) bool { return errors.Is(err, errNotAttached) }

// Close implements remote.Storage. The files go with the subtask's folder.
func (a *attached) Close() error { return nil }

// attachedReader reads one attached table.
type attachedReader struct{ f vfs.File }

// ReadAt implements remote.ObjectReader.
func (r attachedReader) ReadAt(_ context.Context, p []byte, off int64) error {
	n, err := r.f.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	return err
}

// Close implements remote.ObjectReader.
func (r attachedReader) Close() error { return r.f.Close() }

// farReader reads one table whose content may be in the store.
type farReader struct {
	t *farTable
	f vfs.File
}

// ReadAt implements remote.ObjectReader.
func (r farReader) ReadAt(_ context.Context, p []byte, off int64) error { return r.t.read(r.f, p, off) }

// Close implements remote.ObjectReader.
func (r farReader) Close() error { return r.f.Close() }
