package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/world"
)

// reasons counts the aborted checkpoints by reason.
func (s *site) reasons(k history.Kind) map[string]int {
	n := map[string]int{}
	for _, e := range s.kinds(k) {
		n[e.Reason]++
	}
	return n
}

// hold makes one passage of an actor through a point take d.
func (s *site) hold(point, actor string, nth int64, d time.Duration) {
	s.t.Helper()
	_, err := s.cfg.Failpoints.Arm(point, failpoint.When{Actor: actor, Nth: nth, Times: 1}, func(ctx context.Context, _ failpoint.Hit) error {
		return s.w.Sleep(ctx, d)
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// TestA15ExpiredCheckpointsLeaveNothing: acknowledgements that come after the timeout are taken note of, and what they name dies later.
func TestA15ExpiredCheckpointsLeaveNothing(t *testing.T) {
	simulateSeeds(t, 3, func(ctx context.Context, w world.World, t testing.TB) {
		s := newSite(t, w, withChangelog, func(c *Config) { c.Settings.Checkpoint.Timeout = plan.Duration(150 * time.Millisecond) })
		for n := int64(2); n <= 5; n++ {
			s.hold(failpoint.CheckpointAckBegin, "count-0", n, 180*time.Millisecond)
		}
		s.submit(ctx)
		s.finish(ctx)
		if n := s.reasons(history.CheckpointAborted)[ReasonExpired]; n != 4 {
			t.Errorf("%d checkpoints expired, want 4", n)
		}
	})
}

// TestDeclinedCheckpoint: a subtask whose upload fails declines, the others are told, and the job goes on.
func TestDeclinedCheckpoint(t *testing.T) {
	simulateSeeds(t, 3, func(ctx context.Context, w world.World, t testing.TB) {
		s := newSite(t, w)
		_, err := s.cfg.Failpoints.Arm(failpoint.CheckpointUploadBegin, failpoint.When{Nth: 5, Times: 3}, func(context.Context, failpoint.Hit) error { return errPlanned })
		if err != nil {
			t.Fatal(err)
		}
		s.submit(ctx)
		s.finish(ctx)
		if n := s.reasons(history.CheckpointAborted)[ReasonAsyncFailure]; n < 2 {
			t.Errorf("aborted: %v", s.reasons(history.CheckpointAborted))
		}
	})
}

// TestNewerCheckpointSubsumesOlder: with two at a time the second completes first.
func TestNewerCheckpointSubsumesOlder(t *testing.T) {
	simulateSeeds(t, 3, func(ctx context.Context, w world.World, t testing.TB) {
		s := newSite(t, w, withChangelog, func(c *Config) {
			c.Settings.Checkpoint.MaxConcurrent = 2
			c.Settings.Checkpoint.Interval = plan.Duration(100 * time.Millisecond)
		})
		s.hold(failpoint.CheckpointAckBegin, "count-1", 3, 300*time.Millisecond)
		s.submit(ctx)
		s.finish(ctx)
		if n := s.reasons(history.CheckpointAborted)[ReasonSubsumed]; n != 1 {
			t.Errorf("aborted: %v\n%s", s.reasons(history.CheckpointAborted), s.tail(10))
		}
		if n := s.reasons(history.CheckpointAckTaken)[AckLate]; n != 0 && n != 1 {
			t.Errorf("%d acknowledgements came late", n)
		}
	})
}

// TestOvertakenCheckpointOnRequestIsTakenAgain: nothing went wrong, and a run that asks for its last checkpoint must not fail for it.
func TestOvertakenCheckpointOnRequestIsTakenAgain(t *testing.T) {
	simulateSeeds(t, 3, func(ctx context.Context, w world.World, t testing.TB) {
		s := newSite(t, w, withChangelog, func(c *Config) {
			c.Settings.Checkpoint.MaxConcurrent = 2
			c.Settings.Checkpoint.Interval = plan.Duration(100 * time.Millisecond)
		})
		s.hold(failpoint.CheckpointAckBegin, "count-1", 1, 300*time.Millisecond)
		s.submit(ctx)
		id, err := s.e.Checkpoint(ctx)
		if n := s.reasons(history.CheckpointAborted)[ReasonSubsumed]; err != nil || id < 3 || n != 1 {
			t.Errorf("checkpoint %d: %v; aborted: %v", id, err, s.reasons(history.CheckpointAborted))
		}
		s.finish(ctx)
	})
}

// TestScheduleKeepsItsGrid: checkpoints are planned at fixed times; those that cannot be are skipped, with the reason.
func TestScheduleKeepsItsGrid(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		s := newSite(t, w, func(c *Config) {
			c.Settings.Checkpoint.MinPause = plan.Duration(150 * time.Millisecond)
		})
		s.hold(failpoint.CheckpointAckBegin, "count-0", 3, 290*time.Millisecond)
		s.submit(ctx)
		s.finish(ctx)
		began := s.kinds(history.AttemptRunning)[0].At
		seen := map[time.Duration]bool{}
		for _, e := range append(s.kinds(history.CheckpointTriggered), s.kinds(history.CheckpointSkipped)...) {
			if e.Text == "on request" {
				continue
			}
			if off := e.Planned - began; off <= 0 || off%(200*time.Millisecond) != 0 || seen[e.Planned] {
				t.Errorf("%s planned at %v, %v after the job ran", e.Kind, e.Planned, off)
			}
			seen[e.Planned] = true
		}
		skipped := s.reasons(history.CheckpointSkipped)
		if skipped[SkippedConcurrent] != 1 || skipped[SkippedPause] != 1 || len(skipped) != 2 {
			t.Errorf("skipped: %v", skipped)
		}
	})
}

// TestE02CompletedEventAddsUp: figures and positions of a completed checkpoint are those of its metadata and its acknowledgements.
func TestE02CompletedEventAddsUp(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		s := newSite(t, w, withChangelog)
		s.submit(ctx)
		s.finish(ctx)
		completed := s.kinds(history.CheckpointCompleted)
		e := completed[len(completed)-1]
		done, err := checkpoint.Read(ctx, s.mem, checkpoint.MetadataKey(e.Checkpoint, 1))
		if err != nil {
			t.Fatal(err)
		}
		var full, base int64
		for _, st := range done.Metadata.Subtasks {
			if st.Keyed != nil {
				full += st.Keyed.FullBytes()
				base += st.Keyed.BaseBytes()
			}
		}
		var sum, most int64
		for _, a := range s.kinds(history.CheckpointAcked) {
			if a.Checkpoint == e.Checkpoint && a.Sizes != nil {
				sum += a.Sizes.Checkpointed
				most = max(most, int64(a.Sizes.Async))
			}
		}
		z := e.Sizes
		if z.Full != full || z.Base != base || z.Base+z.Delta != z.Full || z.Checkpointed != sum || e.Bytes != sum || int64(z.Async) != most || full == 0 {
			t.Errorf("sizes %+v; metadata has %d full, %d base; acknowledgements %d bytes, %v", z, full, base, sum, time.Duration(most))
		}
		for p, next := range e.Positions {
			if next != s.src.total || len(e.Positions) != 3 {
				t.Errorf("partition %d stands at %d", p, next)
			}
		}
		m := done.Metadata
		if m.Parallelism != 2 || m.MaxParallelism != 32 || m.Attempt != 1 || len(m.Subtasks) != 6 || m.Subtasks[2].Operator != "count" || m.Subtasks[3].Index != 1 {
			t.Errorf("metadata %+v", m)
		}
	})
}

// TestPartsNamedTwiceCountOnce: after a rescale several subtasks name the same part, each for its key groups.
func TestPartsNamedTwiceCountOnce(t *testing.T) {
	ref := func(key string, offset, length int64, from, to keygroup.ID) backend.ObjectRef {
		return backend.ObjectRef{Key: key, Offset: offset, Length: length, Groups: keygroup.Range{From: from, To: to}}
	}
	p := &pending{acked: make([]bool, 2), states: make([]checkpoint.SubtaskState, 2), left: 2, parts: map[storedAt]struct{}{}, objects: map[string]struct{}{}}
	for i, h := range []backend.StateHandle{
		{Base: []backend.ObjectRef{ref("a", 0, 100, 0, 4), ref("b", 0, 7, 0, 4)}, Delta: []backend.ObjectRef{ref("l", 0, 10, 0, 4)}},
		{Base: []backend.ObjectRef{ref("a", 0, 100, 4, 6), ref("a", 0, 100, 6, 8), ref("a", 100, 50, 6, 8)}, Delta: []backend.ObjectRef{ref("l", 10, 1, 4, 8)}},
	} {
		p.take(i, &Acknowledge{State: checkpoint.SubtaskState{Keyed: &h}})
	}
	if z := p.sizes; z.Base != 157 || z.Delta != 11 || z.Full != 168 {
		t.Errorf("sizes %+v", z)
	}
}

// TestE08DeadPartsAreCounted (docs/known-faults.md): of segments in which 1 of 8 ranges is alive, and named by two subtasks, the whole size counts once.
func TestE08DeadPartsAreCounted(t *testing.T) {
	p := &pending{acked: make([]bool, 2), states: make([]checkpoint.SubtaskState, 2), left: 2, parts: map[storedAt]struct{}{}, objects: map[string]struct{}{}}
	for i := range 2 {
		h := backend.StateHandle{}
		for s := range 10 {
			h.Delta = append(h.Delta, backend.ObjectRef{Key: fmt.Sprint("log/", s), Bytes: 800, Offset: 300, Length: 100, Log: fmt.Sprint("count-", i)})
		}
		p.take(i, &Acknowledge{State: checkpoint.SubtaskState{Keyed: &h}})
	}
	if z := p.sizes; z.Full != 1000 || z.Held != 8000 {
		t.Errorf("sizes %+v, want 1000 alive of 8000", z)
	}
}

// TestE09MetadataIsMeasured (docs/known-faults.md): the size of the metadata object is in the event, beside the full size.
func TestE09MetadataIsMeasured(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		s := newSite(t, w)
		s.submit(ctx)
		s.finish(ctx)
		all := s.kinds(history.CheckpointCompleted)
		for _, e := range all[len(all)-1:] { // those before may be subsumed
			body, err := s.mem.Get(ctx, checkpoint.MetadataKey(e.Checkpoint, 1))
			if err != nil || e.Sizes.Metadata != int64(len(body)) || e.Sizes.Base+e.Sizes.Delta != e.Sizes.Full {
				t.Errorf("checkpoint %d: %d bytes of metadata, sizes %+v, %v", e.Checkpoint, len(body), e.Sizes, err)
			}
		}
	})
}

// TestA13DeletesDoNotDelayCheckpoints: thousands of objects die with one checkpoint while a delete takes 100 ms, and the next checkpoints start and
// complete as before.
func TestA13DeletesDoNotDelayCheckpoints(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		s := newSite(t, w)
		s.inj.Add(store.Rule{Name: "slow-delete", Ops: []string{history.OpDelete}, Delay: 100 * time.Millisecond})
		s.on(history.CheckpointCompleted, 3, func(ctx context.Context, _ *history.Event) { // in the leader's loop
			h := &backend.StateHandle{}
			for i := range 5000 {
				h.Base = append(h.Base, backend.ObjectRef{Key: fmt.Sprintf("%s1/x/%d", checkpoint.LogPrefix, i)})
			}
			s.e.mu.coordinator.checkpoints.registry.Register(h, 1)
		})
		s.submit(ctx)
		s.until(ctx, "the deletes", func() bool { return s.mem.Stats().UnknownDeletes >= 5000 })
		s.finish(ctx)
		for _, e := range s.kinds(history.CheckpointCompleted) {
			if e.Dur > 50*time.Millisecond || e.Sizes.StartDelay > 10*time.Millisecond {
				t.Errorf("checkpoint %d took %v and began %v after its trigger", e.Checkpoint, e.Dur, e.Sizes.StartDelay)
			}
		}
		if n := s.reasons(history.CheckpointSkipped); len(n) > 0 {
			t.Errorf("skipped: %v", n)
		}
	})
}

// TestIDsAreReservedAhead: more checkpoints than one reservation covers, and the next one stands in the log before it is needed.
func TestIDsAreReservedAhead(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		s := newSite(t, w, func(c *Config) {
			c.Settings.Checkpoint.Interval = plan.Duration(40 * time.Millisecond)
			c.Settings.Parallelism = 1
		})
		s.src.total = 50_000
		s.src.gap = 10 * time.Millisecond
		s.submit(ctx)
		s.on(history.CheckpointTriggered, 920, func(ctx context.Context, e *history.Event) {
			log, err := checkpoint.OpenLog(context.WithoutCancel(ctx), w, s.mem, "test")
			if err != nil || log.State().Reserved < 1900 {
				t.Errorf("at checkpoint %d ids up to %d are reserved, %v", e.Checkpoint, log.State().Reserved, err)
			}
		})
		s.until(ctx, "1,100 checkpoints", func() bool { return s.e.Status().LastCompleted >= 1100 })
		s.stop(ctx)
		if n := s.reasons(history.CheckpointSkipped)[SkippedNoID]; n != 0 {
			t.Errorf("%d checkpoints were skipped for want of an id", n)
		}
	})
}
