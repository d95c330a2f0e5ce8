package lsm

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// pending is a checkpoint under way.
type pending struct {
	id uint64
	s  backend.Snapshot
}

// TestDeferredChangesInAnyOrder takes random steps with a changelog around this backend: changes, up to three checkpoints at a
// time that complete, are aborted before or after their upload, or fail to upload, and restores of the last that completed.
func TestDeferredChangesInAnyOrder(t *testing.T) {
	seeds := uint64(24)
	if testing.Short() {
		seeds = 6
	}
	aborted, failed, replayed := 0, 0, int64(0)
	for seed := range seeds {
		o := Options{MemtableBytes: 100 << 10, RowBytes: 200 << 10, FileBytes: 64 << 10, CountEvery: 1}
		inWorld(t, world.NewSim(world.SimOptions{Seed: seed}), store.NewMem(), o, func(r *rig) {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d", seed)
				}
			}()
			r.rng = rand.New(rand.NewPCG(seed, 7))
			l := &logged{r: r, inj: store.NewInjector(r.w), model: map[string]string{}, as: map[uint64]map[string]string{0: {}}}
			var handles []backend.StateHandle
			id, newest := uint64(0), uint64(0)
			for attempt := uint64(1); attempt < 4; attempt++ {
				l.open(attempt, handles)
				replayed += l.stats.ReplayedChanges
				var running []pending
				heal := func() {}
				for range 20 {
					l.change(1 + r.rng.IntN(400))
					switch n := r.rng.IntN(8); {
					case n < 3 && len(running) < 3:
						id++
						running = append(running, pending{id, l.barrier(id)})
					case n < 6 && len(running) > 0:
						c := running[0]
						running = running[1:]
						if r.rng.IntN(4) == 0 {
							l.abort(c)
							aborted++
							continue
						}
						h, err := l.finish(c.s, c.id, newest)
						if err == nil {
							handles, newest = h, c.id
						} else if failed++; !errors.Is(err, store.ErrThrottled) {
							panic(fmt.Errorf("seed %d: %w", seed, err))
						}
					case n == 6:
						heal()
						heal = l.inj.Add(store.Rule{Ops: []string{"put"}, Prefix: "log/", Status: 503})
					default:
						heal()
						heal = func() {}
					}
				}
				heal()
				for _, c := range running {
					l.abort(c)
				}
				l.close()
				l.model = maps.Clone(l.as[newest])
			}
		})
	}
	if aborted == 0 || failed == 0 || replayed == 0 {
		t.Errorf("%d checkpoints were aborted, %d failed, %d changes were replayed", aborted, failed, replayed)
	}
}

// abort gives a checkpoint up, half of the time after its upload.
func (l *logged) abort(c pending) {
	if l.r.rng.IntN(2) == 0 {
		_, _ = c.s.Persist(l.worker.Ctx) // what came of it does not matter
	}
	c.s.Release()
	ok(l.k.Aborted(l.worker.Ctx, c.id))
}
