package sinks

import (
	"math/bits"
	"sort"
)

// chunkBits is how many indices one chunk covers. Small chunks keep the open transactions of many subtasks small.
const chunkBits = 512

// chunk holds the bits of the indices [id*chunkBits, (id+1)*chunkBits).
type chunk struct {
	id    int64
	words [chunkBits / 64]uint64
}

// bitmap is a sparse set of indices, as chunks in order of id. The zero value is empty.
type bitmap struct {
	chunks []chunk
	recent int // where the last index was set: indices nearly grow
}

// set adds index and tells whether it was there already.
func (b *bitmap) set(index int64) (twice bool) {
	c := b.at(index / chunkBits)
	word, bit := &c.words[index%chunkBits/64], uint64(1)<<(index%64)
	twice = *word&bit != 0
	*word |= bit
	return twice
}

// at finds or makes the chunk of that id.
func (b *bitmap) at(id int64) *chunk {
	if b.recent < len(b.chunks) && b.chunks[b.recent].id == id {
		return &b.chunks[b.recent]
	}
	i := b.search(id)
	if i == len(b.chunks) || b.chunks[i].id != id {
		b.chunks = append(b.chunks, chunk{})
		copy(b.chunks[i+1:], b.chunks[i:])
		b.chunks[i] = chunk{id: id}
	}
	b.recent = i
	return &b.chunks[i]
}

// search is the place of the first chunk whose id is at least id.
func (b *bitmap) search(id int64) int {
	if n := len(b.chunks); n == 0 || b.chunks[n-1].id < id {
		return n
	}
	return sort.Search(len(b.chunks), func(i int) bool { return b.chunks[i].id >= id })
}

// has tells whether index is in the set.
func (b *bitmap) has(index int64) bool {
	i := b.search(index / chunkBits)
	return i < len(b.chunks) && b.chunks[i].id == index/chunkBits && b.chunks[i].words[index%chunkBits/64]&(1<<(index%64)) != 0
}

// merge adds all of o and calls twice for each index that was there already.
func (b *bitmap) merge(o []chunk, twice func(index int64)) {
	for i := range o {
		into := b.at(o[i].id)
		for w, word := range o[i].words {
			for both := into.words[w] & word; both != 0; both &= both - 1 {
				twice(o[i].id*chunkBits + int64(w*64+bits.TrailingZeros64(both)))
			}
			into.words[w] |= word
		}
	}
}

// each calls f for every index of the set from from on, in order, until f returns false.
func (b *bitmap) each(from int64, f func(index int64) bool) {
	for i := b.search(from / chunkBits); i < len(b.chunks); i++ {
		for w, word := range b.chunks[i].words {
			for ; word != 0; word &= word - 1 {
				index := b.chunks[i].id*chunkBits + int64(w*64+bits.TrailingZeros64(word))
				if index >= from && !f(index) {
					return
				}
			}
		}
	}
}

// count is the size of the set.
func (b *bitmap) count() (n int64) {
	for i := range b.chunks {
		for _, word := range b.chunks[i].words {
			n += int64(bits.OnesCount64(word))
		}
	}
	return n
}
