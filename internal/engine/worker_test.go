package engine

import (
	"context"
	"testing"

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
