package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/world"
)

// endless returns a rig with one worker on which an endless job runs at parallelism 1.
func endless(ctx context.Context, t *testing.T, w world.World, op func() graph.Operator) *rig {
	src := &numbers{parts: 1, keys: 10, total: math.MaxInt64, value: 10, gap: time.Millisecond}
	r := newRig(t, w, src, op, 1)
	r.start(ctx, "worker-0")
	r.launch(ctx, 1, "worker-0")
	return r
}

func TestInjectedErrorFailsTheSubtaskItNames(t *testing.T) {
	inBothWorlds(t, func(ctx context.Context, t *testing.T, w world.World) {
		r := endless(ctx, t, w, plainCounter)
		r.lead.Send(ctx, "worker-0", 0, FailSubtask{Operator: "out", Index: 0, Reason: "fault f"})
		r.until(ctx, func() bool { return len(r.failed) > 0 })
		f := r.failed[0]
		if f.Operator != "out" || !f.Injected || !strings.Contains(f.Error, "fault f") {
			t.Errorf("got %+v, want an injected error of out-0", f)
		}
		r.cancel(ctx)
	})
}

func TestPanicOfUserCodeFailsTheSubtask(t *testing.T) {
	inBothWorlds(t, func(ctx context.Context, t *testing.T, w world.World) {
		r := endless(ctx, t, w, func() graph.Operator { return &counter{panics: 5} })
		r.until(ctx, func() bool { return len(r.failed) > 0 })
		if f := r.failed[0]; f.Operator != "count" || f.Injected || !strings.Contains(f.Error, "user code") {
			t.Errorf("got %+v, want the panic of count-0", f)
		}
		r.cancel(ctx)
	})
}

func TestFailedUploadDeclinesTheCheckpoint(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		r := endless(ctx, t, w, plainCounter)
		armed, err := r.cfg.Failpoints.Arm(failpoint.CheckpointUploadBegin, failpoint.When{Actor: "count-0"},
			func(context.Context, failpoint.Hit) error { return fmt.Errorf("no upload: %w", store.ErrInjected) })
		if err != nil {
			t.Fatal(err)
		}
		id := r.trigger(ctx)
		r.until(ctx, func() bool { return len(r.decline[id]) > 0 })
		if d := r.decline[id][0]; d.Operator != "count" || d.Reason != ReasonAsyncFailure || !strings.Contains(d.Error, "no upload") {
			t.Errorf("declined with %+v", d)
		}
		r.all(ctx, CheckpointAborted{ID: id})
		armed.Disarm()
		if !r.complete(ctx, r.trigger(ctx)) {
			t.Errorf("the next checkpoint fails too: %v %v", r.failed, r.decline)
		}
		r.cancel(ctx)
	})
}

func TestAbortEndsTheUpload(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		r := endless(ctx, t, w, plainCounter)
		ended := world.NewLatch(w)
		_, err := r.cfg.Failpoints.Arm(failpoint.CheckpointUploadBegin, failpoint.When{Times: 1}, func(ctx context.Context, _ failpoint.Hit) error {
			r.lead.Send(ctx, "worker-0", r.attempt, CheckpointAborted{ID: 1})
			err := w.Sleep(ctx, time.Hour)
			ended.Open()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		r.trigger(ctx)
		if err := ended.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		if now := w.Now(); now > time.Minute {
			t.Errorf("the upload was given up at %v", now)
		}
		if !r.complete(ctx, r.trigger(ctx)) || len(r.acks[1]) == 3 || len(r.decline[1]) != 0 {
			t.Errorf("aborted checkpoint: %d acknowledgements, declines %v", len(r.acks[1]), r.decline[1])
		}
		r.cancel(ctx)
	})
}

func TestBarrierGoesBeforeTheSynchronousPart(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		r := endless(ctx, t, w, plainCounter)
		_, err := r.cfg.Failpoints.Arm(failpoint.CheckpointPrecommitBegin, failpoint.When{},
			func(ctx context.Context, _ failpoint.Hit) error { return w.Sleep(ctx, time.Second) })
		if err != nil {
			t.Fatal(err)
		}
		if !r.complete(ctx, r.trigger(ctx)) {
			t.Fatal("the checkpoint failed")
		}
		for _, a := range r.acks[1] {
			if a.Sync < time.Second || a.StartDelay > 100*time.Millisecond {
				t.Errorf("%s: start delay %v, synchronous part %v: the source's was waited for", a.State.Operator, a.StartDelay, a.Sync)
			}
		}
		r.cancel(ctx)
	})
}

func TestWorkerEndsItsPartWhenTheLeaderIsSilent(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		src := &numbers{parts: 1, keys: 10, total: math.MaxInt64, gap: time.Millisecond}
		r := newRig(t, w, src, plainCounter, 1)
		r.cfg.Workers.HeartbeatTimeout = plan.Duration(time.Second)
		r.start(ctx, "worker-0")
		r.launch(ctx, 1, "worker-0")
		silent := w.Now()
		r.until(ctx, func() bool { return r.ended["worker-0"] })
		if after := w.Now() - silent; after < time.Second || after > 1100*time.Millisecond {
			t.Errorf("the worker ended its part %v after the last word, want 1s", after)
		}
		r.up = map[string]uint64{}
		r.until(ctx, func() bool { return len(r.up) > 0 }) // and announces itself again
	})
}

// gated is a backend whose state takes no writes for a while.
type gated struct {
	backend.Keyed
	open *world.Latch
}

func (g *gated) Blocked() bool             { return !g.open.Opened() }
func (g *gated) Unblocked() world.Waitable { return g.open }
func (g *gated) Exhausted() bool           { return true }

type gatedFactory struct {
	backend.Factory
	open *world.Latch
}

type gatedBackend struct {
	backend.Backend
	open *world.Latch
}

func (f gatedFactory) ForWorker(ctx context.Context, e backend.WorkerEnv) (backend.Backend, error) {
	b, err := f.Factory.ForWorker(ctx, e)
	return gatedBackend{b, f.open}, err
}

func (b gatedBackend) Open(ctx context.Context, o backend.OpenOptions) (backend.Keyed, error) {
	k, err := b.Backend.Open(ctx, o)
	return &gated{k, b.open}, err
}

func TestE06FullLogHoldsTheSubtaskUp(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		src := &numbers{parts: 1, keys: 10, total: math.MaxInt64, value: 10}
		r := newRig(t, w, src, plainCounter, 1)
		open := world.NewLatch(w)
		r.cfg.Backend = gatedFactory{r.cfg.Backend, open}
		r.start(ctx, "worker-0")
		r.launch(ctx, 1, "worker-0")
		if err := w.Sleep(ctx, time.Second); err != nil {
			t.Fatal(err)
		}
		m := r.metrics()
		if got, limit := m["numbers-0"].In, int64(8*256); got > limit {
			t.Errorf("the source has read %d records, credit allows %d", got, limit)
		}
		if m["count-0"].In != 0 || m["numbers-0"].Backpressured < 900*time.Millisecond {
			t.Errorf("figures while blocked: %+v", m)
		}
		open.Open()
		if !r.complete(ctx, r.trigger(ctx)) {
			t.Errorf("no checkpoint: %v", r.failed)
		}
		m = r.metrics()
		if c := m["count-0"]; c.In == 0 || c.Throttled < 900*time.Millisecond || c.Exhausted != c.Throttled || c.Busy+c.Idle+c.Backpressured+c.Throttled != c.Age {
			t.Errorf("figures afterwards: %+v", c)
		}
		r.cancel(ctx)
	})
}

// metrics are those of all workers by subtask.
func (r *rig) metrics() map[string]SubtaskMetrics {
	all := map[string]SubtaskMetrics{}
	for _, w := range r.workers {
		for _, m := range w.metrics() {
			all[m.Subtask] = m
		}
	}
	return all
}

func TestLatencyCountsFromTheDueTime(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		src := &numbers{parts: 1, keys: 10, total: 1000, gap: time.Millisecond}
		r := newRig(t, w, src, plainCounter, 1)
		r.start(ctx, "worker-0")
		r.deploy(ctx, 1, "worker-0")
		r.until(ctx, func() bool { return r.running == 3 })
		if err := w.Sleep(ctx, 10*time.Second); err != nil {
			t.Fatal(err)
		}
		began := w.Now() - 5*time.Second
		r.all(ctx, StartSources{Began: began}) // 5 s late
		r.until(ctx, r.net.progress.Finished)
		if !r.complete(ctx, r.trigger(ctx)) {
			t.Fatal(r.failed)
		}
		h := r.metrics()["out-0"].Latency
		if n, low, high := h.TotalCount(), h.Min(), h.Max(); n != 1000 || low < 3_900_000 || high < 4_900_000 || high > 5_300_000 {
			t.Errorf("%d latencies from %d to %d µs, want 1000 from 4 to 5 s", n, low, high)
		}
		if again := r.metrics()["out-0"].Latency.TotalCount(); again != 0 {
			t.Errorf("%d latencies are told twice", again)
		}
		r.cancel(ctx)
	})
}

func TestRestoreIsToldAndDigested(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		r := endless(ctx, t, w, plainCounter)
		if err := w.Sleep(ctx, time.Second); err != nil {
			t.Fatal(err)
		}
		if !r.complete(ctx, r.trigger(ctx)) {
			t.Fatal(r.failed)
		}
		r.cancel(ctx)
		if n := len(r.kinds(history.RestoreBegin)); n != 0 {
			t.Errorf("%d restores of a fresh start", n)
		}
		r.launch(ctx, 1, "worker-0")
		if !r.complete(ctx, r.trigger(ctx)) {
			t.Fatal(r.failed)
		}
		r.cancel(ctx)
		done := map[string]history.Event{}
		for _, e := range r.kinds(history.RestoreDone) {
			done[e.Actor] = e
		}
		positions := done["numbers-0"].Positions
		if len(done) != 3 || len(done["count-0"].Digests) == 0 || len(positions) != 1 || positions[0] == 0 {
			t.Fatalf("restores are told as %+v", done)
		}
		started := r.kinds(history.SourceStarted)
		if last := started[len(started)-1]; last.From != positions[0] {
			t.Errorf("the source starts at %d, restored %d", last.From, positions[0])
		}
		ranges := r.kinds(history.SourceRange)
		for i := 1; i < len(ranges); i++ {
			if ranges[i].Attempt == ranges[i-1].Attempt && ranges[i].From != ranges[i-1].To {
				t.Errorf("range %+v does not follow %+v", ranges[i], ranges[i-1])
			}
		}
	})
}

func TestReplayTwiceIsPlanted(t *testing.T) {
	if !failpoint.MutantsBuilt {
		t.Skip("planted bugs are not compiled in")
	}
	simulate(t, 1, func(ctx context.Context, w world.World) {
		src := &numbers{parts: 1, keys: 10, total: 2000, gap: time.Millisecond}
		r := newRig(t, w, src, plainCounter, 1)
		if err := r.cfg.Failpoints.ArmMutant("replay-twice"); err != nil {
			t.Fatal(err)
		}
		r.start(ctx, "worker-0")
		r.launch(ctx, 1, "worker-0")
		if err := w.Sleep(ctx, time.Second); err != nil {
			t.Fatal(err)
		}
		if !r.complete(ctx, r.trigger(ctx)) {
			t.Fatal(r.failed)
		}
		r.cancel(ctx)
		r.launch(ctx, 1, "worker-0")
		r.finish(ctx)
		if n := r.cfg.Collect.Result().DuplicateCount; n != 1 {
			t.Errorf("%d duplicates, want 1", n)
		}
	})
}

func TestBackendLoopRunsWorkAndAlarms(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		var seen []string
		r := newRig(t, w, &numbers{parts: 1, keys: 1, total: 0}, plainCounter, 1)
		r.cfg.Backend = loopUser{r.cfg.Backend, func(l backend.Loop) {
			l.After(2*time.Second, func() { seen = append(seen, fmt.Sprint("late ", w.Now().Round(time.Second))) })
			l.After(time.Second, func() {
				seen = append(seen, "early")
				l.Async("work", func(ctx context.Context) error {
					return errors.Join(w.Sleep(ctx, 500*time.Millisecond), errors.New("work failed"))
				},
					func(err error) { seen = append(seen, fmt.Sprint(err)) })
			})
			l.After(3*time.Second, func() { l.Fail(errors.New("enough")) })
		}}
		r.start(ctx, "worker-0")
		r.launch(ctx, 1, "worker-0")
		r.until(ctx, func() bool { return len(r.failed) > 0 })
		if got, want := strings.Join(seen, ", "), "early, work failed, late 2s"; got != want || r.failed[0].Error != "count-0: enough" {
			t.Errorf("got %s and %q, want %s and enough", got, r.failed[0].Error, want)
		}
		r.cancel(ctx)
	})
}

// loopUser calls use with the loop of each state it opens.
type loopUser struct {
	backend.Factory
	use func(l backend.Loop)
}

type loopUserBackend struct {
	backend.Backend
	use func(l backend.Loop)
}

func (f loopUser) ForWorker(ctx context.Context, e backend.WorkerEnv) (backend.Backend, error) {
	b, err := f.Factory.ForWorker(ctx, e)
	return loopUserBackend{b, f.use}, err
}

func (b loopUserBackend) Open(ctx context.Context, o backend.OpenOptions) (backend.Keyed, error) {
	b.use(o.Loop)
	return b.Backend.Open(ctx, o)
}
