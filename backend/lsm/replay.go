package lsm

import (
	"context"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/world"
)

// A log that is applied to a restored state is many writes in a row, with no reads between them. Two things follow. Point elements
// go to the rows alone, so their replay needs nothing of the base and can go on while that is still on its way; what does need
// the tree waits for it. And what a write replaces need not be looked up when it is made: as long as its row is dirty the tree tells
// what was there before, so rows are counted, once each, and not changes.

// replayLooks is how many of the rows that a replay left are looked up in the tree, to count what they replaced.
const replayLooks = 2048

// replaying is what a keyed has between OpenToReplay and Replayed. The loop uses it.
type replaying struct {
	base   *world.Group // brings the base; nil: it is there, or err says why not
	cancel context.CancelCauseFunc
	waited time.Duration // for the base, by writes
	err    error
}

// OpenToReplay is Open for a caller that applies a log next and then calls Replayed, before anything else. The base may still be on
// its way when it returns: until Replayed has, o.Restored is not filled and the gauges lack what was applied.
func (b *Backend) OpenToReplay(ctx context.Context, o backend.OpenOptions) (backend.Keyed, error) {
	return b.start(ctx, o, &replaying{})
}

// Replayed ends what OpenToReplay began: it waits for the base, and counts what was applied. It returns for how long the calls
// before it had to wait for the base.
func (k *keyed) Replayed(ctx context.Context) (waited time.Duration, err error) {
	if k.replay == nil {
		return 0, nil
	}
	if !k.life.enter() {
		return 0, errClosed
	}
	defer k.life.leave()
	waited = k.replay.waited
	if err := k.countDirty(ctx); err != nil {
		return waited, err
	}
	k.replay = nil
	return waited, nil
}

// await waits for the base, if that is still on its way.
func (k *keyed) await(ctx context.Context) error {
	r := k.replay
	if r == nil || r.base == nil {
		return k.baseError()
	}
	began := k.b.e.World.Now()
	r.err = r.base.Wait(ctx)
	r.base = nil
	r.waited += k.b.e.World.Now() - began
	return r.err
}

// baseError is what kept the base from coming.
func (k *keyed) baseError() error {
	if k.replay == nil {
		return nil
	}
	return k.replay.err
}

// abandon ends the bringing of a base that nobody waits for any more.
func (k *keyed) abandon(ctx context.Context) {
	if r := k.replay; r != nil && r.base != nil {
		r.cancel(context.Canceled)
		_ = r.base.Wait(ctx) // its error is that it was ended
		r.base, r.err = nil, errClosed
	}
}

// bring loads the base beside the replay.
func (r *restorer) bring(ctx context.Context, o backend.OpenOptions, began time.Duration) {
	k := r.k
	w := k.b.e.World
	ctx, k.replay.cancel = w.WithCancel(ctx)
	k.replay.base = world.NewGroup(w)
	k.replay.base.Go(ctx, "base "+k.subtask, func(ctx context.Context) error {
		if !k.life.enter() {
			return errClosed
		}
		defer k.life.leave()
		err := r.load(ctx, o)
		if o.Restored != nil {
			o.Restored.BaseTime, o.Restored.BaseBytes = w.Now()-began, r.bytes
		}
		return err
	})
}

// countDirty counts what the dirty rows are to the tree: exactly if they are few, else by every so many of them. They are counted
// before the tree gets them.
func (k *keyed) countDirty(ctx context.Context) error {
	if err := k.await(ctx); err != nil {
		return err
	}
	t, every := k.rows, 1
	if k.counts.every > 1 {
		every = max(1, (len(t.dirty)+replayLooks-1)/replayLooks)
	}
	current := k.key // a write may be under way
	k.key = nil
	defer func() { k.key = current }()
	next := 0
	if every > 1 {
		next = k.counts.rng.IntN(every)
	}
	for ; next < len(t.dirty); next += every {
		r := &t.entries[t.dirty[next]]
		if r.flags&rowUnknown != 0 {
			continue
		}
		k.key = append(k.key[:0], t.key(r)...)
		before, there, err := k.size()
		if err != nil {
			return err
		}
		k.countChange(int64(every), before, there, int(r.valLen), r.flags&rowGone != 0)
		k.owe(k.b.o.Costs.Get)
	}
	return nil
}
