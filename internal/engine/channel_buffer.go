package engine

import (
	"time"

	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/keygroup"
)

// bufferBytes is the size of a buffer's slab at which it counts as full, whatever the number of its records.
const bufferBytes = 64 << 10

// buffer carries records of one producer subtask to one consumer subtask. Keys and values lie in one slab, so a record costs no
// allocation. A buffer has one owner at a time: the producer that fills it, then the channel, then the consumer, which gives it
// back to the channel's free list.
type buffer struct {
	slab []byte
	recs []entry
}

// entry is the fixed part of a record in a buffer.
type entry struct {
	eventTime int64
	due       time.Duration
	index     int64
	off       uint32 // of the key in the slab; the value follows it
	key       uint32 // length
	value     uint32 // length
	hash      int32
	partition int32
	group     keygroup.ID
	tag       uint8
}

// put appends a copy of r, whose key is of the given group.
func (b *buffer) put(r *graph.Record, group keygroup.ID) {
	b.recs = append(b.recs, entry{
		eventTime: r.EventTime, due: r.Due, index: r.Index,
		off: uint32(len(b.slab)), key: uint32(len(r.Key)), value: uint32(len(r.Value)),
		hash: r.Hash, partition: r.Partition, group: group, tag: r.Tag,
	})
	b.slab = append(append(b.slab, r.Key...), r.Value...)
}

// get makes r a view of record i, which borrows the buffer's bytes, and returns its key group.
func (b *buffer) get(i int, r *graph.Record) keygroup.ID {
	e := &b.recs[i]
	k := e.off + e.key
	v := k + e.value
	r.Key, r.Value = b.slab[e.off:k:k], b.slab[k:v:v]
	r.Hash, r.EventTime, r.Due = e.hash, e.eventTime, e.due
	r.Partition, r.Index, r.Tag = e.partition, e.index, e.tag
	return e.group
}

// full tells whether the buffer is to be sent.
func (b *buffer) full(records int) bool { return len(b.recs) >= records || len(b.slab) >= bufferBytes }

// reset empties the buffer for its next use. A slab that one huge record made large is not kept.
func (b *buffer) reset() {
	b.recs = b.recs[:0]
	if cap(b.slab) > 2*bufferBytes {
		b.slab = nil
	}
	b.slab = b.slab[:0]
}
