package engine

import (
	"context"
	"fmt"
	"testing"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// The tests of this file are named after the cases of docs/known-faults.md.

// TestD08UploadsOfTheDeadAreEnded: multipart uploads that a failed attempt left open are ended, although the store refuses that at first; one
// that is nobody's of the job stays.
func TestD08UploadsOfTheDeadAreEnded(t *testing.T) {
	simulateSeeds(t, 3, func(ctx context.Context, w world.World, t testing.TB) {
		s := newSite(t, w, withChangelog)
		refuse := s.inj.Add(store.Rule{Name: "abort", Ops: []string{history.OpAbort}, Status: 503})
		s.inj.Add(store.Rule{Name: "once-more", Ops: []string{history.OpAbort}, Status: 500, Request: 2})
		s.submit(ctx)
		s.until(ctx, "two checkpoints", func() bool { return s.e.Status().LastCompleted >= 2 })
		for _, key := range []string{"base/1/count-0/900", "log/1/worker-0/900.seg", "else/1"} {
			if _, err := s.mem.BeginUpload(ctx, key, []byte("part")); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.e.FailTask(ctx, "count-0", "planned"); err != nil {
			t.Fatal(err)
		}
		s.until(ctx, "a refused request", func() bool { return s.inj.Hits("abort") > 0 })
		refuse()
		s.until(ctx, "the end of the input", func() bool { return s.e.Progress().Finished() })
		s.finish(ctx)
		open, err := s.mem.Uploads(ctx, "")
		if err != nil || len(open) != 1 || open[0].Key != "else/1" || s.inj.Hits("once-more") == 0 {
			t.Errorf("open: %+v, %v; refused once more %d times", open, err, s.inj.Hits("once-more"))
		}
	})
}

// TestD20CleanUpListsBeforeItDeletes: three thousand leftovers of an attempt, more than a page. The listing has ended before the first of them
// goes, and then none is left.
func TestD20CleanUpListsBeforeItDeletes(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		listing, overlaps, deleted := 0, 0, 0
		s := newSite(t, w, func(c *Config) {
			c.Bucket = store.WithHooks(c.Bucket, store.Hooks{
				Begin: func(_ context.Context, call store.Call) {
					switch {
					case call.Op == history.OpList:
						listing++
					case call.Op == history.OpDelete && len(call.Key) > 20:
						deleted++
						overlaps += listing
					}
				},
				End: func(_ context.Context, call store.Call, _ error) {
					if call.Op == history.OpList {
						listing--
					}
				},
			})
		})
		s.submit(ctx)
		s.until(ctx, "two checkpoints", func() bool { return s.e.Status().LastCompleted >= 2 })
		for i := range 3000 {
			if err := s.mem.Put(ctx, fmt.Sprintf("base/1/count-0/left-over-%04d", i), nil, store.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.e.FailTask(ctx, "count-0", "planned"); err != nil {
			t.Fatal(err)
		}
		s.until(ctx, "the next attempt", func() bool { return len(s.kinds(history.AttemptRunning)) == 2 })
		if err := s.e.CleanUp(ctx); err != nil {
			t.Error(err)
		}
		s.until(ctx, "the deletes", func() bool { return s.unnamed(ctx, checkpoint.AttemptPrefixes(1)...) == 0 })
		if deleted != 3000 || overlaps != 0 || s.mem.Stats().UnknownDeletes != 0 {
			t.Errorf("%d deletes, %d while a listing ran, %d of nothing", deleted, overlaps, s.mem.Stats().UnknownDeletes)
		}
		s.finish(ctx)
	})
}
