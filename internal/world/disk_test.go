package world

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// disks runs f on a disk in memory and on one in a folder.
func disks(t *testing.T, f func(t *testing.T, d Disk)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { f(t, NewMemDisk()) })
	t.Run("folder", func(t *testing.T) { f(t, NewFolderDisk(filepath.Join(t.TempDir(), "disk"))) })
}

// try fails the test for an error.
func try(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, d Disk, name string) string {
	t.Helper()
	b, err := d.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "none"
	}
	try(t, err)
	return string(b)
}

// write creates a file without making anything durable.
func write(t *testing.T, d Disk, name, data string) File {
	t.Helper()
	f, err := d.Create(name)
	try(t, err)
	_, err = io.WriteString(f, data)
	try(t, err)
	return f
}

func names(t *testing.T, d Disk, prefix string) []string {
	t.Helper()
	all, err := d.List(prefix)
	try(t, err)
	return all
}

func TestDisk(t *testing.T) {
	disks(t, func(t *testing.T, d Disk) {
		f := write(t, d, "db/000001.sst", "abc")
		_, err := f.Write([]byte("def"))
		size, err2 := f.Size()
		buf := make([]byte, 4)
		n, err3 := f.ReadAt(buf, 1)
		m, end := f.ReadAt(buf, 4)
		_, end2 := f.ReadAt(buf, 10)
		try(t, err, err2, err3, f.Sync(), f.Close(), expect("size", size, 6), expect("read", []int{n, m}, []int{4, 2}),
			expect("ends", []error{end, end2}, []error{io.EOF, io.EOF}))
		try(t, d.Link("db/000001.sst", "snap/1"), d.WriteFile("a", []byte("1")), d.WriteFile("b/c", []byte("2")))
		if err := d.Link("a", "b/c"); !errors.Is(err, fs.ErrExist) {
			t.Errorf("link over a file: %v", err)
		}
		write(t, d, "db/000001.sst", "new") // the link keeps the old content
		try(t, expect("link", content(t, d, "snap/1"), "abcdef"), expect("new", content(t, d, "db/000001.sst"), "new"),
			expect("names", names(t, d, ""), []string{"a", "b/c", "db/000001.sst", "snap/1"}),
			expect("names", names(t, d, "db/0"), []string{"db/000001.sst"}))
		try(t, d.Rename("a", "b/c"), d.Rename("b/c", "b/c"), expect("renamed", content(t, d, "b/c"), "1"))
		r, err := d.Open("b/c")
		try(t, err)
		if _, err := r.Write([]byte("x")); err == nil {
			t.Error("a file opened for reading can be written")
		}
		try(t, r.Close(), d.Remove("b/c"), d.RemoveAll("db"), d.RemoveAll("nothing"),
			expect("names", names(t, d, ""), []string{"snap/1"}))
		try(t, d.RemoveAll(""), expect("names", names(t, d, ""), []string{}))
		_, opened := d.Open("a")
		for what, err := range map[string]error{"open": opened, "remove": d.Remove("a"), "rename": d.Rename("a", "b"), "link": d.Link("a", "b")} {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s without a file: %v", what, err)
			}
		}
	})
}

func TestDiskRefusesNames(t *testing.T) {
	disks(t, func(t *testing.T, d Disk) {
		for _, name := range []string{"", ".", "..", "../a", "/a", "a/../b", "a//b", "a/"} {
			_, created := d.Create(name)
			_, opened := d.Open(name)
			_, read := d.ReadFile(name)
			errs := map[string]error{
				"create": created, "open": opened, "read": read, "write": d.WriteFile(name, nil), "remove": d.Remove(name),
				"link": d.Link("a", name), "rename": d.Rename("a", name),
			}
			if name != "" {
				errs["sync"], errs["remove all"] = d.Sync(name), d.RemoveAll(name)
			}
			for what, err := range errs {
				if !errors.Is(err, fs.ErrInvalid) {
					t.Errorf("%s %q: %v", what, name, err)
				}
			}
		}
	})
}

// TestCrash: what was not synced is lost, data and names.
func TestCrash(t *testing.T) {
	disks(t, func(t *testing.T, d Disk) {
		try(t, d.WriteFile("whole", []byte("whole")))
		grown := write(t, d, "dir/grown", "kept")
		try(t, d.Sync("dir/grown")) // data and name
		_, err := grown.Write([]byte(" and lost"))
		try(t, err)
		nameless := write(t, d, "dir/nameless", "data")
		try(t, nameless.Sync()) // data, but not the name
		write(t, d, "named/empty", "lost")
		try(t, d.Sync("named")) // the name, but not the data
		try(t, d.Link("whole", "lost-link"), d.Link("whole", "links/kept"), d.Sync("links/kept"))
		try(t, d.WriteFile("tmp/1", []byte("1")), d.Rename("tmp/1", "tmp/2"), d.Sync("tmp/2"))
		d.Crash()
		try(t, expect("names", names(t, d, ""), []string{"dir/grown", "links/kept", "named/empty", "tmp/2", "whole"}))
		for name, want := range map[string]string{
			"whole": "whole", "links/kept": "whole", "dir/grown": "kept", "named/empty": "", "tmp/2": "1",
		} {
			try(t, expect(name, content(t, d, name), want))
		}
		d.Crash()
		d.Wipe()
		try(t, expect("names", names(t, d, ""), []string{}), d.WriteFile("again", nil),
			expect("names", names(t, d, ""), []string{"again"}))
	})
}

// TestMemCrash: the disk in memory also takes back removals and renames, and closes open files.
func TestMemCrash(t *testing.T) {
	d := NewMemDisk()
	try(t, d.WriteFile("removed", []byte("1")), d.WriteFile("gone", []byte("2")), d.WriteFile("old", []byte("3")),
		d.WriteFile("replaced", []byte("4")))
	try(t, d.Remove("gone"), d.Sync(""), d.Remove("removed"), d.Rename("old", "new"))
	f := write(t, d, "replaced", "5")
	try(t, f.Sync())
	d.Crash()
	try(t, expect("names", names(t, d, ""), []string{"old", "removed", "replaced"}),
		expect("replaced", content(t, d, "replaced"), "4"))
	_, err := f.Write(nil)
	_, err2 := f.Size()
	for _, err := range []error{err, err2, f.Sync()} {
		if !errors.Is(err, fs.ErrClosed) {
			t.Errorf("a file open at the crash: %v", err)
		}
	}
}

// TestFolderDiskStaysInside: not even a symbolic link leads out.
func TestFolderDiskStaysInside(t *testing.T) {
	dir := t.TempDir()
	try(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("x"), 0o600), os.Mkdir(filepath.Join(dir, "disk"), 0o755),
		os.Symlink(filepath.Join(dir, "secret"), filepath.Join(dir, "disk", "link")))
	if b, err := NewFolderDisk(filepath.Join(dir, "disk")).ReadFile("link"); err == nil {
		t.Errorf("read %q outside of the folder", b)
	}
}

// TestDomainFolder: a domain of the real world keeps its disk in its folder, one of the simulated world in memory.
func TestDomainFolder(t *testing.T) {
	for _, w := range []World{NewReal(1), NewSim(SimOptions{})} {
		dir := t.TempDir()
		d := w.NewDomain("worker", DomainOptions{Folder: dir})
		run(t, w, nil, func(context.Context) error { return d.Disk().WriteFile("a/b", []byte("1")) })
		_, err := os.Stat(filepath.Join(dir, "a", "b"))
		if (err == nil) != !w.Simulated() || !slices.Equal(names(t, d.Disk(), ""), []string{"a/b"}) {
			t.Errorf("simulated %v: %v", w.Simulated(), err)
		}
	}
}
