package dstl

import (
	"context"
	"fmt"
	"slices"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// Sizes that decide between one request and several: a request costs about as much as this many bytes.
const (
	wholePart = 256 << 10 // a part up to here is fetched at once, whatever is needed of it
	indexTail = 8 << 10   // first guess at where an index begins
	blockGap  = 64 << 10  // blocks this close are fetched together
)

// Simulated cost of replaying, beside what the nested backend declares.
const (
	costPerChange = 200 * time.Nanosecond
	costPerRead   = time.Nanosecond // a byte
)

// wanted is one part with what is to be read of it.
type wanted struct {
	ref    backend.ObjectRef
	groups []keygroup.Range
}

// has tells whether a block may hold something that is wanted.
func (w *wanted) has(b block) bool {
	if b.seq < w.ref.From || b.seq >= w.ref.To {
		return false
	}
	for _, g := range w.groups {
		if b.first < g.To && b.last >= g.From {
			return true
		}
	}
	return false
}

// fetched is the blocks of one part in memory. What a subtask reads for itself has one range of groups.
type fetched struct {
	wanted
	index  *section
	blocks []block
	bytes  [][]byte // of each block, header included; verified
	read   int64    // the sum of these
	size   int64    // fetched from the store
	got    uint32   // checksum of what was fetched since the last start
	err    error
	done   *world.Latch
}

func (l *segmentLog) Read(ctx context.Context, refs []backend.ObjectRef, r keygroup.Range, v Visitor) (ReadStats, error) {
	var parts []wanted
	for _, ref := range refs {
		if g := ref.Groups.Intersect(r); !g.Empty() {
			parts = append(parts, wanted{ref: ref, groups: []keygroup.Range{g}})
		}
	}
	if l.env.Failpoints.Mutant(mutantReverse) {
		slices.Reverse(parts)
	}
	inner, cancel := l.env.World.WithCancel(store.WithInfo(ctx, store.Info{Cause: "restore", Who: l.env.Worker, Attempt: l.env.Attempt}))
	group := world.NewGroup(l.env.World)
	ahead := make([]*fetched, len(parts))
	start := func(i int) {
		f := &fetched{wanted: parts[i], done: world.NewLatch(l.env.World)}
		ahead[i] = f
		group.Go(inner, "log-fetch", func(ctx context.Context) error {
			f.err = l.load(ctx, f)
			f.done.Open()
			return nil
		})
	}
	for i := range min(l.o.Prefetch, len(parts)) {
		start(i)
	}
	var stats ReadStats
	finished := 0 // parts
	err := func() error {
		rp := replay{v: v}
		for i := range parts {
			f := ahead[i]
			if err := f.done.Wait(ctx); err != nil {
				return err
			}
			stats.Bytes += f.size
			if n := i + l.o.Prefetch; n < len(parts) {
				start(n)
			}
			began := l.env.World.Now()
			n, err := rp.apply(f)
			stats.Changes += n
			if err != nil {
				return fmt.Errorf("replay %s [%d,%d) from %s: %w", f.ref.Log, f.ref.From, f.ref.To, f.ref.Key, err)
			}
			ahead[i] = nil
			l.pool.release(f.ref)
			finished++
			l.env.World.Compute(ctx, time.Duration(n)*costPerChange+time.Duration(f.read)*costPerRead)
			stats.Applied += l.env.World.Now() - began
		}
		return nil
	}()
	cancel(context.Canceled)
	if werr := group.Wait(ctx); err == nil {
		err = werr
	}
	for _, p := range parts[finished:] {
		l.pool.release(p.ref)
	}
	return stats, err
}

// load gets what is wanted of a part: from what the worker's subtasks share, else by requests of its own.
func (l *segmentLog) load(ctx context.Context, f *fetched) error {
	if l.shared(ctx, f) {
		return nil
	}
	return store.Reread(ctx, l.env.World, func() (uint32, error) {
		err := l.fetch(ctx, f)
		return f.got, err
	})
}

// fetch reads the index of a part and the blocks with wanted key groups and sequence numbers, and verifies them.
func (l *segmentLog) fetch(ctx context.Context, f *fetched) error {
	f.got = 0
	var from int64 // where tail begins in the part
	size := f.ref.Length
	if size > wholePart {
		from = size - indexTail
	}
	tail, err := l.get(ctx, f, from, size-from)
	if err != nil {
		return err
	}
	if n, err := sectionIndexSize(tail); err != nil {
		return f.at(from, err)
	} else if need := n + sectionTail; need > int64(len(tail)) && need <= size {
		from = size - need
		if tail, err = l.get(ctx, f, from, need); err != nil {
			return err
		}
	}
	if err := f.open(tail); err != nil {
		return f.at(from, err)
	}
	return l.fetchBlocks(ctx, f, tail, from)
}

// open reads the index at the end of tail, which ends where the part ends, and lists the blocks that are wanted.
func (f *fetched) open(tail []byte) (err error) {
	f.blocks, f.bytes, f.read = nil, nil, 0
	if f.index, err = decodeSection(tail, f.ref.Length); err != nil {
		return err
	}
	if f.index.log != f.ref.Log || f.index.from > f.ref.From || f.index.to < f.ref.To {
		return damaged("part holds %s [%d,%d)", f.index.log, f.index.from, f.index.to)
	}
	for _, b := range f.index.blocks {
		if !f.has(b) {
			continue
		}
		if b.offset < 0 {
			return damaged("part begins behind its first block")
		}
		f.blocks = append(f.blocks, b)
	}
	return nil
}

// fetchBlocks fills f.bytes; have is what was read of the part from offset from on.
func (l *segmentLog) fetchBlocks(ctx context.Context, f *fetched, have []byte, from int64) error {
	for i := 0; i < len(f.blocks); {
		at, n := f.blocks[i].offset, i+1
		for n < len(f.blocks) && f.blocks[n].offset-(f.blocks[n-1].offset+f.blocks[n-1].length) <= blockGap {
			n++
		}
		end := f.blocks[n-1].offset + f.blocks[n-1].length
		data, base := have, from
		if at < from {
			var err error
			if data, err = l.get(ctx, f, at, end-at); err != nil {
				return err
			}
			base = at
		}
		for _, b := range f.blocks[i:n] {
			body := data[b.offset-base:][:b.length]
			if err := checkBlock(body, b); err != nil && !l.env.Failpoints.Mutant(mutantDamage) {
				return f.at(b.offset, err)
			}
			f.bytes, f.read = append(f.bytes, body), f.read+int64(len(body))
		}
		i = n
	}
	return nil
}

// at says where in the object the damage is that was found at offset off of the part.
func (f *fetched) at(off int64, err error) error {
	return fmt.Errorf("at offset %d: %w", f.ref.Offset+off, err)
}

// get reads n bytes of the part from offset off on.
func (l *segmentLog) get(ctx context.Context, f *fetched, off, n int64) ([]byte, error) {
	if f.ref.Offset < 0 || f.ref.Length < sectionTail || f.ref.Length > f.ref.Bytes {
		return nil, damaged("reference to %d bytes at %d of %d", f.ref.Length, f.ref.Offset, f.ref.Bytes)
	}
	b, err := l.env.Bucket.GetRange(ctx, f.ref.Key, f.ref.Offset+off, n)
	f.size += int64(len(b))
	if err != nil {
		return nil, err
	}
	f.got = f.got*31 + checksum(b)
	if int64(len(b)) != n {
		return nil, damaged("%d of %d bytes at offset %d", len(b), n, f.ref.Offset+off)
	}
	return b, nil
}

// replay applies fetched parts; it keeps its scratch memory between them.
type replay struct {
	v       Visitor
	scratch []byte
	change  Change
}

// apply hands the changes of f to the visitor and returns their number.
func (p *replay) apply(f *fetched) (n int64, err error) {
	if f.err != nil {
		return 0, f.err
	}
	if len(f.blocks) == 0 {
		return 0, nil
	}
	if err := p.v.States(f.index.states); err != nil {
		return 0, err
	}
	for i, b := range f.blocks {
		payload, err := openBlock(f.bytes[i], p.scratch)
		if err != nil {
			return n, f.at(b.offset, err)
		}
		if cap(payload) > cap(p.scratch) && f.bytes[i][20] == codecS2 {
			p.scratch = payload[:cap(payload)]
		}
		f.bytes[i] = nil
		err = eachChange(payload, f.groups[0], &p.change, func(c *Change) error {
			n++
			return p.v.Apply(c)
		})
		if err != nil {
			return n, f.at(b.offset, err)
		}
	}
	return n, nil
}
