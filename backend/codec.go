package backend

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrEncoding is wrapped by the errors of a Decode that was given bytes which no Append wrote.
var ErrEncoding = errors.New("bytes do not encode a value of that type")

// Codec turns values of T into bytes and back. The encoding must be canonical: equal values have equal bytes, integers are
// big-endian, for the bytes are what an audit compares with the reference model. A codec is stateless and may be used concurrently.
type Codec[T any] interface {
	// Append appends the encoding of v to dst and returns the longer slice.
	Append(dst []byte, v T) []byte
	// Decode reads a value from all of src. The result may refer to src, which is borrowed: whoever keeps such a
	// value copies it.
	Decode(src []byte) (T, error)
}

// Int64 encodes an int64 as 8 bytes, two's complement, big-endian. As a map key, negative numbers come after all others.
type Int64 struct{}

// Append implements Codec.
func (Int64) Append(dst []byte, v int64) []byte { return AppendInt64(dst, v) }

// Decode implements Codec.
func (Int64) Decode(src []byte) (int64, error) {
	v, err := Uint64{}.Decode(src)
	return int64(v), err
}

// Uint64 encodes a uint64 as 8 bytes, big-endian.
type Uint64 struct{}

// Append implements Codec.
func (Uint64) Append(dst []byte, v uint64) []byte { return AppendUint64(dst, v) }

// Decode implements Codec.
func (Uint64) Decode(src []byte) (uint64, error) {
	if len(src) != 8 {
		return 0, fmt.Errorf("integer in %d bytes, not 8: %w", len(src), ErrEncoding)
	}
	return binary.BigEndian.Uint64(src), nil
}

// Float64 encodes a float64 as its 8 IEEE 754 bytes, big-endian. NaNs keep their bits.
type Float64 struct{}

// Append implements Codec.
func (Float64) Append(dst []byte, v float64) []byte { return AppendFloat64(dst, v) }

// Decode implements Codec.
func (Float64) Decode(src []byte) (float64, error) {
	v, err := Uint64{}.Decode(src)
	return math.Float64frombits(v), err
}

// String encodes a string as its bytes. Decode allocates the string; where that matters Bytes does not.
type String struct{}

// Append implements Codec.
func (String) Append(dst []byte, v string) []byte { return append(dst, v...) }

// Decode implements Codec.
func (String) Decode(src []byte) (string, error) { return string(src), nil }

// Bytes encodes bytes as themselves. What Decode returns is borrowed: it is src.
type Bytes struct{}

// Append implements Codec.
func (Bytes) Append(dst []byte, v []byte) []byte { return append(dst, v...) }

// Decode implements Codec.
func (Bytes) Decode(src []byte) ([]byte, error) { return src, nil }

// Pair is two values.
type Pair[A, B any] struct {
	First  A
	Second B
}

// PairOf encodes a pair as the first value, prefixed with its length in 4 bytes, then the second.
func PairOf[A, B any](first Codec[A], second Codec[B]) Codec[Pair[A, B]] {
	return pairCodec[A, B]{first, second}
}

type pairCodec[A, B any] struct {
	first  Codec[A]
	second Codec[B]
}

func (c pairCodec[A, B]) Append(dst []byte, v Pair[A, B]) []byte {
	at := len(dst)
	dst = c.first.Append(append(dst, 0, 0, 0, 0), v.First)
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return c.second.Append(dst, v.Second)
}

func (c pairCodec[A, B]) Decode(src []byte) (v Pair[A, B], err error) {
	r := NewReader(src)
	first := r.Bytes()
	if r.err != nil {
		return v, r.err
	}
	if v.First, err = c.first.Decode(first); err != nil {
		return v, err
	}
	v.Second, err = c.second.Decode(r.rest)
	return v, err
}

// StructOf makes a codec of two functions, for a struct that is written field by field with AppendInt64 and its like and read
// in the same order with a Reader.
func StructOf[T any](encode func(dst []byte, v T) []byte, decode func(r *Reader) T) Codec[T] {
	return structCodec[T]{encode, decode}
}

type structCodec[T any] struct {
	encode func([]byte, T) []byte
	decode func(*Reader) T
}

func (c structCodec[T]) Append(dst []byte, v T) []byte { return c.encode(dst, v) }

func (c structCodec[T]) Decode(src []byte) (T, error) {
	r := NewReader(src)
	v := c.decode(&r)
	return v, r.Close()
}

// AppendInt64 appends 8 bytes, two's complement, big-endian.
func AppendInt64(dst []byte, v int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(v)) }

// AppendUint64 appends 8 bytes, big-endian.
func AppendUint64(dst []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(dst, v) }

// AppendFloat64 appends the 8 IEEE 754 bytes, big-endian.
func AppendFloat64(dst []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(v))
}

// AppendBytes appends the length in 4 bytes, big-endian, then b.
func AppendBytes(dst, b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(b))), b...)
}

// AppendString appends the length in 4 bytes, big-endian, then s.
func AppendString(dst []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(s))), s...)
}

// Reader reads what the Append functions wrote, in the same order. After the first error every further read gives zero
// values; Close reports it.
type Reader struct {
	rest []byte
	err  error
}

// NewReader returns a reader over src, which it borrows.
func NewReader(src []byte) Reader { return Reader{rest: src} }

// take returns the next n bytes, or nil and sets the error.
func (r *Reader) take(n uint64) []byte {
	if r.err != nil {
		return nil
	}
	if n > uint64(len(r.rest)) {
		r.err = fmt.Errorf("%d bytes wanted, %d left: %w", n, len(r.rest), ErrEncoding)
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

// Uint8 reads a byte.
func (r *Reader) Uint8() uint8 {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

// Uint16 reads 2 bytes.
func (r *Reader) Uint16() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

// Uint32 reads 4 bytes.
func (r *Reader) Uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// Next reads n bytes, n >= 0; they are borrowed from the source.
func (r *Reader) Next(n int) []byte { return r.take(uint64(n)) }

// Uint64 reads 8 bytes.
func (r *Reader) Uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// Int64 reads 8 bytes.
func (r *Reader) Int64() int64 { return int64(r.Uint64()) }

// Float64 reads 8 bytes.
func (r *Reader) Float64() float64 { return math.Float64frombits(r.Uint64()) }

// Bytes reads a length and as many bytes; they are borrowed from the source.
func (r *Reader) Bytes() []byte {
	return r.take(uint64(r.Uint32()))
}

// String reads a length and as many bytes, and copies them into a string.
func (r *Reader) String() string { return string(r.Bytes()) }

// Rest takes all bytes that are left; they are borrowed from the source.
func (r *Reader) Rest() []byte { return r.take(uint64(len(r.rest))) }

// Close returns the first error; bytes that were not read are one.
func (r *Reader) Close() error {
	if r.err == nil && len(r.rest) > 0 {
		r.err = fmt.Errorf("%d bytes too many: %w", len(r.rest), ErrEncoding)
	}
	return r.err
}
