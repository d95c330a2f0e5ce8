package backend

import (
	"fmt"
	"io"

	"statebench.dev/bench/backend/store"
)

// Damaged says where in an object of a checkpoint the damage begins. It wraps store.ErrCorrupt.
type Damaged struct {
	Offset int64 // in bytes from the begin of the object
	What   string
}

// DamagedAt returns a Damaged with a formatted text.
func DamagedAt(offset int64, format string, args ...any) *Damaged {
	return &Damaged{Offset: offset, What: fmt.Sprintf(format, args...)}
}

// Error says what is wrong and where.
func (d *Damaged) Error() string { return fmt.Sprintf("at offset %d: %s", d.Offset, d.What) }

// Unwrap returns store.ErrCorrupt.
func (d *Damaged) Unwrap() error { return store.ErrCorrupt }

// ReadFull reads the n bytes of r from off on into memory of its own. What r has not is a Damaged; its other errors are
// returned as they are.
func ReadFull(r io.ReaderAt, off, n int64) ([]byte, error) {
	if off < 0 || n < 0 {
		return nil, DamagedAt(max(off, 0), "%d bytes from offset %d on", n, off)
	}
	b := make([]byte, n)
	got, err := r.ReadAt(b, off)
	switch {
	case int64(got) == n:
		return b, nil
	case err == nil || err == io.EOF:
		return nil, DamagedAt(off+int64(got), "it ends here, %d bytes from offset %d on are needed", n, off)
	}
	return nil, err
}
