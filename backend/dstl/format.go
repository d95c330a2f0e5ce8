package dstl

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
)

// Format 1 of a segment object. All fixed-size integers are little-endian, "uv" is an unsigned varint, crc is CRC32C.
//
//	object  := magic "DSTL" | u16 version | u16 0 | section{n} | footer | u32 crc of footer | u32 length of footer | "DSTLEND1"
//	footer  := uv n | { uv offset | uv length | log | uv from | uv to | uv first group | uv end group }{n}
//	section := block{n} | index | u32 crc of index | u32 length of index | "DSS1" or "DSS2"
//	index   := log | uv from | uv to | uv first group | uv end group
//	           | uv states | { uv id | u8 type | u8 access | name [ | uv schema version | serializer ] }{states}
//	           | uv blocks | { uv sequence-from | uv first group | uv last group-first group | uv length }{blocks}
//	block   := u32 crc of the rest | u32 stored | u32 raw | u64 sequence | u8 codec | payload of stored bytes
//	payload := { uv group | uv changes | change{changes} }, as is (codec 0) or an s2 block (codec 1)
//	change  := u8 op | uv state | uv key length | key | [ uv value length | value ]   op 1 and 4 have a value; op 4's key ends with its position
//	log, name, serializer := uv length | bytes
//
// Schemas are in sections that end with "DSS2", which are written where a state has one; else its states have none.
// A section holds consecutive change sets of one writer; its blocks are sorted by sequence number, then key group. A
// section can be read without the rest of the object: an ObjectRef names it by offset and length, without the blocks of
// earlier change sets that it does not need; its index says which blocks hold which key groups, and each block and index has
// its own checksum.
const (
	version       = 1
	headerSize    = 8
	blockHeader   = 21
	sectionTail   = 12
	objectTail    = 16
	maxBlock      = 1 << 26
	codecPlain    = 0
	codecS2       = 1
	magic         = "DSTL"
	sectionMagic  = "DSS1"
	schemaMagic   = "DSS2" // of a section whose states have schemas
	objectMagic   = "DSTLEND1"
	maxNameLength = 1 << 12
)

// checksum is CRC32C of b. The table is the standard library's own shared one.
func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// block is one entry of a section's index.
type block struct {
	seq         uint64
	first, last keygroup.ID // inclusive
	offset      int64       // in the part; negative: before it
	length      int64       // header included
}

// section is a decoded section index.
type section struct {
	log      string
	from, to uint64
	groups   keygroup.Range
	states   []State
	blocks   []block
}

// Section describes one section of a segment object.
type Section struct {
	Offset, Length int64
	Log            string
	From, To       uint64
	Groups         keygroup.Range
}

// scanner reads varints and byte strings and remembers that it ran out.
type scanner struct {
	b   []byte
	bad bool
}

func (s *scanner) uv() uint64 {
	v, n := binary.Uvarint(s.b)
	if n <= 0 {
		s.bad, s.b = true, nil
		return 0
	}
	s.b = s.b[n:]
	return v
}

// under reads a varint that must be at most limit.
func (s *scanner) under(limit uint64) uint64 {
	v := s.uv()
	if v > limit {
		s.bad, s.b = true, nil
		return 0
	}
	return v
}

func (s *scanner) byte() byte {
	if len(s.b) == 0 {
		s.bad = true
		return 0
	}
	v := s.b[0]
	s.b = s.b[1:]
	return v
}

func (s *scanner) bytes(n uint64) []byte {
	if n > uint64(len(s.b)) {
		s.bad, s.b = true, nil
		return nil
	}
	v := s.b[:n]
	s.b = s.b[n:]
	return v
}

func (s *scanner) name() string { return string(s.bytes(s.under(maxNameLength))) }

// groups reads a half-open range of key groups.
func (s *scanner) groups() keygroup.Range {
	r := keygroup.Range{From: keygroup.ID(s.under(keygroup.MaxParallelism)), To: keygroup.ID(s.under(keygroup.MaxParallelism))}
	s.bad = s.bad || r.To < r.From
	return r
}

// damaged is an error about the content of an object.
func damaged(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, store.ErrCorrupt)...)
}

// sectionIndexSize reads the tail of a section and returns the length of its index; b ends where the section ends.
func sectionIndexSize(b []byte) (int64, error) {
	if len(b) < sectionTail {
		return 0, damaged("section of %d bytes is cut", len(b))
	}
	tail := b[len(b)-sectionTail:]
	if mark := string(tail[8:]); mark != sectionMagic && mark != schemaMagic {
		return 0, damaged("section does not end with its mark")
	}
	return int64(binary.LittleEndian.Uint32(tail[4:])), nil
}

// decodeSection reads the index of a section, of which a part of the given length is there, without blocks in front; b is
// the end of it, with at least the index in it.
func decodeSection(b []byte, length int64) (*section, error) {
	size, err := sectionIndexSize(b)
	if err != nil {
		return nil, err
	}
	if size > int64(len(b)-sectionTail) || size > length-sectionTail {
		return nil, damaged("index of %d bytes does not fit in its section", size)
	}
	end := int64(len(b) - sectionTail)
	index := b[end-size : end]
	if checksum(index) != binary.LittleEndian.Uint32(b[end:]) {
		return nil, damaged("index has another checksum")
	}
	s := scanner{b: index}
	sec := &section{log: s.name(), from: s.uv(), to: s.uv(), groups: s.groups()}
	for range s.under(uint64(len(s.b))) {
		id := backend.StateID(s.under(1<<16 - 1))
		spec := backend.StateSpec{Type: backend.Type(s.byte()), Access: backend.Access(s.byte())}
		spec.Name = s.name()
		if string(b[len(b)-len(schemaMagic):]) == schemaMagic {
			spec.Schema.Version = uint32(s.under(math.MaxUint32))
			spec.Schema.Serializer = s.name()
		}
		sec.states = append(sec.states, State{ID: id, Spec: spec})
	}
	offset := int64(0)
	for range s.under(uint64(len(s.b))) {
		bl := block{seq: sec.from + s.uv(), first: keygroup.ID(s.under(keygroup.MaxParallelism)), offset: offset}
		bl.last = bl.first + keygroup.ID(s.under(keygroup.MaxParallelism))
		bl.length = int64(s.under(maxBlock * 2))
		offset += bl.length
		if bl.seq >= sec.to || bl.length < blockHeader {
			s.bad = true
		}
		sec.blocks = append(sec.blocks, bl)
	}
	if s.bad || len(s.b) != 0 || sec.from >= sec.to {
		return nil, damaged("index cannot be read")
	}
	skip := offset - (length - sectionTail - size)
	if skip < 0 {
		return nil, damaged("blocks of %d bytes do not fill their part", offset)
	}
	for i := range sec.blocks {
		sec.blocks[i].offset -= skip
	}
	return sec, nil
}

// DecodeObject checks the frame of a whole segment object and returns its sections; it does not read their changes.
// Errors wrap store.ErrCorrupt.
func DecodeObject(body []byte) ([]Section, error) {
	if len(body) < headerSize+objectTail {
		return nil, damaged("segment of %d bytes is cut", len(body))
	}
	if err := checkHeader(body[:headerSize]); err != nil {
		return nil, err
	}
	size, err := footerSize(body[len(body)-objectTail:], int64(len(body)))
	if err != nil {
		return nil, err
	}
	return decodeFooter(body[int64(len(body))-objectTail-size:], int64(len(body)))
}

// checkHeader looks at the first bytes of an object.
func checkHeader(b []byte) error {
	if string(b[:4]) != magic {
		return damaged("not a segment")
	}
	if v := binary.LittleEndian.Uint16(b[4:]); v != version || binary.LittleEndian.Uint16(b[6:]) != 0 {
		return damaged("segment of unknown version %d", v)
	}
	return nil
}

// footerSize reads the tail of an object of the given size and returns the length of the footer before it.
func footerSize(tail []byte, object int64) (int64, error) {
	size := int64(binary.LittleEndian.Uint32(tail[4:]))
	if string(tail[8:]) != objectMagic || size > object-headerSize-objectTail {
		return 0, damaged("segment does not end with its mark")
	}
	return size, nil
}

// decodeFooter reads the sections of an object of the given size that ends with b, which is its footer and tail.
func decodeFooter(b []byte, object int64) ([]Section, error) {
	footer, tail := b[:len(b)-objectTail], b[len(b)-objectTail:]
	if checksum(footer) != binary.LittleEndian.Uint32(tail) {
		return nil, damaged("footer has another checksum")
	}
	s := scanner{b: footer}
	var sections []Section
	next := int64(headerSize)
	for range s.under(uint64(len(s.b))) {
		sec := Section{Offset: int64(s.uv()), Length: int64(s.uv()), Log: s.name(), From: s.uv(), To: s.uv(), Groups: s.groups()}
		if sec.Offset != next || sec.Length < 0 || sec.Length > object {
			s.bad = true
		}
		next = sec.Offset + sec.Length
		sections = append(sections, sec)
	}
	if s.bad || len(s.b) != 0 || next != object-int64(len(b)) {
		return nil, damaged("footer cannot be read")
	}
	return sections, nil
}
