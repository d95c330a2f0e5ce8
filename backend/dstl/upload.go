package dstl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// upload is what one writer hands over at a time.
type upload struct {
	w          *writer
	sets       []*set
	bytes      int64  // before framing
	checkpoint uint64 // 0: pre-emptive
	epoch      uint64 // of the sets of a pre-emptive upload
	framed     *world.Latch
	done       *world.Latch // open once the sets are stored or back with their writer
	err        error        // set before done
}

// batch is the uploads that share one object. They have a checkpoint in common: the one that asked for them or, without one,
// the first to complete of those after the one that all their writers cut last. What else was handed over at the same time goes into other objects, because the
// coordinator deletes an object once it is older than what is retained: if two change sets in it were needed by checkpoints 7
// and 9 only, it would be gone when 8 completes. With one checkpoint in common there is no such gap.
type batch struct {
	uploads    []*upload
	writers    int
	checkpoint uint64
	body       []byte
	lent       bool // somebody may read body for ever
	object     *object
}

// Simulated cost of framing: about a gigabyte a second.
const (
	costPerByte   = time.Nanosecond
	costPerObject = 20 * time.Microsecond
)

// flush is the flusher. It ends when the queue is closed and drained, or with the attempt.
func (l *segmentLog) flush(ctx context.Context) {
	for {
		uploads, err := l.collect(ctx)
		if err != nil {
			return
		}
		for _, b := range split(uploads) {
			l.ship(ctx, b)
		}
	}
}

// split sorts uploads into batches, in the order in which they came.
func split(uploads []*upload) []*batch {
	var batches []*batch
	for _, u := range uploads {
		i := slices.IndexFunc(batches, func(b *batch) bool {
			return b.checkpoint == u.checkpoint && (u.checkpoint != 0 || b.uploads[0].epoch == u.epoch)
		})
		if i < 0 {
			i = len(batches)
			batches = append(batches, &batch{checkpoint: u.checkpoint})
		}
		batches[i].uploads = append(batches[i].uploads, u)
	}
	return batches
}

// collect waits for an upload and then for more as the options say.
func (l *segmentLog) collect(ctx context.Context) ([]*upload, error) {
	u, err := l.queue.Take(ctx)
	if err != nil {
		return nil, err
	}
	uploads := []*upload{u}
	bytes, until := u.bytes, l.env.World.Now()+l.o.BatchDelay
	for bytes < l.o.BatchSize {
		u, ok := l.queue.TryTake()
		if ok {
			uploads = append(uploads, u)
			bytes += u.bytes
			continue
		}
		if l.o.BatchDelay == 0 || l.everybodyIn(uploads) {
			break
		}
		if i, err := world.Wait(ctx, l.env.World, until, l.queue.Readable()); err != nil || i < 0 || l.queue.Closed() {
			break
		}
	}
	return uploads, nil
}

// everybodyIn tells whether every open writer has handed over changes of a checkpoint or, if there is none among the uploads,
// early ones: then there is nobody to wait for.
func (l *segmentLog) everybodyIn(uploads []*upload) bool {
	early := !slices.ContainsFunc(uploads, func(u *upload) bool { return u.checkpoint != 0 })
	var in []*writer
	for _, u := range uploads {
		if (early || u.checkpoint != 0) && !slices.Contains(in, u.w) {
			in = append(in, u.w)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(in) >= len(l.open)
}

// raw is the number of bytes to frame.
func (b *batch) raw() (n int64) {
	for _, u := range b.uploads {
		for _, s := range u.sets {
			n += s.raw
		}
	}
	return n
}

// ship frames b and starts its upload once there is room.
func (l *segmentLog) ship(ctx context.Context, b *batch) {
	if left, err := l.admit(b); err != nil || !left {
		l.settle(b, err)
		return
	}
	l.frame(b)
	l.env.World.Compute(ctx, costPerObject+time.Duration(len(b.body))*costPerByte)
	size := min(int64(len(b.body)), l.o.InFlight)
	if err := l.room.Acquire(ctx, size); err != nil {
		l.settle(b, fmt.Errorf("%w: %w", ErrClosed, err))
		return
	}
	l.spawn("log-upload", func(ctx context.Context) {
		l.put(ctx, b)
		l.room.Release(size)
	})
}

// admit drops from b what nobody needs any more and tells whether anything is left to upload.
func (l *segmentLog) admit(b *batch) (left bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false, ErrClosed
	}
	for _, u := range b.uploads {
		u.sets = slices.DeleteFunc(u.sets, func(s *set) bool {
			if s.needed() {
				return false
			}
			u.w.sent.Add(-s.raw)
			s.state, s.up = unsent, nil
			l.recycle(s)
			return true
		})
		left = left || len(u.sets) > 0
	}
	return left, nil
}

// frame writes b's object: for each writer, in the order in which they came, its change sets in runs without a gap. A run
// ends where a checkpoint was cut, so that no reference has to name changes behind its end.
func (l *segmentLog) frame(b *batch) {
	l.mu.Lock()
	var body []byte
	if n := len(l.bodies) - 1; n >= 0 {
		body, l.bodies = l.bodies[n], l.bodies[:n]
	}
	b.object = &object{key: l.name()}
	l.mu.Unlock()

	l.framer.begin(body, b.raw())
	var writers []*writer
	for _, u := range b.uploads {
		if len(u.sets) == 0 || slices.Contains(writers, u.w) {
			continue
		}
		writers = append(writers, u.w)
		var sets []*set
		for _, v := range b.uploads {
			if v.w == u.w {
				sets = append(sets, v.sets...)
			}
		}
		slices.SortFunc(sets, func(a, b *set) int { return cmp.Compare(a.seq, b.seq) })
		ends := u.w.pinEnds()
		for len(sets) > 0 {
			n := 1
			for n < len(sets) && sets[n].seq == sets[n-1].seq+1 && !slices.Contains(ends, sets[n].seq) {
				n++
			}
			l.frameRun(b, u.w, sets[:n])
			sets = sets[n:]
		}
	}
	b.body, b.writers = l.framer.end(), len(writers)
	b.object.bytes, b.object.crc, b.object.began = int64(len(b.body)), checksum(b.body), writers[0]
	for _, u := range b.uploads {
		u.framed.Open()
	}
}

// name gives the next object its key, with mu held.
func (l *segmentLog) name() string {
	key := fmt.Sprintf("log/%d/%s/%08d.seg", l.env.Attempt, l.env.Worker, l.next)
	l.next++
	return key
}

// frameRun writes one section.
func (l *segmentLog) frameRun(b *batch, w *writer, sets []*set) {
	l.mu.Lock()
	states := w.states[:len(w.states):len(w.states)]
	l.mu.Unlock()
	sizes := make([]int64, len(sets))
	sec := l.framer.section(sectionOf{log: w.name, groups: w.groups, states: states}, sets, sizes)
	p := &part{object: b.object, offset: sec.Offset, length: sec.Length}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := int64(0)
	for i, s := range sets {
		s.part, s.at, s.cost = p, at, sizes[i]
		at += sizes[i]
	}
}

// put stores b's object and settles its uploads.
func (l *segmentLog) put(ctx context.Context, b *batch) {
	e := history.Event{Actor: l.env.Worker, Attempt: l.env.Attempt, Checkpoint: b.checkpoint, Text: b.object.key}
	e.Kind = history.LogFlushBegin
	l.env.Emit(ctx, e)
	began := l.env.World.Now()
	err := l.env.Failpoints.Hit(ctx, failpoint.LogUploadBegin, l.env.Worker)
	if err == nil {
		if err = l.attempt(ctx, b); err == nil {
			err = l.env.Failpoints.Hit(ctx, failpoint.LogUploadEnd, l.env.Worker)
		}
	}
	e.Kind, e.Dur, e.Text = history.LogFlushEnd, l.env.World.Now()-began, b.object.key
	e.Bytes, e.Count = int64(len(b.body)), int64(b.writers)
	if err != nil {
		err = fmt.Errorf("put segment %s: %w", b.object.key, err)
		e.Error, e.Injected = err.Error(), errors.Is(err, store.ErrInjected)
	}
	l.env.Emit(ctx, e)
	if err != nil && ctx.Err() != nil {
		l.settle(b, fmt.Errorf("%w: %w", ErrClosed, err)) // the attempt is over: nothing is tried again
		return
	}
	l.settle(b, err)
	l.sweep()
}

// settle ends the uploads of b: their sets are stored, or go back to their writers.
func (l *segmentLog) settle(b *batch, err error) {
	l.mu.Lock()
	for _, u := range b.uploads {
		for _, s := range u.sets {
			l.settleSet(u, s, err)
		}
		u.err = err
	}
	if b.body != nil {
		if o := b.object; err != nil || o.live == 0 {
			// What became of a failed put is unknown; the next one takes another name, so this one can go.
			l.discard(o.key, err)
		}
		if len(l.bodies) < maxBodies && !b.lent {
			l.bodies = append(l.bodies, b.body)
		}
	}
	l.mu.Unlock()
	for _, u := range b.uploads {
		u.done.Open()
		u.framed.Open()
		u.w.uploaded(err)
	}
}

// settleSet ends the upload of one set, with mu held.
func (l *segmentLog) settleSet(u *upload, s *set, err error) {
	u.w.sent.Add(-s.raw)
	s.up = nil
	if err != nil {
		s.state, s.part, s.err = unsent, nil, err
		u.w.waiting.Add(s.raw)
		l.release(u.w, s)
		return
	}
	s.state, s.early = stored, u.checkpoint == 0
	l.recycle(s)
	if s.needed() {
		s.part.object.live++
	} else {
		s.state, s.part = unsent, nil
	}
}

// info says in whose name and why requests are made.
func (l *segmentLog) info(ctx context.Context, cause string, checkpoint uint64) context.Context {
	return store.WithInfo(ctx, store.Info{Cause: cause, Who: l.env.Worker, Attempt: l.env.Attempt, Checkpoint: checkpoint})
}
