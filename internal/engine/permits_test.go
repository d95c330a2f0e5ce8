package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/backend/heap"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// together is how many subtasks of an attempt materialized at a time, at most, and which did in the newest attempt.
func (s *site) together() (most int, newest map[string]bool) {
	open, attempt := map[string]bool{}, uint64(0)
	newest = map[string]bool{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		who := fmt.Sprint(e.Attempt, " ", e.Actor)
		switch e.Kind {
		case history.AttemptRunning:
			attempt = e.Attempt
			clear(newest)
			clear(open)
		case history.MaterializationBegin:
			if e.Attempt == attempt {
				open[who], newest[e.Actor] = true, true
				most = max(most, len(open))
			}
		case history.MaterializationUploadEnd, history.MaterializationFailed:
			delete(open, who)
		}
	}
	return most, newest
}

// TestMaterializationsOfTheJobTakeTurns: however many workers there are, no more subtasks materialize at a time than the job may,
// each comes to its turn, also after one that failed, and a worker that dies in the middle of one takes no place along.
func TestMaterializationsOfTheJobTakeTurns(t *testing.T) {
	for _, limit := range []int{0, 1, 2} {
		t.Run(fmt.Sprint("limit-", limit), func(t *testing.T) {
			simulateSeeds(t, 2, func(ctx context.Context, w world.World, t testing.TB) {
				s := newSite(t, w, func(c *Config) {
					c.Settings.Parallelism = 4 // as many as two workers have slots for
					c.Backend = changelog.New(changelog.Options{Nested: heap.New(heap.Options{}), NestedName: "heap", Materialize: 100 * time.Millisecond,
						ConcurrentJob: limit, BatchDelay: time.Millisecond})
				})
				s.inj.Add(store.Rule{Ops: []string{"put"}, Prefix: "base/", Delay: 150 * time.Millisecond})
				s.inj.Add(store.Rule{Ops: []string{"put"}, Prefix: "base/", Request: 2, Status: 403})
				killed := false
				s.on(history.MaterializationUploadBegin, 5, func(ctx context.Context, e *history.Event) {
					killed = true
					if err := s.e.KillWorker(ctx, world.DomainOf(ctx).Name(), true); err != nil {
						t.Error(err)
					}
				})
				s.submit(ctx)
				s.finish(ctx)
				most, newest := s.together()
				if limit == 0 && most <= 2 || limit > 0 && most != limit {
					t.Errorf("%d materialized at a time", most)
				}
				if !killed || s.e.Status().Attempt < 2 || len(s.kinds(history.MaterializationFailed)) == 0 {
					t.Errorf("killed is %t, status %+v", killed, s.e.Status())
				}
				if len(newest) != 4 {
					t.Errorf("in the newest attempt only %v materialized", newest)
				}
			})
		})
	}
}
