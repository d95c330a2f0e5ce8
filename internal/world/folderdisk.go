package world

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
)

// folderDisk is a disk in a folder of the real machine. It remembers what was written through it, so that Crash can
// take back what a power failure may: new names and data that were not synced. A rename or removal that was not synced
// stays, as on file systems that order their journal.
type folderDisk struct {
	path string

	mu    sync.Mutex
	root  *os.Root              // nil before the first use
	files map[string]*diskState // written through this disk
	err   error                 // of a Crash or Wipe, reported by the next call
}

// diskState is what is durable of a file.
type diskState struct {
	named bool
	size  int64
}

// NewFolderDisk returns the disk in the folder path, which is made at the first use. Names cannot lead out of it, not
// even by symbolic links.
func NewFolderDisk(path string) Disk {
	return &folderDisk{path: path, files: map[string]*diskState{}}
}

// open locks the disk and returns its root; the caller unlocks, also after an error.
func (d *folderDisk) open(op string, names ...string) (*os.Root, error) {
	d.mu.Lock()
	if err := d.err; err != nil {
		d.err = nil
		return nil, err
	}
	for _, n := range names {
		if err := validName(op, n); err != nil {
			return nil, err
		}
	}
	if d.root == nil {
		if err := os.MkdirAll(d.path, 0o755); err != nil {
			return nil, err
		}
		root, err := os.OpenRoot(d.path)
		if err != nil {
			return nil, err
		}
		d.root = root
	}
	return d.root, nil
}

func (d *folderDisk) Create(name string) (File, error) {
	root, err := d.open("create", name)
	defer d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return d.create(root, name)
}

func (d *folderDisk) create(root *os.Root, name string) (*folderFile, error) {
	if folder := folderOf(name); folder != "" {
		if err := root.MkdirAll(folder, 0o755); err != nil {
			return nil, err
		}
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	state := &diskState{}
	d.files[name] = state
	return &folderFile{File: f, d: d, state: state}, nil
}

func (d *folderDisk) Open(name string) (File, error) {
	root, err := d.open("open", name)
	defer d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	return &folderFile{File: f, d: d, state: d.files[name]}, nil
}

func (d *folderDisk) ReadFile(name string) ([]byte, error) {
	root, err := d.open("read", name)
	defer d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return root.ReadFile(name)
}

func (d *folderDisk) WriteFile(name string, data []byte) error {
	root, err := d.open("write", name)
	defer d.mu.Unlock()
	if err != nil {
		return err
	}
	f, err := d.create(root, name)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.File.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	*f.state = diskState{named: true, size: int64(len(data))}
	return syncFolder(root, folderOf(name))
}

func (d *folderDisk) Link(old, new string) error {
	root, err := d.open("link", old, new)
	defer d.mu.Unlock()
	if err != nil {
		return err
	}
	if folder := folderOf(new); folder != "" {
		if err := root.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	if err := root.Link(old, new); err != nil {
		return err
	}
	info, err := root.Stat(new)
	if err != nil {
		return err
	}
	// A name of its own: a crash before the next sync of its folder takes only the new one.
	state := &diskState{size: info.Size()}
	if s := d.files[old]; s != nil {
		state.size = s.size
	}
	d.files[new] = state
	return nil
}

func (d *folderDisk) Rename(old, new string) error {
	root, err := d.open("rename", old, new)
	defer d.mu.Unlock()
	if err != nil {
		return err
	}
	if folder := folderOf(new); folder != "" {
		if err := root.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	if err := root.Rename(old, new); err != nil || old == new {
		return err
	}
	delete(d.files, new)
	if s := d.files[old]; s != nil {
		d.files[new] = s
		delete(d.files, old)
	}
	return nil
}

func (d *folderDisk) Remove(name string) error {
	root, err := d.open("remove", name)
	defer d.mu.Unlock()
	if err != nil {
		return err
	}
	delete(d.files, name)
	return root.Remove(name)
}

func (d *folderDisk) RemoveAll(name string) error {
	if name == "" {
		d.Wipe()
		return nil
	}
	root, err := d.open("remove", name)
	defer d.mu.Unlock()
	if err != nil {
		return err
	}
	for n := range d.files { // order-free: independent entries
		if n == name || strings.HasPrefix(n, name+"/") {
			delete(d.files, n)
		}
	}
	return root.RemoveAll(name)
}

func (d *folderDisk) List(prefix string) ([]string, error) {
	root, err := d.open("list")
	defer d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var all []string
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && strings.HasPrefix(name, prefix) {
			all = append(all, name)
		}
		return err
	})
	slices.Sort(all)
	return all, err
}

func (d *folderDisk) Sync(name string) error {
	names := []string{name}
	if name == "" {
		names = nil
	}
	root, err := d.open("sync", names...)
	defer d.mu.Unlock()
	if err != nil {
		return err
	}
	folder := name
	if info, err := root.Stat(cmp.Or(name, ".")); err == nil && !info.IsDir() {
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
		if s := d.files[name]; s != nil {
			s.size = info.Size()
		}
		folder = folderOf(name)
	}
	for n, s := range d.files { // order-free: independent entries
		if folderOf(n) == folder {
			s.named = true
		}
	}
	return syncFolder(root, folder)
}

// syncFolder makes the names in a folder durable.
func syncFolder(root *os.Root, folder string) error {
	f, err := root.Open(cmp.Or(folder, "."))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a removed folder has no names
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (d *folderDisk) Crash() {
	root, err := d.open("crash")
	defer d.mu.Unlock()
	for n, s := range d.files { // order-free: independent entries
		if err == nil && !s.named {
			err = root.Remove(n)
		}
	}
	for n, s := range d.files { // order-free: independent entries
		if err == nil && s.named {
			err = truncate(root, n, s.size)
		}
	}
	d.files, d.err = map[string]*diskState{}, err
}

// truncate cuts a file that grew beyond size.
func truncate(root *os.Root, name string, size int64) error {
	f, err := root.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Size() > size {
		err = f.Truncate(size)
	}
	return errors.Join(err, f.Close())
}

func (d *folderDisk) Wipe() {
	root, err := d.open("wipe")
	defer d.mu.Unlock()
	d.files, d.err = map[string]*diskState{}, err
	if err != nil {
		return
	}
	entries, err := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		err = errors.Join(err, root.RemoveAll(e.Name()))
	}
	d.err = err
}

// folderFile is an open file of a folderDisk.
type folderFile struct {
	*os.File
	d     *folderDisk
	state *diskState // nil for one not written through the disk
}

func (f *folderFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f *folderFile) Sync() error {
	if err := f.File.Sync(); err != nil {
		return err
	}
	size, err := f.Size()
	if err != nil || f.state == nil {
		return err
	}
	f.d.mu.Lock()
	f.state.size = max(f.state.size, size)
	f.d.mu.Unlock()
	return nil
}
