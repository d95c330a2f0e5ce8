package blocks

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/klauspost/compress/s2"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
)

// An object, version 1 or 2; fixed integers are big-endian:
//
//	header    magic, version uint16
//	block*    length uint32, crc32c uint32 (of what follows), s2 block of:
//	            key group uint16, then sections: state uint16, elements uint32,
//	            then each element: length of key varint, length of value varint, key, value
//	footer    states uint16, each: number uint16 (where Format.Numbered), type uint8, access uint8, name (length uint16),
//	            and in version 2: version uint32 and serializer (length uint16) of its schema
//	          key groups uint32, each: group uint16, position uint64, offset uint64, length uint64, elements uint64
//	trailer   length of footer uint32, crc32c of footer uint32, magic, version uint16
//
// Version 2 is written where a state has a schema, else version 1, whose states have none.
// Key groups are in ascending order and the blocks of one are adjacent; a key group may go on in the next object. Within a
// key group states are in the order of the footer, whose numbering the sections use. Position is greater than all positions
// of list elements that the key group ever had, so that appends go on behind them.
const (
	plainVersion  = 1
	schemaVersion = 2
	blockHeader   = 8
)

// Format is a kind of object.
type Format struct {
	Magic    string // begins and ends each
	Backend  string // what backend.StateHandle.Backend says of such state
	Text     string // what one is, in errors: "a snapshot of ..."
	Numbered bool   // the footer has the numbers of the states, which are their places
}

func (f Format) headerSize() int { return len(f.Magic) + 2 }

func (f Format) trailerSize() int { return 8 + f.headerSize() }

func (f Format) appendMagic(dst []byte, states []backend.StateSpec) []byte {
	return binary.BigEndian.AppendUint16(append(dst, f.Magic...), versionFor(states))
}

// versionFor is the version that says what there is to say of the states.
func versionFor(states []backend.StateSpec) uint16 {
	if slices.ContainsFunc(states, func(s backend.StateSpec) bool { return s.Schema != backend.Schema{} }) {
		return schemaVersion
	}
	return plainVersion
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
	states []backend.StateSpec
	groups []groupIndex
}

// appendBlock compresses a block onto an object.
func appendBlock(dst, raw []byte) []byte {
	at := len(dst)
	dst = slices.Grow(dst, blockHeader+s2.MaxEncodedLen(len(raw)))
	body := s2.Encode(dst[at+blockHeader:at+blockHeader:cap(dst)], raw)
	dst = dst[:at+blockHeader+len(body)]
	binary.BigEndian.PutUint32(dst[at:], uint32(len(body)))
	binary.BigEndian.PutUint32(dst[at+4:], store.CRC32C(body))
	return dst
}

// appendFooter ends an object.
func (f Format) appendFooter(dst []byte, end footer) []byte {
	at := len(dst)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(end.states)))
	for i, s := range end.states {
		if f.Numbered {
			dst = binary.BigEndian.AppendUint16(dst, uint16(i))
		}
		dst = append(dst, byte(s.Type), byte(s.Access))
		dst = appendText(dst, s.Name)
		if versionFor(end.states) == schemaVersion {
			dst = appendText(binary.BigEndian.AppendUint32(dst, s.Schema.Version), s.Schema.Serializer)
		}
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(end.groups)))
	for _, g := range end.groups {
		dst = binary.BigEndian.AppendUint16(dst, uint16(g.group))
		for _, v := range [...]uint64{g.position, g.offset, g.length, g.elements} {
			dst = binary.BigEndian.AppendUint64(dst, v)
		}
	}
	sum, n := store.CRC32C(dst[at:]), len(dst)-at
	dst = binary.BigEndian.AppendUint32(dst, uint32(n))
	return f.appendMagic(binary.BigEndian.AppendUint32(dst, sum), end.states)
}

func appendText(dst []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(s))), s...)
}

// checkMagic looks at the header, or at the end of the trailer.
func (f Format) checkMagic(key string, b []byte) error {
	rest, ok := bytes.CutPrefix(b, []byte(f.Magic))
	switch {
	case len(b) != f.headerSize() || !ok:
		return damaged(key, "not %s", f.Text)
	}
	if v := binary.BigEndian.Uint16(rest); v != plainVersion && v != schemaVersion {
		return damaged(key, "%s of a version that is not known: %d", f.Text, v)
	}
	return nil
}

// footerSize returns the size of footer and trailer of an object that ends with tail.
func (f Format) footerSize(key string, tail []byte) (int64, error) {
	if len(tail) < f.trailerSize() {
		return 0, damaged(key, "cut at offset %d", len(tail))
	}
	t := tail[len(tail)-f.trailerSize():]
	if err := f.checkMagic(key, t[8:]); err != nil {
		return 0, err
	}
	return int64(binary.BigEndian.Uint32(t)) + int64(f.trailerSize()), nil
}

// parseFooter reads the footer of an object of the given size that ends with tail, which holds all of the footer.
func (f Format) parseFooter(key string, tail []byte, size int64) (out footer, err error) {
	n, err := f.footerSize(key, tail)
	if err != nil {
		return out, fmt.Errorf("trailer before offset %d: %w", size, err)
	}
	if n > int64(len(tail)) || n+int64(f.headerSize()) > size {
		return out, damaged(key, "footer of %d bytes before offset %d", n, size)
	}
	trailer := len(tail) - f.trailerSize()
	body := tail[int64(len(tail))-n : trailer]
	if store.CRC32C(body) != binary.BigEndian.Uint32(tail[trailer+4:]) {
		return out, damaged(key, "checksum of the footer at offset %d", size-n)
	}
	v := binary.BigEndian.Uint16(tail[len(tail)-2:])
	r := backend.NewReader(body)
	for i := range r.Uint16() {
		if f.Numbered && r.Uint16() != i {
			return out, damaged(key, "state %d in the footer at offset %d has another number", i, size-n)
		}
		s := backend.StateSpec{Type: backend.Type(r.Uint8()), Access: backend.Access(r.Uint8())}
		s.Name = string(r.Next(int(r.Uint16())))
		if v == schemaVersion {
			s.Schema.Version = r.Uint32()
			s.Schema.Serializer = string(r.Next(int(r.Uint16())))
		}
		out.states = append(out.states, s)
	}
	end := uint64(size - n)
	for i := range r.Uint32() {
		g := groupIndex{keygroup.ID(r.Uint16()), r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()}
		if g.offset < uint64(f.headerSize()) || g.length > end || g.offset > end-g.length {
			return out, damaged(key, "place of key group %d (entry %d of the footer at offset %d)", g.group, i, size-n)
		}
		out.groups = append(out.groups, g)
	}
	if err := r.Close(); err != nil {
		return out, damaged(key, "footer at offset %d: %v", size-n, err)
	}
	return out, nil
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
		if got := store.CRC32C(b[:n]); got != sum {
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
func (f Format) locate(key string, b []byte, err error) error {
	end, ferr := f.parseFooter(key, b, int64(len(b)))
	if ferr != nil {
		return ferr
	}
	for _, g := range end.groups {
		if _, berr := parseBlocks(key, g, b[g.offset:g.offset+g.length]); berr != nil {
			return berr
		}
	}
	return err
}

// eachElement calls f for the elements of a block, without the key group in front.
func eachElement(raw []byte, f func(state int, key, value []byte) error) error {
	for len(raw) > 0 {
		if len(raw) < 6 {
			return backend.ErrEncoding
		}
		state, n := int(binary.BigEndian.Uint16(raw)), binary.BigEndian.Uint32(raw[2:])
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
			if err := f(state, raw[:klen:klen], raw[klen:klen+vlen:klen+vlen]); err != nil {
				return err
			}
			raw = raw[klen+vlen:]
		}
	}
	return nil
}
