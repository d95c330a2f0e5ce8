package dstl

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/zeebo/xxh3"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/keygroup"
)

// maxArena is the size at which a change set must be ended, since entries address the arena with 32 bits.
const maxArena = 1 << 30

// entryCost is what an entry adds to the size of a change set beside its key and value, about what framing adds.
const entryCost = 4

// opDead marks an entry that a later one superseded.
const opDead Op = 0

// entry is one change in a change set. It holds no pointer, so the collector never looks at millions of them.
type entry struct {
	off    uint32 // of the key in the arena; the value follows it
	keyLen uint32 // of the whole key, for OpAppend the position included
	valLen uint32
	state  backend.StateID
	group  keygroup.ID
	op     Op
}

// changeSet is the changes under one sequence number, in order, coalesced by (state, key group, key). Entries are replayed
// in their order within a key group, which is all that matters: keys of different groups never meet.
//
// A put or delete replaces the earlier change of its key: in place when the size fits and no prefix was deleted in
// between, else the earlier entry is marked dead and a new one is added at the end. Deleting a prefix stays as an entry;
// what it supersedes is only found when the set is compacted or framed, so that it costs no search while appending.
type changeSet struct {
	entries []entry
	arena   []byte
	dead    int // bytes of dead entries in the arena
	deads   int // number of them

	// slots is an open-addressing table: upper half of the hash, then entry number + 1; 0 is free. Its length is a power of two.
	slots []uint64
	// table is the memory of slots, kept between uses.
	table []uint64

	lastPrefix []uint32 // per state: number + 1 of its last OpDeletePrefix, 0 for none
	prefixLens []uint32 // the different lengths of deleted prefixes
	compactAt  int      // size of the arena at which compaction is considered next
}

const (
	minSlots     = 64
	minCompactAt = 64 << 10
)

// reset empties the set for about n entries and keeps its memory.
func (c *changeSet) reset(n int) {
	c.entries, c.arena = c.entries[:0], c.arena[:0]
	c.dead, c.deads = 0, 0
	clear(c.lastPrefix)
	c.prefixLens = c.prefixLens[:0]
	c.compactAt = minCompactAt
	size := minSlots
	for size*3 < n*4 {
		size *= 2
	}
	if len(c.table) < size {
		c.table = make([]uint64, size)
	}
	c.slots = c.table[:size]
	clear(c.slots)
}

// empty tells whether nothing was added since reset.
func (c *changeSet) empty() bool { return len(c.entries) == 0 }

// size is about the number of bytes that the set takes in a segment before compression.
func (c *changeSet) size() int64 {
	return int64(len(c.arena) - c.dead + (len(c.entries)-c.deads)*entryCost)
}

// key and value return parts of the arena.
func (c *changeSet) key(e *entry) []byte   { return c.arena[e.off : e.off+e.keyLen] }
func (c *changeSet) value(e *entry) []byte { return c.arena[e.off+e.keyLen:][:e.valLen] }

// hashOf hashes the place of an element. Deleted prefixes live in the same table under another seed.
func hashOf(s backend.StateID, g keygroup.ID, prefix bool, key []byte) uint64 {
	seed := uint64(s)<<32 | uint64(g)<<8
	if prefix {
		seed |= 1
	}
	return xxh3.HashSeed(key, seed)
}

// add appends one change and coalesces it with an earlier one of the same key.
func (c *changeSet) add(op Op, a backend.Addr, pos uint64, value []byte) {
	off := len(c.arena)
	c.arena = append(c.arena, a.Key...)
	if op == OpAppend {
		c.arena = binary.BigEndian.AppendUint64(c.arena, pos)
	}
	e := entry{off: uint32(off), keyLen: uint32(len(c.arena) - off), valLen: uint32(len(value)), state: a.State, group: a.Group, op: op}
	key := c.arena[off:]
	slot, old := c.find(hashOf(a.State, a.Group, op == OpDeletePrefix, key), &e, key)
	if old != 0 {
		o := &c.entries[old-1]
		if op == OpPut && o.op == OpAppend {
			e.op = OpAppend // the position stays used up
		}
		if op != OpDeletePrefix && o.valLen == e.valLen && old > c.lastPrefixOf(a.State) {
			copy(c.value(o), value)
			o.op = e.op
			c.arena = c.arena[:off]
			return
		}
		c.kill(o)
	}
	c.arena = append(c.arena, value...)
	c.entries = append(c.entries, e)
	n := uint32(len(c.entries))
	c.slots[slot] = c.slots[slot]&^0xffffffff | uint64(n)
	if op == OpDeletePrefix {
		c.notePrefix(a.State, n, e.keyLen)
	}
	if len(c.entries)*4 > len(c.slots)*3 {
		c.rehash(len(c.slots) * 2)
	}
	if len(c.arena) >= c.compactAt {
		c.considerCompaction()
	}
}

// find returns the slot for e's place with its hash filled in, and the number + 1 of the entry there, 0 for none. The hash
// is written to a free slot at once; the caller puts the entry's number beside it.
func (c *changeSet) find(h uint64, e *entry, key []byte) (slot int, old uint32) {
	mask := len(c.slots) - 1
	tag := h &^ 0xffffffff
	for i := int(h) & mask; ; i = (i + 1) & mask {
		v := c.slots[i]
		if v == 0 {
			c.slots[i] = tag
			return i, 0
		}
		if v&^0xffffffff == tag && c.same(&c.entries[uint32(v)-1], e, key) {
			return i, uint32(v)
		}
	}
}

// same tells whether o is at the place of e, whose key is given.
func (c *changeSet) same(o, e *entry, key []byte) bool {
	return o.state == e.state && o.group == e.group && o.keyLen == e.keyLen &&
		(o.op == OpDeletePrefix) == (e.op == OpDeletePrefix) && bytes.Equal(c.key(o), key)
}

// lastPrefixOf is the number + 1 of the last deleted prefix of s, 0 for none.
func (c *changeSet) lastPrefixOf(s backend.StateID) uint32 {
	if int(s) < len(c.lastPrefix) {
		return c.lastPrefix[s]
	}
	return 0
}

func (c *changeSet) notePrefix(s backend.StateID, n, length uint32) {
	for len(c.lastPrefix) <= int(s) {
		c.lastPrefix = append(c.lastPrefix, 0)
	}
	c.lastPrefix[s] = n
	if !slices.Contains(c.prefixLens, length) {
		c.prefixLens = append(c.prefixLens, length)
	}
}

func (c *changeSet) kill(e *entry) {
	c.dead += int(e.keyLen + e.valLen)
	c.deads++
	e.op = opDead
}

// rehash rebuilds the table with the given size, a power of two, over the live entries.
func (c *changeSet) rehash(size int) {
	if len(c.table) < size {
		c.table = make([]uint64, size)
	}
	c.slots = c.table[:size]
	clear(c.slots)
	mask := size - 1
	for i := range c.entries {
		e := &c.entries[i]
		if e.op == opDead {
			continue
		}
		h := hashOf(e.state, e.group, e.op == OpDeletePrefix, c.key(e))
		s := int(h) & mask
		for c.slots[s] != 0 {
			s = (s + 1) & mask
		}
		c.slots[s] = h&^0xffffffff | uint64(i+1)
	}
}

// superseded tells whether a prefix deleted after entry number n (from 0) covers it.
func (c *changeSet) superseded(n int, e *entry) bool {
	if uint32(n+1) >= c.lastPrefixOf(e.state) {
		return false
	}
	key := c.key(e)
	for _, l := range c.prefixLens {
		if l > e.keyLen || l == e.keyLen && e.op == OpDeletePrefix {
			continue
		}
		if p := c.prefixEntry(e, key[:l]); p > uint32(n+1) {
			return true
		}
	}
	return false
}

// prefixEntry looks up the number + 1 of the live entry that deletes prefix in the state and group of e, 0 for none.
func (c *changeSet) prefixEntry(e *entry, prefix []byte) uint32 {
	want := entry{state: e.state, group: e.group, keyLen: uint32(len(prefix)), op: OpDeletePrefix}
	h := hashOf(e.state, e.group, true, prefix)
	mask := len(c.slots) - 1
	for i := int(h) & mask; c.slots[i] != 0; i = (i + 1) & mask {
		v := c.slots[i]
		if v&^0xffffffff == h&^0xffffffff && c.same(&c.entries[uint32(v)-1], &want, prefix) {
			return uint32(v)
		}
	}
	return 0
}

// considerCompaction compacts when that is likely to free much, and says when to consider it again, so that the cost stays
// proportional to what is appended.
func (c *changeSet) considerCompaction() {
	if c.dead*2 >= len(c.arena) || len(c.prefixLens) > 0 {
		c.compact()
	}
	c.compactAt = max(minCompactAt, 2*len(c.arena))
}

// compact removes dead and superseded entries in place.
func (c *changeSet) compact() {
	for i := range c.entries {
		if e := &c.entries[i]; e.op != opDead && c.superseded(i, e) {
			// The table still names it, which is what later lookups of prefixes rely on until rehash.
			e.valLen |= supersededMark
		}
	}
	kept, used := c.entries[:0], uint32(0)
	clear(c.lastPrefix)
	for _, e := range c.entries {
		if e.op == opDead || e.valLen&supersededMark != 0 {
			continue
		}
		n := copy(c.arena[used:], c.arena[e.off:e.off+e.keyLen+e.valLen])
		e.off = used
		used += uint32(n)
		kept = append(kept, e)
		if e.op == OpDeletePrefix {
			c.lastPrefix[e.state] = uint32(len(kept))
		}
	}
	c.entries, c.arena, c.dead, c.deads = kept, c.arena[:used], 0, 0
	c.rehash(len(c.slots))
}

// supersededMark flags an entry during compaction; no value is that long.
const supersededMark = 1 << 31
