package dstl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// poolBytes bounds what is kept for readers that have not come to it yet. Beyond it each reads for itself.
const poolBytes = 64 << 20

// pool is the log parts that the subtasks of a worker restore from, so that each object is read once for all of them. It knows
// beforehand who needs what (WorkerEnv.Restores) and puts the parts of an object together to spans, of which each is one request:
//
//   - A part is needed as a whole if it is small, or if the subtasks together want all key groups that its writer had. Such parts
//     of one object make up one span as long as at least ten elevenths of it are needed, or it is no larger than a small part.
//   - Of any other part the index is read, then the blocks with the key groups that somebody wants: a span of its own.
//
// So no more than 1.1 times the needed bytes are read beyond the first 256 KiB of an object. The first reader fetches and verifies a span
// and keeps it until the last one has finished. A fetch that failed or was damaged to the end is not kept: each then reads for itself,
// and reports what is wrong with its own part.
type pool struct {
	mu    *world.Mutex
	parts map[partKey]*pooled
	held  int64 // bytes
}

// partKey names a part.
type partKey struct {
	key            string
	offset, length int64
}

func keyOf(r backend.ObjectRef) partKey { return partKey{r.Key, r.Offset, r.Length} }

// pooled is one part with all that is wanted of it.
type pooled struct {
	wanted
	whole   bool
	readers int // that have not finished
	span    *span
	content *fetched // once its span is there
}

// progress of a span.
const (
	spanIdle = iota
	spanLoading
	spanThere
	spanBroken
)

// span is what is fetched at a time. What is below parts is guarded by the pool's mutex.
type span struct {
	key      string
	from, to int64
	whole    bool
	parts    []*pooled

	state   int
	done    *world.Latch // while it is loading
	readers int
}

func (s *span) size() int64 { return s.to - s.from }

// newPool plans what is announced.
func newPool(e backend.WorkerEnv) *pool {
	p := &pool{mu: world.NewMutex(e.World), parts: map[partKey]*pooled{}}
	objects := map[string][]*pooled{}
	var keys []string
	for _, r := range e.Restores {
		own := fmt.Sprintf("%d/", r.Written)
		for _, h := range r.Handles {
			for _, ref := range h.Delta {
				g := ref.Groups.Intersect(h.Range).Intersect(r.Range)
				if g.Empty() || ref.Offset < 0 || ref.Length < sectionTail || ref.Offset+ref.Length > ref.Bytes {
					continue
				}
				if objects[ref.Key] == nil {
					keys = append(keys, ref.Key)
				}
				part := p.parts[keyOf(ref)]
				if part == nil {
					part = &pooled{wanted: wanted{ref: ref}}
					p.parts[keyOf(ref)], objects[ref.Key] = part, append(objects[ref.Key], part)
				}
				part.want(ref, g, strings.HasPrefix(ref.Log, own))
			}
		}
	}
	for _, key := range keys {
		p.plan(objects[key])
	}
	return p
}

// want adds a reader. own tells that the reference has all key groups that the part holds.
func (q *pooled) want(ref backend.ObjectRef, g keygroup.Range, own bool) {
	q.readers++
	q.ref.From, q.ref.To = min(q.ref.From, ref.From), max(q.ref.To, ref.To)
	q.groups = append(q.groups, g)
	n := 0
	for _, g := range q.groups {
		n += g.Len()
	}
	q.whole = ref.Length <= wholePart || own && n >= ref.Groups.Len()
}

// plan makes the spans of an object.
func (p *pool) plan(parts []*pooled) {
	slices.SortStableFunc(parts, func(a, b *pooled) int { return cmp.Compare(a.ref.Offset, b.ref.Offset) })
	var last *span
	var needed int64
	for _, q := range parts {
		from, to := q.ref.Offset, q.ref.Offset+q.ref.Length
		switch {
		case !q.whole && q.readers == 1:
			delete(p.parts, keyOf(q.ref)) // nobody to share it with
			continue
		case !q.whole:
			q.span = &span{key: q.ref.Key, from: from, to: to}
		case last != nil && (to-last.from <= wholePart || 10*(to-last.from) <= 11*(needed+q.ref.Length)):
			last.to, q.span = max(last.to, to), last
			needed += q.ref.Length
		default:
			last = &span{key: q.ref.Key, from: from, to: to, whole: true}
			q.span, needed = last, q.ref.Length
		}
		q.span.parts = append(q.span.parts, q)
		q.span.readers += q.readers
	}
}

// shared fills f from the pool and tells whether it could.
func (l *segmentLog) shared(ctx context.Context, f *fetched) bool {
	p := l.pool
	p.mu.Lock()
	part := p.parts[keyOf(f.ref)]
	if part == nil {
		p.mu.Unlock()
		return false
	}
	s := part.span
	switch {
	case s.state == spanIdle && p.held > 0 && p.held+s.size() > poolBytes:
		p.mu.Unlock()
		return false
	case s.state == spanIdle:
		s.state, s.done = spanLoading, world.NewLatch(l.env.World)
		p.held += s.size()
		p.mu.Unlock()
		l.fill(ctx, s, f)
	case s.state == spanLoading:
		done := s.done
		p.mu.Unlock()
		if done.Wait(ctx) != nil {
			return false
		}
	default:
		p.mu.Unlock()
	}
	p.mu.Lock()
	c := part.content
	p.mu.Unlock()
	return c != nil && f.of(c)
}

// of takes over what of c is wanted for f, and tells whether the part has it.
func (f *fetched) of(c *fetched) bool {
	if c.index.from > f.ref.From || c.index.to < f.ref.To {
		return false
	}
	f.index, f.blocks, f.bytes, f.read = c.index, nil, nil, 0
	for i, b := range c.blocks {
		if f.has(b) {
			f.blocks, f.bytes = append(f.blocks, b), append(f.bytes, c.bytes[i])
			f.read += b.length
		}
	}
	return true
}

// fill fetches a span; what it reads counts for f.
func (l *segmentLog) fill(ctx context.Context, s *span, f *fetched) {
	contents := make([]*fetched, len(s.parts))
	err := store.Reread(ctx, l.env.World, func() (got uint32, err error) {
		if s.whole {
			return l.fetchSpan(ctx, s, contents, f)
		}
		c := &fetched{wanted: s.parts[0].wanted}
		contents[0], err = c, l.fetch(ctx, c)
		f.size += c.size
		return c.got, err
	})
	p := l.pool
	p.mu.Lock()
	s.state = spanThere
	if err != nil {
		s.state = spanBroken
		p.held -= s.size()
		clear(contents)
	}
	for i, part := range s.parts {
		part.content = contents[i]
	}
	done := s.done
	p.mu.Unlock()
	done.Open()
}

// fetchSpan reads a span by one request and verifies what is wanted of its parts.
func (l *segmentLog) fetchSpan(ctx context.Context, s *span, contents []*fetched, f *fetched) (got uint32, err error) {
	body, err := l.env.Bucket.GetRange(ctx, s.key, s.from, s.size())
	f.size += int64(len(body))
	if err != nil {
		return 0, err
	}
	got = checksum(body)
	if int64(len(body)) != s.size() {
		return got, damaged("%d of %d bytes at offset %d", len(body), s.size(), s.from)
	}
	for i, part := range s.parts {
		c := &fetched{wanted: part.wanted}
		own := body[c.ref.Offset-s.from:][:c.ref.Length]
		if err := c.open(own); err != nil {
			return got, err
		}
		if err := l.fetchBlocks(ctx, c, own, 0); err != nil {
			return got, err
		}
		contents[i] = c
	}
	return got, nil
}

// release tells that a reader has finished with a part, or never comes to it.
func (p *pool) release(r backend.ObjectRef) {
	p.mu.Lock()
	defer p.mu.Unlock()
	part := p.parts[keyOf(r)]
	if part == nil {
		return
	}
	s := part.span
	part.readers--
	s.readers--
	if part.readers == 0 {
		delete(p.parts, keyOf(r))
		part.content = nil
	}
	if s.readers == 0 && s.state == spanThere {
		p.held -= s.size()
	}
}
