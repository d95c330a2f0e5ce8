package world

import (
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
)

// memDisk is a disk in memory that knows what a crash would leave.
type memDisk struct {
	mu      sync.Mutex
	names   map[string]*inode
	kept    map[string]*inode          // durable names
	pending map[string]map[string]bool // by folder, names changed since its last sync
	crashes int
}

// inode is a file's content, which only grows.
type inode struct {
	data    []byte
	durable int // length that survives a crash
}

// NewMemDisk returns an empty disk in memory, outside of any domain.
func NewMemDisk() Disk {
	return &memDisk{names: map[string]*inode{}, kept: map[string]*inode{}, pending: map[string]map[string]bool{}}
}

func (d *memDisk) Create(name string) (File, error) {
	if err := validName("create", name); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := &inode{}
	d.set(name, n)
	return &memFile{d: d, n: n, name: name, crashes: d.crashes, write: true}, nil
}

func (d *memDisk) Open(name string) (File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.get("open", name)
	if err != nil {
		return nil, err
	}
	return &memFile{d: d, n: n, name: name, crashes: d.crashes}, nil
}

func (d *memDisk) ReadFile(name string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.get("read", name)
	if err != nil {
		return nil, err
	}
	return append([]byte{}, n.data...), nil
}

func (d *memDisk) WriteFile(name string, data []byte) error {
	if err := validName("write", name); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := &inode{data: slices.Clone(data), durable: len(data)}
	d.set(name, n)
	d.kept[name] = n
	delete(d.pending[folderOf(name)], name)
	return nil
}

func (d *memDisk) Link(old, new string) error {
	if err := validName("link", new); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.get("link", old)
	if err != nil {
		return err
	}
	if d.names[new] != nil {
		return &fs.PathError{Op: "link", Path: new, Err: fs.ErrExist}
	}
	d.set(new, n)
	return nil
}

func (d *memDisk) Rename(old, new string) error {
	if err := validName("rename", new); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.get("rename", old)
	if err != nil || old == new {
		return err
	}
	d.set(new, n)
	d.set(old, nil)
	return nil
}

func (d *memDisk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.get("remove", name); err != nil {
		return err
	}
	d.set(name, nil)
	return nil
}

func (d *memDisk) RemoveAll(name string) error {
	if name != "" {
		if err := validName("remove", name); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for n := range d.names { // order-free: all go, and nothing is observed between
		if name == "" || n == name || strings.HasPrefix(n, name+"/") {
			d.set(n, nil)
		}
	}
	return nil
}

func (d *memDisk) List(prefix string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for n := range d.names { // order-free: sorted below
		if strings.HasPrefix(n, prefix) {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, nil
}

func (d *memDisk) Sync(name string) error {
	if name != "" {
		if err := validName("sync", name); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	folder := name
	if n := d.names[name]; n != nil {
		n.durable = len(n.data)
		folder = folderOf(name)
	}
	for n := range d.pending[folder] { // order-free: independent entries
		if d.names[n] == nil {
			delete(d.kept, n)
		} else {
			d.kept[n] = d.names[n]
		}
	}
	delete(d.pending, folder)
	return nil
}

func (d *memDisk) Crash() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names = maps.Clone(d.kept)
	for _, n := range d.names { // order-free: independent entries
		n.data = n.data[:n.durable]
	}
	d.pending = map[string]map[string]bool{}
	d.crashes++
}

func (d *memDisk) Wipe() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names, d.kept, d.pending = map[string]*inode{}, map[string]*inode{}, map[string]map[string]bool{}
	d.crashes++
}

// get returns the file of a name.
func (d *memDisk) get(op, name string) (*inode, error) {
	if err := validName(op, name); err != nil {
		return nil, err
	}
	if n := d.names[name]; n != nil {
		return n, nil
	}
	return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

// set changes what a name stands for, not durably; nil removes it.
func (d *memDisk) set(name string, n *inode) {
	if n == nil {
		delete(d.names, name)
	} else {
		d.names[name] = n
	}
	folder := folderOf(name)
	if d.pending[folder] == nil {
		d.pending[folder] = map[string]bool{}
	}
	d.pending[folder][name] = true
}

// memFile is an open file of a memDisk.
type memFile struct {
	d       *memDisk
	n       *inode
	name    string
	crashes int // of the disk when it was opened
	write   bool
	closed  bool
}

func (f *memFile) check(op string) error {
	if f.closed || f.crashes != f.d.crashes {
		return &fs.PathError{Op: op, Path: f.name, Err: fs.ErrClosed}
	}
	return nil
}

func (f *memFile) Write(b []byte) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.check("write"); err != nil {
		return 0, err
	}
	if !f.write {
		return 0, &fs.PathError{Op: "write", Path: f.name, Err: fs.ErrPermission}
	}
	f.n.data = append(f.n.data, b...)
	return len(b), nil
}

func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.check("read"); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, &fs.PathError{Op: "read", Path: f.name, Err: fs.ErrInvalid}
	}
	if off >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.n.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Size() (int64, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.check("size"); err != nil {
		return 0, err
	}
	return int64(len(f.n.data)), nil
}

func (f *memFile) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.check("sync"); err != nil {
		return err
	}
	f.n.durable = len(f.n.data)
	return nil
}

func (f *memFile) Close() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.closed = true
	return nil
}
