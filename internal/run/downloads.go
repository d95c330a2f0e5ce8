package run

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// downloads are when workers' restores were asking the store for state, by attempt.
type downloads struct {
	mu *world.Mutex
	of map[uint64][]span
}

// span is a time of the run, from inclusive.
type span struct{ from, to time.Duration }

func newDownloads(w world.World) *downloads {
	return &downloads{mu: world.NewMutex(w), of: map[uint64][]span{}}
}

// observe is called for every request, by any process.
func (d *downloads) observe(r history.Request) {
	if r.Op != history.OpGet || r.Cause != "restore" || !strings.HasPrefix(r.Who, "worker-") {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.of[r.Attempt] = append(d.of[r.Attempt], span{r.Start, r.Start + r.Duration})
}

// within is for how long in [from, to) at least one request of an attempt was under way. No process may be left that observes.
func (d *downloads) within(attempt uint64, from, to time.Duration) (all time.Duration) {
	spans := slices.Clone(d.of[attempt])
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	for _, s := range spans {
		s.from, s.to = max(s.from, from), min(s.to, to)
		if s.to > s.from {
			all += s.to - s.from
			from = s.to // what lies before is counted
		}
	}
	return all
}
