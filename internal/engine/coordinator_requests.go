package engine

import (
	"context"
	"errors"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/target"
	"statebench.dev/bench/internal/world"
)

// errStopped is what is answered to requests that come too late.
var errStopped = errors.New("the job has been stopped")

type requestKind uint8

const (
	askCheckpoint requestKind = iota + 1
	askRescale
	askStopSources
	askCleanUp
	askStop
	askSavepoint
	askStopJob
	askStartJob
)

// request is what the run asks of the leader; it comes through the leader's mailbox and is answered once.
type request struct {
	kind        requestKind
	parallelism int
	from, mode  string
	origin      *checkpoint.Completed // of a start: what from says
	form        string                // of a savepoint
	backend     backend.Factory       // nil: as before
	done        *world.Latch
	id          uint64
	err         error
}

func (r *request) answer(id uint64, err error) {
	if !r.done.Opened() {
		r.id, r.err = id, err
		r.done.Open()
	}
}

// serve acts on a request.
func (c *coordinator) serve(ctx context.Context, r *request) {
	if c.failure != "" && r.kind != askStop && r.kind != askCleanUp {
		r.answer(0, errors.New("the job failed: "+c.failure))
		return
	}
	switch r.kind {
	case askStop:
		c.graceful(ctx)
		return
	case askCleanUp:
		c.cleanUp(ctx, r)
		return
	}
	if c.ending() {
		r.answer(0, errStopped)
		return
	}
	switch r.kind {
	case askCheckpoint:
		c.checkpoints.wanted = append(c.checkpoints.wanted, &wanted{last: c.halted,
			done: func(_ context.Context, id uint64, err error) { r.answer(id, err) }})
	case askRescale:
		if c.stop != nil || c.start != nil {
			c.deferred = append(c.deferred, r)
			return
		}
		c.beginRescale(ctx, r)
	case askSavepoint:
		c.askFor(ctx, r)
	case askStopJob:
		c.beginStop(ctx, r)
	case askStartJob:
		c.beginStart(ctx, r)
	case askStopSources:
		c.stopSources(ctx)
		r.answer(0, nil)
	}
}

// ending tells whether the job has been stopped for good.
func (c *coordinator) ending() bool {
	return c.phase == phaseStopping || c.phase == phaseClearing || c.phase == phaseFinished
}

// stopSources ends the input for the running attempt and for later ones. In each of them the sources go on to the furthest that
// any attempt came, since output up to there may be committed.
func (c *coordinator) stopSources(ctx context.Context) {
	c.halted = true
	if c.phase == phaseRunning {
		c.halt(ctx)
	}
}

// halt tells the sources of the running attempt where to stop.
func (c *coordinator) halt(ctx context.Context) {
	c.toHosts(ctx, c.attempt, StopSources{Limits: c.network.Progress().Highest()})
}

// refuseAll answers everybody who waits for something that will not happen any more.
func (c *coordinator) refuseAll(err error) {
	ctx := context.Background() // the answers below neither record nor block
	wanted := c.checkpoints.wanted
	c.checkpoints.wanted = nil
	if s := c.rescale; s != nil {
		c.rescale = nil
		s.request.answer(0, err)
	}
	c.refuseLife(err)
	for _, w := range wanted {
		w.done(ctx, 0, err)
	}
	for _, p := range c.checkpoints.pending {
		if p.wanted != nil && c.over {
			p.wanted.done(ctx, 0, err)
		}
	}
	if c.over {
		for _, r := range c.cleaning.waits {
			r.answer(0, err)
		}
	}
}

// view is what the run sees of the job: a copy that the leader refreshes.
type view struct {
	deployed *world.Latch // the first attempt is being deployed
	mu       struct {
		*world.Mutex
		status  target.Status
		attempt uint64
		where   []string // by index
	}
}

func newView(w world.World) *view {
	v := &view{deployed: world.NewLatch(w)}
	v.mu.Mutex = world.NewMutex(w)
	v.mu.status.State = "created"
	return v
}

func (v *view) set(s target.Status, a *attempt) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.mu.status = s
	if a != nil {
		v.mu.attempt, v.mu.where = a.id, a.where
	}
}

func (v *view) status() target.Status {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.mu.status
}

// placement is the newest attempt and, by index, the workers of its subtasks.
func (v *view) placement() (attempt uint64, where []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.mu.attempt, v.mu.where
}
