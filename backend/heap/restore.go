package heap

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

const (
	smallObject = 1 << 20  // up to this size an object is read as a whole
	tailGuess   = 64 << 10 // the first read of a footer
)

// partsOf lists what the subtask needs of the handles, in their order.
func partsOf(o backend.OpenOptions) []*part {
	var parts []*part
	for _, h := range o.Handles {
		first := len(parts)
		for _, ref := range h.Base {
			g := ref.Groups.Intersect(h.Range).Intersect(o.Range)
			if !g.Empty() {
				parts = append(parts, &part{ref: ref, groups: g})
			}
		}
		if h.Range == o.Range || len(parts) == first {
			continue
		}
		// Narrowed handles don't say what their objects hold. Objects are in order of key groups, so what lies between the
		// first and the last one that is needed is needed as a whole.
		parts[first].cut, parts[len(parts)-1].cut = true, true
	}
	return parts
}

// restore fills an empty keyed from the handles. Some objects are fetched ahead while one is loaded.
func (k *keyed) restore(ctx context.Context, o backend.OpenOptions) error {
	w := k.b.e.World
	began := w.Now()
	parts := partsOf(o)
	cause := store.Info{Cause: "restore", Who: k.b.e.Worker, Attempt: k.b.e.Attempt}
	ctx, cancel := w.WithCancel(store.WithInfo(ctx, cause))
	fetches := world.NewGroup(w)
	var err error
	var bytes int64
	for i, started := 0, 0; i < len(parts) && err == nil; i++ {
		for ; started < min(len(parts), i+k.b.o.Parallel); started++ {
			p := parts[started]
			p.fetched = world.NewLatch(w)
			fetches.Go(ctx, "fetch "+p.ref.Key, func(ctx context.Context) error {
				defer p.fetched.Open()
				p.err = store.Reread(ctx, w, func() (uint32, error) {
					err := k.fetch(ctx, p)
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
			err = k.load(p)
		}
		p.content = nil
	}
	cancel(err)
	if waited := fetches.Wait(ctx); err == nil {
		err = waited
	}
	if o.Restored != nil {
		o.Restored.BaseTime, o.Restored.BaseBytes = w.Now()-began, bytes
	}
	return err
}

// fetch reads, verifies and decompresses a part.
func (k *keyed) fetch(ctx context.Context, p *part) error {
	p.got, p.footer, p.content = 0, footer{}, nil
	blocks, err := k.read(ctx, p)
	if err != nil {
		return err
	}
	size := 0
	for _, g := range p.footer.groups {
		if !p.groups.Contains(g.group) {
			continue
		}
		b, err := blocks(g)
		if err != nil {
			return err
		}
		raw, err := parseBlocks(p.ref.Key, g, b)
		if err != nil {
			return err
		}
		for _, r := range raw {
			size += len(r)
		}
		p.content = append(p.content, groupContent{g, raw})
	}
	k.b.e.World.Compute(ctx, time.Duration(size)*k.b.o.DecodeCost)
	return nil
}

// read gets the footer and the bytes of the key groups that are needed: the whole object, or a range of it where that is
// less than half. The result finds the bytes of one.
func (k *keyed) read(ctx context.Context, p *part) (func(groupIndex) ([]byte, error), error) {
	if p.cut && p.ref.Bytes > smallObject {
		if err := k.readFooter(ctx, p); err != nil {
			return nil, err
		}
		if from, to := p.span(); 2*(to-from) < p.ref.Bytes {
			b, err := k.getRange(ctx, p, from, to-from)
			return func(g groupIndex) ([]byte, error) {
				at := int64(g.offset) - from
				return b[at : at+int64(g.length)], nil
			}, err
		}
	}
	b, err := k.b.e.Bucket.Get(ctx, p.ref.Key)
	p.bytes += int64(len(b))
	p.got = castagnoli(b)
	switch {
	case err != nil:
		return nil, fmt.Errorf("get object %q: %w", p.ref.Key, err)
	case int64(len(b)) != p.ref.Bytes:
		return nil, damaged(p.ref.Key, "ends at offset %d, should at %d", len(b), p.ref.Bytes)
	case p.got != p.ref.CRC32C:
		return nil, locate(p.ref.Key, b, damaged(p.ref.Key, "checksum %08x, should be %08x, somewhere from offset 0 on", p.got, p.ref.CRC32C))
	case len(b) < headerSize:
		return nil, damaged(p.ref.Key, "cut at offset %d", len(b))
	}
	if err := checkMagic(p.ref.Key, b[:headerSize]); err != nil {
		return nil, fmt.Errorf("header at offset 0: %w", err)
	}
	p.footer, err = parseFooter(p.ref.Key, b, p.ref.Bytes)
	return func(g groupIndex) ([]byte, error) { return b[g.offset : g.offset+g.length], nil }, err
}

// readFooter reads the end of the object, once more if the footer is longer than thought.
func (k *keyed) readFooter(ctx context.Context, p *part) error {
	tail, err := k.getRange(ctx, p, max(0, p.ref.Bytes-tailGuess), min(tailGuess, p.ref.Bytes))
	if err != nil {
		return err
	}
	n, err := footerSize(p.ref.Key, tail)
	if err != nil {
		return fmt.Errorf("trailer before offset %d: %w", p.ref.Bytes, err)
	}
	if n > len(tail) && int64(n) <= p.ref.Bytes {
		if tail, err = k.getRange(ctx, p, p.ref.Bytes-int64(n), int64(n)); err != nil {
			return err
		}
	}
	p.footer, err = parseFooter(p.ref.Key, tail, p.ref.Bytes)
	return err
}

func (k *keyed) getRange(ctx context.Context, p *part, off, n int64) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	b, err := k.b.e.Bucket.GetRange(ctx, p.ref.Key, off, n)
	p.bytes += int64(len(b))
	switch {
	case err != nil:
		return nil, fmt.Errorf("get %d bytes of object %q: %w", n, p.ref.Key, err)
	case int64(len(b)) != n:
		return nil, damaged(p.ref.Key, "%d bytes from offset %d on, not %d", len(b), off, n)
	}
	p.got = p.got*31 + castagnoli(b)
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

// load puts the elements of a part into the tables.
func (k *keyed) load(p *part) error {
	ids := make([]backend.StateID, len(p.footer.states))
	for i, spec := range p.footer.states {
		id, err := k.Register(spec)
		if err != nil {
			return fmt.Errorf("object %q: %w", p.ref.Key, err)
		}
		ids[i] = id
	}
	for _, c := range p.content {
		i, err := k.group(c.index.group)
		if err != nil {
			return err
		}
		k.positions[i] = max(k.positions[i], c.index.position)
		count := uint64(0)
		for _, raw := range c.raw {
			err := eachElement(raw, func(state uint16, key, value []byte) error {
				count++
				if int(state) >= len(ids) {
					return backend.ErrEncoding
				}
				s := &k.states[ids[state]]
				if s.point != nil {
					return s.point[i].put(&k.arena, key, value)
				}
				return s.ordered[i].put(&k.arena, key, value)
			})
			if errors.Is(err, backend.ErrEncoding) {
				return damaged(p.ref.Key, "key group %d: %v", c.index.group, err)
			}
			if err != nil {
				return fmt.Errorf("object %q, key group %d: %w", p.ref.Key, c.index.group, err)
			}
		}
		if count != c.index.elements {
			return damaged(p.ref.Key, "key group %d has %d elements, not %d", c.index.group, count, c.index.elements)
		}
	}
	return nil
}
