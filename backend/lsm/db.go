package lsm

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/objstorage/remote"
	"github.com/cockroachdb/pebble/v2/sstable"
)

// In the simulated world nothing may happen in the background, or it would depend on the machine when it does. Memtables
// are flushed by the loop before Pebble would do so itself, and compacted by it: Pebble's own choice of compactions
// depends on what it has found out about tables in the meantime.
const (
	// simFlush is less than the smallest memtable that Pebble begins with (256 KiB).
	simFlush = 128 << 10
	// simCompact is the number of flushes after which all is compacted.
	simCompact = 8
	// entryOverhead bounds what an entry takes in a memtable besides key and value.
	entryOverhead = 100
)

// l0Tables makes the database merge level 0 once it has half as many tables above each other, which is RocksDB's default of
// 4: less would rewrite a small state at every other checkpoint.
const l0Tables = 8

// openDB makes an empty database.
func (k *keyed) openDB(ctx context.Context) error {
	if err := k.b.fs.MkdirAll(k.dir, 0o755); err != nil {
		return err
	}
	k.bucket = newAttached(k.b.fs, k.b.fs.PathJoin(k.dir, "attached"))
	o := k.options()
	db, err := pebble.Open(k.b.fs.PathJoin(k.dir, "db"), o)
	if err != nil {
		return fmt.Errorf("open database of %s: %w", k.subtask, err)
	}
	k.db, k.tableOptions = &tree{DB: db, k: k}, o.MakeWriterOptions(0, db.TableFormat())
	k.pay(ctx, k.b.o.Costs.Open)
	return db.SetCreatorID(1)
}

func (k *keyed) options() *pebble.Options {
	o := &pebble.Options{
		FS:                 k.b.fs,
		Cache:              k.b.cache,
		DisableWAL:         true,
		FormatMajorVersion: pebble.FormatNewest,
		Logger:             quiet{k.subtask},
		MemTableSize:       uint64(k.b.o.MemtableBytes),
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { k.failure.put(err) },
		},
		L0CompactionThreshold:      l0Tables,
		LBaseMaxBytes:              256 << 20,
		CompactionConcurrencyRange: func() (int, int) { return 1, 2 },
	}
	for i := range o.TargetFileSizes {
		o.TargetFileSizes[i] = k.b.o.FileBytes
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		if k.b.o.Uncompressed {
			o.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
		}
	}
	o.Experimental.RemoteStorage = remote.MakeSimpleFactory(map[remote.Locator]remote.Storage{locator: k.bucket})
	o.Experimental.FileCacheShards = 1
	if k.simulated {
		o.MemTableSize = 4 << 20
		o.DisableAutomaticCompactions, o.DisableTableStats = true, true
		o.L0StopWritesThreshold = 1 << 20
		o.Experimental.ReadSamplingMultiplier = -1
	}
	o.EnsureDefaults()
	return o
}

// quiet drops what the database says. Errors come by its event listener.
type quiet struct{ subtask string }

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}

// Fatalf must not return: the database cannot go on.
func (q quiet) Fatalf(format string, args ...any) {
	panic(fmt.Errorf("database of %s: "+format, append([]any{q.subtask}, args...)...))
}

// failure keeps the first error of the database's background work, and that of its end.
type failure struct {
	mu      sync.Mutex
	err     error
	closing error
	set     chan struct{} // closed with the first error
}

func (f *failure) put(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
		close(f.set)
	}
}

func (f *failure) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// write makes a change of about n bytes.
func (k *keyed) write(n int, change func() error) error {
	if err := k.await(k.ctx); err != nil {
		return err
	}
	if err := k.settle(k.ctx); err != nil {
		return err
	}
	k.lent.reset()
	n += entryOverhead
	if k.simulated && k.pending > 0 && k.pending+int64(n) > simFlush {
		if err := k.flush(k.ctx); err != nil {
			return err
		}
	}
	if err := change(); err != nil {
		return err
	}
	k.pending += int64(n)
	if k.simulated && n > simFlush { // larger than a memtable perhaps, and then on its way already
		return k.flush(k.ctx)
	}
	return nil
}

// flush writes all that is in memory alone into tables and waits for that.
func (k *keyed) flush(ctx context.Context) error {
	if err := k.spill(ctx); err != nil {
		return err
	}
	return k.flushMemtable(ctx)
}

func (k *keyed) flushMemtable(ctx context.Context) error {
	if k.pending == 0 {
		return nil
	}
	done, err := k.db.AsyncFlush()
	if err != nil {
		return err
	}
	select {
	case <-done:
	case <-k.failure.set: // the database would try again and again
		return fmt.Errorf("flush of %s: %w", k.subtask, k.failure.get())
	}
	k.pay(ctx, k.b.o.Costs.Flush+time.Duration(k.pending)*k.b.o.Costs.FlushByte)
	k.pending = 0
	return k.flushed(ctx)
}

// flushed compacts after some flushes in the simulated world, where nothing else does.
func (k *keyed) flushed(ctx context.Context) error {
	if k.simulated {
		if k.flushes++; k.flushes >= simCompact {
			return k.compact(ctx)
		}
	}
	return nil
}

// compact merges all tables into the lowest level.
func (k *keyed) compact(ctx context.Context) error {
	k.flushes = 0
	size, err := k.tableBytes()
	if err != nil {
		return err
	}
	if err := k.db.Compact(ctx, groupKey(k.rng.From), groupKey(k.rng.To), false); err != nil {
		return fmt.Errorf("compact %s: %w", k.subtask, err)
	}
	k.pay(ctx, time.Duration(size)*k.b.o.Costs.CompactByte)
	return nil
}

// tableBytes is the size of all tables.
func (k *keyed) tableBytes() (n int64, err error) {
	levels, err := k.db.SSTables()
	for _, level := range levels {
		for i := range level {
			n += int64(level[i].Size)
		}
	}
	return n, err
}
