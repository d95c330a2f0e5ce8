// Package file is a changelog storage on a directory that survives workers, such as a volume or a network file system: segments
// are appended to files and made durable by fsync, many of them by one.
//
// A put writes its record behind the others, into the page cache, and waits. One process, the committer, syncs what was written
// since the last sync, and lets all of those go that wait for it: puts of several workers and subtasks share one fsync, and
// the more of them wait the more do. All workers of a run use one open Volume, as they would one file server; who crashes takes
// nothing along, and whoever comes next reads what was acknowledged. Open finds what an earlier Volume left.
//
// What cannot be written or synced is never trusted again: after a failure the rest goes into a new file, what the failed sync
// should have made durable counts as ambiguous, and the log puts it again under another key.
//
// A file is deleted once nothing in it is needed: there is no copying. One segment that is needed keeps up to 64 MiB alive;
// logs are short, since each materialization makes what is older superfluous.
package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/tidwall/btree"

	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// Options configure a Volume. The zero value is usable.
type Options struct {
	// Rotate is the size in bytes from which on a file is ended and another one begun; 0: 64 MiB.
	Rotate int64
	// SyncTime is how long a sync takes in the simulated world; 0: 1 ms.
	SyncTime time.Duration
}

// Stats count what a Volume did since it was opened.
type Stats struct {
	Puts  int64 // segments written
	Syncs int64 // rounds of the committer
	Files int   // files that exist now
	Bytes int64 // in them
}

// Volume is an open directory of segments. All methods may be called concurrently.
type Volume struct {
	w     world.World
	disk  world.Disk
	o     Options
	queue *world.Queue[*round]
	group *world.Group

	mu      *world.Mutex // guards what follows; held while bytes go into the page cache, never during a sync
	index   btree.Map[string, place]
	pending map[string]int      // puts written and not published, by key
	doubt   map[string]*logFile // puts whose sync failed
	files   []*logFile          // in order of their numbers
	current *logFile            // written to; nil: none
	last    uint64              // number of the newest file
	open    *round              // what the next sync makes durable; nil: nothing
	closed  bool
	damage  error    // found by Open
	cut     []string // what Open could not read of files that nobody ended
	stats   Stats
}

var _ dstl.Storage = (*Volume)(nil)

// logFile is one file of the directory.
type logFile struct {
	number uint64
	name   string
	f      world.File
	size   int64
	live   int  // segments in it that are in the index, and 1 if it is damaged
	erases bool // it says that segments of it or of older files are gone
	named  bool // its name is durable; the committer's
	failed bool // it takes nothing more
	broken bool // what was not synced is in doubt; the committer's
}

// place is where a segment lies.
type place struct {
	file *logFile
	off  int64
	size int64
	crc  uint32
}

// round is what one sync makes durable.
type round struct {
	files   []*logFile
	records []record
	done    *world.Latch
	err     error // set before done
}

// record is one that was written in a round; a deletion has no place but its file.
type record struct {
	kind byte
	key  string
	at   place
}

// Open reads what is in the directory and starts the committer under ctx.
func Open(ctx context.Context, e dstl.StorageEnv, o Options) (*Volume, error) {
	if o.Rotate <= 0 {
		o.Rotate = 64 << 20
	}
	if o.SyncTime <= 0 {
		o.SyncTime = time.Millisecond
	}
	v := &Volume{
		w: e.World, disk: e.Disk, o: o, queue: world.NewQueue[*round](e.World, world.Unbounded).Named("log volume"), group: world.NewGroup(e.World),
		mu: world.NewMutex(e.World), pending: map[string]int{}, doubt: map[string]*logFile{},
	}
	if err := v.load(); err != nil {
		return nil, fmt.Errorf("open log volume: %w", err)
	}
	v.group.Go(ctx, "log-commit", v.commits)
	return v, nil
}

// OpenStorage is Open as a dstl.StorageOpener.
func OpenStorage(ctx context.Context, e dstl.StorageEnv) (dstl.Storage, error) {
	return Open(ctx, e, Options{})
}

// Stats returns the counters.
func (v *Volume) Stats() Stats {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.stats
	s.Files = len(v.files)
	for _, f := range v.files {
		s.Bytes += f.size
	}
	return s
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

// Put implements dstl.Storage.
func (v *Volume) Put(ctx context.Context, key string, body []byte) error {
	if err := check(ctx, key); err != nil {
		return err
	}
	r, err := v.write(key, body)
	if err != nil {
		return fmt.Errorf("put %q: %w", key, err)
	}
	if r == nil {
		return nil
	}
	if err := r.done.Wait(ctx); err != nil {
		return err
	}
	if r.err != nil {
		return fmt.Errorf("put %q: %w (%w)", key, store.ErrAmbiguous, r.err)
	}
	return nil
}

// write appends a segment and returns the round that makes it durable; nil if it is there already.
func (v *Volume) write(key string, body []byte) (*round, error) {
	crc := store.CRC32C(body)
	v.mu.Lock()
	defer v.mu.Unlock()
	if old, ok := v.index.Get(key); ok {
		if old.crc == crc && old.size == int64(len(body)) {
			return nil, nil
		}
		return nil, fmt.Errorf("%d bytes over %d: %w", len(body), old.size, store.ErrOverwrite)
	}
	r, err := v.append(kindPut, key, body, crc)
	if err == nil {
		v.pending[key]++
		v.stats.Puts++
	}
	return r, err
}

// GetRange implements dstl.Storage. A segment that is read as a whole is verified.
func (v *Volume) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	p, err := v.find(ctx, "get", key)
	if err != nil {
		return nil, err
	}
	off = min(off, p.size)
	body := make([]byte, min(n, p.size-off))
	got, err := p.file.f.ReadAt(body, p.off+off)
	switch {
	case got == len(body):
	case errors.Is(err, fs.ErrClosed):
		return nil, fmt.Errorf("get %q: deleted meanwhile: %w", key, store.ErrNotExist)
	default:
		return nil, fmt.Errorf("get %q: %d of %d bytes at offset %d of %s (%v): %w", key, got, len(body), p.off+off, p.file.name, err, store.ErrCorrupt)
	}
	if off == 0 && int64(len(body)) == p.size && store.CRC32C(body) != p.crc {
		return nil, fmt.Errorf("get %q: it has another checksum, at offset %d of %s: %w", key, p.off, p.file.name, store.ErrCorrupt)
	}
	return body, nil
}

// find looks a segment up.
func (v *Volume) find(ctx context.Context, op, key string) (place, error) {
	if err := check(ctx, key); err != nil {
		return place{}, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	p, ok := v.index.Get(key)
	switch {
	case ok:
		return p, nil
	case v.damage != nil:
		return place{}, fmt.Errorf("%s %q: %w", op, key, v.damage)
	case len(v.cut) > 0:
		return place{}, fmt.Errorf("%s %q: %w (not readable: %s)", op, key, store.ErrNotExist, strings.Join(v.cut, ", "))
	}
	return place{}, fmt.Errorf("%s %q: %w", op, key, store.ErrNotExist)
}

// Stat implements dstl.Storage.
func (v *Volume) Stat(ctx context.Context, key string) (store.Attributes, error) {
	p, err := v.find(ctx, "stat", key)
	if err != nil {
		return store.Attributes{}, err
	}
	return store.Attributes{Key: key, Size: p.size}, nil
}

// Close implements dstl.Storage: it waits for what was written and deletes the files if no segment is left.
func (v *Volume) Close(ctx context.Context) error {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.queue.Close()
	if err := v.group.Wait(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close log volume: %w", err)
	}
	v.mu.Lock()
	all, empty := v.files, v.index.Len() == 0 && v.damage == nil
	v.files, v.current = nil, nil
	v.index.Clear()
	v.mu.Unlock()
	var errs []error
	for _, f := range all {
		errs = append(errs, f.f.Close())
		if empty {
			errs = append(errs, v.disk.Remove(f.name))
		}
	}
	if empty && len(all) > 0 {
		errs = append(errs, v.disk.Sync(""))
	}
	return errors.Join(errs...)
}
