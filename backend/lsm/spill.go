package lsm

import (
	"context"
	"encoding/binary"
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
		if !k.rows.full() {
			k.rows.put(k.key, nil, true, false)
		}
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
	if k.rows.full() { // what is read only must not add to that
		return k.lent.keep(value), true, closer.Close()
	}
	value = k.rows.value(k.rows.put(k.key, value, false, false))
	return value, true, closer.Close()
}

// setRow writes the point element at k.key, or deletes it if gone; deferred tells whether Changed will hand it out.
func (k *keyed) setRow(value []byte, gone bool) (deferred bool, err error) {
	if err := k.countRow(value, gone); err != nil {
		return false, err
	}
	if len(k.key)+len(value) > rowMost {
		if err := k.settle(k.ctx); err != nil {
			return false, err
		}
		k.rows.forget(k.key)
		return false, k.write(len(k.key)+len(value), func() error { return k.db.Set(k.key, value, pebble.NoSync) })
	}
	k.lent.reset()
	if err := k.keepRows(); err != nil { // before it, since what is deferred keeps all rows
		return false, err
	}
	k.rows.put(k.key, value, gone, true)
	if k.rows.unsaved > k.dirtyLimit() && (k.ahead == nil || k.ahead.done.Opened()) {
		return k.rows.deferring, k.flush(k.ctx)
	}
	return k.rows.deferring, nil
}

// countRow counts a write of the point element at k.key: exactly if the row of before is known, else by sampling. While a log is
// replayed, rows are counted later, and what gets no row by what the tree has.
func (k *keyed) countRow(value []byte, gone bool) error {
	if k.replay != nil && len(k.key)+len(value) <= rowMost {
		return nil
	}
	before, there, w := 0, false, int64(1)
	if r := k.rows.find(k.key); r != nil && k.replay == nil {
		before, there = int(r.valLen), r.flags&rowGone == 0
	} else if w = k.counts.sample(); w > 0 {
		var err error
		if before, there, err = k.size(); err != nil {
			return err
		}
	}
	if w > 0 {
		k.countChange(w, before, there, len(value), gone)
	}
	return nil
}

// countChange counts w changes of the element at k.key, from a value of size before, if there was one, to one of size after.
func (k *keyed) countChange(w int64, before int, there bool, after int, gone bool) {
	var elements, size int64
	if there {
		elements, size = -1, -int64(k.keySize()+before)
	}
	if !gone {
		elements, size = elements+1, size+int64(k.keySize()+after)
	}
	k.counts.add(keygroup.ID(binary.BigEndian.Uint16(k.key)), w*elements, w*size)
}

// keepRows keeps the rows within their limit. It waits for no spill, and not until Changed has handed out what it will: as long
// there may be more, by what is written.
func (k *keyed) keepRows() error {
	if !k.rows.full() || len(k.rows.changed) > 0 || k.ahead != nil && !k.ahead.done.Opened() {
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
	if err := k.settle(ctx); err != nil {
		return err
	}
	if len(k.rows.dirty) == 0 {
		return nil
	}
	if k.replay != nil {
		if err := k.countDirty(ctx); err != nil {
			return err
		}
	}
	// A memtable that overlapped would be flushed by the database, at a time of its own.
	if err := k.flushMemtable(ctx); err != nil {
		return err
	}
	s := k.rows.take()
	err := k.ingest(ctx, s)
	k.rows.release(s, err != nil)
	if err != nil {
		return err
	}
	return k.flushed(ctx)
}

// ingest writes rows into tables and makes these part of the tree. It may run beside the loop.
func (k *keyed) ingest(ctx context.Context, s *spilled) error {
	paths, size, err := k.tablesOf(s)
	if err == nil && len(paths) > 0 {
		err = k.db.Ingest(ctx, paths)
	}
	if err != nil {
		return fmt.Errorf("spill of %s: %w", k.subtask, err)
	}
	k.b.e.World.Compute(ctx, k.b.o.Costs.Flush+time.Duration(size)*k.b.o.Costs.FlushByte)
	return nil
}

// tablesOf writes rows into tables of about the wanted size, and returns their paths and the bytes of keys and values.
func (k *keyed) tablesOf(s *spilled) (paths []string, all int64, err error) {
	s.sort()
	dir := k.b.fs.PathJoin(k.dir, "spill")
	if err := k.b.fs.MkdirAll(dir, 0o755); err != nil {
		return nil, 0, err
	}
	var out *sstable.Writer
	size := int64(0)
	for i := range s.places {
		p := &s.places[i]
		if out != nil && size >= k.b.o.FileBytes {
			if err := out.Close(); err != nil {
				return nil, 0, err
			}
			out = nil
		}
		if out == nil {
			name := k.b.fs.PathJoin(dir, fmt.Sprintf("%d.sst", k.spills.Add(1)))
			f, err := k.b.fs.Create(name, vfs.WriteCategoryUnspecified)
			if err != nil {
				return nil, 0, err
			}
			out = sstable.NewWriter(objstorageprovider.NewFileWritable(f), k.tableOptions)
			paths, size = append(paths, name), 0
		}
		if p.gone {
			err = out.Delete(s.key(p))
		} else {
			err = out.Set(s.key(p), s.value(p))
		}
		if err != nil {
			return nil, 0, errors.Join(err, out.Close())
		}
		size += int64(p.keyLen + p.valLen)
		all += int64(p.keyLen + p.valLen)
	}
	if out != nil {
		err = out.Close()
	}
	return paths, all, err
}
