package changelog

import (
	"context"
	"errors"
	"fmt"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/internal/world"
)

// Off returns a factory of nested backends without a changelog that open handles with one too: such state is replayed once,
// and from then on the nested backend stands alone.
func Off(nested backend.Factory) backend.Factory { return off{nested} }

type off struct{ nested backend.Factory }

// ForWorker implements backend.Factory.
func (f off) ForWorker(ctx context.Context, e backend.WorkerEnv) (backend.Backend, error) {
	nested, err := f.nested.ForWorker(ctx, e)
	if err != nil {
		return nil, err
	}
	return &plain{env: e, nested: nested, mu: world.NewMutex(e.World)}, nil
}

// plain is the backend of one worker in one attempt.
type plain struct {
	env    backend.WorkerEnv
	nested backend.Backend
	mu     *world.Mutex
	log    dstl.Log // made when a handle has a log
}

// Close implements backend.Backend.
func (b *plain) Close(ctx context.Context) error {
	err := b.nested.Close(ctx)
	b.mu.Lock()
	log := b.log
	b.mu.Unlock()
	if log != nil {
		err = errors.Join(err, log.Close(ctx))
	}
	return err
}

// reader is the log to read with; nothing is appended to it.
func (b *plain) reader() (_ dstl.Log, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.log == nil {
		b.log, err = dstl.New(b.env, dstl.Options{})
	}
	return b.log, err
}

// Open implements backend.Backend.
func (b *plain) Open(ctx context.Context, o backend.OpenOptions) (backend.Keyed, error) {
	inner := o
	inner.Handles = nil
	var deltas []backend.ObjectRef
	logged := false
	for _, h := range o.Handles {
		logged = logged || len(h.Delta) > 0
		n, ok := h.Narrow(o.Range)
		if !ok {
			continue
		}
		deltas = append(deltas, n.Delta...)
		if n.Materialization > 0 {
			n.Checkpoint = n.Materialization
		}
		n.Delta, n.Materialization = nil, 0
		if len(n.Base) > 0 {
			inner.Handles = append(inner.Handles, n)
		}
	}
	if !logged {
		return b.nested.Open(ctx, o)
	}
	keyed, err := b.nested.Open(ctx, inner)
	if err != nil || len(deltas) == 0 {
		return keyed, err
	}
	if err := b.replay(ctx, keyed, deltas, o); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", o.Subtask, err), keyed.Close(ctx))
	}
	return keyed, nil
}

func (b *plain) replay(ctx context.Context, keyed backend.Keyed, deltas []backend.ObjectRef, o backend.OpenOptions) error {
	positioned, ok := keyed.(backend.Positioned)
	if !ok {
		return fmt.Errorf("nested backend %T cannot replay an append", keyed)
	}
	log, err := b.reader()
	if err != nil {
		return err
	}
	began := b.env.World.Now()
	read, err := log.Read(ctx, deltas, o.Range, &replay{to: keyed, positioned: positioned})
	if s := o.Restored; s != nil {
		s.ReplayTime, s.DeltaBytes, s.ReplayedChanges = b.env.World.Now()-began, read.Bytes, read.Changes
	}
	return err
}
