package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/world"
)

// arm runs a at the n-th passage of a point.
func (s *site) arm(point string, n int64, a failpoint.Action) *failpoint.Armed {
	s.t.Helper()
	armed, err := s.cfg.Failpoints.Arm(point, failpoint.When{Nth: n, Times: 1}, a)
	if err != nil {
		s.t.Fatal(err)
	}
	return armed
}

// TestWorkerCrashAtEachStage kills a worker in the middle of every stage of a checkpoint.
func TestWorkerCrashAtEachStage(t *testing.T) {
	for _, point := range checkpointPoints() {
		t.Run(point, func(t *testing.T) {
			simulate(t, 7, func(ctx context.Context, w world.World) {
				s := newSite(t, w, withChangelog)
				s.src.total = 1600
				killed := world.NewLatch(w)
				armed := s.arm(point, 5, func(ctx context.Context, h failpoint.Hit) error {
					killed.Open()
					return s.e.KillWorker(ctx, "worker-1", true)
				})
				s.submit(ctx)
				s.until(ctx, "the kill at "+point, killed.Opened)
				if err := w.Sleep(ctx, 100*time.Millisecond); err != nil {
					t.Fatal(err)
				}
				if err := s.e.ReviveWorker(ctx, "worker-1"); err != nil {
					t.Fatal(err)
				}
				s.finish(ctx)
				if armed.Triggered() != 1 || s.e.Status().Attempt != 2 {
					t.Errorf("triggered %d times, status %+v", armed.Triggered(), s.e.Status())
				}
			})
		})
	}
}

// checkpointPoints are the points that a checkpoint of the changelog passes.
func checkpointPoints() (points []string) {
	for _, p := range failpoint.Points() {
		if len(p) > 11 && p[:11] == "checkpoint-" && p != failpoint.CheckpointLocalCopyBegin && p != failpoint.CheckpointLocalCopyEnd {
			points = append(points, p)
		}
	}
	return points
}

// TestErrorAtEachStage makes every stage of a checkpoint fail once: the checkpoint, or the attempt, is over, and the job goes on.
func TestErrorAtEachStage(t *testing.T) {
	for _, point := range checkpointPoints() {
		t.Run(point, func(t *testing.T) {
			simulate(t, 3, func(ctx context.Context, w world.World) {
				s := newSite(t, w, withChangelog)
				s.src.total = 1200
				armed := s.arm(point, 4, func(context.Context, failpoint.Hit) error { return errPlanned })
				s.submit(ctx)
				s.finish(ctx)
				if armed.Triggered() != 1 {
					t.Errorf("triggered %d times", armed.Triggered())
				}
			})
		})
	}
}

func TestTaskErrorFailsTheAttempt(t *testing.T) {
	simulateSeeds(t, 3, func(ctx context.Context, w world.World, t testing.TB) {
		s := newSite(t, w)
		s.submit(ctx)
		s.running(ctx)
		if err := s.e.FailTask(ctx, "nobody-0", "x"); err == nil {
			t.Error("an unknown subtask can fail")
		}
		if err := w.Sleep(ctx, 500*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if err := s.e.FailTask(ctx, "count-1", "user code"); err != nil {
			t.Fatal(err)
		}
		s.finish(ctx)
		failed := s.kinds(history.AttemptFailed)
		if len(failed) != 1 || failed[0].Actor != "count-1" || failed[0].Text != "subtask-failed" || !failed[0].Injected {
			t.Errorf("failed: %+v", failed)
		}
	})
}

// TestSilentWorkerIsFoundByItsSilence: nobody tells the leader of the death.
func TestSilentWorkerIsFoundByItsSilence(t *testing.T) {
	simulateSeeds(t, 3, func(ctx context.Context, w world.World, t testing.TB) {
		s := newSite(t, w)
		s.submit(ctx)
		s.running(ctx)
		at := w.Now()
		s.e.mu.hosts[1].domain.Kill()
		s.until(ctx, "the loss", func() bool { return len(s.kinds(history.WorkerDown)) > 0 })
		down := s.kinds(history.WorkerDown)[0]
		if took := down.At - at; down.Reason != "silent" || took < 900*time.Millisecond || took > 1300*time.Millisecond {
			t.Errorf("%s after %v", down.Reason, took)
		}
		s.finish(ctx)
	})
}

func TestTooFewSlotsWaitInRestoring(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		s := newSite(t, w, func(c *Config) { c.Settings.Parallelism = 6 })
		s.submit(ctx)
		s.running(ctx)
		if err := s.e.KillWorker(ctx, "worker-2", false); err != nil {
			t.Fatal(err)
		}
		if err := s.e.KillWorker(ctx, "worker-2", false); err == nil {
			t.Error("killed twice")
		}
		if err := w.Sleep(ctx, 3*time.Second); err != nil {
			t.Fatal(err)
		}
		if st := s.e.Status(); st.State != "restoring" || st.Attempt != 1 {
			t.Errorf("status %+v, want restoring", st)
		}
		if err := s.e.ReviveWorker(ctx, "worker-2"); err != nil {
			t.Fatal(err)
		}
		s.finish(ctx)
		if n := len(s.kinds(history.CheckpointSkipped)); n < 10 {
			t.Errorf("%d checkpoints were skipped while the job waited", n)
		}
	})
}

func TestPreviousWorkerFirst(t *testing.T) {
	r := func(name string, slots int) *remote { return &remote{name: name, slots: slots, alive: true} }
	for _, c := range []struct {
		p      int
		alive  []*remote
		before []string
		want   string
	}{
		{3, []*remote{r("a", 1), r("b", 1), r("c", 1)}, nil, "[a b c]"},
		{4, []*remote{r("a", 2), r("b", 2)}, nil, "[a b a b]"},
		{3, []*remote{r("a", 2), r("b", 2)}, []string{"b", "c", "b"}, "[b a b]"},
		{2, []*remote{r("a", 1), r("b", 3)}, []string{"b", "a", "b", "b"}, "[b a]"},
		{3, []*remote{r("a", 1), r("b", 1)}, []string{"b"}, "[]"},
	} {
		if got := fmt.Sprint(assign(c.p, c.alive, c.before)); got != c.want {
			t.Errorf("assign(%d, ..., %v) = %s, want %s", c.p, c.before, got, c.want)
		}
	}
}

// damage overwrites an object of the store with other bytes.
func (s *site) damage(ctx context.Context, key string) {
	s.t.Helper()
	body, err := s.mem.Get(ctx, key)
	if err != nil {
		s.t.Fatal(err)
	}
	s.mem.Delete(ctx, []string{key})
	body[len(body)/2] ^= 0x55
	if err := s.mem.Put(ctx, key, body, store.PutOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// TestA12UnreadableCheckpointIsSkippedLoudly: the newest checkpoint's metadata, or an object it names, is damaged. The next older one is
// restored, the bad one is reported, and nothing of the others is touched.
func TestA12UnreadableCheckpointIsSkippedLoudly(t *testing.T) {
	for _, what := range []string{"metadata", "object"} {
		t.Run(what, func(t *testing.T) {
			simulate(t, 1, func(ctx context.Context, w world.World) {
				s := newSite(t, w, func(c *Config) { c.Settings.Checkpoint.Retain = 3 })
				s.submit(ctx)
				s.until(ctx, "five checkpoints", func() bool { return len(s.kinds(history.CheckpointCompleted)) == 5 })
				log, err := checkpoint.OpenLog(ctx, w, s.mem, "test")
				if err != nil {
					t.Fatal(err)
				}
				retained := log.State().Retained
				newest := retained[len(retained)-1]
				done, err := checkpoint.Read(ctx, s.mem, newest.Metadata)
				if err != nil {
					t.Fatal(err)
				}
				key := newest.Metadata
				if what == "object" {
					key = done.Metadata.Objects()[0].Key
				}
				s.damage(ctx, key)
				if err := s.e.KillWorker(ctx, "worker-0", true); err != nil {
					t.Fatal(err)
				}
				s.until(ctx, "another attempt", func() bool { st := s.e.Status(); return st.Attempt > 1 && st.State == "running" })
				running := s.kinds(history.AttemptRunning)
				if got := running[len(running)-1].Checkpoint; got != newest.ID-1 {
					t.Errorf("restored checkpoint %d, want %d", got, newest.ID-1)
				}
				noted := false
				for _, e := range s.kinds(history.Note) {
					noted = noted || e.Checkpoint == newest.ID && e.Error != ""
				}
				if !noted {
					t.Errorf("nobody was told\n%s", s.tail(30))
				}
				s.until(ctx, "later checkpoints", func() bool { return s.e.Status().LastCompleted >= newest.ID+4 })
				s.stop(ctx)
				s.checkStore(ctx)
			})
		})
	}
}

func TestJobFailsWhenNoCheckpointReads(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		s := newSite(t, w)
		s.submit(ctx)
		s.until(ctx, "three checkpoints", func() bool { return len(s.kinds(history.CheckpointCompleted)) == 3 })
		log, err := checkpoint.OpenLog(ctx, w, s.mem, "test")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range log.State().Retained {
			s.damage(ctx, r.Metadata)
		}
		if err := s.e.KillWorker(ctx, "worker-1", true); err != nil {
			t.Fatal(err)
		}
		s.until(ctx, "the end", func() bool { return s.e.Status().State == "failed" })
		if _, err := s.e.Checkpoint(ctx); err == nil {
			t.Error("a failed job takes checkpoints")
		}
		s.stop(ctx)
		if st := s.e.Status(); st.State != "failed" || st.Error == "" {
			t.Errorf("status %+v", st)
		}
	})
}

// TestFencedLeaderStepsDown: another leader takes over behind the back of the running one. The next thing it writes to the log loses, and it
// does nothing more (C4).
func TestFencedLeaderStepsDown(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		s := newSite(t, w)
		s.submit(ctx)
		s.until(ctx, "three checkpoints", func() bool { return len(s.kinds(history.CheckpointCompleted)) == 3 })
		log, err := checkpoint.OpenLog(ctx, w, s.mem, "somebody else")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.TakeOver(ctx); err != nil {
			t.Fatal(err)
		}
		before := len(s.kinds(history.CheckpointCompleted))
		s.until(ctx, "stepping down", func() bool { return s.e.Status().State == "failed" })
		if after := len(s.kinds(history.CheckpointCompleted)); after != before {
			t.Errorf("%d checkpoints completed after the takeover", after-before)
		}
		if again, err := checkpoint.OpenLog(ctx, w, s.mem, "x"); err != nil || again.State().Seq != log.State().Seq {
			t.Errorf("the log has %d entries, %v; want %d", again.State().Seq, err, log.State().Seq)
		}
		if _, err := s.e.Checkpoint(ctx); err == nil {
			t.Error("a fenced leader takes checkpoints")
		}
		if err := s.e.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
}

// TestNextLeaderGoesOn: the coordinator dies at any moment and a new life takes over with the next term, on what the log says. Its
// ids and attempts are never used again (C1), and no output is lost or repeated.
func TestNextLeaderGoesOn(t *testing.T) {
	simulateSeeds(t, 4, func(ctx context.Context, w world.World, t testing.TB) {
		s := newSite(t, w, withChangelog)
		s.submit(ctx)
		s.until(ctx, "three checkpoints", func() bool { return len(s.kinds(history.CheckpointCompleted)) >= 3 })
		if err := w.Sleep(ctx, time.Duration(w.Rand("test").Int64N(int64(300*time.Millisecond)))); err != nil {
			t.Fatal(err)
		}
		s.e.mu.coordinator.end.domain.Kill()
		triggered := s.kinds(history.CheckpointTriggered)
		last := triggered[len(triggered)-1].Checkpoint
		d := w.NewDomain("coordinator-0#2", world.DomainOptions{})
		next := newCoordinator(s.e.cfg, s.e.transport, s.e.network, s.e.view, d, coordinatorName, 2)
		s.e.mu.coordinator = next
		s.e.lead.Go(d.Enter(s.e.mu.ctx), coordinatorName, next.run)
		s.until(ctx, "the next attempt", func() bool { return len(s.kinds(history.AttemptRunning)) == 2 })
		started := s.kinds(history.AttemptStarted)[1]
		if started.Checkpoint == 0 || started.Attempt != attemptsPerTerm+1 {
			t.Errorf("attempt %d was started from checkpoint %d", started.Attempt, started.Checkpoint)
		}
		s.until(ctx, "the end of the input", func() bool { return s.e.Progress().Finished() })
		if _, err := s.e.Checkpoint(ctx); err != nil {
			t.Fatal(err)
		}
		if err := s.e.Stop(ctx); err != nil {
			t.Error(err)
		}
		for _, e := range s.kinds(history.CheckpointTriggered)[len(triggered):] {
			if e.Checkpoint <= last {
				t.Errorf("checkpoint id %d was used before", e.Checkpoint)
			}
		}
		s.checkOutput()
		s.checkLeftovers(ctx)
	})
}

func TestStoreErrorsAreOutlived(t *testing.T) {
	simulateSeeds(t, 5, func(ctx context.Context, w world.World, t testing.TB) {
		s := newSite(t, w, withChangelog, func(c *Config) { c.Settings.Checkpoint.Timeout = plan.Duration(2 * time.Second) })
		heal := []func(){
			s.inj.Add(store.Rule{Name: "lost", Ops: []string{history.OpPut}, Share: 0.2, Status: 500}),
			s.inj.Add(store.Rule{Name: "slow", Share: 0.2, Status: 503}),
		}
		s.submit(ctx)
		s.running(ctx)
		if err := w.Sleep(ctx, time.Second); err != nil {
			t.Fatal(err)
		}
		_ = s.e.KillWorker(ctx, "worker-1", true)
		s.until(ctx, "the end of the input", func() bool { return s.e.Progress().Finished() && s.e.Status().State == "running" })
		for i, name := range []string{"lost", "slow"} {
			if s.inj.Hits(name) == 0 {
				t.Errorf("rule %s hit nothing", name)
			}
			heal[i]()
		}
		s.finish(ctx)
	})
}

// TestReplacedLeaderHarmsNothing: a leader that was replaced without knowing it stops and cleans up. What the next one wrote stays.
func TestReplacedLeaderHarmsNothing(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		s := newSite(t, w, withChangelog)
		s.submit(ctx)
		s.until(ctx, "three checkpoints", func() bool { return len(s.kinds(history.CheckpointCompleted)) == 3 })
		theirs := []string{checkpoint.MetadataKey(1001, 2)}
		for _, prefix := range checkpoint.AttemptPrefixes(attemptsPerTerm + 1) {
			theirs = append(theirs, prefix+"worker-0/1")
		}
		for _, key := range theirs {
			if err := s.mem.Put(ctx, key, []byte("theirs"), store.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.e.CleanUp(ctx); err != nil {
			t.Error(err)
		}
		if err := s.e.Stop(ctx); err != nil {
			t.Error(err)
		}
		for _, key := range theirs {
			if _, err := s.mem.Stat(ctx, key); err != nil {
				t.Error(err)
			}
		}
	})
}
