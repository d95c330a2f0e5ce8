package engine

import (
	"context"
	"encoding/json"
	"math"
	"runtime"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

func TestPipelineCommitsEveryRecordOnce(t *testing.T) {
	for seed := range uint64(5) {
		simulate(t, seed, func(ctx context.Context, w world.World) {
			src := &numbers{parts: 3, keys: 100, total: 5000, value: 20}
			r := newRig(t, w, src, plainCounter, 2)
			r.start(ctx, "worker-0")
			r.start(ctx, "worker-1")
			r.launch(ctx, 2, "worker-0", "worker-1")
			for range 3 {
				if !r.complete(ctx, r.trigger(ctx)) {
					t.Fatalf("checkpoint failed: %v %v", r.failed, r.decline)
				}
			}
			r.finish(ctx)
			r.check(src, 0)
		})
	}
}

// Workers crash at random moments, some checkpoints are aborted, attempts start again from the newest completed one with another
// parallelism, and in the end every record has been committed once.
func TestCrashesLoseAndRepeatNothing(t *testing.T) {
	for seed := range uint64(10) {
		for _, after := range []int64{0, 30} {
			simulate(t, seed, func(ctx context.Context, w world.World) {
				src := &numbers{parts: 3, keys: 50, total: 4000, value: 20, gap: 50 * time.Microsecond}
				r := newRig(t, w, src, func() graph.Operator { return &counter{after: after} }, 2)
				crashes(ctx, r, []string{"worker-0", "worker-1"})
				r.launch(ctx, 2, r.hosts...)
				r.finish(ctx)
				r.check(src, after)
				if t.Failed() {
					t.Fatalf("seed %d, timers after %d", seed, after)
				}
			})
		}
	}
}

// tally counts records in operator state and passes them on.
type tally struct{ n int64 }

func (t *tally) Open(context.Context, graph.OperatorContext) error { return nil }

func (t *tally) Process(_ context.Context, r *graph.Record, out graph.Collector) error {
	t.n++
	return out.Collect(r)
}

func (t *tally) OnTimer(context.Context, int64, []byte, graph.Collector) error { return nil }

func (t *tally) SnapshotOperatorState(context.Context) ([][]byte, error) {
	return [][]byte{backend.AppendInt64(nil, t.n)}, nil
}

func (t *tally) RestoreOperatorState(_ context.Context, parts [][]byte) error {
	for _, p := range parts {
		n, err := backend.Int64{}.Decode(p)
		if err != nil {
			return err
		}
		t.n += n
	}
	return nil
}

func (t *tally) Redistribution() graph.Redistribution { return graph.Split }

// tagged gives the counter's output another tag.
type tagged struct{ counter }

func (c *tagged) Process(ctx context.Context, r *graph.Record, out graph.Collector) error {
	c.out.Tag = 1
	return c.counter.Process(ctx, r, out)
}

// Two branches from the source to the sink, one of them through an operator that is chained and has operator state.
func TestBranchesMeetAtTheSink(t *testing.T) {
	for seed := range uint64(5) {
		simulate(t, seed, func(ctx context.Context, w world.World) {
			src := &numbers{parts: 3, keys: 50, total: 4000, value: 20, gap: 50 * time.Microsecond}
			r := newRig(t, w, src, plainCounter, 2)
			r.cfg.Job = &graph.Job{
				Nodes: []graph.Node{
					{ID: "numbers", Source: src, Cost: 100},
					{ID: "count", Operator: plainCounter, Keyed: true, Cost: 500},
					{ID: "again", Operator: func() graph.Operator { return &tagged{} }, Keyed: true, Cost: 500},
					{ID: "tally", Operator: func() graph.Operator { return &tally{} }, Cost: 50},
					{ID: "out", Sink: true, Cost: 50},
				},
				Edges: []graph.Edge{
					{From: "numbers", To: "count", Exchange: graph.Hash}, {From: "numbers", To: "again", Exchange: graph.Hash},
					{From: "count", To: "tally", Exchange: graph.Forward},
					{From: "tally", To: "out", Exchange: graph.Forward}, {From: "again", To: "out", Exchange: graph.Forward},
				},
			}
			r.net = newNetwork(r.cfg)
			crashes(ctx, r, []string{"worker-0", "worker-1"})
			r.launch(ctx, 2, r.hosts...)
			r.finish(ctx)
			got := r.cfg.Collect.Result()
			if want := 2 * 3 * src.total; got.Records != want || got.DuplicateCount != 0 || len(got.Marks) != 6 {
				t.Errorf("seed %d: %d records, %d duplicates, %d streams; want %d, none, 6", seed, got.Records, got.DuplicateCount, len(got.Marks), want)
			}
			sum := tally{}
			for _, s := range r.done.Subtasks {
				if err := sum.RestoreOperatorState(ctx, s.Parts); err != nil {
					t.Fatal(err)
				}
			}
			if sum.n != 3*src.total {
				t.Errorf("seed %d: operator state counts %d records, want %d", seed, sum.n, 3*src.total)
			}
		})
	}
}

func TestCrashesInTheRealWorld(t *testing.T) {
	w := world.NewReal(1)
	err := w.Run(func(ctx context.Context) error {
		src := &numbers{parts: 3, keys: 50, total: 4000, value: 20, gap: 50 * time.Microsecond}
		r := newRig(t, w, src, plainCounter, 2)
		crashes(ctx, r, []string{"worker-0", "worker-1"})
		r.launch(ctx, 2, r.hosts...)
		r.finish(ctx)
		r.check(src, 0)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// In steady state records cost no memory.
func TestRecordsAreNotAllocated(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		src := &numbers{parts: 2, keys: 100, total: 150_000, value: 100}
		r := newRig(t, w, src, func() graph.Operator { return &keeper{} }, 2)
		r.start(ctx, "worker-0")
		r.start(ctx, "worker-1")
		r.launch(ctx, 2, "worker-0", "worker-1")
		emitted := func(n int64) uint64 {
			for r.net.progress.Emitted() < n {
				if err := w.Sleep(ctx, time.Millisecond); err != nil {
					t.Fatal(err)
				}
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.Mallocs
		}
		const from, to = 60_000, 260_000
		first := emitted(from)
		if per := float64(emitted(to)-first) / (to - from); per > 0.01 {
			t.Errorf("%.4f allocations a record, want 0.01 at most", per)
		}
		r.cancel(ctx)
	})
}

// crashes runs six attempts, each of which a crash ends.
func crashes(ctx context.Context, r *rig, names []string) {
	rng := r.w.Rand("test")
	for _, n := range names {
		r.start(ctx, n)
	}
	for crash := range 6 {
		r.launch(ctx, 1+rng.IntN(3), names...)
		victim := r.domains[names[rng.IntN(2)]]
		if crash%2 == 0 {
			after := time.Duration(rng.Int64N(int64(60 * time.Millisecond)))
			r.w.Go(ctx, "crash", func(ctx context.Context) error {
				err := r.w.Sleep(ctx, after)
				victim.Kill()
				return err
			})
		} else {
			r.crashAt(history.CheckpointSynced, victim, 1+rng.IntN(8))
		}
		for !r.lost() && len(r.failed) == 0 {
			if id := r.trigger(ctx); rng.IntN(3) == 0 {
				r.all(ctx, CheckpointAborted{ID: id})
			} else if !r.complete(ctx, id) {
				break
			}
			if err := r.w.Sleep(ctx, 5*time.Millisecond); err != nil {
				r.t.Fatal(err)
			}
		}
		r.cancel(ctx)
		r.setWatch(nil)
		for _, n := range names {
			if r.domains[n].Dead() {
				r.start(ctx, n)
			}
		}
	}
}

func TestSameSeedSameHistory(t *testing.T) {
	history := func(flip int64) (text string) {
		w := world.NewSim(world.SimOptions{Seed: 7, FlipChoice: flip})
		err := w.Run(func(ctx context.Context) error {
			src := &numbers{parts: 3, keys: 50, total: 4000, value: 20, gap: 50 * time.Microsecond}
			r := newRig(t, w, src, plainCounter, 2)
			crashes(ctx, r, []string{"worker-0", "worker-1"})
			b, err := json.Marshal(r.events)
			text = string(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	first := history(0)
	if history(0) != first {
		t.Error("two runs of one seed differ")
	}
	for flip := int64(10); history(flip) == first; flip += 10 {
		if flip == 200 {
			t.Fatal("flipped choices of the scheduler change nothing")
		}
	}
}

// A crash leaves nothing behind, in both worlds: no process, no goroutine, and nothing of a put that was under way.
func TestCrashLeavesNothingBehind(t *testing.T) {
	inBothWorlds(t, func(ctx context.Context, t *testing.T, w world.World) {
		src := &numbers{parts: 2, keys: 1000, total: math.MaxInt64, value: 20}
		r := newRig(t, w, src, plainCounter, 2)
		r.start(ctx, "worker-0")
		r.start(ctx, "worker-1")
		for range 3 {
			r.launch(ctx, 2, "worker-0", "worker-1")
			victim := r.domains["worker-1"]
			r.crashAt(history.CheckpointSynced, victim, 1)
			r.trigger(ctx)
			r.until(ctx, victim.Dead)
			victim.Kill()
			if err := victim.Await(ctx); err != nil {
				t.Fatal(err)
			}
			if n := victim.Procs(); n != 0 {
				t.Errorf("%d processes of the dead worker are left", n)
			}
			r.cancel(ctx)
			for i := 0; r.domains["worker-0"].Procs() != 1; i++ { // the one that said so is on its way out
				if err := w.Sleep(ctx, time.Millisecond); err != nil || i == 1000 {
					t.Fatalf("%d processes of the live worker are left, want its loop alone", r.domains["worker-0"].Procs())
				}
			}
			r.setWatch(nil)
			r.start(ctx, "worker-1")
		}
		if got := r.cfg.Collect.Result(); got.Records != 0 {
			t.Errorf("%d records were committed without a completed checkpoint", got.Records)
		}
	})
}

// inBothWorlds runs f as the main process of each and checks that the real one's goroutines are gone afterwards.
func inBothWorlds(t *testing.T, f func(ctx context.Context, t *testing.T, w world.World)) {
	t.Run("sim", func(t *testing.T) {
		simulate(t, 1, func(ctx context.Context, w world.World) { f(ctx, t, w) })
	})
	t.Run("real", func(t *testing.T) {
		before := runtime.NumGoroutine()
		w := world.NewReal(1)
		if err := w.Run(func(ctx context.Context) error { f(ctx, t, w); return nil }); err != nil {
			t.Fatal(err)
		}
		for i := 0; runtime.NumGoroutine() > before && i < 1_000_000; i++ {
			runtime.Gosched()
		}
		if n := runtime.NumGoroutine(); n > before {
			t.Errorf("%d goroutines, %d before", n, before)
		}
	})
}
