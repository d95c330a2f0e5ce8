package engine

import (
	"context"

	"statebench.dev/bench/backend"
)

// Savepoint takes a savepoint of the given form, backend.Canonical or backend.Native, and returns its id once it has
// completed; the job goes on. Like Checkpoint it waits until the job runs. The error says why it was aborted.
func (e *Engine) Savepoint(ctx context.Context, form string) (uint64, error) {
	return e.ask(ctx, &request{kind: askSavepoint, form: form})
}

// StopJob stops the job until StartJob; workers and coordinator stay. With a form it takes a savepoint, behind whose barrier the
// sources emit nothing, commits the output up to it, and drops all retained checkpoints; its id is returned. If the savepoint
// is aborted the job goes on and the error says why. Without a form ("") the job ends at once: what the newest retained
// checkpoint commits is committed, and the retained ones stay.
func (e *Engine) StopJob(ctx context.Context, form string) (savepoint uint64, err error) {
	return e.ask(ctx, &request{kind: askStopJob, form: form})
}

// StartOptions say how a stopped job is started again.
type StartOptions struct {
	From        string          // plan.FromSavepoint: the last one, with which it was stopped; plan.FromCheckpoint: the newest retained one
	Mode        string          // who owns that: plan.ModeClaim, plan.ModeNoClaim, plan.ModeLegacy; empty: plan.ModeOf(From, "")
	Parallelism int             // 0: as before
	Backend     backend.Factory // nil: as before
}

// StartJob starts the stopped job again, with attempts of higher numbers, and returns the id of what it restored once an attempt
// runs, whatever fails meanwhile. A job that was stopped again before it completed a checkpoint is started from the same again by
// plan.FromCheckpoint, and in the same mode unless another one is given. State of another backend fails the job for good.
//
// In mode claim the job owns what it starts from: it is a retained checkpoint, and is deleted when nothing needs it any more. In the
// other modes the job deletes nothing of it, nor of the other checkpoints that were retained: they are the user's from then on. In mode
// no-claim the first checkpoint is self-contained, in mode legacy later ones may name objects of it.
func (e *Engine) StartJob(ctx context.Context, o StartOptions) (uint64, error) {
	return e.ask(ctx, &request{kind: askStartJob, from: o.From, mode: o.Mode, parallelism: o.Parallelism, backend: o.Backend})
}
