package history

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/zeebo/xxh3"
)

// Observer is told of each event after it got its number. It runs in the process that emitted the event, with no lock
// held; events of several processes may reach it out of order and concurrently. It must not keep e. It may unwind the
// process.
type Observer func(ctx context.Context, e *Event)

// Recorder gives events their number and time and spools them as lines of JSON. It is safe for concurrent use.
type Recorder struct {
	now       func() time.Duration
	observers []Observer
	judges    []func(e *Event)
	triggered map[uint64]time.Duration // of pending checkpoints; guarded by mu

	mu struct {
		sync.Mutex
		next   int64
		line   bytes.Buffer  // the event being stored
		encode *json.Encoder // into line
		spare  []*Event
		out    *bufio.Writer
		sum    *xxh3.Hasher
		err    error
		closed bool
		late   int64
	}
}

// NewRecorder makes a recorder that takes times from now and writes to out. The caller closes out after Close.
func NewRecorder(now func() time.Duration, out io.Writer) *Recorder {
	r := &Recorder{now: now, triggered: map[uint64]time.Duration{}}
	r.mu.encode = json.NewEncoder(&r.mu.line)
	r.mu.out = bufio.NewWriterSize(out, 1<<16)
	r.mu.sum = xxh3.New()
	return r
}

// Observe adds an observer. All are added before the first event.
func (r *Recorder) Observe(o Observer) { r.observers = append(r.observers, o) }

// Tally adds a function that is called with every stored event in order of number, under the recorder's lock: it must
// be short, must not block and must not keep e. All are added before the first event.
func (r *Recorder) Tally(f func(e *Event)) { r.judges = append(r.judges, f) }

// Record stores e, whose N and At it sets, and then runs the observers. Kinds that exist for triggers only are not stored.
// A write error is kept for Err and does not disturb the run.
func (r *Recorder) Record(ctx context.Context, event Event) {
	e := r.take()
	*e = event
	if e.Kind.TriggerOnly() {
		e.At = r.now()
	} else {
		r.store(e)
	}
	for _, o := range r.observers {
		o(ctx, e)
	}
	r.put(e)
}

// maxSpare bounds the list of events to be used again.
const maxSpare = 16

// take returns the memory for an event. What an observer unwinds is not put back and goes to the collector.
func (r *Recorder) take() *Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.mu.spare) - 1
	if n < 0 {
		return new(Event)
	}
	e := r.mu.spare[n]
	r.mu.spare = r.mu.spare[:n]
	return e
}

func (r *Recorder) put(e *Event) {
	*e = Event{}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.mu.spare) < maxSpare {
		r.mu.spare = append(r.mu.spare, e)
	}
}

func (r *Recorder) store(e *Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed {
		r.mu.late++
		return
	}
	r.mu.next++
	e.N, e.At = r.mu.next, r.now()
	r.span(e)
	r.mu.line.Reset()
	if err := r.mu.encode.Encode(e); err != nil {
		r.mu.err = errors.Join(r.mu.err, fmt.Errorf("encode event %d: %w", e.N, err))
		return
	}
	_, _ = r.mu.sum.Write(r.mu.line.Bytes())
	if r.mu.err == nil {
		if _, err := r.mu.out.Write(r.mu.line.Bytes()); err != nil {
			r.mu.err = fmt.Errorf("write history: %w", err)
		}
	}
	for _, f := range r.judges {
		f(e)
	}
}

// span sets the duration of a checkpoint's end from the times of its events: the one clock that everything is judged by.
func (r *Recorder) span(e *Event) {
	switch e.Kind {
	case CheckpointTriggered, SavepointTriggered:
		r.triggered[e.Checkpoint] = e.At
	case CheckpointCompleted, CheckpointAborted, SavepointCompleted, SavepointAborted:
		if at, ok := r.triggered[e.Checkpoint]; ok {
			e.Dur = e.At - at
			delete(r.triggered, e.Checkpoint)
		}
	}
}

// Err returns the first error in storing events; a run with one is incomplete.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.err
}

// Events is the number of events stored so far.
func (r *Recorder) Events() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.next
}

// Flush hands what is buffered to the writer, whose own buffers are its business. It returns what Err returns.
func (r *Recorder) Flush() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.mu.out.Flush(); err != nil && r.mu.err == nil {
		r.mu.err = fmt.Errorf("write history: %w", err)
	}
	return r.mu.err
}

// Close writes what is buffered; events recorded later are counted and lost. It returns what Err returns.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.mu.closed {
		r.mu.closed = true
		if err := r.mu.out.Flush(); err != nil && r.mu.err == nil {
			r.mu.err = fmt.Errorf("write history: %w", err)
		}
	}
	return r.mu.err
}

// Digest is a hash of all events stored so far, with every field of each.
func (r *Recorder) Digest() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.mu.sum.Sum128().Bytes()
	return fmt.Sprintf("%x", b[:])
}

// TriggerOnly tells whether events of the kind exist for triggers only and are never stored.
func (k Kind) TriggerOnly() bool {
	switch k {
	case StorePutBegin, StorePutEnd, StoreGetBegin, StoreGetEnd, StoreDeleteBegin, StoreDeleteEnd:
		return true
	}
	return false
}

// Kinds lists the kinds of events that a trigger may name, in order of appearance in a run's life.
func Kinds() []Kind {
	return []Kind{
		PhaseBegin, PhaseEnd, SourceRange, OutputFirst, CaughtUp, SinkPrecommitted, SinkCommitted, SinkAborted,
		AttemptStarted, AttemptRunning, AttemptFailed, AttemptFenced,
		CheckpointTriggered, CheckpointSkipped, CheckpointAligned, CheckpointSynced, CheckpointAcked, CheckpointAckTaken,
		CheckpointCompleted, CheckpointAborted, CheckpointSubsumed,
		SavepointTriggered, SavepointCompleted, SavepointAborted, JobStopped, JobStarted,
		LogFlushBegin, LogFlushEnd, LogHedged, LogTruncated,
		MaterializationBegin, MaterializationUploadBegin, MaterializationUploadEnd, MaterializationUsed,
		MaterializationConfirmed, MaterializationSkipped, MaterializationFailed,
		StorePutBegin, StorePutEnd, StoreGetBegin, StoreGetEnd, StoreDeleteBegin, StoreDeleteEnd,
		RestoreBegin, RestoreLoaded, RestoreReplayed, RestoreLocal, RestoreCopied, RestoreDone, SourceStarted, RescaleBegin, RescaleDone,
		WorkerUp, WorkerDown, CoordinatorUp, CoordinatorDown, CoordinatorTakeover, FaultArmed, FaultHit, FaultHealed, CleanUp,
	}
}
