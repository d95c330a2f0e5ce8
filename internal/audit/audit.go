// Package audit opens what a run left in the store: it lists every object, reads the coordinator log, restores every
// retained checkpoint and every savepoint and compares its state with the reference model. It writes evidence and concludes nothing: that is
// validate's, from the files.
package audit

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/canon"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/world"
	"statebench.dev/bench/workloads"
)

// Cause marks the audit's requests in the object trace.
const Cause = "audit"

// Env is what an audit works on.
type Env struct {
	World   world.World
	Bucket  store.Bucket                         // the run's objects
	Backend func(attempt uint64) backend.Factory // the one that an attempt worked with
	Job     *graph.Job
	Model   func() workloads.Model // at the beginning of the source
	// Schema is that in which an attempt stored the workload's state.
	Schema func(attempt uint64) int
	// Listing, CoordLog and States take one value a line of the files of those names.
	Listing, CoordLog, States func(v any) error
}

// Run writes the evidence of the verify phase. Damage in the store is evidence, not an error; an error means that
// the evidence is not complete.
func Run(ctx context.Context, e Env) error {
	ctx = store.WithInfo(ctx, store.Info{Cause: Cause, Who: "run"})
	if err := list(ctx, e); err != nil {
		return err
	}
	retained, err := coordinatorLog(ctx, e)
	if err != nil {
		return err
	}
	model := e.Model()
	for _, r := range retained {
		m := model
		if r.Savepoint { // a restart may have gone back behind it: it has no place among the checkpoints
			m = e.Model()
		}
		if err := one(ctx, e, m, r); err != nil {
			return fmt.Errorf("audit checkpoint %d: %w", r.ID, err)
		}
	}
	return nil
}

// readers is how many objects are read at a time.
const readers = 4

// list writes a line for every object, with the checksum of what was read, and for every open upload.
func list(ctx context.Context, e Env) error {
	var all []store.Attributes
	for a, err := range e.Bucket.List(ctx, "", "") {
		if err != nil {
			return fmt.Errorf("list the store: %w", err)
		}
		all = append(all, a)
	}
	lines := make([]results.Listed, len(all))
	g := world.NewGroup(e.World)
	for i := range min(readers, len(all)) {
		g.Go(ctx, fmt.Sprintf("audit-read-%d", i), func(ctx context.Context) error {
			for k := i; k < len(all); k += readers {
				body, err := e.Bucket.Get(ctx, all[k].Key)
				lines[k] = results.Listed{Key: all[k].Key, Bytes: int64(len(body)), CRC32C: store.CRC32C(body)}
				if err != nil {
					lines[k].Bytes, lines[k].Error = all[k].Size, err.Error()
				}
			}
			return nil
		})
	}
	if err := g.Wait(ctx); err != nil {
		return err
	}
	uploads, err := e.Bucket.Uploads(ctx, "")
	if err != nil {
		return fmt.Errorf("list open uploads: %w", err)
	}
	for _, u := range uploads {
		lines = append(lines, results.Listed{Key: u.Key, Upload: u.ID})
	}
	for _, l := range lines {
		if err := e.Listing(l); err != nil {
			return err
		}
	}
	return nil
}

// retained is a checkpoint that the coordinator log holds as completed and not dropped, or a savepoint.
type retained struct {
	ID        uint64
	Key       string
	Savepoint bool
}

// coordinatorLog writes the log's entries and returns the retained checkpoints in order of id.
func coordinatorLog(ctx context.Context, e Env) ([]retained, error) {
	entries, err := checkpoint.ReadEntries(ctx, e.World, e.Bucket, 0)
	if err != nil {
		return nil, fmt.Errorf("read the coordinator log: %w", err)
	}
	kept := map[uint64]retained{}
	for _, x := range entries {
		l := results.LogLine{Sequence: x.Seq, Kind: string(x.Kind), Term: x.Term}
		switch x.Kind {
		case checkpoint.Complete:
			kept[x.ID] = retained{x.ID, x.Metadata, false}
			l.Checkpoint, l.Meta = x.ID, x.Metadata
		case checkpoint.Savepoint:
			kept[x.ID] = retained{x.ID, x.Metadata, true}
			l.Checkpoint, l.Meta = x.ID, x.Metadata
		case checkpoint.Start: // what it is started from stays, whoever owns it
			l.Checkpoint, l.Meta, l.Mode = x.ID, x.Metadata, string(x.Mode)
		case checkpoint.Drop:
			delete(kept, x.ID)
			l.Checkpoint = x.ID
		case checkpoint.Reserve:
			l.UpTo = x.ID
		}
		if err := e.CoordLog(l); err != nil {
			return nil, err
		}
	}
	var all []retained
	for _, r := range kept { // order-free: sorted below
		all = append(all, r)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].ID < all[j].ID })
	return all, nil
}

// one writes the lines of one retained checkpoint.
func one(ctx context.Context, e Env, model workloads.Model, r retained) error {
	line := results.RestoreLine{MetaKey: r.Key, Savepoint: r.Savepoint, Objects: []checkpoint.ObjectUse{}}
	done, err := checkpoint.Fetch(ctx, e.World, e.Bucket, r.Key)
	if err != nil {
		line.Error = err.Error()
		return e.States(results.StateLine{Checkpoint: r.ID, Restore: &line})
	}
	m := done.Metadata
	line.Parallelism, line.Positions = m.Parallelism, positions(e.Job, m)
	line.Objects = append(append(line.Objects, done.Object), m.Objects()...)
	if err := model.Advance(line.Positions); err != nil {
		line.Error = fmt.Sprintf("the model cannot follow to positions %v: %v", line.Positions, err)
		return e.States(results.StateLine{Checkpoint: r.ID, Restore: &line})
	}
	groups, err := restore(ctx, e, model, m)
	if err != nil && ctx.Err() != nil {
		return err
	}
	if line.OK = err == nil; err != nil {
		line.Error = err.Error()
	}
	if err := e.States(results.StateLine{Checkpoint: r.ID, Restore: &line}); err != nil {
		return err
	}
	for i := range groups {
		if err := e.States(results.StateLine{Checkpoint: r.ID, Group: &groups[i]}); err != nil {
			return err
		}
	}
	return nil
}

// positions puts the positions of all source subtasks together.
func positions(job *graph.Job, m *checkpoint.Metadata) []int64 {
	n := 0
	for _, node := range job.Nodes {
		if node.Source != nil {
			n = node.Source.Partitions()
		}
	}
	at := make([]int64, n)
	for _, s := range m.Subtasks {
		for _, p := range s.Positions {
			if p.Partition >= 0 && p.Partition < n {
				at[p.Partition] = p.Next
			}
		}
	}
	return at
}

// restore opens every subtask's keyed state, one after the other, and digests each of its groups.
func restore(ctx context.Context, e Env, model workloads.Model, m *checkpoint.Metadata) (groups []results.GroupLine, err error) {
	inner, cancel := e.World.WithCancel(ctx)
	pool := world.NewGroup(e.World)
	defer func() {
		cancel(nil)
		if e := pool.Wait(ctx); e != nil && !errors.Is(e, context.Canceled) {
			err = errors.Join(err, e)
		}
	}()
	if v, ok := model.(workloads.Versioned); ok {
		v.Stored(e.Schema(m.Attempt))
	}
	want := reference{model, expected(model)}
	b, err := e.Backend(m.Attempt).ForWorker(inner, backend.WorkerEnv{
		World: e.World, Bucket: e.Bucket, Worker: "audit", Attempt: m.Attempt,
		Emit:  func(context.Context, history.Event) {},
		Spawn: func(name string, f func(ctx context.Context) error) { pool.Go(inner, "audit-"+name, f) },
	})
	if err != nil {
		return nil, err
	}
	for _, s := range m.Subtasks {
		if s.Keyed == nil {
			continue
		}
		more, err := subtask(inner, b, &s, want)
		if err != nil {
			return groups, fmt.Errorf("restore %s-%d: %w", s.Operator, s.Index, err)
		}
		groups = append(groups, more...)
	}
	return groups, b.Close(inner)
}

// subtask restores one subtask's state and digests it.
func subtask(ctx context.Context, b backend.Backend, s *checkpoint.SubtaskState, want reference) ([]results.GroupLine, error) {
	keyed, err := b.Open(ctx, backend.OpenOptions{
		Operator: s.Operator, Subtask: fmt.Sprintf("%s-%d", s.Operator, s.Index), Index: s.Index,
		Range: s.Keyed.Range, Handles: []backend.StateHandle{*s.Keyed}, Loop: still{},
	})
	if err != nil {
		return nil, err
	}
	var groups []results.GroupLine
	for _, spec := range keyed.States() {
		for g := s.Keyed.Range.From; g < s.Keyed.Range.To; g++ {
			l, err := group(keyed, stateGroup{s.Operator, spec.Name, g}, spec, want)
			if err != nil {
				return nil, errors.Join(err, keyed.Close(ctx))
			}
			if l.Count > 0 || len(l.Missing) > 0 {
				groups = append(groups, l)
			}
		}
	}
	return groups, keyed.Close(ctx)
}

// stateGroup names one state of one operator in one key group.
type stateGroup struct {
	operator, state string
	group           keygroup.ID
}

// digests are what the model has, by group; a group that is not there is empty.
type digests map[stateGroup]canon.Digest

// reference is what there should be.
type reference struct {
	model   workloads.Model
	digests digests
}

// expected asks the model for all groups at once: asked for one group, it walks all its keys.
func expected(m workloads.Model) digests {
	all := digests{}
	m.Groups(func(operator, state string, g keygroup.ID, d canon.Digest) { all[stateGroup{operator, state, g}] = d })
	return all
}

// group digests one state in one key group and, where it is not what the model has, lists differing elements.
func group(keyed backend.Keyed, at stateGroup, spec backend.StateSpec, want reference) (results.GroupLine, error) {
	d, err := backend.DigestGroup(keyed, spec, at.group)
	if err != nil {
		return results.GroupLine{}, err
	}
	l := results.GroupLine{Operator: at.operator, State: spec.Name, Group: at.group, Count: d.Count, Digest: d.String()}
	if want.digests[at] == d {
		return l, nil
	}
	if t, ok := want.model.(workloads.Timely); ok && t.Timely(at.operator, spec.Name) {
		return l, nil // there is nothing to compare it with
	}
	in := map[string]bool{}
	want.model.Elements(at.operator, spec.Name, at.group, func(element []byte) { in[string(element)] = true })
	err = backend.Elements(keyed, spec, at.group, func(key, namespace, value []byte) bool {
		element := string(canon.Element(nil, spec.Name, key, namespace, value))
		if in[element] {
			delete(in, element)
		} else if len(l.Extra) < results.MaxDiffering {
			l.Extra = append(l.Extra, fmt.Sprintf("%x", element))
		}
		return true
	})
	var missing []string
	for element := range in { // order-free: sorted below
		missing = append(missing, fmt.Sprintf("%x", element))
	}
	sort.Strings(missing)
	l.Missing = missing[:min(len(missing), results.MaxDiffering)]
	return l, err
}

// still is the loop of state that is only read: nothing is uploaded or scheduled from it.
type still struct{}

var _ backend.Loop = still{}

func (still) Async(string, func(ctx context.Context) error, func(error)) {}

func (still) After(_ time.Duration, _ func()) {}

func (still) Fail(error) {}
