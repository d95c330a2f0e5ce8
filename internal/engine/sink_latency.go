package engine

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"statebench.dev/bench/internal/world"
)

// Latencies are kept in microseconds up to an hour, with so many significant digits.
const (
	latencyUnit = time.Microsecond
	latencyMax  = int64(time.Hour / latencyUnit)

	latencyDigits = 2
)

// latency is the histogram of how late records reach a sink subtask. One process adds, another takes.
type latency struct {
	mu    *world.Mutex
	h     *hdrhistogram.Histogram // guarded by mu, as taken is
	taken *hdrhistogram.Histogram // what the last take returned, to be used again; nil before the first
}

func newLatency(w world.World) *latency {
	return &latency{mu: world.NewMutex(w), h: hdrhistogram.New(1, latencyMax, latencyDigits)}
}

// add counts records that were due at the given times and arrived now.
func (l *latency) add(now time.Duration, dues []time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, due := range dues {
		// A value in range cannot fail.
		_ = l.h.RecordValue(min(latencyMax, max(1, int64((now-due)/latencyUnit))))
	}
}

// take returns what was counted since the last take and forgets it. The result is the caller's until the next take.
func (l *latency) take() *hdrhistogram.Histogram {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.taken
	if next == nil {
		next = hdrhistogram.New(1, latencyMax, latencyDigits)
	} else {
		next.Reset()
	}
	l.taken, l.h = l.h, next
	return l.taken
}
