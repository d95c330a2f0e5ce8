package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/engine"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/world"
	"statebench.dev/bench/workloads"
)

// again is how long the run waits before it repeats a step that a fault prevented.
const again = 200 * time.Millisecond

// life is a stretch of the run in which the job had one backend, and its workload stored its state in one schema.
type life struct {
	after   uint64 // its attempts have higher numbers
	factory backend.Factory
	schema  int
}

// backendOf is the backend that an attempt worked with.
func (r *run) backendOf(attempt uint64) backend.Factory { return r.lifeOf(attempt).factory }

// schemaOf is the schema in which it stored state.
func (r *run) schemaOf(attempt uint64) int { return r.lifeOf(attempt).schema }

func (r *run) lifeOf(attempt uint64) life {
	for i := len(r.lives) - 1; i > 0; i-- {
		if attempt > r.lives[i].after {
			return r.lives[i]
		}
	}
	return r.lives[0]
}

// steps carries out the steps of a phase, one after the other.
func (r *run) steps(ctx context.Context, ph plan.Phase) error {
	limited, cancel := r.world.WithTimeout(ctx, time.Duration(ph.Within))
	defer cancel()
	for i, s := range ph.Steps {
		err := r.step(limited, s)
		if err != nil && limited.Err() != nil && ctx.Err() == nil {
			now := r.engine.Status()
			err = fmt.Errorf("not done within %v: the job is %s in attempt %d", time.Duration(ph.Within), now.State, now.Attempt)
		}
		if err != nil {
			return fmt.Errorf("step %d (%s): %w", i+1, stepName(s), err)
		}
	}
	return nil
}

// stepName is a step in the words of a scenario.
func stepName(s plan.Step) string {
	switch {
	case s.Stop != nil && s.Stop.Savepoint != "":
		return "stop with a " + s.Stop.Savepoint + " savepoint"
	case s.Stop != nil:
		return "stop"
	case s.Start != nil:
		return "start from " + s.Start.From
	}
	return s.Savepoint + " savepoint"
}

// step carries out one step.
func (r *run) step(ctx context.Context, s plan.Step) error {
	switch {
	case s.Stop != nil:
		return r.stopJob(ctx, s.Stop.Savepoint)
	case s.Start != nil:
		return r.startJob(ctx, s.Start)
	}
	return r.insist(ctx, func() error { _, err := r.engine.Savepoint(ctx, s.Savepoint); return err })
}

// insist repeats a step as long as faults abort its savepoint.
func (r *run) insist(ctx context.Context, f func() error) error {
	for {
		err := f()
		if !errors.Is(err, engine.ErrSavepointAborted) || ctx.Err() != nil {
			return err
		}
		r.record(ctx, history.Event{Kind: history.Note, Actor: "run", Text: "a savepoint is taken again", Error: brief(err)})
		if serr := r.world.Sleep(ctx, again); serr != nil {
			return err
		}
	}
}

// stopJob stops the job. It is cancelled only once there is a checkpoint to start it from again.
func (r *run) stopJob(ctx context.Context, form string) error {
	if form == "" {
		if err := r.until(ctx, world.Never, func() bool { return r.engine.Status().LastCompleted > 0 }); err != nil {
			return fmt.Errorf("wait for a checkpoint to retain: %w", err)
		}
	}
	return r.insist(ctx, func() error { _, err := r.engine.StopJob(ctx, form); return err })
}

// startJob starts the job again, and notes from which attempt on it has another backend or schema.
func (r *run) startJob(ctx context.Context, s *plan.Start) error {
	o := engine.StartOptions{From: s.From, Mode: s.Mode, Parallelism: s.Parallelism}
	next := r.lives[len(r.lives)-1]
	next.after = r.engine.Status().Attempt
	if s.Backend != nil {
		p := *r.plan
		p.Backend = *s.Backend
		factory, err := OpenBackend(r.deps, &p)
		if err != nil {
			return err
		}
		o.Backend = factory
		next.factory = factory
	}
	if s.Schema > 0 {
		w, ok := r.workload.(workloads.Evolving)
		if !ok {
			return fmt.Errorf("workload %s stores its state in one schema only", r.plan.Workload.Name)
		}
		if err := w.Evolve(s.Schema); err != nil {
			return err
		}
		next.schema = s.Schema
	}
	r.lives = append(r.lives, next)
	_, err := r.engine.StartJob(ctx, o)
	return err
}
