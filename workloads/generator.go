package workloads

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"statebench.dev/bench/internal/seed"
)

// generator makes the records of a synthetic source: keys, payloads and times, each a pure function of (seed, partition,
// index). Key number id belongs to partition id modulo partitions, so a key has one partition. Every payload is fresh:
// a pool of repeated ones would make each compression figure wrong.
type generator struct {
	partitions []partitionGenerator
	salt       uint64 // spreads key numbers over 64 bits
	hotset     hotset
	size       int     // of a payload, bytes
	random     int     // of them incompressible
	remove     uint64  // draws in 2^32 that take a key's state away
	fill       bool    // the first records of a partition visit its keys in order
	spacing    float64 // ns between records of the whole source
	quick      int64   // records of the whole source that come at a faster pace
	pace       float64 // of these, as a multiple of the rate
}

// partitionGenerator is what differs between partitions.
type partitionGenerator struct {
	base  uint64      // of its random words
	keys  int64       // it has
	ranks *aliasTable // which of them are popular; nil: uniform
	limit int64       // records; MaxInt64: not known
}

// hotset moves the popularity of keys: every so often the ranks shift by step keys. The zero value moves nothing.
type hotset struct {
	step, every int64
}

// generatorOptions are what newGenerator needs.
type generatorOptions struct {
	seed       uint64
	partitions int
	keys       int64
	zipf       float64 // exponent; 0: uniform
	hotShare   float64 // of the keys
	hotEvery   int64   // ns of event time; 0: never
	size       int
	compress   float64
	remove     float64
	rate       float64
	total      int64
	fill       bool
	pace       float64 // of the fill, as a multiple of the rate; 0: 1
}

// golden is the odd number next to 2^64 divided by the golden ratio, the step of a Weyl sequence.
const golden = 0x9e3779b97f4a7c15

func newGenerator(o generatorOptions) *generator {
	g := &generator{salt: seed.Hash(o.seed, "workload/keys"), size: o.size, fill: o.fill, remove: uint64(o.remove * (1 << 32)),
		random: o.size - int(math.Round(float64(o.size)*o.compress)), spacing: 1000}
	if o.rate > 0 {
		g.spacing = 1e9 / o.rate
		if o.fill && o.pace > 1 {
			g.quick, g.pace = o.keys, o.pace
		}
	}
	tables := map[int64]*aliasTable{} // partitions have one of two numbers of keys
	for p := range o.partitions {
		n, limit := limitOf(p, o.partitions, o.keys), int64(math.MaxInt64)
		if o.total > 0 && o.total < math.MaxInt64 {
			limit = limitOf(p, o.partitions, o.total)
		}
		if o.zipf > 0 && tables[n] == nil {
			tables[n] = newZipf(n, o.zipf)
		}
		g.partitions = append(g.partitions, partitionGenerator{keys: n, ranks: tables[n], limit: limit,
			base: seed.Hash(o.seed, fmt.Sprintf("workload/records/%d", p))})
	}
	if o.hotEvery > 0 {
		g.hotset = hotset{step: max(1, int64(o.hotShare*float64(o.keys)/float64(o.partitions))), every: o.hotEvery}
	}
	return g
}

// mix is a bijection of 64-bit words whose output bits each depend on all input bits (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// draw is the random word of a record, from which all else of it follows.
func (g *generator) draw(partition int, index int64) uint64 {
	return mix(g.partitions[partition].base + uint64(index)*golden)
}

// local is the number of the record's key among those of its partition.
func (g *generator) local(partition int, index int64, draw uint64) int64 {
	part := &g.partitions[partition]
	n := part.keys
	if g.fill && index < n {
		return index
	}
	column, rest := bits.Mul64(draw, uint64(n))
	rank := int64(column)
	if part.ranks != nil {
		rank = part.ranks.pick(column, uint32(rest>>32))
	}
	if h := g.hotset; h.every > 0 {
		rank = (rank + g.eventTime(partition, index)/h.every%n*h.step) % n
	}
	return rank
}

// key is the 64-bit key of a partition's local key number.
func (g *generator) key(partition int, local int64) uint64 {
	return mix(uint64(local*int64(len(g.partitions))+int64(partition)) ^ g.salt)
}

// removes tells whether the record takes its key's state away.
func (g *generator) removes(draw uint64) bool {
	return g.remove > 0 && mix(draw^golden)>>32 < g.remove
}

// payload fills dst with the first len(dst) bytes of the record's payload: random ones, then one byte repeated.
func (g *generator) payload(dst []byte, draw uint64) {
	random := min(g.random, len(dst))
	word, i := draw, 0
	for ; i+8 <= random; i += 8 {
		word += golden
		binary.LittleEndian.PutUint64(dst[i:], mix(word))
	}
	for last := mix(word + golden); i < random; i++ {
		dst[i] = byte(last)
		last >>= 8
	}
	fill := byte(draw>>56) | 1
	same := uint64(fill) * 0x0101010101010101
	for ; i+8 <= len(dst); i += 8 {
		binary.LittleEndian.PutUint64(dst[i:], same)
	}
	for ; i < len(dst); i++ {
		dst[i] = fill
	}
}

// eventTime is the event time of a record in nanoseconds, which is also when it is due if the source has a rate.
func (g *generator) eventTime(partition int, index int64) int64 {
	n := index*int64(len(g.partitions)) + int64(partition)
	if n < g.quick {
		return int64(float64(n) * g.spacing / g.pace)
	}
	if g.quick > 0 {
		return int64((float64(g.quick)/g.pace + float64(n-g.quick)) * g.spacing)
	}
	return int64(float64(n) * g.spacing)
}

// watermark is an event time that no record of the partition from index on is before. A partition without a record
// holds nothing back.
func (g *generator) watermark(partition int, index int64) int64 {
	if g.partitions[partition].limit == 0 {
		return math.MaxInt64
	}
	return g.eventTime(partition, index)
}
