package blocks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// part is what one subtask needs of one object.
type part struct {
	f      Format
	e      backend.WorkerEnv
	o      Options
	ref    backend.ObjectRef
	groups keygroup.Range
	// cut tells that the object may hold much that is not needed.
	cut bool

	fetched *world.Latch
	err     error
	bytes   int64
	got     uint32 // checksum of what was read since the last start
	footer  footer
	content []groupContent
}

// groupContent is the decompressed blocks of a key group.
type groupContent struct {
	index groupIndex
	raw   [][]byte
}

// parts lists what is needed of the handles, in their order.
func (f Format) parts(e backend.WorkerEnv, handles []backend.StateHandle, r keygroup.Range, o Options) []*part {
	var parts []*part
	for _, h := range handles {
		first := len(parts)
		for _, ref := range h.Base {
			if g := ref.Groups.Intersect(h.Range).Intersect(r); !g.Empty() {
				parts = append(parts, &part{f: f, e: e, o: o, ref: ref, groups: g})
			}
		}
		// Handles may have been narrowed: they don't say what their objects hold. Objects are in order of key groups, so what
		// lies between the first and the last one that is needed is needed as a whole.
		if len(parts) > first {
			parts[first].cut, parts[len(parts)-1].cut = true, true
		}
	}
	return parts
}

// Read fills l with the key groups of r from handles of this format: for each handle and object those in (handle range ∩
// object's Groups ∩ r). It returns the number of bytes fetched. Damage is an error that wraps store.ErrCorrupt and names object
// and offset. Some objects are fetched ahead while one is loaded.
func (f Format) Read(ctx context.Context, e backend.WorkerEnv, o Options, handles []backend.StateHandle, r keygroup.Range, l Loader) (bytes int64, err error) {
	o = o.WithDefaults()
	w := e.World
	parts := f.parts(e, handles, r, o)
	ctx, cancel := w.WithCancel(store.WithInfo(ctx, store.Info{Cause: "restore", Who: e.Worker, Attempt: e.Attempt}))
	fetches := world.NewGroup(w)
	for i, started := 0, 0; i < len(parts) && err == nil; i++ {
		for ; started < min(len(parts), i+o.Parallel); started++ {
			p := parts[started]
			p.fetched = world.NewLatch(w)
			fetches.Go(ctx, "fetch "+p.ref.Key, func(ctx context.Context) error {
				defer p.fetched.Open()
				p.err = store.Reread(ctx, w, func() (uint32, error) {
					err := p.fetch(ctx)
					return p.got, err
				})
				return nil
			})
		}
		p := parts[i]
		if err = p.fetched.Wait(ctx); err != nil {
			break
		}
		bytes += p.bytes
		if err = p.err; err == nil {
			err = p.load(l)
		}
		p.content = nil
	}
	cancel(err)
	if waited := fetches.Wait(ctx); err == nil {
		err = waited
	}
	return bytes, err
}

// fetch reads, verifies and decompresses a part.
func (p *part) fetch(ctx context.Context) error {
	p.got, p.footer, p.content = 0, footer{}, nil
	blocks, err := p.read(ctx)
	if err != nil {
		return err
	}
	size := 0
	for _, g := range p.footer.groups {
		if !p.groups.Contains(g.group) {
			continue
		}
		raw, err := parseBlocks(p.ref.Key, g, blocks(g))
		if err != nil {
			return err
		}
		for _, r := range raw {
			size += len(r)
		}
		p.content = append(p.content, groupContent{g, raw})
	}
	p.e.World.Compute(ctx, time.Duration(size)*p.o.DecodeCost)
	return nil
}

// read gets the footer and the bytes of the key groups that are needed: the whole object, or a range of it where that is
// less than half. The result finds the bytes of one.
func (p *part) read(ctx context.Context) (func(groupIndex) []byte, error) {
	if p.cut && p.ref.Bytes > smallObject {
		if err := p.readFooter(ctx); err != nil {
			return nil, err
		}
		if from, to := p.span(); 2*(to-from) < p.ref.Bytes {
			b, err := p.getRange(ctx, from, to-from)
			return func(g groupIndex) []byte {
				at := int64(g.offset) - from
				return b[at : at+int64(g.length)]
			}, err
		}
	}
	b, err := p.e.Bucket.Get(ctx, p.ref.Key)
	p.bytes += int64(len(b))
	p.got = store.CRC32C(b)
	switch {
	case err != nil:
		return nil, fmt.Errorf("get object %q: %w", p.ref.Key, err)
	case int64(len(b)) != p.ref.Bytes:
		return nil, damaged(p.ref.Key, "ends at offset %d, should at %d", len(b), p.ref.Bytes)
	case p.got != p.ref.CRC32C:
		return nil, p.f.locate(p.ref.Key, b, damaged(p.ref.Key, "checksum %08x, should be %08x, somewhere from offset 0 on", p.got, p.ref.CRC32C))
	case len(b) < p.f.headerSize():
		return nil, damaged(p.ref.Key, "cut at offset %d", len(b))
	}
	if err := p.f.checkMagic(p.ref.Key, b[:p.f.headerSize()]); err != nil {
		return nil, fmt.Errorf("header at offset 0: %w", err)
	}
	p.footer, err = p.f.parseFooter(p.ref.Key, b, p.ref.Bytes)
	return func(g groupIndex) []byte { return b[g.offset : g.offset+g.length] }, err
}

// readFooter reads the end of the object, once more if the footer is longer than thought.
func (p *part) readFooter(ctx context.Context) error {
	tail, err := p.getRange(ctx, max(0, p.ref.Bytes-tailGuess), min(tailGuess, p.ref.Bytes))
	if err != nil {
		return err
	}
	n, err := p.f.footerSize(p.ref.Key, tail)
	if err != nil {
		return fmt.Errorf("trailer before offset %d: %w", p.ref.Bytes, err)
	}
	if n > int64(len(tail)) && n <= p.ref.Bytes {
		if tail, err = p.getRange(ctx, p.ref.Bytes-n, n); err != nil {
			return err
		}
	}
	p.footer, err = p.f.parseFooter(p.ref.Key, tail, p.ref.Bytes)
	return err
}

func (p *part) getRange(ctx context.Context, off, n int64) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	b, err := p.e.Bucket.GetRange(ctx, p.ref.Key, off, n)
	p.bytes += int64(len(b))
	switch {
	case err != nil:
		return nil, fmt.Errorf("get %d bytes of object %q: %w", n, p.ref.Key, err)
	case int64(len(b)) != n:
		return nil, damaged(p.ref.Key, "%d bytes from offset %d on, not %d", len(b), off, n)
	}
	p.got = p.got*31 + store.CRC32C(b)
	return b, nil
}

// span is the range of bytes that has the key groups of the part.
func (p *part) span() (from, to int64) {
	for _, g := range p.footer.groups {
		if !p.groups.Contains(g.group) {
			continue
		}
		if to == 0 || int64(g.offset) < from {
			from = int64(g.offset)
		}
		to = max(to, int64(g.offset+g.length))
	}
	return from, to
}

// load gives the elements of a part to the backend.
func (p *part) load(l Loader) error {
	ids := make([]backend.StateID, len(p.footer.states))
	for i, spec := range p.footer.states {
		id, err := l.Register(spec)
		if err != nil {
			return fmt.Errorf("object %q: %w", p.ref.Key, err)
		}
		ids[i] = id
	}
	for _, c := range p.content {
		if err := l.Position(c.index.group, c.index.position); err != nil {
			return err
		}
		count := uint64(0)
		for _, raw := range c.raw {
			err := eachElement(raw, func(state int, key, value []byte) error {
				count++
				if state >= len(ids) {
					return backend.ErrEncoding
				}
				return l.Load(backend.Addr{State: ids[state], Group: c.index.group, Key: key}, value)
			})
			if errors.Is(err, backend.ErrEncoding) {
				return damaged(p.ref.Key, "key group %d at offset %d: %v", c.index.group, c.index.offset, err)
			}
			if err != nil {
				return fmt.Errorf("object %q, key group %d: %w", p.ref.Key, c.index.group, err)
			}
		}
		if count != c.index.elements {
			return damaged(p.ref.Key, "key group %d at offset %d has %d elements, not %d", c.index.group, c.index.offset, count, c.index.elements)
		}
	}
	return nil
}
