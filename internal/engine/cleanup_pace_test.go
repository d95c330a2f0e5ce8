package engine

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/world"
)

// asked is a request of a job that the store has answered.
type asked struct {
	at   time.Duration
	info store.Info
	call store.Call
}

// listen collects the requests of a site's job.
func listen(w world.World, list *[]asked) func(*Config) {
	var mu sync.Mutex
	return func(c *Config) {
		c.Bucket = store.WithHooks(c.Bucket, store.Hooks{End: func(ctx context.Context, call store.Call, _ error) {
			mu.Lock()
			defer mu.Unlock()
			*list = append(*list, asked{w.Now(), store.InfoOf(ctx), call})
		}})
	}
}

// TestDeletesKeepTheirRate lets a job drop far more objects than it may delete: while the input lasts, no second sees more deletes
// than allowed, and what waits is visible; then all is deleted without delay.
func TestDeletesKeepTheirRate(t *testing.T) {
	const rate = 10
	simulateSeeds(t, 3, func(ctx context.Context, w world.World, t testing.TB) {
		var requests []asked
		s := newSite(t, w, withChangelog, listen(w, &requests), func(c *Config) {
			c.Settings.Checkpoint.DeletesPerSecond = rate
			c.Settings.Checkpoint.Interval = plan.Duration(50 * time.Millisecond)
		})
		s.submit(ctx)
		s.until(ctx, "the end of the input", func() bool { return s.e.Progress().Finished() && s.e.Status().State == "running" })
		halted, backlog := w.Now(), s.e.Status().Deletes
		if backlog < 2*rate {
			t.Errorf("%d objects wait to be deleted", backlog)
		}
		s.finish(ctx)
		if took := w.Now() - halted; took > 2*time.Second {
			t.Errorf("the end took %v with %d objects waiting", took, backlog)
		}
		if n := s.e.Status().Deletes; n != 0 {
			t.Errorf("%d objects still wait", n)
		}
		var at []time.Duration
		for _, r := range requests {
			if r.call.Op == history.OpDelete && r.info.Cause == "drop" && r.at < halted {
				at = append(at, r.at)
			}
		}
		if len(at) < rate {
			t.Errorf("%d objects were deleted while the job ran", len(at))
		}
		for i := range at {
			if i+rate+2 < len(at) && at[i+rate+2]-at[i] < time.Second {
				t.Errorf("%d deletes between %v and %v", rate+3, at[i], at[i+rate+2])
			}
		}
	})
}

func TestDeletesWithoutARateWaitForNothing(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		p := newDeletePace(w, 0)
		for range 3 {
			if s := p.turn(deleteBatch); s.at != w.Now() || p.batch() != deleteBatch {
				t.Errorf("turn at %v, batches of %d", s.at, p.batch())
			}
		}
		p = newDeletePace(w, 5)
		p.turn(1)
		late := p.turn(1)
		p.rush(true)
		if err := late.wait(ctx); err != nil || w.Now() != 0 {
			t.Errorf("in a rush it waits until %v, %v", w.Now(), err)
		}
		p.rush(false)
		p.turn(1)
		if err := p.turn(1).wait(ctx); err != nil || w.Now() != 200*time.Millisecond {
			t.Errorf("after the rush it waits until %v, %v", w.Now(), err)
		}
	})
}

// TestLateWorkOfAnOldAttempt kills workers while uploads and deletes are under way that take longer than the leader waits for,
// some of which are applied without an answer. No worker writes or deletes an object of another attempt's, and what the leader
// removes for an attempt that is over, while the next one runs, is nothing that a later checkpoint names.
func TestLateWorkOfAnOldAttempt(t *testing.T) {
	simulateSeeds(t, 4, func(ctx context.Context, w world.World, t testing.TB) {
		var requests []asked
		s := newSite(t, w, withChangelog, listen(w, &requests))
		s.inj.Add(store.Rule{Name: "slow", Ops: []string{history.OpPut, history.OpDelete}, Prefix: checkpoint.LogPrefix, Share: 0.3, Delay: 1500 * time.Millisecond, Jitter: time.Second})
		s.inj.Add(store.Rule{Name: "lost", Ops: []string{history.OpPut, history.OpDelete}, Share: 0.1, LostAck: true})
		s.submit(ctx)
		for _, name := range []string{"worker-0", "worker-1"} {
			if err := w.Sleep(ctx, 700*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			if err := s.e.KillWorker(ctx, name, true); err != nil {
				t.Fatal(err)
			}
			if err := w.Sleep(ctx, 100*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			if err := s.e.ReviveWorker(ctx, name); err != nil {
				t.Fatal(err)
			}
		}
		s.finish(ctx)
		late, wrote := 0, map[uint64]int{}
		for _, r := range requests {
			of, ok := attemptOf(r.call.Key)
			switch writes := r.call.Op == history.OpPut || r.call.Op == history.OpDelete; {
			case !ok || !writes:
			case strings.HasPrefix(r.info.Who, "worker"):
				wrote[of]++
				if of != r.info.Attempt {
					t.Errorf("%s of attempt %d: %s %s", r.info.Who, r.info.Attempt, r.call.Op, r.call.Key)
				}
			case s.begun(of+1, r.at):
				late++
				if id := s.namedAfter(r.call.Key, r.at); id > 0 {
					t.Errorf("%s was deleted at %v, and checkpoint %d names it", r.call.Key, r.at, id)
				}
			}
		}
		if len(wrote) < 3 || late == 0 {
			t.Errorf("requests by attempt %v, %d for one that was over", wrote, late)
		}
	})
}

// begun tells whether an attempt had started by then.
func (s *site) begun(attempt uint64, by time.Duration) bool {
	return slices.ContainsFunc(s.kinds(history.AttemptStarted), func(e history.Event) bool { return e.Attempt == attempt && e.At < by })
}

// namedAfter is a checkpoint that completed after a time and names the object; 0: none.
func (s *site) namedAfter(key string, after time.Duration) uint64 {
	named := false
	for i, e := range s.kinds(history.CheckpointCompleted) {
		c := s.refs[i]
		named = named && !slices.Contains(c.Dropped, key) || slices.ContainsFunc(c.Added, func(o checkpoint.ObjectUse) bool { return o.Key == key })
		if named && e.At > after {
			return c.Checkpoint
		}
	}
	return 0
}
