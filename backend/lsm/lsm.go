// Package lsm keeps the working state of a subtask in Pebble, a log-structured merge tree on the local disk, and stores at
// each checkpoint the table files that no completed checkpoint has: checkpoints are incremental and share files.
//
// Each subtask has a database of its own. Its synchronous phase flushes the memtable and hard-links the files that are
// new; the asynchronous one uploads them and a manifest, which says how the tables lie above each other. A restore
// downloads the tables of all handles and attaches them below key bounds, so that a table shared by several subtasks is
// clipped, not rewritten, and rescaling is opening with another range. The local files are never recovered from.
//
// In the simulated world the database lies in memory, does everything in the calls of the loop, in the same order each
// time, and its costs are those of a cost model. docs/lsm.md has the design, its reasons and measured figures.
package lsm

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/world"
)

// Name is the backend's name in plans and handles.
const Name = "lsm"

// Options configure the backend. Zero fields have the defaults given.
type Options struct {
	// Folder is where local files go if the worker names no folder; empty: the machine's folder for temporary files.
	Folder string
	// MemoryFiles keeps local files in memory in the real world too.
	MemoryFiles bool
	// CacheBytes is the size of the block cache that all subtasks of a worker share; 64 MiB.
	CacheBytes int64
	// MemtableBytes is the size of a memtable, of which a subtask has two at most, and bounds the rows that are not written to
	// the tree; 16 MiB. In the simulated world both are flushed at 128 KiB.
	MemtableBytes int64
	// RowBytes bounds the current values of value states that a subtask keeps in memory in front of the tree; 64 MiB. In the
	// simulated world they are 512 KiB.
	RowBytes int64
	// FileBytes is the size that table files aim at, on all levels; 8 MiB.
	FileBytes int64
	// Lazy opens restored state on tables that are still in the store: what is read comes first, the rest in the background. Else
	// all of it is downloaded first. It needs OpenOptions.Loop.
	Lazy bool
	// Uncompressed leaves tables as they are, which saves time where values do not compress.
	Uncompressed bool
	// Parallel is how many objects one subtask uploads or downloads at the same time; 4.
	Parallel int
	// CountEvery is the mean number of writes of which one looks for the element that it replaces, to estimate the gauges; 32.
	// The first CountExactly writes after Open all do; 1 makes the gauges exact.
	CountEvery int
	// Costs are what work costs in the simulated world; the zero value is DefaultCosts.
	Costs Costs

	farTail int64 // tests have small tables; 256 KiB
}

// CountExactly is the number of writes from Open on that are counted exactly.
const CountExactly = 8192

func (o Options) withDefaults() Options {
	if o.CacheBytes <= 0 {
		o.CacheBytes = 64 << 20
	}
	if o.MemtableBytes <= 0 {
		o.MemtableBytes = 16 << 20
	}
	if o.RowBytes <= 0 {
		o.RowBytes = 64 << 20
	}
	if o.FileBytes <= 0 {
		o.FileBytes = 8 << 20
	}
	if o.Parallel <= 0 {
		o.Parallel = 4
	}
	if o.farTail <= 0 {
		o.farTail = farTail
	}
	if o.CountEvery <= 0 {
		o.CountEvery = 32
	}
	if o.Costs == (Costs{}) {
		o.Costs = DefaultCosts()
	}
	return o
}

// New returns a factory of LSM backends.
func New(o Options) backend.Factory { return factory{o.withDefaults()} }

type factory struct{ o Options }

// ForWorker makes the block cache and the folder of the worker. A process of the attempt watches over them: when it is
// cancelled or killed, all is closed and removed that is not in use, and the rest as soon as its user is done.
func (f factory) ForWorker(ctx context.Context, e backend.WorkerEnv) (backend.Backend, error) {
	b := &Backend{o: f.o, e: e, mu: world.NewMutex(e.World), finish: world.NewLatch(e.World)}
	b.refs.Store(1)
	if e.World.Simulated() || f.o.MemoryFiles {
		b.fs, b.dir = vfs.NewMem(), "lsm"
	} else {
		dir, lock, err := makeFolder(f.o, e)
		if err != nil {
			return nil, fmt.Errorf("folder of the lsm backend of %s: %w", e.Worker, err)
		}
		b.fs, b.dir, b.lock = unsynced{vfs.Default}, dir, lock
	}
	b.cache = pebble.NewCache(f.o.CacheBytes)
	started := world.NewLatch(e.World)
	e.Spawn("lsm", func(ctx context.Context) error {
		defer b.shutdown()
		started.Open()
		return ignoreCancel(ctx, b.finish.Wait(ctx))
	})
	// A process that is killed before its first step runs nothing: nobody would clean up.
	if err := started.Wait(ctx); err != nil {
		b.shutdown()
		return nil, err
	}
	return b, nil
}

// ignoreCancel drops the error of a wait that ended since its context did.
func ignoreCancel(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Backend is the LSM backend of one worker in one attempt. Open may be called concurrently.
type Backend struct {
	o      Options
	e      backend.WorkerEnv
	fs     vfs.FS
	dir    string
	lock   io.Closer // of the folder; nil for files in memory
	cache  *pebble.Cache
	finish *world.Latch

	mu    *world.Mutex
	open  []*keyed // that hold their database
	ended bool     // nothing can be opened any more
	dirs  int      // folders given out
	// refs counts the backend itself, until it ends, and the subtasks that hold a database.
	refs atomic.Int64
}

var _ backend.Backend = (*Backend)(nil)

// Close implements backend.Backend. A subtask that is still open is an error; it is closed.
func (b *Backend) Close(context.Context) error {
	b.finish.Open()
	if n := b.shutdown(); n > 0 {
		return fmt.Errorf("lsm backend of %s closed with %d subtasks open", b.e.Worker, n)
	}
	return nil
}

// shutdown ends the backend and all subtasks, and returns how many had not been closed.
func (b *Backend) shutdown() int {
	b.mu.Lock()
	open, was := b.open, b.ended
	b.open, b.ended = nil, true
	b.mu.Unlock()
	left := 0
	for _, k := range open {
		if !k.life.kill() {
			left++
		}
	}
	if !was {
		b.release()
	}
	return left
}

// admit makes a keyed part of the backend, unless that has ended, and gives it a folder.
func (b *Backend) admit(k *keyed) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return errClosed
	}
	b.refs.Add(1)
	b.open = append(b.open, k)
	k.dir = b.fs.PathJoin(b.dir, fmt.Sprintf("%s-%d", k.subtask, b.dirs))
	b.dirs++
	return nil
}

// leave is called when a keyed has given its database up.
func (b *Backend) leave(k *keyed) {
	b.mu.Lock()
	for i, other := range b.open {
		if other == k {
			b.open = append(b.open[:i:i], b.open[i+1:]...)
			break
		}
	}
	b.mu.Unlock()
	b.release()
}

// release gives up the cache and the folder when the last one does.
func (b *Backend) release() {
	if b.refs.Add(-1) == 0 {
		b.cache.Unref()
		_ = b.fs.RemoveAll(b.dir) // what is left is temporary by its place
		if b.lock != nil {
			_ = b.lock.Close()
		}
	}
}

// Open implements backend.Backend. Handles with a delta part are refused: they need the changelog backend. The context
// must live as long as the subtask.
func (b *Backend) Open(ctx context.Context, o backend.OpenOptions) (backend.Keyed, error) {
	return b.start(ctx, o, nil)
}

// start opens the state of a subtask; with replay for a log that is applied to it at once.
func (b *Backend) start(ctx context.Context, o backend.OpenOptions, replay *replaying) (backend.Keyed, error) {
	for _, h := range o.Handles {
		switch {
		case len(h.Delta) > 0:
			return nil, fmt.Errorf("open %s: handle of checkpoint %d has changelog parts; it needs the changelog backend: %w", o.Subtask, h.Checkpoint, backend.ErrForeign)
		case h.Backend != Name && h.Backend != backend.Canonical && len(h.Base) > 0:
			return nil, fmt.Errorf("open %s: handle of checkpoint %d is of backend %q, not of %s: %w", o.Subtask, h.Checkpoint, h.Backend, Name, backend.ErrForeign)
		}
	}
	k := newKeyed(ctx, b, o)
	k.replay = replay
	if err := b.admit(k); err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Subtask, err)
	}
	if err := k.begin(ctx, o); err != nil {
		k.life.kill()
		return nil, fmt.Errorf("open %s: %w", o.Subtask, err)
	}
	return k, nil
}

// objectName names the n-th object that a subtask puts in this attempt.
func (k *keyed) objectName(n uint64, ext string) string {
	if k.names != nil {
		return k.names(n) + ext
	}
	return fmt.Sprintf("base/%d/%s/%d%s", k.b.e.Attempt, k.subtask, n, ext)
}
