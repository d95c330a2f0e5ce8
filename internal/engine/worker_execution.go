package engine

import (
	"context"
	"errors"
	"fmt"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// execution is a worker's part of an attempt: its subtasks' loops, the backend and the pool they share, and all processes of these.
type execution struct {
	w       *worker
	id      uint64
	d       Deploy
	ctx     context.Context // of all its processes
	cancel  context.CancelCauseFunc
	group   *world.Group // all its processes but the one that supervises
	wiring  *wiring
	pool    *pool
	permits *permits
	backend backend.Backend
	// follower is the backend where it follows checkpoints, else nil.
	follower backend.Follower
	loops    []*loop
	broken   error // why the loops could not be made
}

// newExecution makes the loops, so that they get their mail from now on; supervise starts them.
func newExecution(ctx context.Context, w *worker, m Message, d Deploy) *execution {
	a := &execution{w: w, id: m.Attempt, d: d, group: world.NewGroup(w.cfg.World), wiring: w.net.attempt(m.Attempt, d.Parallelism),
		pool: newPool(w.cfg.World, len(d.Subtasks))}
	a.ctx, a.cancel = w.cfg.World.WithCancel(store.WithInfo(ctx, store.Info{Who: w.name, Attempt: m.Attempt}))
	a.permits = newPermits(a)
	a.loops, a.broken = newLoops(a)
	return a
}

func (a *execution) name() string { return fmt.Sprintf("%s/attempt-%d", a.w.name, a.id) }

// supervise runs the attempt and tells the leader when its last process has ended.
func (a *execution) supervise(ctx context.Context) error {
	if err := a.begin(ctx); err != nil {
		a.fail(ctx, nil, err)
	}
	// Not before it is told to: an attempt that fails here is over when the leader says so, who has to end it elsewhere too.
	ended := world.NewLatch(a.w.cfg.World)
	stop := world.AfterFunc(a.ctx, ended.Open)
	err := ended.Wait(ctx)
	stop()
	a.cancel(err)
	// A panic in a process of the attempt was told by those who watch over it.
	_ = a.group.Wait(ctx)
	if a.backend != nil {
		if err := a.backend.Close(ctx); err != nil {
			a.record(ctx, history.Event{Kind: history.Note, Actor: a.w.name, Text: "close the backend: " + err.Error()})
		}
	}
	a.w.ended(ctx, a)
	return nil
}

// begin starts the attempt. A panic goes on, but the leader hears of it first: else the job would wait for this worker.
func (a *execution) begin(ctx context.Context) error {
	done := false
	defer func() {
		if !done && ctx.Err() == nil {
			a.fail(ctx, nil, errors.New("the attempt panicked while it started"))
		}
	}()
	err := a.start()
	done = true
	return err
}

// start opens the backend and starts the loops.
func (a *execution) start() error {
	if a.broken != nil {
		return a.broken
	}
	cfg, factory := a.w.cfg, a.d.Backend
	if factory == nil {
		factory = a.w.cfg.Backend
	}
	var err error
	a.backend, err = factory.ForWorker(a.ctx, backend.WorkerEnv{
		World: cfg.World, Bucket: a.bucket(), Worker: a.w.name, Attempt: a.id, Failpoints: cfg.Failpoints,
		Emit: a.record, Spawn: a.spawn, Disk: world.DomainOf(a.ctx).Disk(), Restores: a.restores(), Permits: a.permits,
	})
	if err != nil {
		return fmt.Errorf("open the backend: %w", err)
	}
	a.follower, _ = a.backend.(backend.Follower)
	for _, l := range a.loops {
		l.group.Go(a.ctx, l.subtasks[0].name, l.main)
		a.group.Go(a.ctx, l.subtasks[0].name+"/watch", func(ctx context.Context) error {
			a.watch(ctx, l)
			return nil
		})
	}
	return nil
}

// restores is what the subtasks are about to open.
func (a *execution) restores() []backend.Restore {
	var all []backend.Restore
	for _, l := range a.loops {
		for _, s := range l.subtasks {
			if s.node.Keyed && len(s.d.Whole) > 0 {
				all = append(all, backend.Restore{Range: s.keys(), Handles: s.d.Whole, Written: a.d.Written})
			}
		}
	}
	return all
}

// bucket is the run's store, usable as long as the attempt is not cancelled and the worker lives.
func (a *execution) bucket() store.Bucket {
	if a.w.cfg.Failpoints.Mutant(mutantAcceptZombie) {
		return zombieBucket{a.w.cfg.Bucket, a.w.cfg.World}
	}
	return store.WithFence(a.w.cfg.Bucket, func(context.Context) error {
		if a.ctx.Err() != nil {
			return context.Cause(a.ctx)
		}
		return nil
	})
}

// watch waits for the end of a loop and of the work it started, frees what it held, and reports why it ended.
func (a *execution) watch(ctx context.Context, l *loop) {
	err := l.group.Wait(ctx)
	l.box.Close()
	for {
		if _, ok := l.box.TryTake(); !ok {
			break
		}
		a.w.t.dropped.Add(1)
	}
	for _, s := range l.subtasks {
		if s.keyed != nil {
			err = errors.Join(err, s.keyed.Close(ctx))
		}
	}
	if ctx.Err() == nil && err != nil {
		a.fail(ctx, l.subtasks[0], err)
	}
}

// fail tells the leader that a subtask ended with an error. s is who it is put down to unless the error knows better; nil: the first.
func (a *execution) fail(ctx context.Context, s *subtask, err error) {
	m := SubtaskFailed{Error: err.Error(), Injected: errors.Is(err, store.ErrInjected),
		Unreadable: errors.Is(err, store.ErrNotExist) || errors.Is(err, store.ErrCorrupt), Foreign: errors.Is(err, backend.ErrForeign) || errors.Is(err, backend.ErrSchema)}
	var marked *subtaskError
	switch {
	case errors.As(err, &marked):
		m.Operator, m.Index = marked.subtask.node.ID, marked.subtask.d.Index
	case s != nil:
		m.Operator, m.Index = s.node.ID, s.d.Index
	case len(a.d.Subtasks) > 0:
		m.Operator, m.Index = a.d.Subtasks[0].Operator, a.d.Subtasks[0].Index
	}
	a.send(ctx, m)
}

// spawn starts a process of the backend's. If it fails or panics, the attempt does.
func (a *execution) spawn(name string, f func(ctx context.Context) error) {
	a.group.Go(a.ctx, name, func(ctx context.Context) error {
		done := false
		defer func() {
			if !done && ctx.Err() == nil {
				a.fail(ctx, nil, fmt.Errorf("process %s of the backend panicked", name))
			}
		}()
		err := f(ctx)
		done = true
		if err != nil && ctx.Err() == nil {
			a.fail(ctx, nil, fmt.Errorf("process %s of the backend: %w", name, err))
		}
		return nil
	})
}

// record emits an event of the attempt.
func (a *execution) record(ctx context.Context, e history.Event) {
	e.Attempt = a.id
	a.w.cfg.Record(ctx, e)
}

func (a *execution) send(ctx context.Context, body any) { a.w.send(ctx, a.id, body) }

// deliver puts a message into the mailboxes of the loops it is for, and tells whether there was one.
func (a *execution) deliver(body any) bool {
	reached := false
	for _, l := range a.loops {
		if l.wants(body) && l.box.TryPut(body) {
			reached = true
		}
	}
	return reached
}

// wants tells whether a message is for the loop.
func (l *loop) wants(body any) bool {
	switch b := body.(type) {
	case TriggerCheckpoint, StartSources, StopSources:
		return l.source != nil
	case FailSubtask:
		for _, s := range l.subtasks {
			if s.node.ID == b.Operator && s.d.Index == b.Index {
				return true
			}
		}
		return false
	}
	return true
}
