package scrub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
)

// use is an object that something needs.
type use struct {
	bytes    int64
	crc      uint32
	modified time.Time
	listed   bool
	verified bool                // read as metadata already
	by       []int32             // indices into the names of checkpoints and savepoints
	refs     []backend.ObjectRef // the parts of a segment, each once
}

// names are those of the checkpoints and savepoints that need u.
func (a *audit) names(u *use) []string {
	var all []string
	for _, i := range u.by {
		all = append(all, a.r.name(int(i)))
	}
	return all
}

// name is what the i-th of checkpoints and then savepoints is called.
func (r *Report) name(i int) string {
	if i < len(r.Checkpoints) {
		return "checkpoint " + strconv.FormatUint(r.Checkpoints[i].ID, 10)
	}
	return "savepoint " + strconv.FormatUint(r.Savepoints[i-len(r.Checkpoints)].ID, 10)
}

// retained reads the metadata of all checkpoints that the log retains and of the savepoints, and collects what they name.
func (a *audit) retained(ctx context.Context) error {
	for _, id := range slices.Sorted(maps.Keys(a.known.kept)) {
		a.r.Checkpoints = append(a.r.Checkpoints, CheckpointLine{ID: id, Metadata: a.known.kept[id]})
	}
	for _, id := range slices.Sorted(maps.Keys(a.known.savepoints)) {
		l := CheckpointLine{ID: id, Metadata: a.known.savepoints[id]}
		gone, err := a.removed(ctx, id)
		if err != nil {
			return err
		}
		l.Removed = gone
		a.r.Savepoints = append(a.r.Savepoints, l)
	}
	for i := range a.r.Checkpoints {
		if err := a.one(ctx, &a.r.Checkpoints[i], i); err != nil {
			return err
		}
	}
	for i := range a.r.Savepoints {
		if a.r.Savepoints[i].Removed {
			continue
		}
		if err := a.one(ctx, &a.r.Savepoints[i], len(a.r.Checkpoints)+i); err != nil {
			return err
		}
	}
	return nil
}

// removed tells whether nothing is left of a savepoint: the user has removed it, which is his right.
func (a *audit) removed(ctx context.Context, id uint64) (bool, error) {
	for _, err := range a.b.List(ctx, checkpoint.SavepointFolder(id), "") {
		if err != nil {
			return false, fmt.Errorf("list savepoint %d: %w", id, err)
		}
		return false, nil
	}
	return true, nil
}

// one reads the metadata of a checkpoint or savepoint.
func (a *audit) one(ctx context.Context, l *CheckpointLine, index int) error {
	name := a.r.name(index)
	done, err := checkpoint.Fetch(ctx, a.w, a.b, l.Metadata)
	switch {
	case err == nil:
	case errors.Is(err, store.ErrNotExist):
		l.Problem = "its metadata does not exist"
		a.r.unsure("the metadata of " + name + " does not exist")
		a.use(checkpoint.ObjectUse{Key: l.Metadata}, index) // found to be missing by the listing
		return nil
	case errors.Is(err, store.ErrCorrupt), errors.Is(err, checkpoint.ErrVersion):
		l.Problem = problem(l.Metadata, err)
		a.r.unsure("the metadata of " + name + " cannot be read")
		a.use(checkpoint.ObjectUse{Key: l.Metadata}, index).verified = true
		return a.corrupt(l.Metadata, err, name)
	default:
		return fmt.Errorf("read the metadata of %s: %w", name, err)
	}
	m := done.Metadata
	a.use(done.Object, index).verified = true
	if m.ID != l.ID { // what the checkpoint itself names is not known
		l.Problem = "its metadata is that of another checkpoint"
		a.r.unsure("the metadata of " + name + " is that of another checkpoint")
		return a.corrupt(l.Metadata, fmt.Errorf("the coordinator log calls it %d, it says %d", l.ID, m.ID), name)
	}
	l.Attempt, l.Parallelism = m.Attempt, m.Parallelism
	for _, o := range m.Objects() {
		l.Objects++
		if err := a.useOnce(o, index, name); err != nil {
			return err
		}
	}
	for i := range m.Subtasks {
		if h := m.Subtasks[i].Keyed; h != nil {
			l.Base += h.BaseBytes()
			l.Delta += h.DeltaBytes()
			a.parts(h)
		}
	}
	l.Full = l.Base + l.Delta
	for _, p := range inconsistent(m) {
		if err := a.corrupt(l.Metadata, errors.New(p), name); err != nil {
			return err
		}
	}
	return nil
}

// use notes that a checkpoint or savepoint needs an object.
func (a *audit) use(o checkpoint.ObjectUse, by int) *use {
	u := a.uses[o.Key]
	if u == nil {
		u = &use{bytes: o.Bytes, crc: o.CRC32C}
		a.uses[o.Key] = u
	}
	u.by = append(u.by, int32(by))
	return u
}

// useOnce is use for what metadata names; two that disagree about an object are a finding.
func (a *audit) useOnce(o checkpoint.ObjectUse, by int, name string) error {
	if u := a.uses[o.Key]; u != nil && (u.bytes != o.Bytes || u.crc != o.CRC32C) {
		first := a.names(u)[0]
		err := fmt.Errorf("%s says %d bytes with checksum %08x, %s %d with %08x", first, u.bytes, u.crc, name, o.Bytes, o.CRC32C)
		return a.corrupt(o.Key, err, first, name)
	}
	a.use(o, by)
	return nil
}

// parts notes the parts of segments that a handle names.
func (a *audit) parts(h *backend.StateHandle) {
	for _, ref := range h.Delta {
		ref.Groups = keygroup.Range{} // a part is one thing, whichever key groups of it are read
		if u := a.uses[ref.Key]; u != nil && !slices.Contains(u.refs, ref) {
			u.refs = append(u.refs, ref)
		}
	}
}

// inconsistent tells what of a checkpoint's metadata contradicts itself, so that it could not be restored.
func inconsistent(m *checkpoint.Metadata) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	var operators []string
	ranges := map[string][]keygroup.Range{}
	for i := range m.Subtasks {
		s := &m.Subtasks[i]
		if s.Keyed == nil {
			continue
		}
		if len(ranges[s.Operator]) == 0 {
			operators = append(operators, s.Operator)
		}
		ranges[s.Operator] = append(ranges[s.Operator], s.Keyed.Range)
		for _, p := range handleProblems(s.Keyed) {
			say("%s-%d: %s", s.Operator, s.Index, p)
		}
	}
	for _, operator := range operators {
		all := ranges[operator]
		slices.SortFunc(all, func(x, y keygroup.Range) int { return int(x.From) - int(y.From) })
		next := keygroup.ID(0)
		for _, r := range all {
			if r.From != next {
				say("the key groups of operator %s are not those of its subtasks together: %v follows %d", operator, r, next)
			}
			next = r.To
		}
		if int(next) != m.MaxParallelism {
			say("the key groups of operator %s end at %d, max parallelism is %d", operator, next, m.MaxParallelism)
		}
	}
	return problems
}

// logPart tells apart what of a log different former subtasks inherited.
type logPart struct {
	log    string
	groups keygroup.Range
}

// handleProblems checks that the parts lie within their objects and that each log is without a gap.
func handleProblems(h *backend.StateHandle) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for _, refs := range [][]backend.ObjectRef{h.Base, h.Delta} {
		for _, r := range refs {
			if r.Offset < 0 || r.Length < 0 || r.Offset > r.Bytes || r.Length > r.Bytes-r.Offset {
				say("%d bytes at offset %d of %s, which has %d", r.Length, r.Offset, r.Key, r.Bytes)
			}
		}
	}
	reached := map[logPart]uint64{}
	for _, r := range h.Delta {
		part := logPart{r.Log, r.Groups}
		if to, ok := reached[part]; ok && to != r.From {
			say("the log %s goes from %d to %d and then from %d on", r.Log, to, to, r.From)
		}
		reached[part] = r.To
	}
	return problems
}
