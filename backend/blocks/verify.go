package blocks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"statebench.dev/bench/backend"
)

// Verify reads an object of the given size block by block, a few hundred KiB at a time, and tells whether it is what
// was written. Damage is a backend.Damaged.
func (f Format) Verify(key string, r io.ReaderAt, size int64) error {
	end, err := f.verifyFrame(key, r, size)
	if err != nil {
		return err
	}
	for _, g := range end.groups {
		if err := verifyGroup(key, r, g, len(end.states)); err != nil {
			return err
		}
	}
	return nil
}

// verifyFrame reads header and footer.
func (f Format) verifyFrame(key string, r io.ReaderAt, size int64) (footer, error) {
	head, err := backend.ReadFull(r, 0, int64(f.headerSize()))
	if err != nil {
		return footer{}, err
	}
	if err := f.checkMagic(key, head); err != nil {
		return footer{}, backend.DamagedAt(0, "%v", err)
	}
	n := int64(f.trailerSize())
	trailer, err := backend.ReadFull(r, size-n, n)
	if err != nil {
		return footer{}, err
	}
	need := min(size, int64(binary.BigEndian.Uint32(trailer))+n)
	tail, err := backend.ReadFull(r, size-need, need)
	if err != nil {
		return footer{}, err
	}
	end, err := f.parseFooter(key, tail, size)
	if err != nil {
		return footer{}, backend.DamagedAt(size-need, "%v", err)
	}
	if string(head) != string(tail[len(tail)-len(head):]) {
		return footer{}, backend.DamagedAt(0, "%q begins and %q ends it", head, tail[len(tail)-len(head):])
	}
	return end, nil
}

// verifyGroup reads the blocks of a key group one by one.
func verifyGroup(key string, r io.ReaderAt, g groupIndex, states int) error {
	var elements uint64
	for at := int64(g.offset); at < int64(g.offset+g.length); {
		head, err := backend.ReadFull(r, at, blockHeader)
		if err != nil {
			return err
		}
		n := blockHeader + int64(binary.BigEndian.Uint32(head))
		if at+n > int64(g.offset+g.length) {
			return backend.DamagedAt(at, "block of %d bytes reaches beyond key group %d", n, g.group)
		}
		b, err := backend.ReadFull(r, at, n)
		if err != nil {
			return err
		}
		raw, err := parseBlocks(key, groupIndex{group: g.group, offset: uint64(at)}, b)
		if err != nil {
			return backend.DamagedAt(at, "%v", err)
		}
		err = eachElement(raw[0], func(state int, _, _ []byte) error {
			elements++
			if state >= states {
				return errors.New("an element of a state that is not listed")
			}
			return nil
		})
		if err != nil {
			return backend.DamagedAt(at, "block of key group %d: %v", g.group, err)
		}
		at += n
	}
	if elements != g.elements {
		return backend.DamagedAt(int64(g.offset), "key group %d has %d elements, not %d", g.group, elements, g.elements)
	}
	return nil
}

// Plain is an object without its compression and what depends on it, as text: tests compare what versions wrote by it.
func (f Format) Plain(key string, object []byte) (string, error) {
	end, err := f.parseFooter(key, object, int64(len(object)))
	if err != nil {
		return "", err
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%q %+v\n", object[:f.headerSize()], end.states)
	for _, g := range end.groups {
		raw, err := parseBlocks(key, g, object[g.offset:g.offset+g.length])
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "group %d position %d elements %d %x\n", g.group, g.position, g.elements, raw)
	}
	fmt.Fprintf(&out, "%q", object[len(object)-f.headerSize():])
	return out.String(), nil
}
