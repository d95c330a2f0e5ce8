package dstl

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/klauspost/compress/s2"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/keygroup"
)

// framer builds segment objects. It keeps its scratch memory between objects and is used by one process at a time.
type framer struct {
	blockSize int
	body      []byte // the object
	sections  []Section

	raw       []byte  // payload of the block being filled
	scattered []byte  // the changes of a change set by key group
	open      []run   // one a key group
	runs      []run   // in order of scattered
	blocks    []block // of the section being written; offsets within it
	index     []byte
	plain     int // blocks since the last one that compressed
}

// tryEvery is after how many blocks that did not compress only one in as many is tried.
const tryEvery = 8

// begin starts an object of about raw bytes in buf's memory, or in other memory if that is too small: growing step by step would copy
// what was framed several times.
func (f *framer) begin(buf []byte, raw int64) {
	f.body = slices.Grow(buf[:0], int(raw)+blockHeader+s2.MaxEncodedLen(2*f.blockSize))
	f.body = append(f.body, magic...)
	f.body = binary.LittleEndian.AppendUint16(f.body, version)
	f.body = binary.LittleEndian.AppendUint16(f.body, 0)
	f.sections = f.sections[:0]
}

// sectionOf says whose changes a section holds.
type sectionOf struct {
	log    string
	groups keygroup.Range
	states []State
}

// section writes consecutive change sets of one writer. sizes receives the bytes that each of them added; the index counts
// for the last one.
func (f *framer) section(of sectionOf, sets []*set, sizes []int64) Section {
	start := len(f.body)
	f.blocks = f.blocks[:0]
	for i, s := range sets {
		before := len(f.body)
		f.changes(s.changes, s.seq, of.groups, start)
		sizes[i] = int64(len(f.body) - before)
	}
	sec := Section{Offset: int64(start), Log: of.log, From: sets[0].seq, To: sets[len(sets)-1].seq + 1, Groups: of.groups}
	before := len(f.body)
	f.sectionIndex(sec, of.states)
	sizes[len(sets)-1] += int64(len(f.body) - before)
	sec.Length = int64(len(f.body) - start)
	f.sections = append(f.sections, sec)
	return sec
}

// run is consecutive changes of one key group in scattered.
type run struct {
	group      keygroup.ID
	start, end int
	changes    int
}

// changes writes the live changes of c, sorted by key group, as blocks: of twice the configured size at most, and of one
// change more.
func (f *framer) changes(c *changeSet, seq uint64, groups keygroup.Range, start int) {
	f.scatter(c, groups)
	f.raw = f.raw[:0]
	first, last := keygroup.ID(0), keygroup.ID(0)
	seal := func() {
		if len(f.raw) > 0 {
			f.block(seq, first, last, start)
			f.raw = f.raw[:0]
		}
	}
	for _, r := range f.runs {
		if len(f.raw) == 0 {
			first = r.group
		}
		last = r.group
		f.raw = binary.AppendUvarint(f.raw, uint64(r.group))
		f.raw = binary.AppendUvarint(f.raw, uint64(r.changes))
		f.raw = append(f.raw, f.scattered[r.start:r.end]...)
		if len(f.raw) >= f.blockSize {
			seal()
		}
	}
	seal()
	if cap(f.scattered) > maxScattered {
		f.scattered = nil
	}
}

// maxScattered bounds the memory that is kept for the next change set.
const maxScattered = 64 << 20

// scatter encodes the live changes of c group by group into scattered, in their order within a group, and lists them in
// runs of about a block: a counting sort. It reads the arena from front to end and writes beside each other in as many
// places as there are groups, since reading in order of groups waits for memory at each change.
func (f *framer) scatter(c *changeSet, groups keygroup.Range) {
	n := groups.Len()
	f.open = slices.Grow(f.open[:0], n)[:n]
	clear(f.open)
	for i := range c.entries {
		e := &c.entries[i]
		if e.op != opDead && c.superseded(i, e) {
			e.op = opDead
		}
		if e.op != opDead {
			f.open[e.group-groups.From].end += encodedSize(e)
		}
	}
	at := 0
	for g := range f.open {
		r := &f.open[g]
		size := r.end
		r.group, r.start, r.end = groups.From+keygroup.ID(g), at, at
		at += size
	}
	f.scattered = slices.Grow(f.scattered[:0], at)[:at]
	f.runs = f.runs[:0]
	for i := range c.entries {
		e := &c.entries[i]
		if e.op == opDead {
			continue
		}
		r := &f.open[e.group-groups.From]
		r.end += len(appendChange(f.scattered[r.end:r.end], c, e))
		r.changes++
		if r.end-r.start >= f.blockSize {
			f.runs = append(f.runs, *r)
			r.start, r.changes = r.end, 0
		}
	}
	for _, r := range f.open {
		if r.changes > 0 {
			f.runs = append(f.runs, r)
		}
	}
	slices.SortFunc(f.runs, func(a, b run) int { return a.start - b.start })
}

// encodedSize is what appendChange adds.
func encodedSize(e *entry) int {
	n := 1 + uvarintSize(uint64(e.state)) + uvarintSize(uint64(e.keyLen)) + int(e.keyLen)
	if e.op == OpPut || e.op == OpAppend {
		n += uvarintSize(uint64(e.valLen)) + int(e.valLen)
	}
	return n
}

func uvarintSize(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

func appendChange(b []byte, c *changeSet, e *entry) []byte {
	b = append(b, byte(e.op))
	b = binary.AppendUvarint(b, uint64(e.state))
	b = binary.AppendUvarint(b, uint64(e.keyLen))
	b = append(b, c.key(e)...)
	if e.op == OpPut || e.op == OpAppend {
		b = binary.AppendUvarint(b, uint64(e.valLen))
		b = append(b, c.value(e)...)
	}
	return b
}

// block compresses raw if that pays and writes it.
func (f *framer) block(seq uint64, first, last keygroup.ID, start int) {
	at := len(f.body)
	f.body = slices.Grow(f.body, blockHeader+s2.MaxEncodedLen(len(f.raw)))
	room := f.body[at : at+blockHeader+s2.MaxEncodedLen(len(f.raw))]
	codec, payload := byte(codecPlain), []byte(nil)
	if f.plain < tryEvery || f.plain%tryEvery == 0 {
		codec, payload = codecS2, s2.Encode(room[blockHeader:], f.raw)
	}
	if f.plain++; codec == codecPlain || len(payload) > len(f.raw)-len(f.raw)/8 {
		codec, payload = codecPlain, room[blockHeader:][:copy(room[blockHeader:], f.raw)]
	} else {
		f.plain = 0
	}
	h := room[:blockHeader+len(payload)]
	binary.LittleEndian.PutUint32(h[4:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(h[8:], uint32(len(f.raw)))
	binary.LittleEndian.PutUint64(h[12:], seq)
	h[20] = codec
	binary.LittleEndian.PutUint32(h, checksum(h[4:]))
	f.body = f.body[:at+len(h)]
	f.blocks = append(f.blocks, block{seq: seq, first: first, last: last, offset: int64(at - start), length: int64(len(h))})
}

// sectionIndex writes the index of a section and its tail.
func (f *framer) sectionIndex(sec Section, states []State) {
	mark := sectionMagic
	if slices.ContainsFunc(states, func(s State) bool { return s.Spec.Schema != backend.Schema{} }) {
		mark = schemaMagic
	}
	b := appendOwner(f.index[:0], sec)
	b = binary.AppendUvarint(b, uint64(len(states)))
	for _, s := range states {
		b = binary.AppendUvarint(b, uint64(s.ID))
		b = append(b, byte(s.Spec.Type), byte(s.Spec.Access))
		b = appendName(b, s.Spec.Name)
		if mark == schemaMagic {
			b = appendName(binary.AppendUvarint(b, uint64(s.Spec.Schema.Version)), s.Spec.Schema.Serializer)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(f.blocks)))
	for _, bl := range f.blocks {
		b = binary.AppendUvarint(b, bl.seq-sec.From)
		b = binary.AppendUvarint(b, uint64(bl.first))
		b = binary.AppendUvarint(b, uint64(bl.last-bl.first))
		b = binary.AppendUvarint(b, uint64(bl.length))
	}
	f.index = b
	f.body = append(f.body, b...)
	f.body = appendTail(f.body, b, mark)
}

// end writes the footer and returns the whole object, which is the caller's.
func (f *framer) end() []byte {
	b := binary.AppendUvarint(f.index[:0], uint64(len(f.sections)))
	for _, s := range f.sections {
		b = binary.AppendUvarint(b, uint64(s.Offset))
		b = binary.AppendUvarint(b, uint64(s.Length))
		b = appendOwner(b, s)
	}
	f.index = b
	f.body = append(f.body, b...)
	body := appendTail(f.body, b, objectMagic)
	f.body = nil
	return body
}

func appendOwner(b []byte, s Section) []byte {
	b = appendName(b, s.Log)
	b = binary.AppendUvarint(b, s.From)
	b = binary.AppendUvarint(b, s.To)
	b = binary.AppendUvarint(b, uint64(s.Groups.From))
	return binary.AppendUvarint(b, uint64(s.Groups.To))
}

func appendTail(body, index []byte, mark string) []byte {
	body = binary.LittleEndian.AppendUint32(body, checksum(index))
	body = binary.LittleEndian.AppendUint32(body, uint32(len(index)))
	return append(body, mark...)
}

func appendName(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// checkBlock verifies a block: with its checksum right, it is what was written.
func checkBlock(b []byte, bl block) error {
	if int64(len(b)) != bl.length || len(b) < blockHeader {
		return damaged("block of %d bytes is cut to %d", bl.length, len(b))
	}
	if want, got := binary.LittleEndian.Uint32(b), checksum(b[4:]); want != got {
		return damaged("block has checksum %08x, should be %08x", got, want)
	}
	stored, raw := binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])
	if int(stored) != len(b)-blockHeader || raw > maxBlock*2 || binary.LittleEndian.Uint64(b[12:]) != bl.seq {
		return damaged("block does not fit its index")
	}
	return nil
}

// openBlock returns the payload of a block that was checked; scratch is reused when it is large enough.
func openBlock(b, scratch []byte) (payload []byte, err error) {
	raw := binary.LittleEndian.Uint32(b[8:])
	switch payload = b[blockHeader:]; b[20] {
	case codecPlain:
	case codecS2:
		if n, err := s2.DecodedLen(payload); err != nil || n != int(raw) {
			return nil, damaged("compressed block does not have its size")
		}
		if payload, err = s2.Decode(scratch, payload); err != nil {
			return nil, damaged("block cannot be decompressed (%v)", err)
		}
	default:
		return nil, damaged("block has unknown codec %d", b[20])
	}
	if len(payload) != int(raw) {
		return nil, damaged("block does not have its size")
	}
	return payload, nil
}

// eachChange calls f for the changes in a block's payload whose key group is in r. c is reused between calls.
func eachChange(payload []byte, r keygroup.Range, c *Change, f func(*Change) error) error {
	s := scanner{b: payload}
	for len(s.b) > 0 && !s.bad {
		g := s.under(keygroup.MaxParallelism - 1)
		c.Group = keygroup.ID(g)
		for n := s.uv(); n > 0 && !s.bad; n-- {
			c.Op, c.State, c.Pos, c.Value = Op(s.byte()), backend.StateID(s.under(1<<16-1)), 0, nil
			c.Key = s.bytes(s.uv())
			if c.Op == OpPut || c.Op == OpAppend {
				c.Value = s.bytes(s.uv())
			}
			if c.Op < OpPut || c.Op > OpAppend || c.Op == OpAppend && len(c.Key) < 8 {
				s.bad = true
			}
			if s.bad || !r.Contains(c.Group) {
				continue
			}
			if c.Op == OpAppend {
				c.Pos = binary.BigEndian.Uint64(c.Key[len(c.Key)-8:])
				c.Key = c.Key[:len(c.Key)-8]
			}
			if err := f(c); err != nil {
				return err
			}
		}
	}
	if s.bad {
		return damaged("block cannot be read")
	}
	return nil
}
