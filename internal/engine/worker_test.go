package engine

import (
	"context"
	"testing"
	"time"

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
			r.check(src)
		})
	}
}

// Workers crash at random moments, attempts start again from the newest completed checkpoint, with one or two workers, and in the
// end every record has been committed once.
func TestCrashesLoseAndRepeatNothing(t *testing.T) {
	for seed := range uint64(20) {
		simulate(t, seed, func(ctx context.Context, w world.World) {
			src := &numbers{parts: 3, keys: 50, total: 4000, value: 20, gap: 50 * time.Microsecond}
			r := newRig(t, w, src, plainCounter, 2)
			rng := w.Rand("test")
			names := []string{"worker-0", "worker-1"}
			for _, n := range names {
				r.start(ctx, n)
			}
			for crash := range 6 {
				r.launch(ctx, 1+rng.IntN(3), names...)
				victim := r.domains[names[rng.IntN(2)]]
				if crash%2 == 0 {
					after := time.Duration(rng.Int64N(int64(60 * time.Millisecond)))
					w.Go(ctx, "crash", func(ctx context.Context) error {
						err := w.Sleep(ctx, after)
						victim.Kill()
						return err
					})
				} else {
					r.crashAt(history.CheckpointSynced, victim, 1+rng.IntN(8))
				}
				for r.complete(ctx, r.trigger(ctx)) && !r.lost() {
					if err := w.Sleep(ctx, 5*time.Millisecond); err != nil {
						t.Fatal(err)
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
			r.launch(ctx, 2, names...)
			r.finish(ctx)
			r.check(src)
		})
	}
}
