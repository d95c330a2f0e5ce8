package heap

import (
	"io"

	"statebench.dev/bench/backend/blocks"
)

// Magic begins every object of this backend.
const Magic = "sbheap"

var format = blocks.Format{Magic: Magic, Backend: Name, Text: "a heap snapshot", Numbered: true} // read-only: a constant

// Verify reads a snapshot object of the given size block by block, a few hundred KiB at a time, and tells whether it is what
// was written. Damage is a backend.Damaged.
func Verify(key string, r io.ReaderAt, size int64) error { return format.Verify(key, r, size) }
