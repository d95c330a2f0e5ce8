package changelog_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// write puts n bytes that cannot be packed at keys of their own.
func (s *sub) write(n int) {
	rng := s.r.w.Rand(fmt.Sprint("written/", s.wrote))
	for n > 0 {
		s.wrote++
		value := make([]byte, min(n, 500))
		for i := range value {
			value[i] = byte(rng.IntN(256))
		}
		n -= len(value)
		ok(s.Put(backend.Addr{State: s.state, Group: s.Range().From, Key: fmt.Append(nil, s.wrote)}, value))
	}
}

// TestC05LogIsASawTooth: at a steady rate of changes the log that checkpoints name falls again and again, and stays below what is written
// in two materialization intervals and the checkpoints around them.
func TestC05LogIsASawTooth(t *testing.T) {
	simulate(t, func(r *rig) {
		const rate = 10 << 10 // bytes a second
		r.start(factory(changelog.Options{Materialize: time.Second}))
		s := r.open(0, 1)
		falls, highest, before := 0, int64(0), int64(0)
		for id := uint64(1); id <= 100; id++ { // every 200 ms, 20 s in all
			s.write(rate / 5)
			log := s.checkpoint(id).Handle.DeltaBytes()
			if log < before {
				falls++
			}
			highest, before = max(highest, log), log
			s.sleep(200 * time.Millisecond)
		}
		want(falls >= 10, "the log became shorter %d times in 20 materialization intervals", falls)
		want(highest > rate/2 && highest < 2*rate, "the longest log is %d bytes at %d a second", highest, rate)
		want(len(r.events(history.LogTruncated)) >= falls-2, "%d truncations", len(r.events(history.LogTruncated)))
		r.end(s)
	})
}

// TestC06FirstMaterializationsAreSpread: 16 subtasks materialize for the first time within one interval, apart from each other, at times
// that another run has too; the second time follows an interval after the first has ended, not two.
func TestC06FirstMaterializationsAreSpread(t *testing.T) {
	const n = 16
	starts := func(t *testing.T) (at []time.Duration, second time.Duration) {
		simulate(t, func(r *rig) {
			r.start(factory(changelog.Options{Materialize: time.Second}))
			subs := make([]*sub, n)
			g := world.NewGroup(r.w)
			for i := range subs {
				s := r.open(i, n)
				subs[i] = s
				s.fill("x")
				g.Go(r.worker.Ctx, "loop", func(context.Context) error {
					s.sleep(1500 * time.Millisecond)
					s.checkpoint(1)
					s.fill("y")
					s.sleep(1500 * time.Millisecond)
					return nil
				})
			}
			ok(g.Wait(r.ctx))
			seen := map[string][]time.Duration{}
			for _, e := range r.events(history.MaterializationBegin) {
				seen[e.Actor] = append(seen[e.Actor], e.At)
			}
			for i := range n {
				mine := seen[fmt.Sprint("count-", i)]
				want(len(mine) >= 2, "subtask %d began %d materializations in 3 s", i, len(mine))
				at, second = append(at, mine[0]), max(second, mine[1]-mine[0])
			}
			r.end(subs...)
		})
		return at, second
	}
	at, second := starts(t)
	again, _ := starts(t)
	if len(at) != n || !slices.Equal(at, again) {
		t.Fatalf("first starts %v, in another run %v", at, again)
	}
	slices.Sort(at)
	if at[0] < 0 || at[n-1] >= time.Second || len(slices.Compact(slices.Clone(at))) < n {
		t.Errorf("first starts %v, want different ones within the interval", at)
	}
	if at[n-1]-at[0] < 500*time.Millisecond {
		t.Errorf("all within %v", at[n-1]-at[0])
	}
	if second > 2100*time.Millisecond { // the one due a second after the first is skipped where no checkpoint has come
		t.Errorf("%v from a first materialization to the second", second)
	}
}

// TestC08MaterializationsWaitForCheckpoints: where they come ten times as often as checkpoints, each checkpoint still confirms one before the
// next begins, and none is uploaded for nothing.
func TestC08MaterializationsWaitForCheckpoints(t *testing.T) {
	simulate(t, func(r *rig) {
		r.start(factory(changelog.Options{Materialize: 50 * time.Millisecond}))
		s := r.open(0, 1)
		for id := uint64(1); id <= 10; id++ {
			for range 10 {
				s.fill(fmt.Sprint("value ", id))
				s.sleep(50 * time.Millisecond)
			}
			s.checkpoint(id)
		}
		open := 0
		for _, e := range r.worker.Events() {
			switch e.Kind {
			case history.MaterializationBegin:
				open++
				want(open == 1, "%d materializations that no checkpoint has confirmed", open)
			case history.MaterializationConfirmed:
				open--
			}
		}
		begun, skipped := len(r.events(history.MaterializationBegin)), r.skipped("unconfirmed")
		want(begun == 10 && skipped > 50, "%d materializations and %d skipped ones in 10 checkpoint intervals", begun, skipped)
		r.end(s)
	})
}

// skipped counts the materializations that were due and did not begin for that reason.
func (r *rig) skipped(why string) (n int) {
	for _, e := range r.events(history.MaterializationSkipped) {
		if e.Reason == why {
			n++
		}
	}
	return n
}

// TestC09MaterializedChangesAreNotUploaded: 100 changes below the threshold are materialized, another one goes beyond it; only that one is
// uploaded.
func TestC09MaterializedChangesAreNotUploaded(t *testing.T) {
	simulate(t, func(r *rig) {
		r.start(factory(changelog.Options{Preemptive: 64 << 10}))
		s := r.open(0, 1)
		s.checkpoint(1)
		for range 100 {
			s.write(500)
		}
		unsent := s.Gauges().UnsentBytes
		want(unsent > 50_000 && unsent < 64<<10, "%d bytes are unsent, want just below the threshold", unsent)
		s.sleep(interval)
		want(len(r.events(history.MaterializationUsed)) == 1, "not materialized")
		s.write(500)
		s.write(14 << 10)
		s.sleep(time.Second)
		h := s.checkpoint(2)
		var put int64
		for _, e := range r.events(history.LogFlushEnd) {
			put += e.Bytes
		}
		want(put > 14<<10 && put < 17<<10, "%d bytes of the log were put, want only what came after the materialization", put)
		want(h.Handle.Materialization == 1 && h.Checkpointed <= put, "second checkpoint is %+v", h)
		r.end(s)
	})
}

// TestC10EventComesAfterTheSwap: who takes a checkpoint as soon as it is told of a materialization gets it, whatever the schedule.
func TestC10EventComesAfterTheSwap(t *testing.T) {
	for seed := range uint64(100) {
		simulateSeed(t, seed, func(r *rig) {
			r.start(factory(changelog.Options{Materialize: 100 * time.Millisecond}))
			s := r.open(0, 1)
			for id := uint64(1); id <= 5; id++ {
				s.fill(fmt.Sprint("value ", id))
				for len(r.events(history.MaterializationUsed)) < int(id) {
					s.sleep(time.Millisecond)
				}
				h := s.checkpoint(id).Handle
				want(h.Materialization == id && h.DeltaBytes() == 0, "checkpoint right after materialization %d has %d and %d bytes of log",
					id, h.Materialization, h.DeltaBytes())
			}
			r.end(s)
		})
	}
}

// TestC10SnapshotInsideTheEvent: the process that tells of the materialization has the new base already, so nobody can be told too early.
func TestC10SnapshotInsideTheEvent(t *testing.T) {
	simulate(t, func(r *rig) {
		var s *sub
		var inside []backend.Snapshot
		r.told = func(e history.Event) {
			if e.Kind == history.MaterializationUsed {
				inside = append(inside, s.begin(1))
			}
		}
		r.start(factory(changelog.Options{}))
		s = r.open(0, 1)
		s.fill("one")
		s.sleep(interval)
		want(len(inside) == 1, "told %d times", len(inside))
		h := s.persist(inside[0]).Handle
		want(h.Materialization == 1, "a snapshot taken inside the event has materialization %d", h.Materialization)
		r.end(s)
	})
}

// TestC11MaterializationsDoNotOverlap: one that takes three intervals is followed by the next an interval after its end.
func TestC11MaterializationsDoNotOverlap(t *testing.T) {
	simulate(t, func(r *rig) {
		const every = time.Second
		r.start(factory(changelog.Options{Materialize: every}))
		s := r.open(0, 1)
		r.inj.Add(store.Rule{Ops: []string{"put"}, Prefix: "base/", Delay: 3 * every})
		for id := uint64(1); id <= 80; id++ {
			s.fill(fmt.Sprint("value ", id))
			s.checkpoint(id)
			s.sleep(every / 4)
		}
		running, ended := 0, time.Duration(-1)
		n := 0
		for _, e := range r.worker.Events() {
			switch e.Kind {
			case history.MaterializationBegin:
				running++
				want(running == 1, "%d materializations at a time", running)
				want(ended < 0 || e.At-ended >= every && e.At-ended < every+every/2, "the next began %v after the end of the one before", e.At-ended)
				n++
			case history.MaterializationUsed:
				running--
				ended = e.At
			}
		}
		want(n >= 4, "%d materializations in 20 s", n)
		s.sleep(5 * every)
		unchanged := r.skipped("unchanged") + r.skipped("unconfirmed")
		want(unchanged >= 1, "nothing says that materializations were due and skipped")
		r.end(s)
	})
}
