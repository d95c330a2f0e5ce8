package lsm

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/zeebo/xxh3"
)

// rows are the current values of point states, in memory, in front of the tree: a bounded table from stored keys to values.
// A value that is replaced is overwritten in place, and the tree hears of it at the next spill only, however often that was;
// reading a value again costs a hash and no search through levels. Scanned states are not kept here.
//
// A row is dirty until the tree has it. When the table is full its clean rows go that were not touched for longest, or all.
type rows struct {
	limit   int64
	entries []row
	slots   []uint64 // upper half of the hash, then row number + 1; 0 is free. Its length is a power of two.
	chunks  [][]byte // keys and values, each pair in one chunk
	dead    int64    // bytes of chunks that no row refers to
	dirty   []uint32 // numbers of the dirty rows
	unsaved int64    // bytes of the dirty rows
	last    int      // row that was looked up last

	deferring bool     // changes are remembered for Changed
	changed   []uint32 // numbers of the rows that it will hand out
	waiting   int64    // their size
}

// row is an element, or the knowledge that there is none.
type row struct {
	chunk, off uint32 // of the key; the value follows it
	keyLen     uint32
	valLen     uint32
	valCap     uint32
	flags      rowFlags
}

type rowFlags uint8

const (
	rowDirty   rowFlags = 1 << iota // the tree does not have it yet
	rowGone                         // there is no such element
	rowTouched                      // used since the last rebuild
	rowUnknown                      // the tree knows, the table does not
	rowFrozen                       // a spill reads its bytes
	rowChanged                      // Changed will hand it out
)

const (
	rowChunk = 64 << 10
	// rowMost is the size of key and value beyond which a row is not kept.
	rowMost = rowChunk / 4
	// rowCost is what a row takes beside its key and value, its share of the slots included.
	rowCost  = 24 + 16
	minSlots = 256
)

func newRows(limit int64) *rows { return &rows{limit: limit, slots: make([]uint64, minSlots)} }

// size is the memory in use, about.
func (t *rows) size() int64 { return int64(len(t.chunks))*rowChunk + int64(len(t.entries))*rowCost }

// full tells whether rebuild is due.
func (t *rows) full() bool { return t.size() > t.limit }

func (t *rows) key(r *row) []byte { return t.chunks[r.chunk][r.off : r.off+r.keyLen] }

func (t *rows) value(r *row) []byte {
	from := r.off + r.keyLen
	return t.chunks[r.chunk][from : from+r.valLen : from+r.valLen]
}

// find returns the row of key, nil if there is none or what it says is not known.
func (t *rows) find(key []byte) *row {
	n, _ := t.lookup(key)
	if n < 0 || t.entries[n].flags&rowUnknown != 0 {
		return nil
	}
	r := &t.entries[n]
	r.flags |= rowTouched
	return r
}

// lookup returns the number of key's row, or -1 and the key's hash. What was asked for last is found at once: a record reads
// its value and then replaces it.
func (t *rows) lookup(key []byte) (n int, h uint64) {
	if t.last < len(t.entries) && bytes.Equal(t.key(&t.entries[t.last]), key) {
		return t.last, 0
	}
	h = xxh3.Hash(key)
	mask := len(t.slots) - 1
	for i := int(h) & mask; t.slots[i] != 0; i = (i + 1) & mask {
		v := t.slots[i]
		if v>>32 == h>>32 {
			if n := int(uint32(v)) - 1; bytes.Equal(t.key(&t.entries[n]), key) {
				t.last = n
				return n, h
			}
		}
	}
	return -1, h
}

// put sets the element key and returns its row; gone says that there is none, and then value is empty. dirty says that the
// tree does not know.
func (t *rows) put(key, value []byte, gone, dirty bool) *row {
	n, h := t.lookup(key)
	if n < 0 {
		n = t.add(h, key, value)
	} else {
		r := &t.entries[n]
		if r.flags&rowChanged != 0 {
			t.waiting += int64(len(value)) - int64(r.valLen)
		}
		t.replace(r, key, value)
	}
	r := &t.entries[n]
	r.flags = r.flags&(rowDirty|rowChanged) | rowTouched
	if gone {
		r.flags |= rowGone
	}
	if dirty {
		t.soil(uint32(n))
		t.note(uint32(n))
	}
	return r
}

// replace writes another value into r, in place if it fits.
func (t *rows) replace(r *row, key, value []byte) {
	if len(value) > int(r.valCap) || r.flags&rowFrozen != 0 {
		t.dead += int64(r.keyLen + r.valCap)
		if r.flags&rowDirty != 0 {
			t.unsaved += int64(len(value)) - int64(r.valCap)
		}
		r.chunk, r.off = t.room(len(key) + len(value))
		copy(t.chunks[r.chunk][r.off:], key)
		r.valCap = uint32(len(value))
	}
	r.valLen = uint32(len(value))
	copy(t.value(r), value)
}

// add makes a row for a key that has none, and returns its number.
func (t *rows) add(h uint64, key, value []byte) int {
	chunk, off := t.room(len(key) + len(value))
	size := uint32(len(value))
	t.entries = append(t.entries, row{chunk: chunk, off: off, keyLen: uint32(len(key)), valLen: size, valCap: size})
	n := len(t.entries) - 1
	t.last = n
	copy(t.chunks[chunk][off:], key)
	copy(t.value(&t.entries[n]), value)
	if len(t.entries)*4 > len(t.slots)*3 {
		t.rehash(2 * len(t.slots))
	} else {
		t.link(h, n)
	}
	return n
}

// link enters row n under its hash.
func (t *rows) link(h uint64, n int) {
	mask := len(t.slots) - 1
	i := int(h) & mask
	for t.slots[i] != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = h>>32<<32 | uint64(n+1)
}

func (t *rows) rehash(size int) {
	t.slots = make([]uint64, size)
	for n := range t.entries {
		t.link(xxh3.Hash(t.key(&t.entries[n])), n)
	}
}

// room finds n bytes in the last chunk, or in a new one.
func (t *rows) room(n int) (chunk, off uint32) {
	last := len(t.chunks) - 1
	if last < 0 || len(t.chunks[last])+n > rowChunk {
		t.chunks = append(t.chunks, make([]byte, 0, rowChunk))
		last++
	}
	off = uint32(len(t.chunks[last]))
	t.chunks[last] = t.chunks[last][:int(off)+n]
	return uint32(last), off
}

// forget says that the tree alone knows the element key from now on.
func (t *rows) forget(key []byte) {
	if n, _ := t.lookup(key); n >= 0 {
		t.entries[n].flags = t.entries[n].flags&(rowDirty|rowChanged) | rowUnknown
	}
}

// rebuild makes room: the rows stay that were used since the last time, if they take no more than half of the limit; all do
// if dead bytes are what filled the table. No row may be dirty, frozen or wait for Changed. Chunks are not used again: what was
// read from them is lent.
func (t *rows) rebuild() {
	keep := rowTouched
	if t.dead > t.limit/2 {
		keep = 0
	}
	old, chunks, size := t.entries, t.chunks, int64(0)
	stays := func(r *row) bool { return r.flags&keep == keep && r.flags&rowUnknown == 0 }
	for i := range old {
		if r := &old[i]; stays(r) {
			size += int64(r.keyLen+r.valLen) + rowCost
		}
	}
	t.entries, t.chunks, t.dead = nil, nil, 0
	clear(t.slots)
	if size > t.limit/2 && keep != 0 {
		return
	}
	for i := range old {
		r := &old[i]
		if !stays(r) {
			continue
		}
		b := chunks[r.chunk][r.off:]
		key := b[:r.keyLen]
		n := t.add(xxh3.Hash(key), key, b[r.keyLen:r.keyLen+r.valLen])
		t.entries[n].flags = r.flags &^ rowTouched
	}
}

// spilled is what a spill writes: rows as they were when it was taken. It may be read beside the loop.
type spilled struct {
	places []place
	chunks [][]byte
}

// place is where a row lay.
type place struct {
	first, second uint64 // the beginning of the key
	chunk, off    uint32
	keyLen        uint32
	valLen        uint32
	row           uint32
	gone          bool
}

func (s *spilled) key(p *place) []byte { return s.chunks[p.chunk][p.off : p.off+p.keyLen] }

func (s *spilled) value(p *place) []byte { return s.chunks[p.chunk][p.off+p.keyLen:][:p.valLen] }

// sort puts the rows in the order of their keys.
func (s *spilled) sort() {
	slices.SortFunc(s.places, func(a, b place) int {
		switch {
		case a.first != b.first:
			return cmpUint(a.first, b.first)
		case a.second != b.second:
			return cmpUint(a.second, b.second)
		}
		return bytes.Compare(s.key(&a), s.key(&b))
	})
}

// take makes the dirty rows those of a spill. Until release they are frozen: what replaces one is written elsewhere, and
// makes it dirty again.
func (t *rows) take() *spilled {
	s := &spilled{places: make([]place, 0, len(t.dirty)), chunks: slices.Clone(t.chunks)}
	for _, n := range t.dirty {
		r := &t.entries[n]
		r.flags &^= rowDirty
		if r.flags&rowUnknown != 0 {
			continue
		}
		r.flags |= rowFrozen
		p := place{chunk: r.chunk, off: r.off, keyLen: r.keyLen, valLen: r.valLen, row: n, gone: r.flags&rowGone != 0}
		p.first, p.second = beginning(t.key(r))
		s.places = append(s.places, p)
	}
	t.dirty, t.unsaved = t.dirty[:0], 0
	return s
}

// release ends a spill. If it failed, its rows are dirty as before.
func (t *rows) release(s *spilled, failed bool) {
	for i := range s.places {
		n := s.places[i].row
		r := &t.entries[n]
		if r.flags&rowFrozen == 0 {
			continue // replaced since
		}
		r.flags &^= rowFrozen
		if failed {
			t.soil(n)
		}
	}
}

// soil makes row n dirty.
func (t *rows) soil(n uint32) {
	r := &t.entries[n]
	if r.flags&rowDirty == 0 {
		r.flags |= rowDirty
		t.dirty = append(t.dirty, n)
		t.unsaved += int64(r.keyLen + r.valCap)
	}
}

// beginning is the first 16 bytes of b as numbers that compare like them.
func beginning(b []byte) (first, second uint64) {
	var head [16]byte
	copy(head[:], b)
	return binary.BigEndian.Uint64(head[:]), binary.BigEndian.Uint64(head[8:])
}
