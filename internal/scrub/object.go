package scrub

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// reader verifies objects until there are no more.
func (a *audit) reader(ctx context.Context, work *world.Queue[store.Attributes]) error {
	for {
		at, err := work.Take(ctx)
		if errors.Is(err, world.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := a.verify(ctx, at); err != nil {
			return err
		}
	}
}

// verify reads an object and compares it with what is said of it.
func (a *audit) verify(ctx context.Context, at store.Attributes) error {
	u := a.uses[at.Key]
	var read int64
	err := store.Reread(ctx, a.w, func() (uint32, error) {
		p := &pieces{ctx: ctx, b: a.b, key: at.Key, size: at.Size, window: min(a.o.Memory/int64(a.o.Readers), at.Size)}
		crc, err := p.checksum()
		if err == nil {
			err = a.content(p, at, u, crc)
		}
		read += p.read
		return crc, err
	})
	a.mu.Lock()
	a.r.Read += read
	a.mu.Unlock()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotExist):
		return nil // removed since it was listed; whether that is right is told by whoever removed it
	case errors.Is(err, store.ErrCorrupt):
		var placed *backend.Damaged
		if errors.As(err, &placed) {
			return a.corruptAt(at, placed.Offset, errors.New(placed.What), a.names(u))
		}
		return a.corruptAt(at, noOffset, err, a.names(u))
	}
	return fmt.Errorf("read %q: %w", at.Key, err)
}

// content checks the format, which knows where damage is, before the checksum, which only knows that there is some.
func (a *audit) content(p *pieces, at store.Attributes, u *use, crc uint32) error {
	format, err := a.format(p, at)
	if err == nil {
		err = format.Verify(Object{Key: at.Key, Size: at.Size, ReaderAt: p, Refs: u.refs})
	}
	switch {
	case p.failed != nil:
		return p.failed
	case err != nil && !errors.Is(err, store.ErrCorrupt):
		return fmt.Errorf("%w: %w", err, store.ErrCorrupt)
	case err != nil:
		return err
	case crc != u.crc:
		return fmt.Errorf("it is a whole %s with checksum %08x, should be %08x: %w", format.Name, crc, u.crc, store.ErrCorrupt)
	}
	return nil
}

// format finds what kind of object it is.
func (a *audit) format(p *pieces, at store.Attributes) (Format, error) {
	var head []byte
	for _, f := range a.o.Formats {
		if f.Ext != "" && !strings.HasSuffix(at.Key, f.Ext) {
			continue
		}
		if f.Magic == "" {
			return f, nil
		}
		if len(head) < len(f.Magic) {
			var err error
			if head, err = backend.ReadFull(p, 0, min(at.Size, 16)); err != nil {
				return Format{}, err
			}
		}
		if strings.HasPrefix(string(head), f.Magic) {
			return f, nil
		}
	}
	return Format{}, backend.DamagedAt(0, "its first bytes %x begin no format of this program", head)
}

// pieces is an object that is read window by window; a small one is one window.
type pieces struct {
	ctx    context.Context
	b      store.Bucket
	key    string
	size   int64
	window int64
	at     int64 // where held begins
	held   []byte
	read   int64
	failed error // of the store
}

var _ io.ReaderAt = (*pieces)(nil)

// castagnoli is the table that the standard library shares.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// checksum reads all of the object.
func (p *pieces) checksum() (sum uint32, err error) {
	for off := int64(0); off < p.size; off += p.window {
		if err := p.load(off); err != nil {
			return sum, err
		}
		sum = crc32.Update(sum, castagnoli(), p.held)
		if want := min(p.window, p.size-off); int64(len(p.held)) < want {
			return sum, backend.DamagedAt(off+int64(len(p.held)), "it ends here")
		}
	}
	return sum, nil
}

// load makes the window that begins at off the one that is held.
func (p *pieces) load(off int64) (err error) {
	if p.window == p.size {
		p.held, err = p.b.Get(p.ctx, p.key)
	} else {
		p.held, err = p.b.GetRange(p.ctx, p.key, off, min(p.window, p.size-off))
	}
	p.at = off
	p.read += int64(len(p.held))
	if err != nil {
		p.failed = err
	}
	return err
}

// ReadAt implements io.ReaderAt. It is used by one process.
func (p *pieces) ReadAt(b []byte, off int64) (n int, err error) {
	for n < len(b) {
		from := off + int64(n)
		if from >= p.size {
			return n, io.EOF
		}
		if p.held == nil || from < p.at || from >= p.at+int64(len(p.held)) {
			if err := p.load(p.begin(from)); err != nil {
				return n, err
			}
			if from >= p.at+int64(len(p.held)) {
				return n, io.EOF
			}
		}
		n += copy(b[n:], p.held[from-p.at:])
	}
	return n, nil
}

// begin is where the window begins that is read for offset from. Formats read from front to end, but for the footer.
func (p *pieces) begin(from int64) int64 {
	if p.window == p.size {
		return 0
	}
	return min(from, p.size-p.window)
}
