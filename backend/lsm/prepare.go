package lsm

import (
	"context"
	"fmt"
	"time"

	"statebench.dev/bench/internal/world"
)

// ahead is a spill that runs beside the loop, ahead of a snapshot.
type ahead struct {
	rows *spilled
	done *world.Latch
	err  error // once done is open
}

// compactShare is the part of all tables that may lie above the lowest level before Prepare merges them: a snapshot is
// larger by what they hide, and merging costs as much as is merged.
const compactShare = 5

// Prepare is work ahead of a snapshot that need not be as of one moment: it writes the rows that the tree does not know, and
// merges the tree if much of it hides other parts. work runs beside the loop and done in it, always; afterwards there
// is little for Snapshot to write, and little that a snapshot holds twice. It returns nil for both where the loop has written to
// the tree itself: a table that is added must not be older than that, so the next such write waits for the end of work. It does
// so too while the restore goes on, since merging would have to wait for it.
func (k *keyed) Prepare() (work func(ctx context.Context) error, done func()) {
	if k.ahead != nil || k.remote() || k.pending > 0 || len(k.rows.dirty) == 0 {
		return nil, nil
	}
	a := &ahead{rows: k.rows.take(), done: world.NewLatch(k.b.e.World)}
	k.ahead = a
	work = func(ctx context.Context) error {
		a.err = k.runAhead(ctx, a)
		a.done.Open()
		return a.err
	}
	return work, func() { k.ended(a) }
}

func (k *keyed) runAhead(ctx context.Context, a *ahead) error {
	if !k.life.enter() {
		return errClosed
	}
	defer k.life.leave()
	if err := k.ingest(ctx, a.rows); err != nil {
		return err
	}
	return k.merge(ctx)
}

// merge compacts the tree if much of it lies above its lowest level.
func (k *keyed) merge(ctx context.Context) error {
	levels, err := k.db.SSTables()
	if err != nil {
		return err
	}
	var all, lowest int64
	for _, level := range levels {
		size := int64(0)
		for i := range level {
			size += int64(level[i].Size)
		}
		if all += size; size > 0 {
			lowest = size
		}
	}
	if (all-lowest)*compactShare < all {
		return nil
	}
	if err := k.db.Compact(ctx, groupKey(k.rng.From), groupKey(k.rng.To), false); err != nil {
		return fmt.Errorf("compact %s: %w", k.subtask, err)
	}
	k.b.e.World.Compute(ctx, time.Duration(all)*k.b.o.Costs.CompactByte)
	return nil
}

// settle waits for the spill that runs beside the loop, if there is one.
func (k *keyed) settle(ctx context.Context) error {
	a := k.ahead
	if a == nil {
		return nil
	}
	if err := a.done.Wait(ctx); err != nil {
		return err
	}
	k.ended(a)
	return nil
}

// ended takes the end of a spill beside the loop in.
func (k *keyed) ended(a *ahead) {
	if k.ahead == a {
		k.ahead = nil
		k.rows.release(a.rows, a.err != nil || !a.done.Opened())
	}
}
