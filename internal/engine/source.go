package engine

import (
	"context"
	"fmt"
	"math"
	"time"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// turnRecords is how many records of one partition a source reads in a row, when others are due as well.
const turnRecords = 64

// source reads the partitions of one source subtask, each record when it is due: open loop, so a late one is sent at once and its
// lateness counts from its due time. What has been emitted is a function of the positions alone, and so is the watermark.
type source struct {
	s         *subtask
	in        graph.Source
	out       downstream
	parts     []partition
	started   bool
	began     time.Duration // world time from which the schedule counts
	turns     int64
	watermark int64
	held      uint64 // the savepoint behind whose barrier nothing is emitted; 0: none
	rec       graph.Record
}

// partition is one of them.
type partition struct {
	id       int
	next     int64         // index of the next record
	limit    int64         // where it stops
	reported int64         // positions before it are in a SourceRange event
	due      time.Duration // when the next record is due, world time; world.Never at the limit
	turn     int64         // when it was last served, in turns
	open     bool          // its next record may be sent at any time
}

var _ role = (*source)(nil)

func newSource(s *subtask, out downstream) *source {
	return &source{s: s, in: s.node.Source, out: out, watermark: noWatermark}
}

func (r *source) open(context.Context) error {
	cfg := r.s.loop.a.w.cfg
	for _, p := range r.s.d.Positions {
		next := p.Next
		switch {
		case next == 0:
		case cfg.Failpoints.Mutant(mutantReplayTwice):
			next--
		case cfg.Failpoints.Mutant(mutantReplaySkip):
			next++
		}
		r.parts = append(r.parts, partition{id: p.Partition, next: next, reported: next, limit: r.in.Limit(p.Partition, cfg.Total), open: true})
		// Now and not at the start, so that nobody takes the end of an earlier attempt's input for that of this one's.
		r.progress(&r.parts[len(r.parts)-1])
	}
	return nil
}

// start begins the schedule. The watermark of the restored positions goes first, so that operators know what time it is.
func (r *source) start(ctx context.Context, began time.Duration) error {
	if r.started {
		return nil
	}
	r.started, r.began = true, began
	if len(r.parts) == 0 {
		r.out.retire()
	}
	for i := range r.parts {
		p := &r.parts[i]
		r.schedule(p)
		r.s.record(ctx, history.Event{Kind: history.SourceStarted, Partition: p.id, From: p.next})
		r.progress(p)
		if p.next >= p.limit {
			r.finish(ctx, p)
		}
	}
	return r.mark()
}

// stop makes each partition end at its limit, or where it stands when it is past that.
func (r *source) stop(ctx context.Context, limits []int64) {
	for i := range r.parts {
		p := &r.parts[i]
		limit := p.next
		if p.id < len(limits) {
			limit = max(limit, limits[p.id])
		}
		if limit < p.limit {
			p.limit = limit
			r.schedule(p)
		}
		if r.started && p.next >= p.limit {
			r.finish(ctx, p)
		}
	}
}

// hold ends the emission with the barrier of a savepoint, and release lets it go on when that did not complete.
func (r *source) hold(id uint64) { r.held = id }

func (r *source) release(id uint64) {
	if r.held == id {
		r.held = 0
	}
}

// schedule sets when the next record of p is due.
func (r *source) schedule(p *partition) {
	if p.next >= p.limit {
		p.due = world.Never
		return
	}
	due := r.in.Due(p.id, p.next)
	if p.open = due < 0; p.open {
		p.due = 0
		return
	}
	p.due = r.began + due
}

// nextDue is when the next record of any partition is due.
func (r *source) nextDue() time.Duration {
	due := world.Never
	if r.started && r.held == 0 {
		for i := range r.parts {
			due = min(due, r.parts[i].due)
		}
	}
	return due
}

// pick returns the partition that is to be read next: the one whose record is due first, among equals the one that waited longest;
// and until when it may go on before another one's turn comes. nil: nothing is due by now.
func (r *source) pick(now time.Duration) (p *partition, until time.Duration) {
	until = world.Never
	for i := range r.parts {
		q := &r.parts[i]
		switch {
		case p == nil:
			p = q
		case q.due < p.due || q.due == p.due && q.turn < p.turn:
			p, until = q, min(until, p.due)
		default:
			until = min(until, q.due)
		}
	}
	if p == nil || p.due > now {
		return nil, 0
	}
	return p, min(until, now)
}

// batch emits up to limit records that are due, and says how many.
func (r *source) batch(ctx context.Context, now time.Duration, limit int) (n int, err error) {
	if !r.started || r.held != 0 {
		return 0, nil
	}
	for n < limit {
		p, until := r.pick(now)
		if p == nil {
			break
		}
		r.turns++
		p.turn = r.turns
		end := min(limit, n+turnRecords)
		for ; n < end && p.due <= until; n++ {
			if err := r.emit(p, now); err != nil {
				return n, err
			}
		}
		if p.next >= p.limit {
			r.finish(ctx, p)
		}
	}
	if n == 0 {
		return 0, nil
	}
	for i := range r.parts {
		r.progress(&r.parts[i])
	}
	if err := r.mark(); err != nil {
		return n, err
	}
	if reached := r.s.loop.a.w.cfg.Reached; reached != nil {
		reached(ctx, r.s.loop.a.w.net.progress.Emitted())
	}
	return n, nil
}

// emit sends the next record of p. A finite source may end before its limit.
func (r *source) emit(p *partition, now time.Duration) error {
	ok, err := r.in.Read(p.id, p.next, &r.rec)
	if err != nil {
		return fmt.Errorf("read record %d of partition %d: %w", p.next, p.id, err)
	}
	if !ok {
		p.limit = p.next
		p.due = world.Never
		return nil
	}
	r.rec.Due = p.due
	if p.open {
		r.rec.Due = now
	}
	if err := r.out.Collect(&r.rec); err != nil {
		return err
	}
	p.next++
	r.s.counts.in++
	r.schedule(p)
	return nil
}

// mark raises the watermark to what the positions say.
func (r *source) mark() error {
	if len(r.parts) == 0 {
		return nil
	}
	least := int64(math.MaxInt64)
	for i := range r.parts {
		least = min(least, r.in.Watermark(r.parts[i].id, r.parts[i].next))
	}
	if least <= r.watermark {
		return nil
	}
	r.watermark = least
	return r.out.advance(least)
}

func (r *source) progress(p *partition) {
	due := p.due
	if p.open {
		due = Unscheduled
	}
	all := r.s.loop.a.w.net.progress
	if p.next < p.limit {
		all.Advance(p.id, p.next, due)
	} else {
		all.Advance(p.id, p.next, Unscheduled)
		all.Done(p.id)
	}
}

// finish ends a partition that has reached its limit. It keeps its watermark.
func (r *source) finish(ctx context.Context, p *partition) {
	r.progress(p)
	r.report(ctx, p)
}

// report records what was emitted since the last report.
func (r *source) report(ctx context.Context, p *partition) {
	if p.next > p.reported {
		r.s.record(ctx, history.Event{Kind: history.SourceRange, Partition: p.id, From: p.reported, To: p.next})
		p.reported = p.next
	}
}

// reportAll does so for every partition.
func (r *source) reportAll(ctx context.Context) {
	for i := range r.parts {
		r.report(ctx, &r.parts[i])
	}
}

func (r *source) snapshot(_ context.Context, _ uint64, part *checkpoint.SubtaskState) error {
	for i := range r.parts {
		part.Positions = append(part.Positions, checkpoint.Position{Partition: r.parts[i].id, Next: r.parts[i].next})
	}
	return nil
}

func (r *source) completed(context.Context, uint64) error { return nil }

// positions are the next indices by partition, -1 for those of other subtasks.
func (r *source) positions() []int64 {
	at := make([]int64, r.in.Partitions())
	for i := range at {
		at[i] = -1
	}
	for i := range r.parts {
		at[r.parts[i].id] = r.parts[i].next
	}
	return at
}
