package heap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// errFull: the memory of one subtask is addressed by 32 bits in units of 8 bytes.
var errFull = errors.New("heap state of one subtask has reached its limit of 32 GiB")

const (
	unitBits  = 3                     // memory is given out in units of 8 bytes
	chunkBits = 17                    // units of address space a chunk takes: 1 MiB
	unitMask  = 1<<chunkBits - 1      // the unit inside the chunk
	maxChunks = 1 << (32 - chunkBits) // 32 GiB
	maxUnits  = 1 << (chunkBits - 2)  // a larger entry gets a chunk of its own
	minChunk  = 16 << 10              // the first chunk in bytes; each next one is twice as large up to 1 MiB
	maxChunk  = 1 << (chunkBits + unitBits)
	nClasses  = 112
	hugeClass = 255

	entryHeader = 12         // version, length of the value, length of the key and size class
	maxKey      = 1<<24 - 1  // bytes of an element's key
	maxValue    = 1<<31 - 64 // bytes of a value
)

// memory is how entries and leaves are read, by the loop and by snapshots. Chunks are never moved. A snapshot holds a copy of
// the two slice headers: what it can reach is not written to until it is released.
type memory struct {
	chunks [][]byte
	leaves []*leafChunk
}

// entry returns the memory from the entry at ref on. An entry is: version uint32, length of the value uint32, length of the
// key << 8 | size class uint32, key, value.
func (m *memory) entry(ref uint32) []byte {
	return m.chunks[ref>>chunkBits][(ref&unitMask)<<unitBits:]
}

func (m *memory) key(ref uint32) []byte {
	e := m.entry(ref)
	return e[entryHeader : entryHeader+binary.LittleEndian.Uint32(e[8:])>>8]
}

func (m *memory) keyValue(ref uint32) (key, value []byte) {
	e := m.entry(ref)
	k := entryHeader + binary.LittleEndian.Uint32(e[8:])>>8
	v := k + binary.LittleEndian.Uint32(e[4:])
	return e[entryHeader:k:k], e[k:v:v]
}

// classOf returns the size class of an entry of that many units, 1 <= units <= maxUnits: 1 to 32 units exactly, above that
// eight classes for each doubling.
func classOf(units int) int {
	if units <= 32 {
		return units - 1
	}
	b := bits.Len32(uint32(units - 1))
	return 32 + (b-6)*8 + (units-1-1<<(b-1))>>(b-4)
}

// classUnits is the size of a class.
func classUnits(class int) int {
	if class < 32 {
		return class + 1
	}
	b := (class-32)/8 + 6
	return 1<<(b-1) + ((class-32)%8+1)<<(b-4)
}

// arena holds the entries and leaves of one subtask. It is pointer-free but for its chunks, so the garbage collector has
// nothing to look at. Freed memory is used again: at once if no live snapshot can reach it, else after those are released.
// Only the loop uses it.
//
// Note: memory does not move between size classes, but for a fallback to somewhat larger ones, and is not given back to
// the runtime before Close; chunks of entries above 256 KiB are.
type arena struct {
	memory
	versions *versions
	next     uint32 // first free unit of the newest chunk
	end      uint32
	chunk    int // size of the next chunk in bytes
	free     [nClasses]uint32
	ids      []uint32 // of chunks that were given back
	freeLeaf []uint32
	dead     graveyard // entries
	deadLeaf graveyard

	live     int64 // bytes of keys and values that are reachable
	elements int64
}

func newArena(v *versions) arena { return arena{versions: v, chunk: minChunk} }

// put stores a new entry of the current version.
func (a *arena) put(key, value []byte) (uint32, error) {
	if len(key) > maxKey || len(value) > maxValue {
		return 0, fmt.Errorf("element with a key of %d and a value of %d bytes is too large", len(key), len(value))
	}
	ref, class, err := a.alloc((entryHeader + len(key) + len(value) + 1<<unitBits - 1) >> unitBits)
	if err != nil {
		return 0, err
	}
	e := a.entry(ref)
	binary.LittleEndian.PutUint32(e, a.versions.current)
	binary.LittleEndian.PutUint32(e[4:], uint32(len(value)))
	binary.LittleEndian.PutUint32(e[8:], uint32(len(key))<<8|uint32(class))
	copy(e[entryHeader:], key)
	copy(e[entryHeader+len(key):], value)
	a.live += int64(len(key) + len(value))
	a.elements++
	return ref, nil
}

// overwrite replaces the value of the entry in place, unless a snapshot can reach the entry or the value does not fit.
func (a *arena) overwrite(ref uint32, value []byte) bool {
	e := a.entry(ref)
	if binary.LittleEndian.Uint32(e) <= a.versions.newest() {
		return false
	}
	meta := binary.LittleEndian.Uint32(e[8:])
	at, was := entryHeader+int(meta>>8), int(binary.LittleEndian.Uint32(e[4:]))
	if class := meta & 0xFF; class == hugeClass {
		if at+len(value) > len(e) || len(value) < was/2 {
			return false
		}
	} else if units := classUnits(int(class)); at+len(value) > units<<unitBits || units > 8 && at+len(value) < units<<(unitBits-1) {
		return false // too long, or so short that a smaller class saves half of the memory
	}
	copy(e[at:], value)
	binary.LittleEndian.PutUint32(e[4:], uint32(len(value)))
	a.live += int64(len(value) - was)
	return true
}

// update makes value the one of the entry, in place or in a new entry, and returns its ref.
func (a *arena) update(ref uint32, value []byte) (uint32, error) {
	if a.overwrite(ref, value) {
		return ref, nil
	}
	fresh, err := a.put(a.key(ref), value)
	if err != nil {
		return 0, err
	}
	a.remove(ref)
	return fresh, nil
}

// remove gives up an entry that the loop cannot reach any more.
func (a *arena) remove(ref uint32) {
	key, value := a.keyValue(ref)
	a.live -= int64(len(key) + len(value))
	a.elements--
	if binary.LittleEndian.Uint32(a.entry(ref)) > a.versions.newest() {
		a.release(ref)
		return
	}
	a.dead.bury(ref, a.versions.current)
}

func (a *arena) release(ref uint32) {
	e := a.entry(ref)
	class := binary.LittleEndian.Uint32(e[8:]) & 0xFF
	if class == hugeClass {
		a.chunks[ref>>chunkBits] = nil
		a.ids = append(a.ids, ref>>chunkBits)
		return
	}
	a.shelve(ref, int(class))
}

// shelve puts free memory on the list of its class, linked through its first bytes.
func (a *arena) shelve(ref uint32, class int) {
	binary.LittleEndian.PutUint32(a.entry(ref), a.free[class])
	a.free[class] = ref
}

func (a *arena) alloc(units int) (ref uint32, class int, err error) {
	a.reap()
	if units > maxUnits {
		if len(a.chunks) == 0 { // ref 0 stands for none
			if err := a.newChunk(0); err != nil {
				return 0, 0, err
			}
		}
		id, err := a.addChunk(make([]byte, units<<unitBits))
		return id << chunkBits, hugeClass, err
	}
	class = classOf(units)
	// Up to a quarter of waste is better than a new chunk.
	for c := class; c < nClasses && classUnits(c) <= units+units/4; c++ {
		if ref := a.free[c]; ref != 0 {
			a.free[c] = binary.LittleEndian.Uint32(a.entry(ref))
			return ref, c, nil
		}
	}
	size := uint32(classUnits(class))
	if a.end-a.next < size {
		if err := a.newChunk(int(size) << unitBits); err != nil {
			return 0, 0, err
		}
	}
	ref = a.next
	a.next += size
	return ref, class, nil
}

// newChunk begins a chunk with room for at least size bytes. What is left of the one before goes to the free lists.
func (a *arena) newChunk(size int) error {
	for a.next < a.end {
		class := min(classOf(min(int(a.end-a.next), maxUnits)), nClasses-1)
		if classUnits(class) > int(a.end-a.next) {
			class--
		}
		a.shelve(a.next, class)
		a.next += uint32(classUnits(class))
	}
	for a.chunk < size+1<<unitBits { // one unit more than needed: see below
		a.chunk *= 2
	}
	id, err := a.addChunk(make([]byte, a.chunk))
	if err != nil {
		return err
	}
	a.next, a.end = id<<chunkBits, id<<chunkBits+uint32(a.chunk>>unitBits)
	if id == 0 {
		a.next++ // no entry has ref 0, which stands for none
	}
	a.chunk = min(2*a.chunk, maxChunk)
	return nil
}

func (a *arena) addChunk(b []byte) (uint32, error) {
	if n := len(a.ids); n > 0 {
		id := a.ids[n-1]
		a.ids = a.ids[:n-1]
		a.chunks[id] = b
		return id, nil
	}
	if len(a.chunks) == maxChunks-1 { // the end of the last one would not fit 32 bits
		return 0, errFull
	}
	a.chunks = append(a.chunks, b)
	return uint32(len(a.chunks) - 1), nil
}

// reap frees a few of the entries and leaves that no snapshot can reach any more: fewer than were buried by the same
// number of operations would let them pile up.
func (a *arena) reap() {
	for range 4 {
		ref, ok := a.dead.exhume(a.versions)
		if !ok {
			break
		}
		a.release(ref)
	}
	for range 4 {
		id, ok := a.deadLeaf.exhume(a.versions)
		if !ok {
			break
		}
		a.freeLeaf = append(a.freeLeaf, id)
	}
}

// sameKey tells whether the entry has that key.
func (m *memory) sameKey(ref uint32, key []byte) bool { return bytes.Equal(m.key(ref), key) }

// tomb is memory given up when version was the current one: snapshots of older versions may still read it.
type tomb struct{ ref, version uint32 }

// graveyard is a queue of tombs in order of version.
type graveyard struct {
	tombs []tomb
	head  int
}

func (g *graveyard) bury(ref, version uint32) {
	if len(g.tombs) == cap(g.tombs) && g.head > len(g.tombs)/2 {
		g.tombs = g.tombs[:copy(g.tombs, g.tombs[g.head:])]
		g.head = 0
	}
	g.tombs = append(g.tombs, tomb{ref, version})
}

// exhume takes the oldest tomb that no live snapshot can read.
func (g *graveyard) exhume(v *versions) (uint32, bool) {
	if g.head == len(g.tombs) || g.tombs[g.head].version > v.oldest() {
		return 0, false
	}
	ref := g.tombs[g.head].ref
	if g.head++; g.head == len(g.tombs) {
		g.tombs, g.head = g.tombs[:0], 0
	}
	return ref, true
}
