// Package keygroup maps keys to key groups and key groups to subtasks, exactly as Apache Flink's
// KeyGroupRangeAssignment and MathUtils do, so that state moves between subtasks as it does there.
//
// A key group is the unit of state redistribution: hash(key) modulo the job's max parallelism. Each of p subtasks owns
// one contiguous range of them.
package keygroup

import "fmt"

// MaxParallelism is the largest max parallelism a job may have.
const MaxParallelism = 1 << 15

// ID is a key group, 0 <= ID < max parallelism.
type ID uint16

// Range is the half-open range [From, To) of key groups.
type Range struct {
	From ID `json:"from"`
	To   ID `json:"to"`
}

// Contains tells whether g lies in r.
func (r Range) Contains(g ID) bool { return r.From <= g && g < r.To }

// Len is the number of key groups in r.
func (r Range) Len() int { return max(0, int(r.To)-int(r.From)) }

// Empty tells whether r has no key group.
func (r Range) Empty() bool { return r.To <= r.From }

// Intersect returns the key groups that are in both; an empty intersection is the zero Range.
func (r Range) Intersect(o Range) Range {
	i := Range{From: max(r.From, o.From), To: min(r.To, o.To)}
	if i.Empty() {
		return Range{}
	}
	return i
}

// String writes r as [from,to).
func (r Range) String() string { return fmt.Sprintf("[%d,%d)", r.From, r.To) }

// RangeOf returns the key groups owned by subtask i of p, as a half-open range.
// It needs 0 <= i < p <= max <= MaxParallelism; the p ranges are disjoint and cover [0, max).
// The arithmetic is that of Flink's KeyGroupRangeAssignment, whose ranges are closed.
func RangeOf(i, p, max int) Range {
	check(p, max)
	if i < 0 || i >= p {
		panic(fmt.Sprintf("keygroup: subtask %d of %d does not exist", i, p))
	}
	return Range{From: ID((i*max + p - 1) / p), To: ID(((i+1)*max-1)/p + 1)}
}

// SubtaskOf returns the subtask of p that owns g; it needs g < max and 1 <= p <= max <= MaxParallelism.
func SubtaskOf(g ID, p, max int) int {
	return int(g) * p / max
}

func check(p, max int) {
	if p < 1 || p > max || max > MaxParallelism {
		panic(fmt.Sprintf("keygroup: parallelism %d and max parallelism %d do not fit: need 1 <= p <= max <= %d", p, max, MaxParallelism))
	}
}

// Of returns the key group of a key with the given hash (HashInt64, HashString, HashBytes); 1 <= max <= MaxParallelism.
// It is Flink's murmur hash of the Java hash code, made non-negative by its sign rule, modulo max.
func Of(hash int32, max int) ID {
	return ID(murmur(hash) % int32(max))
}

// HashInt64 is Java's Long.hashCode.
func HashInt64(v int64) int32 { return int32(uint32(v) ^ uint32(uint64(v)>>32)) }

// HashBytes is Java's Arrays.hashCode(byte[]).
func HashBytes(b []byte) int32 {
	h := int32(1)
	for _, c := range b {
		h = 31*h + int32(int8(c))
	}
	return h
}

// HashString is Java's String.hashCode, over UTF-16 code units.
func HashString(s string) int32 {
	h := int32(0)
	for _, r := range s {
		if r >= 0x10000 {
			r -= 0x10000
			h = 31*h + int32(0xD800+(r>>10))
			r = 0xDC00 + (r & 0x3FF)
		}
		h = 31*h + int32(r)
	}
	return h
}

// murmur is MathUtils.murmurHash of Flink: murmur3 of one 32-bit word, finalised with length 4.
func murmur(code int32) int32 {
	k := uint32(code)
	k *= 0xcc9e2d51
	k = k<<15 | k>>17
	k *= 0x1b873593
	h := k
	h = h<<13 | h>>19
	h = h*5 + 0xe6546b64
	h ^= 4
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	h ^= h >> 16
	switch r := int32(h); {
	case r >= 0:
		return r
	case r != -1<<31:
		return -r
	default:
		return 0
	}
}
