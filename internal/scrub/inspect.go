package scrub

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// Overview is Audit without a look at any object but metadata: it lists checkpoints and savepoints, and what lies there
// by class. Objects that are not there, or have another size, are findings as in an audit.
func Overview(ctx context.Context, w world.World, b store.Bucket) (*Report, error) {
	return Audit(ctx, w, b, Options{Shallow: true})
}

// ErrUnknown is wrapped by the error for a checkpoint that is not there.
var ErrUnknown = errors.New("no such checkpoint")

// Find returns the line of a checkpoint or savepoint by its id, "latest" for the newest checkpoint. r is an Overview.
func (r *Report) Find(name string) (*CheckpointLine, error) {
	if name == "latest" {
		if n := len(r.Checkpoints); n > 0 {
			return &r.Checkpoints[n-1], nil
		}
		return nil, fmt.Errorf("no checkpoint is retained: %w", ErrUnknown)
	}
	id, err := strconv.ParseUint(name, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%q is no id of a checkpoint; there are %s: %w", name, r.ids(), ErrUnknown)
	}
	for _, list := range [][]CheckpointLine{r.Checkpoints, r.Savepoints} {
		for i := range list {
			if list[i].ID == id {
				return &list[i], nil
			}
		}
	}
	return nil, fmt.Errorf("checkpoint %d is not retained; there are %s: %w", id, r.ids(), ErrUnknown)
}

// ids names what Find finds.
func (r *Report) ids() string {
	var all []string
	for _, l := range r.Checkpoints {
		all = append(all, strconv.FormatUint(l.ID, 10))
	}
	for _, l := range r.Savepoints {
		all = append(all, strconv.FormatUint(l.ID, 10)+" (savepoint)")
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

// Open reads the metadata of a checkpoint or savepoint.
func Open(ctx context.Context, w world.World, b store.Bucket, l *CheckpointLine) (*checkpoint.Metadata, error) {
	done, err := checkpoint.Fetch(store.WithInfo(ctx, store.Info{Cause: Cause, Who: Cause}), w, b, l.Metadata)
	if err != nil {
		return nil, err
	}
	return done.Metadata, nil
}
