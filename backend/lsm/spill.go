package lsm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"statebench.dev/bench/internal/keygroup"
)

// simRows is the limit of the rows in the simulated world: small, so that they are spilled and dropped there too.
const simRows = 512 << 10

func (k *keyed) rowLimit() int64 {
	if k.simulated {
		return simRows
	}
	return k.b.o.RowBytes
}

// dirtyLimit is how many bytes the tree may not know yet.
func (k *keyed) dirtyLimit() int64 {
	if k.simulated {
		return simFlush
	}
	return k.b.o.MemtableBytes
}

// getRow reads the point element at k.key.
func (k *keyed) getRow() ([]byte, bool, error) {
	if r := k.rows.find(k.key); r != nil {
		return k.rows.value(r), r.flags&rowGone == 0, nil
	}
	value, closer, err := k.db.Get(k.key)
	if errors.Is(err, pebble.ErrNotFound) {
		if err := k.keepRows(); err != nil {
			return nil, false, err
		}
		k.rows.put(k.key, nil, true, false)
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if len(k.key)+len(value) > rowMost {
		return k.lent.keep(value), true, closer.Close()
	}
	if err := k.keepRows(); err != nil {
		return nil, false, errors.Join(err, closer.Close())
	}
	value = k.rows.value(k.rows.put(k.key, value, false, false))
	return value, true, closer.Close()
}

// setRow writes the point element at k.key, or deletes it if gone.
func (k *keyed) setRow(g keygroup.ID, value []byte, gone bool) error {
	if err := k.countRow(g, value, gone); err != nil {
		return err
	}
	if len(k.key)+len(value) > rowMost {
		k.rows.forget(k.key)
		return k.write(len(k.key)+len(value), func() error { return k.db.Set(k.key, value, pebble.NoSync) })
	}
	k.lent.reset()
	k.rows.put(k.key, value, gone, true)
	if k.rows.unsaved > k.dirtyLimit() {
		return k.flush(k.ctx)
	}
	return k.keepRows()
}

// countRow counts a write of the point element at k.key: exactly if the row of before is known, else by sampling.
func (k *keyed) countRow(g keygroup.ID, value []byte, gone bool) error {
	before, there, w := 0, false, int64(1)
	if r := k.rows.find(k.key); r != nil {
		before, there = int(r.valLen), r.flags&rowGone == 0
	} else if w = k.counts.sample(); w > 0 {
		var err error
		if before, there, err = k.size(); err != nil {
			return err
		}
	}
	var elements, size int64
	if there {
		elements, size = -1, -int64(k.keySize()+before)
	}
	if !gone {
		elements, size = elements+1, size+int64(k.keySize()+len(value))
	}
	k.counts.add(g, w*elements, w*size)
	return nil
}

// keepRows keeps the rows within their limit.
func (k *keyed) keepRows() error {
	if !k.rows.full() {
		return nil
	}
	if err := k.flush(k.ctx); err != nil {
		return err
	}
	k.rows.rebuild()
	return nil
}

// spill writes the dirty rows into tables, in order of their keys, and makes these part of the tree. Going around the
// memtable saves its search for the place of every key.
func (k *keyed) spill(ctx context.Context) error {
	if len(k.rows.dirty) == 0 {
		return nil
	}
	// A memtable that overlapped would be flushed by the database, at a time of its own.
	if err := k.flushMemtable(ctx); err != nil {
		return err
	}
	dir := k.b.fs.PathJoin(k.dir, "spill")
	if err := k.b.fs.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var paths []string
	var out *sstable.Writer
	size := int64(0)
	for _, n := range k.rows.sorted() {
		r := &k.rows.entries[n]
		if out == nil {
			name := k.b.fs.PathJoin(dir, fmt.Sprintf("%d-%d.sst", k.spills, len(paths)))
			f, err := k.b.fs.Create(name, vfs.WriteCategoryUnspecified)
			if err != nil {
				return err
			}
			out = sstable.NewWriter(objstorageprovider.NewFileWritable(f), k.tableOptions)
			paths, size = append(paths, name), 0
		}
		err := error(nil)
		if r.flags&rowGone != 0 {
			err = out.Delete(k.rows.key(r))
		} else {
			err = out.Set(k.rows.key(r), k.rows.value(r))
		}
		if err != nil {
			return errors.Join(err, out.Close())
		}
		if size += int64(r.keyLen + r.valLen); size >= k.b.o.FileBytes {
			if err := out.Close(); err != nil {
				return err
			}
			out = nil
		}
	}
	if out != nil {
		if err := out.Close(); err != nil {
			return err
		}
	}
	return k.ingest(ctx, paths)
}

// ingest makes tables that were written beside the database part of it.
func (k *keyed) ingest(ctx context.Context, paths []string) error {
	if len(paths) > 0 {
		if err := k.db.Ingest(ctx, paths); err != nil {
			return fmt.Errorf("spill of %s: %w", k.subtask, err)
		}
	}
	k.spills++
	k.pay(ctx, k.b.o.Costs.Flush+time.Duration(k.rows.unsaved)*k.b.o.Costs.FlushByte)
	k.rows.spilled()
	return k.flushed(ctx)
}
