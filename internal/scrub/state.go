package scrub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// Factories makes the backend that reads state of the given form (StateHandle.Backend), with a changelog around it.
type Factories func(form string) (backend.Factory, error)

// StateOptions say how state is opened.
type StateOptions struct {
	Factories Factories
	// Folder is where a backend may keep files beside its memory; empty: the machine's folder for temporary files.
	Folder string
	// SliceBytes bounds the state of a subtask that is opened at a time, so that memory is bounded: key groups beyond it wait
	// for the next turn; 256 MiB.
	SliceBytes int64
}

// StateLine is one state of one operator.
type StateLine struct {
	Operator string `json:"operator"`
	State    string `json:"state"`
	Type     string `json:"type"`
	Schema   string `json:"schema,omitempty"` // serializer and version that it is stored by, where it has them
	Elements int64  `json:"elements"`
	Bytes    int64  `json:"bytes"`  // of keys and values as the backend stores them
	Groups   int    `json:"groups"` // key groups that have any
}

// ErrState is wrapped by the error for an operator, state or key group that the checkpoint does not have.
var ErrState = errors.New("no such state")

// opened is a backend for reading.
type opened struct {
	w world.World
	b store.Bucket
	m *checkpoint.Metadata
	o StateOptions
}

// States counts the elements of all states of a checkpoint, subtask by subtask. It restores all of it.
func States(ctx context.Context, w world.World, b store.Bucket, m *checkpoint.Metadata, o StateOptions) ([]StateLine, error) {
	r := opened{w, b, m, o}
	var lines []*StateLine
	for i := range m.Subtasks {
		s := &m.Subtasks[i]
		if s.Keyed == nil {
			continue
		}
		for _, part := range r.slices(s.Keyed) {
			err := r.with(ctx, s, part, func(k backend.Keyed) error { return count(k, s.Operator, part, &lines) })
			if err != nil {
				return nil, fmt.Errorf("restore %s-%d: %w", s.Operator, s.Index, err)
			}
		}
	}
	all := make([]StateLine, len(lines))
	for i, l := range lines {
		all[i] = *l
	}
	return all, nil
}

// slices cuts the key groups of a handle into parts of about SliceBytes.
func (r opened) slices(h *backend.StateHandle) (parts []keygroup.Range) {
	most := r.o.SliceBytes
	if most <= 0 {
		most = 256 << 20
	}
	n := max(1, min(int((h.FullBytes()+most-1)/most), h.Range.Len()))
	for i := range n {
		from, to := i*h.Range.Len()/n, (i+1)*h.Range.Len()/n
		parts = append(parts, keygroup.Range{From: h.Range.From + keygroup.ID(from), To: h.Range.From + keygroup.ID(to)})
	}
	return parts
}

// count adds the elements of a part to the lines.
func count(k backend.Keyed, operator string, part keygroup.Range, lines *[]*StateLine) error {
	for _, spec := range k.States() {
		at := slices.IndexFunc(*lines, func(l *StateLine) bool { return l.Operator == operator && l.State == spec.Name })
		if at < 0 {
			at = len(*lines)
			line := &StateLine{Operator: operator, State: spec.Name, Type: spec.Type.String()}
			if spec.Schema != (backend.Schema{}) {
				line.Schema = spec.Schema.String()
			}
			*lines = append(*lines, line)
		}
		l := (*lines)[at]
		id, err := k.Register(spec)
		if err != nil {
			return err
		}
		for g := part.From; g < part.To; g++ {
			before := l.Elements
			err := k.Scan(id, g, nil, func(key, value []byte) bool {
				l.Elements++
				l.Bytes += int64(len(key) + len(value))
				return true
			})
			if err != nil {
				return err
			}
			if l.Elements > before {
				l.Groups++
			}
		}
	}
	return nil
}

// Element is one element of a state.
type Element struct {
	Spec           backend.StateSpec
	Key, Namespace []byte
	// Value is that of canon's canonical form: of a map entry the key of the map in front, of a list element its place.
	Value []byte
	// Expires tells that the value begins with its time of expiry.
	Expires bool
}

// Selection names one state in one key group.
type Selection struct {
	Operator, State string
	Group           keygroup.ID
}

// Elements calls f for each element of a state in a key group, in the backend's order, until f returns false. It reads no
// more of the objects than the key group needs. What it hands out is borrowed during the call.
func Elements(ctx context.Context, w world.World, b store.Bucket, m *checkpoint.Metadata, at Selection, o StateOptions, f func(Element) bool) error {
	s, err := subtaskOf(m, at)
	if err != nil {
		return err
	}
	return opened{w, b, m, o}.with(ctx, s, keygroup.Range{From: at.Group, To: at.Group + 1}, func(k backend.Keyed) error {
		specs := k.States()
		i := slices.IndexFunc(specs, func(s backend.StateSpec) bool { return s.Name == at.State })
		if i < 0 {
			var names []string
			for _, s := range specs {
				names = append(names, s.Name)
			}
			return fmt.Errorf("operator %s has no state %q, it has %q: %w", at.Operator, at.State, names, ErrState)
		}
		expires := slices.Contains(specs, backend.ExpirySpec(at.State))
		return backend.Elements(k, specs[i], at.Group, func(key, namespace, value []byte) bool {
			return f(Element{Spec: specs[i], Key: key, Namespace: namespace, Value: value, Expires: expires})
		})
	})
}

// subtaskOf finds who has the key group.
func subtaskOf(m *checkpoint.Metadata, at Selection) (*checkpoint.SubtaskState, error) {
	var operators []string
	known := false
	for i := range m.Subtasks {
		s := &m.Subtasks[i]
		if s.Keyed == nil {
			continue
		}
		if !slices.Contains(operators, s.Operator) {
			operators = append(operators, s.Operator)
		}
		known = known || s.Operator == at.Operator
		if s.Operator == at.Operator && s.Keyed.Range.Contains(at.Group) {
			return s, nil
		}
	}
	if known {
		return nil, fmt.Errorf("key group %d does not exist, there are 0 to %d: %w", at.Group, m.MaxParallelism-1, ErrState)
	}
	return nil, fmt.Errorf("no operator %q has keyed state, there are %q: %w", at.Operator, operators, ErrState)
}

// with opens a part of a subtask's state, calls f and closes it again.
func (r opened) with(ctx context.Context, s *checkpoint.SubtaskState, part keygroup.Range, f func(backend.Keyed) error) (err error) {
	factory, err := r.o.Factories(s.Keyed.Backend)
	if err != nil {
		return err
	}
	inner, cancel := r.w.WithCancel(store.WithInfo(ctx, store.Info{Cause: Cause, Who: Cause}))
	pool := world.NewGroup(r.w)
	defer func() {
		cancel(nil)
		if e := pool.Wait(ctx); e != nil && !errors.Is(e, context.Canceled) {
			err = errors.Join(err, e)
		}
	}()
	b, err := factory.ForWorker(inner, backend.WorkerEnv{
		World: r.w, Bucket: r.b, Worker: Cause, Attempt: r.m.Attempt, Folder: r.o.Folder,
		Emit:  func(context.Context, history.Event) {},
		Spawn: func(name string, f func(ctx context.Context) error) { pool.Go(inner, Cause+"-"+name, f) },
	})
	if err != nil {
		return err
	}
	k, err := b.Open(inner, backend.OpenOptions{
		Operator: s.Operator, Subtask: fmt.Sprintf("%s-%d", s.Operator, s.Index), Index: s.Index,
		Range: part, Handles: []backend.StateHandle{*s.Keyed}, Loop: still{},
	})
	if err != nil {
		return errors.Join(err, b.Close(inner))
	}
	return errors.Join(f(k), k.Close(inner), b.Close(inner))
}

// still is the loop of state that is only read: nothing is uploaded or scheduled from it.
type still struct{}

var _ backend.Loop = still{}

func (still) Async(string, func(ctx context.Context) error, func(error)) {}

func (still) After(time.Duration, func()) {}

func (still) Fail(error) {}
