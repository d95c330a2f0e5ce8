package scrub

import (
	"context"
	"errors"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// Restore opens each checkpoint and savepoint of r, the result of an audit of b, one after the other, and goes through all of
// its state. What cannot be restored becomes a finding, in r too, that is handed to found; nil: it is only counted.
func Restore(ctx context.Context, w world.World, b store.Bucket, r *Report, o StateOptions, found func(Finding) error) error {
	for _, list := range [][]CheckpointLine{r.Checkpoints, r.Savepoints} {
		for i := range list {
			l := &list[i]
			if l.Removed || l.Problem != "" {
				continue
			}
			err := restorable(ctx, w, b, l, o)
			if err == nil {
				l.Restored = true
				continue
			}
			if ctx.Err() != nil || !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrNotExist) {
				return err
			}
			l.Problem = problem(l.Metadata, err)
			f := Finding{Kind: Corrupt, Key: l.Metadata, Class: ClassOf(l.Metadata), Problem: "it cannot be restored: " + l.Problem}
			r.count(f)
			if found == nil {
				continue
			}
			if err := found(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// restorable restores all state of a checkpoint.
func restorable(ctx context.Context, w world.World, b store.Bucket, l *CheckpointLine, o StateOptions) error {
	m, err := Open(ctx, w, b, l)
	if err == nil {
		_, err = States(ctx, w, b, m, o)
	}
	return err
}
