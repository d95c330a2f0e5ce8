package checkpoint

import (
	"context"
	"errors"
	"testing"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

func TestSavepointKeys(t *testing.T) {
	for key, want := range map[string]uint64{SavepointObject(7, "count-1", 3): 7, SavepointMetadataKey(12, 1): 12, SavepointFolder(9) + "x": 9} {
		if id, ok := SavepointOf(key); !ok || id != want {
			t.Errorf("%s is of savepoint %d (%t), want %d", key, id, ok, want)
		}
	}
	for _, key := range []string{"base/1/count-0/0", "savepoint/", "savepoint/7", "savepoint/x/0"} {
		if id, ok := SavepointOf(key); ok {
			t.Errorf("%s is of savepoint %d", key, id)
		}
	}
}

// TestSavepointsInTheLog: a savepoint completes beside the checkpoints, in any order of ids, and is retained whatever is dropped.
func TestSavepointsInTheLog(t *testing.T) {
	w := world.NewSim(world.SimOptions{Seed: 1})
	mem := store.NewMem()
	err := w.Run(func(ctx context.Context) error {
		l, err := OpenLog(ctx, w, mem, "a")
		if err != nil {
			return err
		}
		if _, err := l.TakeOver(ctx); err != nil {
			return err
		}
		errs := errors.Join(l.Complete(ctx, 5, MetadataKey(5, 1)), l.Savepoint(ctx, 4, SavepointMetadataKey(4, 1)),
			l.Savepoint(ctx, 6, SavepointMetadataKey(6, 1)), l.Drop(ctx, 5))
		again, err := OpenLog(ctx, w, mem, "b")
		if err := errors.Join(errs, err); err != nil {
			return err
		}
		s := again.State()
		if len(s.Retained) != 0 || s.Newest != 5 || len(s.Savepoints) != 2 || s.Savepoints[0].ID != 4 || s.Savepoints[1].Metadata != "savepoint/6/meta-1" {
			t.Errorf("the log says %+v", s)
		}
		m := &Metadata{ID: 6, Term: 1, Parallelism: 1}
		if err := mem.Put(ctx, SavepointMetadataKey(6, 1), Encode(m), store.PutOptions{}); err != nil {
			return err
		}
		done, err := Read(ctx, mem, SavepointMetadataKey(6, 1))
		if err == nil && done.Metadata.ID != 6 {
			t.Errorf("read %+v", done)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
