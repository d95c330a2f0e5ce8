package lsm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

const (
	// farTail is how much of the end of a table is read first: its index and filters, mostly. Smaller tables are read whole.
	farTail = 256 << 10
	// farAhead is what one request brings at least, if so much is missing there.
	farAhead = 128 << 10
	// farWaste is the part of a table that may be read twice, to bring it by one request.
	farWaste = 32
)

// farTable is a table of an earlier attempt whose bytes come from the store into a local file, piece by piece. All of it may
// be called concurrently; the same bytes may then come twice.
type farTable struct {
	l *lazy
	object
	name     string // of the local file
	from, to []byte // bounds of its keys in this database

	whole atomic.Bool // every byte is here, and the checksum of all is right
	gone  atomic.Bool // the database needs it no more

	mu     sync.Mutex // guards what follows; nothing is waited for under it. The database's own threads read
	pieces []piece    // all of the object, in order; nil: not known yet
	here   []bool     // by piece
	got    int64      // bytes of pieces that are here
	busy   *world.Latch
}

// piece is a part of a table: a block with its checksum, or what is between blocks.
type piece struct {
	off, end int64
	checked  bool
}

// holds tells whether b is what was written.
func (p piece) holds(b []byte) bool {
	n := len(b) - 4
	return !p.checked || n > 0 && binary.LittleEndian.Uint32(b[n:]) == masked(castagnoli(b[:n]))
}

// read reads from the local file f; what is not in it comes before.
func (t *farTable) read(f vfs.File, p []byte, off int64) error {
	for {
		if !t.whole.Load() && t.lacks(off, int64(len(p))) {
			if t.l.k.simulated {
				return &missing{t, off, int64(len(p))}
			}
			if err := t.fetch(t.l.ctx, off, int64(len(p))); err != nil {
				return err
			}
			continue
		}
		if n, err := f.ReadAt(p, off); n < len(p) {
			return orShort(err)
		}
		return nil
	}
}

func (t *farTable) lacks(off, n int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pieces == nil {
		return true
	}
	a, b := t.gap(off, n, 0)
	return a < b
}

// gap is the first run of pieces [a, b) that are not here and have bytes of [off, off+n), and some behind them if the run is
// shorter than least. The caller holds mu.
func (t *farTable) gap(off, n, least int64) (a, b int) {
	a = sort.Search(len(t.pieces), func(i int) bool { return t.pieces[i].end > off })
	for a < len(t.pieces) && t.pieces[a].off < off+n && t.here[a] {
		a++
	}
	if a == len(t.pieces) || t.pieces[a].off >= off+n {
		return a, a
	}
	for b = a; b < len(t.pieces) && !t.here[b]; b++ {
		if p := t.pieces[b]; p.off >= off+n && p.off-t.pieces[a].off >= least {
			break
		}
	}
	return a, b
}

// fetch brings some of the bytes [off, off+n) that are missing.
func (t *farTable) fetch(ctx context.Context, off, n int64) error {
	if t.gone.Load() {
		return fmt.Errorf("object %q: %w", t.key, errNotAttached)
	}
	t.mu.Lock()
	known := t.pieces != nil
	a, b := t.gap(off, n, min(farAhead, t.l.k.b.o.farTail))
	var run []piece
	if known {
		run = slices.Clone(t.pieces[a:b])
	}
	t.mu.Unlock()
	switch {
	case !known && t.bytes <= t.l.k.b.o.farTail:
		return t.complete(ctx)
	case !known:
		return t.discover(ctx)
	case len(run) == 0:
		return nil
	}
	return t.bring(ctx, run)
}

// bring reads a run of pieces.
func (t *farTable) bring(ctx context.Context, run []piece) error {
	from, to := run[0].off, run[len(run)-1].end
	var body []byte
	err := store.Reread(ctx, t.l.k.b.e.World, func() (got uint32, err error) {
		if body, err = t.get(ctx, from, to-from); err != nil {
			return castagnoli(body), err
		}
		for _, p := range run {
			if !p.holds(body[p.off-from : p.end-from]) {
				return castagnoli(body), damaged(t.key, "the block of %d bytes at offset %d has another checksum", p.end-p.off, p.off)
			}
		}
		return 0, nil
	})
	if err != nil {
		return err
	}
	return t.keep(ctx, from, to, body)
}

// get reads a range of the object.
func (t *farTable) get(ctx context.Context, off, n int64) ([]byte, error) {
	body, err := t.l.k.b.e.Bucket.GetRange(ctx, t.key, off, n)
	t.l.bytes.Add(int64(len(body)))
	switch {
	case err != nil:
		return body, fmt.Errorf("get %d bytes at offset %d of object %q: %w", n, off, t.key, err)
	case int64(len(body)) != n:
		return body, damaged(t.key, "%d bytes from offset %d on, not %d", len(body), off, n)
	}
	return body, nil
}

// keep writes the bytes [off, end) into the local file, which must be right: others may read them already. It notes which
// pieces are here.
func (t *farTable) keep(ctx context.Context, off, end int64, body []byte) error {
	k := t.l.k
	k.b.e.World.Compute(ctx, time.Duration(len(body))*k.b.o.Costs.FileByte)
	f, err := k.b.fs.OpenReadWrite(t.name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(body, off)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := sort.Search(len(t.pieces), func(i int) bool { return t.pieces[i].off >= off })
	for ; i < len(t.pieces) && t.pieces[i].end <= end; i++ {
		if !t.here[i] {
			t.here[i] = true
			t.got += t.pieces[i].end - t.pieces[i].off
		}
	}
	return nil
}

// discover reads the end of the table and finds out by it where its blocks are.
func (t *farTable) discover(ctx context.Context) error {
	var in *farRanges
	var pieces []piece
	err := store.Reread(ctx, t.l.k.b.e.World, func() (got uint32, err error) {
		in = &farRanges{ctx: ctx, t: t}
		pieces, err = t.layout(ctx, in)
		return in.sum, err
	})
	if err != nil {
		return err
	}
	t.mu.Lock()
	if t.pieces == nil {
		t.pieces, t.here = pieces, make([]bool, len(pieces))
	}
	t.mu.Unlock()
	for _, r := range in.ranges {
		if err := t.keepGood(ctx, pieces, r); err != nil {
			return err
		}
	}
	return nil
}

// keepGood keeps the pieces of a range that hold what was written: of what the index did not need that is not known yet.
func (t *farTable) keepGood(ctx context.Context, pieces []piece, r farRange) error {
	end := r.off + int64(len(r.body))
	good := func(p piece) bool { return p.off >= r.off && p.end <= end && p.holds(r.body[p.off-r.off:p.end-r.off]) }
	for i := 0; i < len(pieces); i++ {
		if !good(pieces[i]) {
			continue
		}
		from := pieces[i].off
		for i+1 < len(pieces) && good(pieces[i+1]) {
			i++
		}
		to := pieces[i].end
		if err := t.keep(ctx, from, to, r.body[from-r.off:to-r.off]); err != nil {
			return err
		}
	}
	return nil
}

// layout reads the indexes of the table.
func (t *farTable) layout(ctx context.Context, in *farRanges) ([]piece, error) {
	table := &readable{in: in, size: t.bytes}
	table.handle = objstorage.MakeNoopReadHandle(table)
	bad := func(err error) error {
		if in.err != nil {
			return in.err
		}
		return damaged(t.key, "the index, read at offset %d: %v", table.last, err)
	}
	o := &pebble.Options{}
	o.EnsureDefaults()
	r, err := sstable.NewReader(ctx, table, o.MakeReaderOptions())
	if err != nil {
		return nil, bad(err)
	}
	defer r.Close() //nolint:errcheck // nothing was written
	layout, err := r.Layout()
	if err != nil {
		return nil, bad(err)
	}
	var pieces []piece
	for _, h := range blocks(layout) {
		if end := h.Offset + h.Length + block.TrailerLen; h.Length > 0 && end > h.Offset && end <= uint64(t.bytes) {
			pieces = append(pieces, piece{int64(h.Offset), int64(end), true})
		}
	}
	slices.SortFunc(pieces, func(a, b piece) int { return int(a.off - b.off) })
	var all []piece
	at := int64(0)
	for _, p := range pieces {
		if p.off < at {
			continue // a block that two indexes name
		}
		if p.off > at {
			all = append(all, piece{at, p.off, false})
		}
		all = append(all, p)
		at = p.end
	}
	if at < t.bytes {
		all = append(all, piece{at, t.bytes, false})
	}
	return all, nil
}

// farRanges reads a table by ranges, beginning with its end, and holds them.
type farRanges struct {
	ctx    context.Context
	t      *farTable
	ranges []farRange
	sum    uint32
	err    error
}

type farRange struct {
	off  int64
	body []byte
}

// ReadAt implements io.ReaderAt.
func (r *farRanges) ReadAt(p []byte, off int64) (int, error) {
	for _, f := range r.ranges {
		if at := off - f.off; at >= 0 && at+int64(len(p)) <= int64(len(f.body)) {
			return copy(p, f.body[at:]), nil
		}
	}
	size, tail := r.t.bytes, r.t.l.k.b.o.farTail
	from, to := off, min(size, off+max(int64(len(p)), tail/4))
	if len(r.ranges) == 0 {
		from, to = min(off, size-tail), size
	}
	body, err := r.t.get(r.ctx, from, to-from)
	r.sum = r.sum*31 + castagnoli(body)
	if err != nil {
		r.err = err
		return 0, err
	}
	r.ranges = append(r.ranges, farRange{from, body})
	return copy(p, body[off-from:]), nil
}

// complete brings all that is missing and compares the whole with its checksum. One process does so at a time.
func (t *farTable) complete(ctx context.Context) error {
	for !t.whole.Load() && !t.gone.Load() {
		t.mu.Lock()
		other := t.busy
		mine := world.NewLatch(t.l.k.b.e.World)
		if other == nil {
			t.busy = mine
		}
		t.mu.Unlock()
		if other != nil {
			if err := other.Wait(ctx); err != nil {
				return err
			}
			continue
		}
		if err := t.finish(ctx, mine); err != nil && !t.gone.Load() { // one that is gone may be deleted
			return err
		}
	}
	return nil
}

// finish is complete of the one who does it.
func (t *farTable) finish(ctx context.Context, mine *world.Latch) error {
	defer func() {
		t.mu.Lock()
		t.busy = nil
		t.mu.Unlock()
		mine.Open()
	}()
	for {
		t.mu.Lock()
		got := t.got
		a, b := t.gap(0, t.bytes, 0)
		run := slices.Clone(t.pieces[a:b])
		t.mu.Unlock()
		if got*farWaste <= t.bytes {
			return t.replace(ctx)
		}
		if len(run) == 0 {
			break
		}
		if err := t.bring(ctx, run); err != nil {
			return err
		}
	}
	body, err := readFile(t.l.k.b, t.name, nil)
	if err != nil {
		return err
	}
	if int64(len(body)) != t.bytes || castagnoli(body) != t.crc {
		return t.replace(ctx)
	}
	t.whole.Store(true)
	return nil
}

// replace brings the object as a whole.
func (t *farTable) replace(ctx context.Context) error {
	r := restorer{k: t.l.k}
	body, n, err := r.get(ctx, t.object)
	t.l.bytes.Add(n)
	if err != nil {
		return err
	}
	if err := t.keep(ctx, 0, t.bytes, body); err != nil {
		return err
	}
	t.whole.Store(true)
	return nil
}

// within widens the bounds of the table.
func (t *farTable) within(b bounds) {
	if t.from == nil || bytes.Compare(b.from, t.from) < 0 {
		t.from = b.from
	}
	if t.to == nil || bytes.Compare(b.to, t.to) > 0 {
		t.to = b.to
	}
}
