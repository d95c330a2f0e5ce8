// Package canon holds the one encoding of state elements that reference models and the audit share, and the digest of a
// set of them. Two sides that know nothing of each other's code agree exactly when their digests are equal.
//
// An element is (state, key, namespace, value), each length-prefixed; integers are big-endian. What stands in value:
// for a value, reducing or aggregating state its bytes; for a map entry MapValue; for a list element ListValue; for a
// timer TimerValue. The digest of a set is the sum modulo 2^128 of the xxh3-128 hashes of its elements, so that it does
// not depend on order and can be kept up to date.
package canon

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"

	"github.com/zeebo/xxh3"
)

// Digest is the digest of a set of elements and their number. The zero value is the empty set.
type Digest struct {
	Hi, Lo uint64
	Count  int64
}

// Element appends the canonical encoding of one element to dst.
func Element(dst []byte, state string, key, namespace, value []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(state)))
	dst = append(dst, state...)
	for _, part := range [3][]byte{key, namespace, value} {
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(part)))
		dst = append(dst, part...)
	}
	return dst
}

// MapValue appends the value part of a map entry: length-prefixed map key, then the map value.
func MapValue(dst, mapKey, mapValue []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(mapKey)))
	dst = append(dst, mapKey...)
	return append(dst, mapValue...)
}

// ListValue appends the value part of a list element: its place in the list from 0, then its bytes.
func ListValue(dst []byte, place uint32, value []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, place), value...)
}

// TimerValue appends the value part of a timer: its time in nanoseconds of event time.
func TimerValue(dst []byte, at int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(at))
}

// Add adds an encoded element to the set.
func (d *Digest) Add(element []byte) {
	h := xxh3.Hash128(element)
	var carry uint64
	d.Lo, carry = bits.Add64(d.Lo, h.Lo, 0)
	d.Hi, _ = bits.Add64(d.Hi, h.Hi, carry)
	d.Count++
}

// Remove takes an encoded element that was added out of the set again.
func (d *Digest) Remove(element []byte) {
	h := xxh3.Hash128(element)
	var borrow uint64
	d.Lo, borrow = bits.Sub64(d.Lo, h.Lo, 0)
	d.Hi, _ = bits.Sub64(d.Hi, h.Hi, borrow)
	d.Count--
}

// Merge adds all elements of o, which must be disjoint from d's for the result to be a set.
func (d *Digest) Merge(o Digest) {
	var carry uint64
	d.Lo, carry = bits.Add64(d.Lo, o.Lo, 0)
	d.Hi, _ = bits.Add64(d.Hi, o.Hi, carry)
	d.Count += o.Count
}

// String writes the 128 bits as 32 hexadecimal digits.
func (d Digest) String() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], d.Hi)
	binary.BigEndian.PutUint64(b[8:], d.Lo)
	return hex.EncodeToString(b[:])
}
