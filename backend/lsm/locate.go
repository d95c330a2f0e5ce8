package lsm

import (
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
)

// locate says where a table of the right size is damaged. The checksum of the whole told that it is; those of the
// blocks tell which one, as long as the index of the blocks can be read.
func locate(body []byte) string {
	somewhere := fmt.Sprintf("somewhere from offset 0 on, %d bytes", len(body))
	r, err := sstable.NewMemReader(body, sstable.ReaderOptions{})
	if err != nil {
		return fmt.Sprintf("%s (%v)", somewhere, err)
	}
	defer r.Close() // of memory
	layout, err := r.Layout()
	if err != nil {
		return fmt.Sprintf("%s (%v)", somewhere, err)
	}
	for _, h := range blocks(layout) {
		end := h.Offset + h.Length + block.TrailerLen
		if h.Length == 0 || end > uint64(len(body)) {
			continue
		}
		if binary.LittleEndian.Uint32(body[end-4:]) != masked(castagnoli(body[h.Offset:end-4])) {
			return fmt.Sprintf("the block of %d bytes at offset %d", h.Length, h.Offset)
		}
	}
	return somewhere
}

// masked is a checksum as tables have it. block.ValidateChecksum would look for the bit that flipped, at great length.
func masked(crc uint32) uint32 { return (crc>>15 | crc<<17) + 0xa282ead8 }

// blocks are those that have a checksum.
func blocks(l *sstable.Layout) (all []block.Handle) {
	for _, d := range l.Data {
		all = append(all, d.Handle)
	}
	for _, f := range l.Filter {
		all = append(all, f.Handle)
	}
	all = append(append(all, l.Index...), l.ValueBlock...)
	return append(all, l.TopIndex, l.RangeDel, l.RangeKey, l.ValueIndex, l.Properties, l.MetaIndex)
}
