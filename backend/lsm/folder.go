package lsm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"statebench.dev/bench/backend"
)

const (
	folderMark = "statebench-lsm-" // begins the names of backends' folders
	newMark    = "statebench-new-" // of those that are not locked yet
	ownerFile  = "owner"           // is locked for as long as the process that made the folder lives
)

// makeFolder makes the folder of a backend, and removes those that processes have left which died without doing so. The
// folder is the caller's until it closes the lock.
func makeFolder(o Options, e backend.WorkerEnv) (dir string, lock io.Closer, err error) {
	at := e.Folder
	if at == "" {
		at = o.Folder
	}
	if at == "" {
		at = os.TempDir()
	}
	if at, err = filepath.Abs(at); err != nil { // within a process a lock is known by its name
		return "", nil, err
	}
	if err := os.MkdirAll(at, 0o755); err != nil {
		return "", nil, err
	}
	sweep(at)
	fresh, err := os.MkdirTemp(at, fmt.Sprintf("%s%d-%s-%d-", newMark, os.Getpid(), e.Worker, e.Attempt))
	if err != nil {
		return "", nil, err
	}
	if lock, err = vfs.Default.Lock(filepath.Join(fresh, ownerFile)); err != nil {
		return "", nil, err
	}
	dir = filepath.Join(at, folderMark+strings.TrimPrefix(filepath.Base(fresh), newMark))
	if err := os.Rename(fresh, dir); err != nil { // nobody looks at it before it has its name
		return "", nil, errors.Join(err, lock.Close())
	}
	return dir, lock, nil
}

// sweep removes the folders under at whose owners are no more: nobody holds their locks. A process that cannot be killed
// in good order leaves some, of the size of its state.
func sweep(at string) {
	entries, err := os.ReadDir(at)
	if err != nil {
		return // it is only tidying
	}
	own := fmt.Sprintf("%s%d-", folderMark, os.Getpid()) // a process can take its own locks twice
	for _, e := range entries {
		if e.IsDir() && unfinished(e.Name()) {
			_ = os.RemoveAll(filepath.Join(at, e.Name()))
			continue
		}
		if !e.IsDir() || !strings.HasPrefix(e.Name(), folderMark) || strings.HasPrefix(e.Name(), own) {
			continue
		}
		dir := filepath.Join(at, e.Name())
		if info, err := os.Lstat(filepath.Join(dir, ownerFile)); err != nil || !info.Mode().IsRegular() {
			continue
		}
		lock, err := vfs.Default.Lock(filepath.Join(dir, ownerFile))
		if err != nil {
			continue
		}
		_ = os.RemoveAll(dir)
		_ = lock.Close()
	}
}

// unfinished tells whether a folder is one that a process was about to lock when it died: it cannot be asked by its lock whether its owner
// lives. Where processes that do not see each other share a folder, a live one may be taken for dead in the instant before it has the
// lock; its run then ends with an error at once.
func unfinished(name string) bool {
	rest, ok := strings.CutPrefix(name, newMark)
	number, _, dash := strings.Cut(rest, "-")
	pid, err := strconv.Atoi(number)
	if !ok || !dash || err != nil || pid <= 0 || pid == os.Getpid() {
		return false
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return false // not to be told: it stays
	}
	err = p.Signal(syscall.Signal(0))
	return errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH)
}
