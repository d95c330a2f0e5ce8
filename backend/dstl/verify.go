package dstl

import (
	"errors"
	"io"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/keygroup"
)

// Magic begins every segment object.
const Magic = magic

// Verify reads a segment object of the given size section by section and block by block, down to each change, and tells
// whether it is what was written and has the parts that refs name. It holds one block at a time. Damage is a backend.Damaged.
func Verify(r io.ReaderAt, size int64, refs []backend.ObjectRef) error {
	sections, err := verifyFrame(r, size)
	if err != nil {
		return err
	}
	var scratch []byte
	for _, s := range sections {
		index, err := verifyIndex(r, s)
		if err != nil {
			return err
		}
		for _, b := range index.blocks {
			if scratch, err = verifyBlock(r, s, b, scratch); err != nil {
				return err
			}
		}
		for i := range refs {
			if err := verifyRef(&refs[i], s, index); err != nil {
				return err
			}
		}
	}
	return verifyEnds(refs, sections)
}

// verifyFrame reads header, footer and tail.
func verifyFrame(r io.ReaderAt, size int64) ([]Section, error) {
	if size < headerSize+objectTail {
		return nil, backend.DamagedAt(size, "segment of %d bytes is cut", size)
	}
	head, err := backend.ReadFull(r, 0, headerSize)
	if err != nil {
		return nil, err
	}
	if err := checkHeader(head); err != nil {
		return nil, located(0, err)
	}
	tail, err := backend.ReadFull(r, size-objectTail, objectTail)
	if err != nil {
		return nil, err
	}
	n, err := footerSize(tail, size)
	if err != nil {
		return nil, located(size-objectTail, err)
	}
	footer, err := backend.ReadFull(r, size-objectTail-n, n+objectTail)
	if err != nil {
		return nil, err
	}
	sections, err := decodeFooter(footer, size)
	if err != nil {
		return nil, located(size-objectTail-n, err)
	}
	return sections, nil
}

// verifyIndex reads the index of a section, which must say what the footer says.
func verifyIndex(r io.ReaderAt, s Section) (*section, error) {
	end := s.Offset + s.Length
	tail, err := backend.ReadFull(r, max(s.Offset, end-sectionTail), min(s.Length, sectionTail))
	if err != nil {
		return nil, err
	}
	n, err := sectionIndexSize(tail)
	if err != nil {
		return nil, located(max(s.Offset, end-sectionTail), err)
	}
	begin := max(s.Offset, end-sectionTail-n)
	if tail, err = backend.ReadFull(r, begin, end-begin); err != nil {
		return nil, err
	}
	index, err := decodeSection(tail, s.Length)
	if err != nil {
		return nil, located(begin, err)
	}
	if index.log != s.Log || index.from != s.From || index.to != s.To || index.groups != s.Groups {
		return nil, backend.DamagedAt(begin, "section holds %s [%d,%d), its footer says %s [%d,%d)", index.log, index.from, index.to, s.Log, s.From, s.To)
	}
	return index, nil
}

// verifyBlock reads one block and its changes; scratch is memory to decompress into.
func verifyBlock(r io.ReaderAt, s Section, b block, scratch []byte) ([]byte, error) {
	at := s.Offset + b.offset
	body, err := backend.ReadFull(r, at, b.length)
	if err != nil {
		return scratch, err
	}
	if err := checkBlock(body, b); err != nil {
		return scratch, located(at, err)
	}
	payload, err := openBlock(body, scratch)
	if err != nil {
		return scratch, located(at, err)
	}
	if body[20] == codecS2 && cap(payload) > cap(scratch) {
		scratch = payload[:cap(payload)]
	}
	var c Change
	err = eachChange(payload, keygroup.Range{To: keygroup.MaxParallelism}, &c, func(c *Change) error {
		if c.Group < b.first || c.Group > b.last || !s.Groups.Contains(c.Group) {
			return damaged("change of key group %d in a block of [%d,%d]", c.Group, b.first, b.last)
		}
		return nil
	})
	if err != nil {
		return scratch, located(at, err)
	}
	return scratch, nil
}

// verifyRef checks a reference whose part ends where the section ends: it must begin with a block, and hold what it says.
func verifyRef(ref *backend.ObjectRef, s Section, index *section) error {
	if ref.Offset+ref.Length != s.Offset+s.Length {
		return nil
	}
	if ref.Log != s.Log || ref.From < s.From || ref.To > s.To || ref.From >= ref.To {
		return backend.DamagedAt(ref.Offset, "a checkpoint names %s [%d,%d), this is %s [%d,%d)", ref.Log, ref.From, ref.To, s.Log, s.From, s.To)
	}
	for _, b := range index.blocks {
		if at := s.Offset + b.offset; b.seq >= ref.From && b.seq < ref.To && at < ref.Offset {
			return backend.DamagedAt(at, "a checkpoint names %s [%d,%d), which begins before its part at offset %d", ref.Log, ref.From, ref.To, ref.Offset)
		}
	}
	return nil
}

// verifyEnds checks that each reference ends with a section.
func verifyEnds(refs []backend.ObjectRef, sections []Section) error {
	ends := map[int64]bool{}
	for _, s := range sections {
		ends[s.Offset+s.Length] = true
	}
	for _, ref := range refs {
		if !ends[ref.Offset+ref.Length] {
			return backend.DamagedAt(ref.Offset, "a checkpoint names %d bytes of %s here, and no section ends behind them", ref.Length, ref.Log)
		}
	}
	return nil
}

// located gives err, which is about what stands at offset, its place.
func located(offset int64, err error) error {
	var placed *backend.Damaged
	if errors.As(err, &placed) {
		return err
	}
	return backend.DamagedAt(offset, "%v", err)
}
