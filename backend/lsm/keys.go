package lsm

import (
	"encoding/binary"
	"hash/fnv"

	"statebench.dev/bench/internal/keygroup"
)

// A stored key is: key group uint16, tag of the state uint32, key of the element; integers big-endian. Key groups come
// first, so that those of a subtask are one range and a table can be clipped to some of them.
const prefixSize = 2 + 4

// tagOf is what stands for a state in stored keys. It depends on the name only: tables of subtasks that registered their
// states in another order can be merged without being rewritten.
func tagOf(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return h.Sum32()
}

func appendPrefix(dst []byte, g keygroup.ID, tag uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(dst, uint16(g)), tag)
}

// groupKey is the smallest key of a key group, and the exclusive end of the one before.
func groupKey(g keygroup.ID) []byte { return binary.BigEndian.AppendUint16(nil, uint16(g)) }

// appendSuccessor appends the smallest key greater than all that begin with prefix, which must not be 0xFF bytes only: key
// groups are below 1<<15, so no prefix of a stored key is.
func appendSuccessor(dst, prefix []byte) []byte {
	n := len(prefix)
	for prefix[n-1] == 0xFF {
		n--
	}
	dst = append(dst, prefix[:n]...)
	dst[len(dst)-1]++
	return dst
}

// bounds is a range of keys; to belongs to it only if closed.
type bounds struct {
	from, to []byte
	closed   bool
}

// groups are the key groups that b may have keys of.
func (b bounds) groups() keygroup.Range {
	r := keygroup.Range{From: keygroup.ID(binary.BigEndian.Uint16(b.from)), To: keygroup.ID(binary.BigEndian.Uint16(b.to))}
	if b.closed || len(b.to) > 2 {
		r.To++
	}
	return r
}

// clip is the part of b that lies in r; ok is false when there is none.
func (b bounds) clip(r keygroup.Range) (_ bounds, ok bool) {
	g := b.groups()
	if g.From < r.From {
		b.from = groupKey(r.From)
	}
	if g.To > r.To {
		b.to, b.closed = groupKey(r.To), false
	}
	return b, !g.Intersect(r).Empty()
}
