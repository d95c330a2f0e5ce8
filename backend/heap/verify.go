package heap

import (
	"encoding/binary"
	"errors"
	"io"

	"statebench.dev/bench/backend"
)

// Magic begins every object of this backend.
const Magic = magic

// Verify reads a snapshot object of the given size block by block, a few hundred KiB at a time, and tells whether it is what
// was written. Damage is a backend.Damaged.
func Verify(key string, r io.ReaderAt, size int64) error {
	f, err := verifyFrame(key, r, size)
	if err != nil {
		return err
	}
	for _, g := range f.groups {
		if err := verifyGroup(key, r, g, len(f.states)); err != nil {
			return err
		}
	}
	return nil
}

// verifyFrame reads header and footer.
func verifyFrame(key string, r io.ReaderAt, size int64) (footer, error) {
	head, err := backend.ReadFull(r, 0, int64(headerSize))
	if err != nil {
		return footer{}, err
	}
	if string(head) != string(appendMagic(nil)) {
		return footer{}, backend.DamagedAt(0, "%q does not begin a heap snapshot of version %d", head, version)
	}
	trailer, err := backend.ReadFull(r, size-int64(trailerSize), int64(trailerSize))
	if err != nil {
		return footer{}, err
	}
	need := min(size, int64(binary.BigEndian.Uint32(trailer))+int64(trailerSize))
	tail, err := backend.ReadFull(r, size-need, need)
	if err != nil {
		return footer{}, err
	}
	f, err := parseFooter(key, tail, size)
	if err != nil {
		return footer{}, backend.DamagedAt(size-need, "%v", err)
	}
	return f, nil
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
		err = eachElement(raw[0], func(state uint16, _, _ []byte) error {
			elements++
			if int(state) >= states {
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
