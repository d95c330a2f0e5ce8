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
	mu *world.Mutex
	h  *hdrhistogram.Histogram // guarded by mu
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

// take merges what was counted since the last take into h and forgets it.
func (l *latency) take(h *hdrhistogram.Histogram) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.Merge(l.h)
	l.h.Reset()
}
