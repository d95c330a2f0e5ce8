package dstl

import (
	"context"
	"fmt"
	"slices"

	"statebench.dev/bench/backend"
)

// Names of planted bugs, which exist only in builds with the tag for them.
const (
	mutantAck      = "ack-before-durable"
	mutantTruncate = "truncate-early"
	mutantReverse  = "replay-backwards" // of a log, the parts are replayed from the last one on
	mutantLose     = "lose-part"        // of several parts that a checkpoint needs, the last one is not named
	mutantDamage   = "ignore-checksum"  // blocks of a log are replayed whatever their checksum says
)

func (w *writer) Cut(from, checkpoint uint64) (to uint64, err error) {
	w.rollover()
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	p, err := w.cut(from, checkpoint)
	if err != nil {
		return 0, err
	}
	return p.to, nil
}

// cut pins [from, seq) for checkpoint, with the log's mutex held.
func (w *writer) cut(from, checkpoint uint64) (*pin, error) {
	switch {
	case w.closed:
		return nil, fmt.Errorf("cut %s: %w", w.name, ErrClosed)
	case from < w.lowest:
		return nil, fmt.Errorf("cut %s from %d, truncated up to %d: %w", w.name, from, w.lowest, ErrTruncated)
	case from < w.covered:
		return nil, fmt.Errorf("cut %s from %d, a base covers up to %d: %w", w.name, from, w.covered, ErrTruncated)
	case from > w.seq:
		return nil, fmt.Errorf("cut %s from %d, appended up to %d: %w", w.name, from, w.seq, ErrAhead)
	case checkpoint <= w.newest:
		return nil, fmt.Errorf("cut %s for checkpoint %d, which is not above %d", w.name, checkpoint, w.newest)
	}
	w.newest = checkpoint
	w.takeAim()
	p := &pin{checkpoint: checkpoint, from: from, to: w.seq, sets: slices.Clone(w.sets[from-w.lowest:])}
	for _, s := range p.sets {
		s.pins++
	}
	w.pins = append(w.pins, p)
	return p, nil
}

func (w *writer) pinOf(checkpoint uint64) *pin {
	for _, p := range w.pins {
		if p.checkpoint == checkpoint {
			return p
		}
	}
	return nil
}

// unpin ends p, with the log's mutex held. Its objects are the coordinator's if owned says so.
func (w *writer) unpin(p *pin, owned bool) {
	p.gone = true
	for _, s := range p.sets {
		s.pins--
		if owned && s.state == stored {
			s.part.object.owned = true
		}
		w.l.release(w, s)
	}
	p.sets = nil
}

func (w *writer) Persist(ctx context.Context, from, checkpoint uint64) (Persisted, error) {
	p, err := w.pinFor(from, checkpoint)
	if err != nil {
		return Persisted{}, err
	}
	tried := make([]bool, len(p.sets))
	for {
		wait, done, err := w.advance(p, tried)
		if err != nil {
			return Persisted{}, fmt.Errorf("persist %s for checkpoint %d: %w", w.name, checkpoint, err)
		}
		if done {
			return w.result(p)
		}
		for _, u := range wait {
			latch := u.done
			if w.l.env.Failpoints.Mutant(mutantAck) {
				latch = u.framed
			}
			if err := latch.Wait(ctx); err != nil {
				return Persisted{}, fmt.Errorf("persist %s for checkpoint %d: %w", w.name, checkpoint, err)
			}
		}
	}
}

// pinFor finds the pin of checkpoint or, if it was never cut, cuts it.
func (w *writer) pinFor(from, checkpoint uint64) (*pin, error) {
	w.l.mu.Lock()
	p, before := w.pinOf(checkpoint), checkpoint <= w.newest
	w.l.mu.Unlock()
	if p == nil && before {
		return nil, fmt.Errorf("persist %s for checkpoint %d: %w", w.name, checkpoint, ErrReset)
	}
	if p == nil {
		w.rollover()
		w.l.mu.Lock()
		defer w.l.mu.Unlock()
		return w.cut(from, checkpoint)
	}
	if p.from != from {
		return nil, fmt.Errorf("persist %s for checkpoint %d from %d, but it was cut from %d", w.name, checkpoint, from, p.from)
	}
	return p, nil
}

// advance hands over the unsent sets of p and returns the uploads to wait for. Sets that fail in an upload that began for
// somebody else are handed over again, those that this call has tried are not. done: everything is stored.
func (w *writer) advance(p *pin, tried []bool) (wait []*upload, done bool, err error) {
	w.l.mu.Lock()
	var mine []*set
	for i, s := range p.sets {
		switch {
		case s.state == sent && w.l.env.Failpoints.Mutant(mutantAck) && s.part != nil:
		case s.state == sent:
			if len(wait) == 0 || wait[len(wait)-1] != s.up {
				wait = append(wait, s.up)
			}
		case s.state == unsent && tried[i]:
			err = s.err
		case s.state == unsent:
			tried[i] = true
			mine = append(mine, s)
		}
	}
	if p.gone {
		err = ErrReset
	}
	if err != nil {
		w.l.mu.Unlock()
		return nil, false, err
	}
	u := w.hand(mine, p.checkpoint)
	w.l.mu.Unlock()
	if u != nil {
		w.enqueue(u)
		wait = append(wait, u)
	}
	return wait, len(wait) == 0, nil
}

// result lists the parts of p, one reference for the change sets that follow each other in one section.
func (w *writer) result(p *pin) (Persisted, error) {
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	if p.gone {
		return Persisted{}, fmt.Errorf("persist %s for checkpoint %d: %w", w.name, p.checkpoint, ErrReset)
	}
	p.persisted = true
	sets := p.sets
	if len(sets) > 1 && w.l.env.Failpoints.Mutant(mutantLose) {
		sets = sets[:len(sets)-1]
	}
	var r Persisted
	var last *part
	for _, s := range sets {
		if s.part == nil {
			return Persisted{}, fmt.Errorf("persist %s for checkpoint %d: %w", w.name, p.checkpoint, s.err)
		}
		if s.part != last {
			last = s.part
			o := last.object
			r.Refs = append(r.Refs, backend.ObjectRef{
				Key: o.key, Bytes: o.bytes, CRC32C: o.crc, Offset: last.offset + s.at, Length: last.length - s.at,
				Groups: w.groups, Log: w.name, From: s.seq,
			})
			if o.began == w && o.first == 0 {
				o.first = p.checkpoint
				r.Objects++
			}
		}
		r.Refs[len(r.Refs)-1].To = s.seq + 1
		if s.first == 0 {
			s.first = p.checkpoint
			r.Bytes += s.cost
			if s.early {
				r.Preemptive += s.cost
			}
		}
	}
	return r, nil
}

func (w *writer) Confirm(ctx context.Context, checkpoint, subsumed uint64) error {
	w.l.mu.Lock()
	w.pins = slices.DeleteFunc(w.pins, func(p *pin) bool {
		switch {
		case p.checkpoint == checkpoint:
			if !w.l.spoiled && len(p.sets) > 0 && p.persisted && w.l.env.Failpoints.Mutant(mutantTruncate) {
				w.l.spoiled = true
				w.l.doomed = append(w.l.doomed, p.sets[0].part.object.key)
			}
			w.unpin(p, true)
		case p.checkpoint <= subsumed && p.persisted:
			// Nobody told how it ended: it may have completed, so what it references may be the coordinator's.
			w.unpin(p, true)
		default:
			return false
		}
		return true
	})
	w.l.mu.Unlock()
	w.l.sweep()
	return nil
}

func (w *writer) Reset(checkpoint uint64) {
	w.l.mu.Lock()
	if p := w.pinOf(checkpoint); p != nil {
		for _, s := range p.sets {
			if s.first == checkpoint {
				s.first = 0
			}
			if s.state == stored && s.part.object.first == checkpoint && s.part.object.began == w {
				s.part.object.first = 0
			}
		}
		w.pins = slices.DeleteFunc(w.pins, func(q *pin) bool { return q == p })
		w.unpin(p, false)
	}
	w.l.mu.Unlock()
	w.l.sweep()
}

func (w *writer) Close() error {
	w.ended = true
	w.l.mu.Lock()
	if w.closed {
		w.l.mu.Unlock()
		return nil
	}
	w.closed = true
	w.l.open = slices.DeleteFunc(w.l.open, func(o *writer) bool { return o == w })
	w.l.divide()
	for _, s := range w.sets {
		s.held = false
	}
	for _, p := range w.pins {
		w.unpin(p, p.persisted)
	}
	for _, s := range w.sets {
		w.l.release(w, s)
	}
	w.sets, w.pins, w.lowest = nil, nil, w.seq
	open := w.unblocked
	w.l.mu.Unlock()
	open.Open()
	w.l.sweep()
	return nil
}
