package engine

import (
	"context"

	"statebench.dev/bench/internal/world"
)

// pool runs the asynchronous work of an attempt's subtasks on one worker, a bounded number at a time, in the order in which it came.
type pool struct {
	world world.World
	room  *world.Semaphore
}

// newPool makes a pool for the given number of subtasks: one snapshot and one materialization of each may be under way, so
// that none of them waits for another subtask's.
func newPool(w world.World, subtasks int) *pool {
	return &pool{world: w, room: world.NewSemaphore(w, int64(2*subtasks+2))}
}

// start runs work in a process of g once there is room, unless ctx has ended by then, and calls after with its result or the cause
// of that. If the work panics, died is called instead and the panic is g's. Nothing has an effect in a process that was killed.
func (p *pool) start(ctx context.Context, g *world.Group, name string, work func(ctx context.Context) error, after func(error), died func()) {
	g.Go(ctx, name, func(ctx context.Context) error {
		if err := p.room.Acquire(ctx, 1); err != nil {
			after(err)
			return nil
		}
		defer p.room.Release(1)
		done := false
		defer func() {
			if !done {
				died()
			}
		}()
		err := work(ctx)
		done = true
		after(err)
		return nil
	})
}
