package backendtest

import (
	"errors"
	"fmt"
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// RunDamagedReads tries that a backend never takes damaged bytes for its state: whichever read of a restore brings a
// flipped byte, it is made again and the state is what it was; when no read comes whole, opening fails.
func RunDamagedReads(t *testing.T, factory func(testing.TB) backend.Factory) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		c := test{groups: 32, f: damagedReads}
		c.run(t, factory, seed, world.NewSim(world.SimOptions{Seed: seed}))
	}
}

// damagedPositions is how often each read of a restore is damaged, each time in another place.
const damagedPositions = 4

func damagedReads(h *harness) {
	b := h.open(2, nil).bind(newModel())
	b.fill(300)
	b.j.checkpoint(b.m)
	b.fill(200)
	c := b.j.checkpoint(b.m)
	b.j.close()

	injector := store.NewInjector(h.w)
	h.bucket = store.WithFaults(h.mem, injector, h.w)
	restored := func(p int) {
		b := h.open(p, c.handles).bind(c.model.clone())
		b.compare()
		b.j.close()
	}
	for p := 1; p <= 3; p++ {
		before := injector.Asked(history.OpGet)
		restored(p)
		reads := injector.Asked(history.OpGet) - before
		h.want(reads > 0, "a restore read nothing")
		for n := int64(1); n <= reads; n++ {
			for i := range damagedPositions {
				r := store.Rule{Name: fmt.Sprintf("%d/%d/%d", p, n, i), Ops: []string{history.OpGet}, Request: n, Flip: true}
				remove := injector.Add(r)
				restored(p)
				remove()
				h.want(injector.Hits(r.Name) == 1, "read %d of %d was not damaged", n, reads)
			}
		}
		// One read in four is damaged, those that are made again too.
		remove := injector.Add(store.Rule{Name: fmt.Sprintf("%d/some", p), Ops: []string{history.OpGet}, Share: 0.25, Flip: true})
		restored(p)
		remove()
		remove = injector.Add(store.Rule{Name: fmt.Sprintf("%d/all", p), Ops: []string{history.OpGet}, Flip: true})
		j, err := h.tryOpen(p, c.handles)
		if err == nil {
			j.close()
		}
		remove()
		h.want(errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrCorrupt), "with every read damaged: %v", orNone(err))
	}
	h.bucket = h.mem
}
