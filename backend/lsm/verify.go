package lsm

import (
	"context"
	"encoding/binary"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"

	"statebench.dev/bench/backend"
)

// Magic begins every manifest of this backend.
const Magic = magic

// TableExt ends the keys of table files, which other programs of the database read too.
const TableExt = tableExt

// Verify reads a manifest or a table file of the given size and tells whether it is what was written: of a table each
// block's checksum, then each entry. It holds a manifest, or a block of a table, at a time. Damage is a backend.Damaged.
func Verify(key string, r io.ReaderAt, size int64) error {
	if strings.HasSuffix(key, tableExt) {
		return verifyTable(r, size)
	}
	b, err := backend.ReadFull(r, 0, size)
	if err != nil {
		return err
	}
	if _, err := parseManifest(key, b); err != nil {
		return backend.DamagedAt(0, "%v", err)
	}
	return nil
}

// verifyTable checks all blocks, then reads all entries, which must be in order and have a stored key.
func verifyTable(in io.ReaderAt, size int64) error {
	t := &readable{in: in, size: size}
	t.handle = objstorage.MakeNoopReadHandle(t)
	o := &pebble.Options{}
	o.EnsureDefaults()
	r, err := sstable.NewReader(context.Background(), t, o.MakeReaderOptions())
	if err != nil {
		return t.damage(err)
	}
	defer r.Close() //nolint:errcheck // nothing was written
	layout, err := r.Layout()
	if err != nil {
		return t.damage(err)
	}
	for _, h := range blocks(layout) {
		if err := verifyBlock(in, size, h); err != nil {
			return err
		}
	}
	it, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return t.damage(err)
	}
	defer it.Close() //nolint:errcheck // its errors are those of Next
	for kv := it.First(); kv != nil; kv = it.Next() {
		if len(kv.K.UserKey) < prefixSize {
			return backend.DamagedAt(t.last, "an entry with the key %x", kv.K.UserKey)
		}
	}
	if err := it.Error(); err != nil {
		return t.damage(err)
	}
	return nil
}

// verifyBlock compares a block with its checksum.
func verifyBlock(in io.ReaderAt, size int64, h block.Handle) error {
	if h.Length == 0 {
		return nil
	}
	if end := h.Offset + h.Length + block.TrailerLen; end > uint64(size) || end < h.Offset {
		return backend.DamagedAt(0, "the index names a block of %d bytes at offset %d", h.Length, h.Offset)
	}
	b, err := backend.ReadFull(in, int64(h.Offset), int64(h.Length+block.TrailerLen))
	if err != nil {
		return err
	}
	if n := len(b) - 4; binary.LittleEndian.Uint32(b[n:]) != masked(castagnoli(b[:n])) {
		return backend.DamagedAt(int64(h.Offset), "block of %d bytes has another checksum", h.Length)
	}
	return nil
}

// readable reads a table for the database's reader and remembers where it read last: where damage is.
type readable struct {
	in     io.ReaderAt
	size   int64
	last   int64
	failed error // of in
	handle objstorage.NoopReadHandle
}

var _ objstorage.Readable = (*readable)(nil)

// damage is err, found where was read last, or the error of reading.
func (t *readable) damage(err error) error {
	if t.failed != nil {
		return t.failed
	}
	return backend.DamagedAt(t.last, "%v", err)
}

// ReadAt implements objstorage.Readable.
func (t *readable) ReadAt(_ context.Context, p []byte, off int64) error {
	t.last = off
	b, err := backend.ReadFull(t.in, off, int64(len(p)))
	if err != nil && t.failed == nil {
		t.failed = err
	}
	copy(p, b)
	return err
}

// Close implements objstorage.Readable.
func (t *readable) Close() error { return nil }

// Size implements objstorage.Readable.
func (t *readable) Size() int64 { return t.size }

// NewReadHandle implements objstorage.Readable.
func (t *readable) NewReadHandle(objstorage.ReadBeforeSize) objstorage.ReadHandle { return &t.handle }
