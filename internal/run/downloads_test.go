package run

import (
	"context"
	"testing"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// TestDownloadsAreAUnion: requests of one restore that overlap count once, what lies outside of the restore, or is no part of it, not.
func TestDownloadsAreAUnion(t *testing.T) {
	w := world.NewSim(world.SimOptions{Seed: 1})
	err := w.Run(func(context.Context) error {
		d := newDownloads(w)
		for _, r := range []history.Request{
			{Start: 30, Duration: 5, Who: "worker-1"}, {Start: 10, Duration: 10, Who: "worker-0"}, {Start: 12, Duration: 3, Who: "worker-1"},
			{Start: 15, Duration: 10, Who: "worker-0"}, {Start: 0, Duration: 6, Who: "worker-0"}, {Start: 95, Duration: 50, Who: "worker-0"},
			{Start: 50, Duration: 10, Who: "audit"}, {Start: 60, Duration: 5, Who: "worker-0", Cause: "base"},
			{Start: 70, Duration: 5, Who: "worker-0", Attempt: 3}, {Start: 80, Duration: 5, Who: "worker-0", Op: history.OpPut},
		} {
			if r.Cause == "" {
				r.Cause = "restore"
			}
			if r.Op == "" {
				r.Op = history.OpGet
			}
			if r.Attempt == 0 {
				r.Attempt = 2
			}
			d.observe(r)
		}
		if got := d.within(2, 4, 100); got != 2+15+5+5 {
			t.Errorf("%d ns were downloads, want 27", got)
		}
		if got := d.within(4, 0, time.Hour); got != 0 {
			t.Errorf("%v of an attempt that restored nothing", got)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
