package engine

import (
	"sync/atomic"
	"time"
)

// Unscheduled is the due time of a record that may be sent at any time.
const Unscheduled = time.Duration(-1)

// Progress is how far the sources of a job are. It is a gauge for the run and for the detection of catching up, not a
// channel between actors: nothing depends on it for correctness. Safe for concurrent use.
type Progress struct {
	parts []partitionProgress
}

type partitionProgress struct {
	position atomic.Int64 // the next record to emit in the running attempt
	highest  atomic.Int64 // of position, over all attempts
	due      atomic.Int64 // when the next record is due, world time
	done     atomic.Bool
}

// NewProgress returns the progress of a source with the given number of partitions, each at its first record.
func NewProgress(partitions int) *Progress {
	p := &Progress{parts: make([]partitionProgress, partitions)}
	for i := range p.parts {
		p.parts[i].due.Store(int64(Unscheduled))
	}
	return p
}

// Advance says that the next record the partition will emit is next, and that it is due at the world time due
// (Unscheduled: at once, which counts as no lag). A source subtask calls it for each of its partitions when it starts and after each batch.
func (p *Progress) Advance(partition int, next int64, due time.Duration) {
	q := &p.parts[partition]
	q.done.Store(false)
	q.position.Store(next)
	q.due.Store(int64(due))
	for {
		h := q.highest.Load()
		if next <= h || q.highest.CompareAndSwap(h, next) {
			return
		}
	}
}

// Done says that the partition has no further record.
func (p *Progress) Done(partition int) { p.parts[partition].done.Store(true) }

// restart says that another attempt begins: no partition is done until its source says so again.
func (p *Progress) restart() {
	for i := range p.parts {
		p.parts[i].done.Store(false)
	}
}

// Finished tells whether every partition is done.
func (p *Progress) Finished() bool {
	for i := range p.parts {
		if !p.parts[i].done.Load() {
			return false
		}
	}
	return true
}

// Positions returns, per partition, the index of the next record in the running attempt.
func (p *Progress) Positions() []int64 {
	at := make([]int64, len(p.parts))
	for i := range p.parts {
		at[i] = p.parts[i].position.Load()
	}
	return at
}

// Highest returns, per partition, the highest position of any attempt.
func (p *Progress) Highest() []int64 {
	at := make([]int64, len(p.parts))
	for i := range p.parts {
		at[i] = p.parts[i].highest.Load()
	}
	return at
}

// Emitted is the number of distinct records emitted so far: what a replay repeats counts once.
func (p *Progress) Emitted() (n int64) {
	for i := range p.parts {
		n += p.parts[i].highest.Load()
	}
	return n
}

// Lag is how late the sources are at now: the longest time that the next record of an unfinished partition is overdue. It
// grows while the job stands still.
func (p *Progress) Lag(now time.Duration) (lag time.Duration) {
	for i := range p.parts {
		q := &p.parts[i]
		if due := time.Duration(q.due.Load()); due >= 0 && !q.done.Load() {
			lag = max(lag, now-due)
		}
	}
	return lag
}
