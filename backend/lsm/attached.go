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

// attached is the tables of earlier attempts that were downloaded into a folder. The database knows them by the keys of
// their objects and reads them where they are; they go when its compactions have replaced them.
type attached struct {
	fs  vfs.FS
	dir string
	// objects are those that the database refers to, by its number for them. The loop's.
	objects map[pebbleFile]object

	mu    sync.RWMutex // the database's own threads read
	files map[string]string
	next  int
}

var _ remote.Storage = (*attached)(nil)

func newAttached(fs vfs.FS, dir string) *attached {
	return &attached{fs: fs, dir: dir, objects: map[pebbleFile]object{}, files: map[string]string{}}
}

// write stores the content of an object. It may be called concurrently.
func (a *attached) write(key string, body []byte) error {
	a.mu.Lock()
	if err := a.fs.MkdirAll(a.dir, 0o755); err != nil {
		a.mu.Unlock()
		return err
	}
	name := a.fs.PathJoin(a.dir, strconv.Itoa(a.next))
	a.next++
	a.files[key] = name
	a.mu.Unlock()
	f, err := a.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	return errors.Join(err, f.Close())
}

// retain removes the files of objects that no table of the database is part of any more.
func (a *attached) retain(live map[pebbleFile]bool) {
	for file, o := range a.objects { // order-free: independent entries
		if live[file] {
			continue
		}
		delete(a.objects, file)
		a.mu.Lock()
		name := a.files[o.key]
		delete(a.files, o.key)
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
	a.mu.RUnlock()
	if !ok {
		return nil, 0, fmt.Errorf("object %q: %w", key, errNotAttached)
	}
	f, err := a.fs.Open(name)
	if err != nil {
		return nil, 0, err
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
