package changelog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/internal/keygroup"
)

// The planted bugs of restores and materializations.
const (
	mutantDrop    = "drop-key-group"   // a subtask that takes over another one's key groups loses one of them
	mutantForget  = "forget-inherited" // checkpoints after a restore do not name the log that was replayed
	mutantCutLate = "cut-late"         // the log behind a materialization begins when that was uploaded, not when it was taken
)

// passedOn is the log of earlier attempts that a checkpoint names.
func (b *Backend) passedOn(inherited []backend.ObjectRef) []backend.ObjectRef {
	if b.env.Failpoints.Mutant(mutantForget) {
		return nil
	}
	return inherited
}

// restore opens the nested backend from all bases, replays the deltas and returns the Keyed.
func (b *Backend) restore(ctx context.Context, o backend.OpenOptions) (*keyed, error) {
	k := &keyed{b: b, ctx: ctx, subtask: o.Subtask, operator: o.Operator, loop: o.Loop, base: &base{format: b.o.NestedName}}
	handles := b.narrow(o)
	bases := k.inherit(handles)
	k.borrowed = k.borrowed || o.Borrowed && len(k.base.refs)+len(k.inherited) > 0
	k.confirmed = k.base.id

	stats := o.Restored
	if stats == nil {
		stats = &backend.RestoreStats{}
	}
	began := b.env.World.Now()
	base := &backend.RestoreStats{}
	if err := k.openNested(ctx, o, bases, base); err != nil {
		return nil, err
	}
	stats.BaseTime = b.env.World.Now() - began
	read, err := b.log.Read(ctx, k.inherited, o.Range, &replay{to: k.Keyed, positioned: k.positioned, k: k})
	waited := time.Duration(0)
	if r, ok := k.Keyed.(replayed); ok && err == nil {
		waited, err = r.Replayed(ctx)
		stats.BaseTime = max(stats.BaseTime, base.BaseTime)
	}
	stats.ReplayTime = b.env.World.Now() - began - stats.BaseTime
	stats.BaseBytes, stats.DeltaBytes, stats.ReplayedChanges = base.BaseBytes, read.Bytes, read.Changes
	k.replaying = replayRate(read.Bytes, read.Applied-waited)
	if err != nil {
		return nil, errors.Join(err, k.Close(ctx))
	}
	k.deferChanges()
	return k, nil
}

// overlapper is an optional ability of a nested backend: to be opened for a replay that may begin while the base is still on its
// way. Its Keyed is a replayed; the figures of the restore are there when that says so.
type overlapper interface {
	OpenToReplay(ctx context.Context, o backend.OpenOptions) (backend.Keyed, error)
}

// replayed is an optional ability of a nested Keyed: it is told that the log has been applied, and waits for what is missing of the
// base. It returns for how long the changes before had to wait for that.
type replayed interface {
	Replayed(ctx context.Context) (waited time.Duration, err error)
}

// narrow returns the handles cut down to the subtask's range.
func (b *Backend) narrow(o backend.OpenOptions) []backend.StateHandle {
	var out []backend.StateHandle
	for _, h := range o.Handles {
		n, ok := h.Narrow(o.Range)
		if ok && b.env.Failpoints.Mutant(mutantDrop) && n.Range.Len() > 1 && foreign(h, o) {
			n, ok = n.Narrow(keygroup.Range{From: n.Range.From, To: n.Range.To - 1})
		}
		if ok {
			out = append(out, n)
		}
	}
	return out
}

// foreign tells whether h was, in part, another subtask's.
func foreign(h backend.StateHandle, o backend.OpenOptions) bool {
	if h.Range != h.Range.Intersect(o.Range) {
		return true
	}
	for _, r := range h.Delta {
		if !strings.HasSuffix(r.Log, "/"+o.Subtask) {
			return true
		}
	}
	for _, r := range h.Base {
		if !strings.Contains(r.Key, "/"+o.Subtask+"/") {
			return true
		}
	}
	return false
}

// inherit takes over base and deltas of the narrowed handles and returns the handles of the nested backend.
func (k *keyed) inherit(handles []backend.StateHandle) (bases []backend.StateHandle) {
	for _, h := range handles {
		id := h.Materialization
		if id == 0 && len(h.Base) > 0 {
			id = h.Checkpoint // of the nested backend alone: its ids go on from there
		}
		k.base.id = max(k.base.id, id)
		k.borrowed = k.borrowed || h.Backend == backend.Canonical && len(h.Base) > 0 // no base of later checkpoints has that form
		k.base.refs = append(k.base.refs, h.Base...)
		k.inherited = append(k.inherited, h.Delta...)
		if len(h.Base) > 0 {
			k.base.format = h.Backend
			bases = append(bases, backend.StateHandle{
				Backend: h.Backend, Operator: h.Operator, Range: h.Range, Checkpoint: id, Base: h.Base,
			})
		}
	}
	for _, r := range k.inherited {
		k.inheritedBytes += r.Length
	}
	return bases
}

// openNested opens the nested backend and the writer, and makes restored states known to both.
func (k *keyed) openNested(ctx context.Context, o backend.OpenOptions, bases []backend.StateHandle, stats *backend.RestoreStats) error {
	inner := o
	inner.Handles, inner.Restored = bases, stats
	inner.Names = func(n uint64) string { return fmt.Sprintf("base/%d/%s/%d", k.b.env.Attempt, o.Subtask, n) }
	open := k.b.nested.Open
	if b, ok := k.b.nested.(overlapper); ok && len(k.inherited) > 0 {
		open = b.OpenToReplay
	}
	nested, err := open(ctx, inner)
	if err != nil {
		return err
	}
	positioned, ok := nested.(backend.Positioned)
	if !ok {
		return errors.Join(fmt.Errorf("nested backend %T cannot replay an append", nested), nested.Close(ctx))
	}
	k.Keyed, k.positioned = nested, positioned
	if k.log, err = k.b.log.Writer(dstl.WriterOptions{Subtask: o.Subtask, Range: o.Range}); err != nil {
		return errors.Join(err, nested.Close(ctx))
	}
	for _, spec := range nested.States() {
		if _, err := k.Register(spec); err != nil {
			return errors.Join(err, k.Close(ctx))
		}
	}
	return nil
}

// replay applies logged changes to the nested backend.
type replay struct {
	to         backend.Keyed
	positioned backend.Positioned
	k          *keyed // whose log is to know the states; nil: none

	ids []backend.StateID // by the log's id; only those known are looked at
	has []bool
}

var _ dstl.Visitor = (*replay)(nil)

func (r *replay) States(states []dstl.State) error {
	clear(r.has)
	for _, s := range states {
		id, err := r.register(s.Spec)
		if err != nil {
			return err
		}
		for len(r.ids) <= int(s.ID) {
			r.ids, r.has = append(r.ids, 0), append(r.has, false)
		}
		r.ids[s.ID], r.has[s.ID] = id, true
	}
	return nil
}

// register makes a state of the log known. The base must have it in the same schema.
func (r *replay) register(spec backend.StateSpec) (id backend.StateID, err error) {
	if r.k != nil {
		id, err = r.k.Register(spec)
	} else {
		id, err = r.to.Register(spec)
	}
	if err != nil {
		return 0, err
	}
	known := r.to.States()[id]
	both, err := known.Together(spec)
	if err != nil || both == known {
		return id, err
	}
	if r.k != nil {
		return id, r.k.Migrate(id, both.Schema, nil)
	}
	m, ok := r.to.(backend.Migrator)
	if !ok {
		return 0, fmt.Errorf("nested backend %T cannot migrate", r.to)
	}
	return id, m.Migrate(id, both.Schema, nil)
}

func (r *replay) Apply(c *dstl.Change) error {
	if int(c.State) >= len(r.ids) || !r.has[c.State] {
		return fmt.Errorf("change of unknown state %d", c.State)
	}
	a := backend.Addr{State: r.ids[c.State], Group: c.Group, Key: c.Key}
	switch c.Op {
	case dstl.OpPut:
		return r.to.Put(a, c.Value)
	case dstl.OpDelete:
		return r.to.Delete(a)
	case dstl.OpDeletePrefix:
		return r.to.DeletePrefix(a)
	case dstl.OpAppend:
		return r.positioned.PutAt(a, c.Pos, c.Value)
	default:
		return fmt.Errorf("change of unknown kind %d", c.Op)
	}
}
