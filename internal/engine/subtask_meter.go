package engine

import (
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/world"
)

// bytesPerNano is how many bytes of output a simulated core copies in a nanosecond.
const bytesPerNano = 4

// sampleEvery is how often a loop reads the gauges of its state.
const sampleEvery = 100 * time.Millisecond

// SubtaskMetrics are figures of one running subtask. Counts and times run from the start of the subtask in its attempt.
type SubtaskMetrics struct {
	Subtask  string // <operator>-<index>
	Operator string
	Index    int
	Worker   string
	Attempt  uint64
	// Age is the time since the subtask's loop began; Idle (without input), Backpressured (waiting for credit), Throttled (the
	// backend's log is full) and Busy add up to it. Chained subtasks share a loop and its times.
	Age, Busy, Idle, Backpressured, Throttled time.Duration
	// Exhausted is the part of Throttled in waits that began while what all subtasks of the worker share was used up.
	Exhausted time.Duration
	In, Out   int64 // records; a source's In are those it read
	OutBytes  int64 // of keys and values sent over channels
	Queued    int64 // records that wait in the input channels
	Barriers  int64 // barriers that wait there
	Mailbox   int   // messages that wait
	State     backend.Gauges
	// Latency is how late records reached this sink subtask since the last call, in microseconds; nil for others.
	Latency *hdrhistogram.Histogram
}

// counts are a subtask's own, kept by its loop.
type counts struct {
	in   int64
	paid int64 // the part of in whose cost was declared
}

// meter is what others may read of a loop while it runs.
type meter struct {
	began   time.Duration
	waited  [numWaits]atomic.Int64 // ns, by kind
	waiting atomic.Int64           // since when (ns), times numWaits, plus the kind; -1: the loop works
	in      []atomic.Int64         // by subtask
	out     atomic.Int64           // of the last subtask
	bytes   atomic.Int64           // of the last subtask
	state   struct {
		*world.Mutex
		gauges backend.Gauges // of the first subtask
	}
}

// wait is why a loop does not work.
type wait int64

const (
	waitIdle          wait = iota // no input
	waitBackpressured             // no credit
	waitThrottled                 // the backend takes no writes of this subtask
	waitExhausted                 // nor of any other of the worker
	numWaits
)

// enter begins a wait, leave ends it.
func (m *meter) enter(k wait, now time.Duration) {
	m.waiting.Store(int64(now)*int64(numWaits) + int64(k))
}

func (m *meter) leave(now time.Duration) {
	since := m.waiting.Swap(-1)
	m.waited[since%int64(numWaits)].Add(int64(now) - since/int64(numWaits))
}

// total is the time of all waits of a kind, the one that goes on included.
func (m *meter) total(k wait, now time.Duration) time.Duration {
	t := m.waited[k].Load()
	if since := m.waiting.Load(); since >= 0 && wait(since%int64(numWaits)) == k {
		t += max(0, int64(now)-since/int64(numWaits))
	}
	return time.Duration(t)
}

func newMeter(w world.World, subtasks int) *meter {
	m := &meter{began: w.Now(), in: make([]atomic.Int64, subtasks)}
	m.waiting.Store(-1)
	m.state.Mutex = world.NewMutex(w)
	return m
}

// cost is the CPU time of what the loop did since the last call, in the simulated world.
func (l *loop) cost() (cost time.Duration) {
	if !l.simulated {
		return 0
	}
	for _, s := range l.subtasks {
		cost += time.Duration(s.counts.in-s.counts.paid) * s.node.Cost
		s.counts.paid = s.counts.in
	}
	if l.out != nil {
		bytes := l.out.bytes()
		cost += time.Duration((bytes - l.paid) / bytesPerNano)
		l.paid = bytes
	}
	return cost
}

// publish makes the loop's counts visible.
func (l *loop) publish() {
	for i, s := range l.subtasks {
		l.meter.in[i].Store(s.counts.in)
	}
	if l.out != nil {
		l.meter.out.Store(l.out.records)
		l.meter.bytes.Store(l.out.bytes())
	}
}

// sample reads the gauges of the keyed state now and then.
func (l *loop) sample(now time.Duration) {
	keyed := l.subtasks[0].keyed
	if keyed == nil || now < l.sampled+sampleEvery {
		return
	}
	l.sampled = now
	g := keyed.Gauges()
	l.meter.state.Lock()
	l.meter.state.gauges = g
	l.meter.state.Unlock()
}

// metrics returns the figures of the loop's subtasks. It may be called by any process.
func (l *loop) metrics(now time.Duration) []SubtaskMetrics {
	m := l.meter
	all := make([]SubtaskMetrics, len(l.subtasks))
	for i, s := range l.subtasks {
		x := &all[i]
		*x = SubtaskMetrics{Subtask: s.name, Operator: s.node.ID, Index: s.d.Index, Worker: l.a.w.name, Attempt: l.a.id, Age: now - m.began,
			Idle: m.total(waitIdle, now), Backpressured: m.total(waitBackpressured, now), Exhausted: m.total(waitExhausted, now),
			In: m.in[i].Load()}
		x.Throttled = x.Exhausted + m.total(waitThrottled, now)
		x.Busy = max(0, x.Age-x.Idle-x.Backpressured-x.Throttled)
		if i+1 < len(l.subtasks) {
			x.Out = m.in[i+1].Load()
		} else {
			x.Out, x.OutBytes = m.out.Load(), m.bytes.Load()
		}
		if k, ok := s.role.(*sink); ok {
			x.Latency = k.latency.take()
		}
	}
	first := &all[0]
	first.Mailbox = l.box.Len()
	if l.gate != nil {
		first.Queued, first.Barriers = l.gate.queued()
	}
	m.state.Lock()
	first.State = m.state.gauges
	m.state.Unlock()
	return all
}
