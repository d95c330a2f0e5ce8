package world

import (
	"io"
	"io/fs"
	"strings"
)

// Disk is a machine's local files. Names are slash-separated relative paths without "." and ".."; folders exist by
// the files in them. Data becomes durable by File.Sync or WriteFile, names (creation, link, rename, removal) by
// Disk.Sync; until then Crash may take them back. Errors match fs.ErrNotExist, fs.ErrExist and fs.ErrInvalid. All
// methods are safe for concurrent use; those of a File that change it are not.
type Disk interface {
	// Create makes an empty file for writing. An existing file of that name loses the name, not its content: other links
	// keep it.
	Create(name string) (File, error)
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// ReadFile returns the content of a file; the caller owns it.
	ReadFile(name string) ([]byte, error)
	// WriteFile creates a file with this content and makes both durable. It does not keep data.
	WriteFile(name string, data []byte) error
	// Link makes new another name of the file old. It fails when new exists.
	Link(old, new string) error
	// Rename moves a file, replacing a file of the new name.
	Rename(old, new string) error
	// Remove takes a name away.
	Remove(name string) error
	// RemoveAll removes the file or folder called name and everything below; "" removes all. Nothing there is no error.
	RemoveAll(name string) error
	// List returns the names of all files that begin with prefix, sorted.
	List(prefix string) ([]string, error)
	// Sync makes the content of the file called name durable, and every change of names in its folder; name may also be
	// the folder, "" for the top.
	Sync(name string) error
	// Crash loses what is not durable, as a power failure does. Open files must not be used any more.
	Crash()
	// Wipe loses everything, as a new machine does.
	Wipe()
}

// File is an open file: made by Create for appending, by Open for reading; either can be read.
type File interface {
	io.Writer
	io.ReaderAt
	io.Closer
	// Size is the length in bytes.
	Size() (int64, error)
	// Sync makes the content durable.
	Sync() error
}

// fencedDisk is a domain's view of its disk: it refuses changes once the domain is dead.
type fencedDisk struct {
	d    *Domain
	disk Disk
}

func newFencedDisk(d *Domain, o DomainOptions, sim bool) *fencedDisk {
	switch {
	case o.Disk != nil:
		disk := o.Disk
		if f, ok := disk.(*fencedDisk); ok {
			disk = f.disk
		}
		return &fencedDisk{d, disk}
	case o.Folder != "" && !sim:
		return &fencedDisk{d, NewFolderDisk(o.Folder)}
	default:
		return &fencedDisk{d, NewMemDisk()}
	}
}

func (f *fencedDisk) alive() error {
	if f.d.Dead() {
		return ErrKilled
	}
	return nil
}

func (f *fencedDisk) Create(name string) (File, error) {
	if err := f.alive(); err != nil {
		return nil, err
	}
	file, err := f.disk.Create(name)
	if err != nil {
		return nil, err
	}
	return &fencedFile{file, f}, nil
}

func (f *fencedDisk) Open(name string) (File, error) {
	file, err := f.disk.Open(name)
	if err != nil {
		return nil, err
	}
	return &fencedFile{file, f}, nil
}

func (f *fencedDisk) ReadFile(name string) ([]byte, error) { return f.disk.ReadFile(name) }

func (f *fencedDisk) WriteFile(name string, data []byte) error {
	if err := f.alive(); err != nil {
		return err
	}
	return f.disk.WriteFile(name, data)
}

func (f *fencedDisk) Link(old, new string) error {
	if err := f.alive(); err != nil {
		return err
	}
	return f.disk.Link(old, new)
}

func (f *fencedDisk) Rename(old, new string) error {
	if err := f.alive(); err != nil {
		return err
	}
	return f.disk.Rename(old, new)
}

func (f *fencedDisk) Remove(name string) error {
	if err := f.alive(); err != nil {
		return err
	}
	return f.disk.Remove(name)
}

func (f *fencedDisk) RemoveAll(name string) error {
	if err := f.alive(); err != nil {
		return err
	}
	return f.disk.RemoveAll(name)
}

func (f *fencedDisk) List(prefix string) ([]string, error) { return f.disk.List(prefix) }

func (f *fencedDisk) Sync(name string) error {
	if err := f.alive(); err != nil {
		return err
	}
	return f.disk.Sync(name)
}

func (f *fencedDisk) Crash() { f.disk.Crash() }

func (f *fencedDisk) Wipe() { f.disk.Wipe() }

// fencedFile refuses changes once the domain is dead.
type fencedFile struct {
	File
	f *fencedDisk
}

func (f *fencedFile) Write(b []byte) (int, error) {
	if err := f.f.alive(); err != nil {
		return 0, err
	}
	return f.File.Write(b)
}

func (f *fencedFile) Sync() error {
	if err := f.f.alive(); err != nil {
		return err
	}
	return f.File.Sync()
}

// validName refuses names that are not clean relative paths.
func validName(op, name string) error {
	if !fs.ValidPath(name) || name == "." {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return nil
}

// folderOf is the folder of a name, "" for the top.
func folderOf(name string) string {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i]
	}
	return ""
}
