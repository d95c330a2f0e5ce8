package scrub

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// listing goes through all objects, hands those that are needed to the readers and finds the others.
func (a *audit) listing(ctx context.Context) error {
	inner, cancel := a.w.WithCancel(ctx)
	g := world.NewGroup(a.w)
	work := world.NewQueue[store.Attributes](a.w, 2*a.o.Readers)
	for i := range a.o.Readers {
		g.Go(inner, fmt.Sprintf("scrub-read-%d", i), func(ctx context.Context) error {
			err := a.reader(ctx, work)
			if err != nil {
				cancel(err)
			}
			return err
		})
	}
	err := a.list(inner, work)
	work.Close()
	if err != nil {
		cancel(err)
	}
	if werr := g.Wait(ctx); werr != nil {
		err = werr // the listing ended because of it
	}
	cancel(nil)
	a.r.Content = !a.o.Shallow
	return err
}

// list puts what is needed into the queue.
func (a *audit) list(ctx context.Context, work *world.Queue[store.Attributes]) error {
	for at, err := range a.b.List(ctx, "", "") {
		if err != nil {
			return fmt.Errorf("list the store: %w", err)
		}
		u := a.uses[at.Key]
		a.note(at, u)
		switch {
		case u != nil:
			if err := a.needed(ctx, at, u, work); err != nil {
				return err
			}
		default:
			f := a.unneeded(at)
			if f.Kind == "" {
				continue
			}
			if err := a.found(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// note counts an object and completes what is known of its use.
func (a *audit) note(at store.Attributes, u *use) {
	class := ClassOf(at.Key)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.r.object(class, at.Size, at.Modified, u != nil || class == ClassCoord || class == ClassMarker)
	if u == nil {
		return
	}
	u.listed, u.modified = true, at.Modified
	for _, i := range u.by {
		if l := a.r.line(int(i)); l.Metadata == at.Key {
			l.Written = at.Modified
		}
	}
}

// line is the i-th of checkpoints and then savepoints.
func (r *Report) line(i int) *CheckpointLine {
	if i < len(r.Checkpoints) {
		return &r.Checkpoints[i]
	}
	return &r.Savepoints[i-len(r.Checkpoints)]
}

// needed looks at an object that something needs.
func (a *audit) needed(ctx context.Context, at store.Attributes, u *use, work *world.Queue[store.Attributes]) error {
	switch {
	case u.verified:
		return nil
	case at.Size != u.bytes:
		err := fmt.Errorf("it has %d bytes, %s says %d", at.Size, a.names(u)[0], u.bytes)
		return a.corruptAt(at, min(at.Size, u.bytes), err, a.names(u))
	case a.o.Shallow:
		return nil
	}
	return work.Put(ctx, at)
}

// corruptAt is a finding about a listed object that is damaged at offset.
func (a *audit) corruptAt(at store.Attributes, offset int64, err error, needed []string) error {
	f := Finding{Kind: Corrupt, Key: at.Key, Class: ClassOf(at.Key), Bytes: at.Size, Modified: at.Modified, Needed: needed, Problem: problem(at.Key, err)}
	if offset != noOffset {
		f.Offset = &offset
	}
	return a.found(f)
}

// unneeded says what an object is that nothing needs; the kind is empty when it is as it should be.
func (a *audit) unneeded(at store.Attributes) Finding {
	f := Finding{Key: at.Key, Class: ClassOf(at.Key), Bytes: at.Size, Modified: at.Modified}
	switch f.Class {
	case ClassMarker:
	case ClassCoord:
		if _, ok := checkpoint.ParseEntryKey(at.Key); !ok {
			f.Kind, f.Cause = Foreign, "no key of the coordinator log"
		}
	case ClassSavepoint:
		f.Kind, f.Cause = Loose, "of a savepoint that did not complete"
		if id, ok := checkpoint.SavepointOf(at.Key); ok && a.known.savepoints[id] != "" {
			f.Cause = "not named by its savepoint"
		}
	case ClassMeta:
		f.Kind, f.Cause = a.metadataCause(at.Key)
	case ClassLog, ClassBase:
		f.Kind = Orphan
		f.Attempt, f.Writer = writerOf(at.Key)
		switch {
		case f.Writer == "":
			f.Kind, f.Cause = Foreign, "no key of an attempt"
		case f.Attempt < a.newestAttempt():
			f.Cause = "left by an earlier attempt"
		default:
			f.Cause = "left by the newest attempt"
		}
	default:
		f.Kind, f.Cause = Foreign, "no key of a run"
	}
	return f
}

// metadataCause tells why no retained checkpoint has its metadata at key.
func (a *audit) metadataCause(key string) (Kind, string) {
	id, _, ok := checkpoint.ParseMetadataKey(key)
	if !ok {
		return Foreign, "no key of metadata"
	}
	switch a.known.completed[id] {
	case "":
		return Orphan, "metadata of a checkpoint that did not complete"
	case key:
		return Orphan, "metadata of a dropped checkpoint"
	}
	return Orphan, "metadata of a leader that was replaced"
}

// newestAttempt is the newest one that a retained checkpoint was taken by.
func (a *audit) newestAttempt() (n uint64) {
	for i := range a.r.Checkpoints {
		n = max(n, a.r.Checkpoints[i].Attempt)
	}
	return n
}

// writerOf reads attempt and writer off a key log/<attempt>/<writer>/... or base/<attempt>/<writer>/...
func writerOf(key string) (attempt uint64, writer string) {
	parts := strings.SplitN(key, "/", 4)
	if len(parts) < 4 || parts[3] == "" {
		return 0, ""
	}
	attempt, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return 0, ""
	}
	return attempt, parts[2]
}
