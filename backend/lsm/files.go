package lsm

import "github.com/cockroachdb/pebble/v2/vfs"

// unsynced is a file system that makes nothing durable: after a crash of the machine, or of the worker, local files are not
// read any more. State that must survive is in the store.
type unsynced struct{ vfs.FS }

// Create implements vfs.FS.
func (fs unsynced) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return noSync(fs.FS.Create(name, c))
}

// OpenReadWrite implements vfs.FS.
func (fs unsynced) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return noSync(fs.FS.OpenReadWrite(name, c, o...))
}

// OpenDir implements vfs.FS.
func (fs unsynced) OpenDir(name string) (vfs.File, error) { return noSync(fs.FS.OpenDir(name)) }

// ReuseForWrite implements vfs.FS.
func (fs unsynced) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return noSync(fs.FS.ReuseForWrite(old, name, c))
}

// Unwrap implements vfs.FS.
func (fs unsynced) Unwrap() vfs.FS { return fs.FS }

func noSync(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error                { return nil }
func (unsyncedFile) SyncData() error            { return nil }
func (unsyncedFile) SyncTo(int64) (bool, error) { return false, nil }
