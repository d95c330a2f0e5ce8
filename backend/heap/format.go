package heap

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/klauspost/compress/s2"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
)

// A snapshot object, version 1; fixed integers are big-endian:
//
//	header    magic "sbheap", version uint16
//	block*    length uint32, crc32c uint32 (of what follows), s2 block of:
//	            key group uint16, then sections: state uint16, elements uint32,
//	            then each element: length of key varint, length of value varint, key, value
//	footer    states uint16, each: id uint16, type uint8, access uint8, name (length uint16)
//	          key groups uint32, each: group uint16, position uint64, offset uint64, length uint64, elements uint64
//	trailer   length of footer uint32, crc32c of footer uint32, magic "sbheap", version uint16
//
// Key groups are in ascending order and the blocks of one are adjacent; a key group may go on in the next object. Positions
// are those of list elements (keyed.positions). State ids hold for the object only.
const (
	magic       = "sbheap"
	version     = 1
	headerSize  = len(magic) + 2
	trailerSize = 8 + headerSize
	blockHeader = 8
	indexSize   = 2 + 4*8
	blockSize   = 256 << 10 // of a block before compression
)

// Note: the table is built by the standard library once; MakeTable returns the same one for this polynomial.
func castagnoli(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func appendMagic(dst []byte) []byte {
	return binary.BigEndian.AppendUint16(append(dst, magic...), version)
}

// groupIndex says where the blocks of a key group lie in an object.
type groupIndex struct {
	group    keygroup.ID
	position uint64
	offset   uint64
	length   uint64
	elements uint64
}

// footer is what an object says about itself.
type footer struct {
	states []backend.StateSpec // by id
	groups []groupIndex
}

// appendBlock compresses a block onto an object.
func appendBlock(dst, raw []byte) []byte {
	at := len(dst)
	dst = slices.Grow(dst, blockHeader+s2.MaxEncodedLen(len(raw)))
	body := s2.Encode(dst[at+blockHeader:at+blockHeader:cap(dst)], raw)
	dst = dst[:at+blockHeader+len(body)]
	binary.BigEndian.PutUint32(dst[at:], uint32(len(body)))
	binary.BigEndian.PutUint32(dst[at+4:], castagnoli(body))
	return dst
}

// appendFooter ends an object.
func appendFooter(dst []byte, f footer) []byte {
	at := len(dst)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(f.states)))
	for id, s := range f.states {
		dst = binary.BigEndian.AppendUint16(dst, uint16(id))
		dst = append(dst, byte(s.Type), byte(s.Access))
		dst = append(binary.BigEndian.AppendUint16(dst, uint16(len(s.Name))), s.Name...)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(f.groups)))
	for _, g := range f.groups {
		dst = binary.BigEndian.AppendUint16(dst, uint16(g.group))
		for _, v := range [...]uint64{g.position, g.offset, g.length, g.elements} {
			dst = binary.BigEndian.AppendUint64(dst, v)
		}
	}
	sum, n := castagnoli(dst[at:]), len(dst)-at
	dst = binary.BigEndian.AppendUint32(dst, uint32(n))
	return appendMagic(binary.BigEndian.AppendUint32(dst, sum))
}

// damaged is the error for an object that does not say what was written.
func damaged(key, format string, args ...any) error {
	return fmt.Errorf("object %q: %s: %w", key, fmt.Sprintf(format, args...), store.ErrCorrupt)
}

// checkMagic looks at the header or the end of the trailer.
func checkMagic(key string, b []byte) error {
	switch {
	case len(b) != headerSize || string(b[:len(magic)]) != magic:
		return damaged(key, "not a heap snapshot")
	case binary.BigEndian.Uint16(b[len(magic):]) != version:
		return damaged(key, "format version %d is not known", binary.BigEndian.Uint16(b[len(magic):]))
	}
	return nil
}

// footerSize returns the size of footer and trailer of an object that ends with tail.
func footerSize(key string, tail []byte) (int, error) {
	if len(tail) < trailerSize {
		return 0, damaged(key, "cut at offset %d", len(tail))
	}
	t := tail[len(tail)-trailerSize:]
	if err := checkMagic(key, t[8:]); err != nil {
		return 0, err
	}
	return int(binary.BigEndian.Uint32(t)) + trailerSize, nil
}

// parseFooter reads the footer of an object of the given size that ends with tail, which holds all of the footer.
func parseFooter(key string, tail []byte, size int64) (f footer, err error) {
	n, err := footerSize(key, tail)
	if err != nil {
		return f, fmt.Errorf("trailer before offset %d: %w", size, err)
	}
	if n > len(tail) || int64(n+headerSize) > size {
		return f, damaged(key, "footer of %d bytes before offset %d", n, size)
	}
	body := tail[len(tail)-n : len(tail)-trailerSize]
	if castagnoli(body) != binary.BigEndian.Uint32(tail[len(tail)-trailerSize+4:]) {
		return f, damaged(key, "checksum of the footer at offset %d", size-int64(n))
	}
	r := backend.NewReader(body)
	for id := range int(r.Uint16()) {
		if int(r.Uint16()) != id {
			return f, damaged(key, "state ids")
		}
		s := backend.StateSpec{Type: backend.Type(r.Uint8()), Access: backend.Access(r.Uint8())}
		s.Name = string(r.Next(int(r.Uint16())))
		f.states = append(f.states, s)
	}
	end := uint64(size) - uint64(n)
	for range r.Uint32() {
		g := groupIndex{keygroup.ID(r.Uint16()), r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()}
		if g.offset < uint64(headerSize) || g.length > end || g.offset > end-g.length {
			return f, damaged(key, "index of key group %d", g.group)
		}
		f.groups = append(f.groups, g)
	}
	if err := r.Close(); err != nil {
		return f, damaged(key, "footer: %v", err)
	}
	return f, nil
}

// parseBlocks decompresses the blocks of a key group.
func parseBlocks(key string, g groupIndex, b []byte) (raw [][]byte, err error) {
	for at := g.offset; len(b) > 0; {
		bad := func(format string, args ...any) error {
			return damaged(key, "block at offset %d, key group %d: %s", at, g.group, fmt.Sprintf(format, args...))
		}
		if len(b) < blockHeader {
			return nil, bad("cut")
		}
		n, sum := uint64(binary.BigEndian.Uint32(b)), binary.BigEndian.Uint32(b[4:])
		if b = b[blockHeader:]; n > uint64(len(b)) {
			return nil, bad("cut")
		}
		if got := castagnoli(b[:n]); got != sum {
			return nil, bad("checksum %08x, should be %08x", got, sum)
		}
		block, err := s2.Decode(nil, b[:n])
		if err != nil || len(block) < 2 || keygroup.ID(binary.BigEndian.Uint16(block)) != g.group {
			return nil, bad("not what belongs there (%v)", err)
		}
		raw = append(raw, block[2:])
		b = b[n:]
		at += blockHeader + n
	}
	return raw, nil
}

// locate finds out where an object b is damaged, or returns err, which says that it is.
func locate(key string, b []byte, err error) error {
	f, ferr := parseFooter(key, b, int64(len(b)))
	if ferr != nil {
		return ferr
	}
	for _, g := range f.groups {
		if _, berr := parseBlocks(key, g, b[g.offset:g.offset+g.length]); berr != nil {
			return berr
		}
	}
	return err
}

// eachElement calls f for the elements of a block, without the key group in front.
func eachElement(raw []byte, f func(state uint16, key, value []byte) error) error {
	for len(raw) > 0 {
		if len(raw) < 6 {
			return backend.ErrEncoding
		}
		id, n := binary.BigEndian.Uint16(raw), binary.BigEndian.Uint32(raw[2:])
		raw = raw[6:]
		for range n {
			klen, w := binary.Uvarint(raw)
			if w <= 0 {
				return backend.ErrEncoding
			}
			raw = raw[w:]
			vlen, w := binary.Uvarint(raw)
			if w <= 0 || klen > uint64(len(raw)-w) || vlen > uint64(len(raw)-w)-klen {
				return backend.ErrEncoding
			}
			raw = raw[w:]
			if err := f(id, raw[:klen:klen], raw[klen:klen+vlen:klen+vlen]); err != nil {
				return err
			}
			raw = raw[klen+vlen:]
		}
	}
	return nil
}
