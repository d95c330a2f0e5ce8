package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/world"
)

// poll is how often a condition of a phase is looked at.
const poll = 50 * time.Millisecond

// errInterrupted is the cause of a run's context after an interruption.
var errInterrupted = errors.New("interrupted")

// main is the run's main process.
func (r *run) main(ctx context.Context) error {
	r.record(ctx, history.Event{Kind: history.RunBegin, Actor: "run", Text: planHash(r.plan)})
	inner, cancel := r.world.WithCancel(ctx)
	err := r.setUp(ctx)
	if err == nil {
		err = r.conduct(inner, cancel)
	}
	cancel(errInterrupted)
	if r.triggers != nil {
		r.triggers.close()
	}
	if r.engine != nil {
		err = errors.Join(err, r.engine.Stop(ctx))
	}
	if r.group != nil {
		if e := r.group.Wait(ctx); e != nil && !errors.Is(e, errInterrupted) && !errors.Is(e, context.Canceled) && !unwritable(e) && !oversized(e) {
			err = errors.Join(err, e)
		}
	}
	if err == nil && !r.interrupt {
		err = r.interruptible(ctx, r.verify)
	}
	e := history.Event{Kind: history.RunEnd, Actor: "run", Count: r.objects.Len()}
	if err != nil {
		e.Error = brief(err)
	}
	if r.interrupt {
		e.Reason = "interrupted"
		err = nil
	}
	r.record(ctx, e)
	return errors.Join(err, r.tearDown(ctx))
}

// interruptible calls f with a context that an interruption ends. The phases before have the sampler to look for one.
func (r *run) interruptible(ctx context.Context, f func(ctx context.Context) error) error {
	inner, cancel := r.world.WithCancel(ctx)
	watch := world.NewGroup(r.world)
	watch.Go(inner, "interrupts", func(ctx context.Context) error {
		for r.world.Sleep(ctx, interrupts) == nil {
			if r.o.Interrupted() {
				r.interrupt = true
				cancel(errInterrupted)
			}
		}
		return nil
	})
	err := f(inner)
	cancel(errInterrupted)
	return errors.Join(err, watch.Wait(ctx))
}

// conduct submits the job and goes through the phases but for verify.
func (r *run) conduct(ctx context.Context, cancel context.CancelCauseFunc) error {
	r.sampler = newSampler(r)
	r.group.Go(ctx, "sampler", func(ctx context.Context) error { return r.sampler.run(ctx, cancel) })
	r.faults.arm(ctx)
	if err := r.engine.Submit(ctx); err != nil {
		return fmt.Errorf("submit the job: %w", err)
	}
	goal := int64(0)
	for _, ph := range r.plan.Phases {
		if ph.Until == plan.UntilVerified {
			break
		}
		goal += ph.Records
		if err := r.phase(ctx, ph, goal); err != nil {
			return err
		}
	}
	return nil
}

// phase runs one phase to its end. goal is the record of the whole source at which a phase measured in records ends.
func (r *run) phase(ctx context.Context, ph plan.Phase, goal int64) error {
	r.record(ctx, history.Event{Kind: history.PhaseBegin, Actor: "run", Phase: ph.Name})
	r.triggers.begin(ctx, ph.Name, r.engine.Progress().Emitted())
	var err error
	switch {
	case ph.For > 0:
		err = r.hold(ctx, time.Duration(ph.For))
	case ph.Records > 0:
		err = r.reach(ctx, goal)
	case len(ph.Steps) > 0:
		err = r.steps(ctx, ph)
	case ph.Until == plan.UntilRecovered:
		err = r.heal(ctx, time.Duration(ph.Within))
	case ph.Until == plan.UntilDrained:
		err = r.drain(ctx, ph)
	}
	if err != nil {
		return fmt.Errorf("phase %s: %w", ph.Name, err)
	}
	r.record(ctx, history.Event{Kind: history.PhaseEnd, Actor: "run", Phase: ph.Name, Records: r.engine.Progress().Emitted()})
	return nil
}

// patience is how long a job may get nowhere before the run gives up on it: longer than any outage worth planning.
const patience = 5 * time.Minute

// reach waits until the sources have emitted goal records. A job that neither emits nor completes a checkpoint for
// very long restarts again and again, and would do so for ever.
func (r *run) reach(ctx context.Context, goal int64) error {
	emitted, completed, at := int64(-1), uint64(0), r.now()
	err := r.until(ctx, world.Never, func() bool {
		n, c := r.engine.Progress().Emitted(), r.engine.Status().LastCompleted
		if n != emitted || c != completed {
			emitted, completed, at = n, c, r.now()
		}
		return n >= goal || r.now()-at > patience
	})
	if err == nil && emitted < goal {
		s := r.engine.Status()
		return fmt.Errorf("the job has got nowhere for %v: %d of %d records emitted, newest checkpoint %d, attempt %d is %s",
			patience, emitted, goal, completed, s.Attempt, s.State)
	}
	return err
}

// hold waits for d while the job lives.
func (r *run) hold(ctx context.Context, d time.Duration) error {
	end := r.now() + d
	return r.until(ctx, world.Never, func() bool { return r.now() >= end })
}

var errLimit = errors.New("the limit passed")

// until waits for the condition, at most within the limit; it ends early with an error when the job failed for good.
func (r *run) until(ctx context.Context, within time.Duration, reached func() bool) error {
	began := r.now()
	for !reached() {
		if s := r.engine.Status(); s.State == "failed" {
			return fmt.Errorf("the job failed: %s", s.Error)
		}
		if within != world.Never && r.now()-began > within {
			return errLimit
		}
		if err := r.world.Sleep(ctx, poll); err != nil {
			return err
		}
	}
	return nil
}

// heal removes all faults and waits until the job is well: it runs, has caught up, and completes checkpoints again.
func (r *run) heal(ctx context.Context, within time.Duration) error {
	if within == 0 {
		within = time.Minute
	}
	limited, cancel := r.world.WithTimeout(ctx, within)
	r.faults.healAll(limited)
	cancel()
	r.faults.report(ctx)
	for _, id := range r.triggers.missed() {
		r.record(ctx, history.Event{Kind: history.Note, Actor: "run", Text: id + " was planned and its trigger never fired"})
	}
	r.triggers.close()
	before, p := r.engine.Status().LastCompleted, r.engine.Progress()
	err := r.until(ctx, within, func() bool {
		s := r.engine.Status()
		return s.State == "running" && s.LastCompleted > before && (s.Attempt <= 1 || r.sampler.caught.Load() == s.Attempt)
	})
	if errors.Is(err, errLimit) {
		s := r.engine.Status()
		return fmt.Errorf("the job has not recovered %v after healing: state %s, lag %v, newest completed checkpoint %d (%d before)",
			within, s.State, p.Lag(r.now()), s.LastCompleted, before)
	}
	return err
}

// drain stops the sources, takes a final checkpoint behind their last records, and lets clean-up finish.
func (r *run) drain(ctx context.Context, ph plan.Phase) error {
	within := time.Duration(ph.Within)
	if within == 0 {
		within = time.Minute
	}
	limited, cancel := r.world.WithTimeout(ctx, within)
	defer cancel()
	if err := r.engine.StopSources(limited); err != nil {
		return fmt.Errorf("stop the sources: %w", err)
	}
	if _, err := r.engine.Checkpoint(limited); err != nil {
		return fmt.Errorf("final checkpoint: %w", err)
	}
	if err := r.hold(limited, time.Duration(ph.GCGrace)); err != nil {
		return err
	}
	return r.engine.CleanUp(limited)
}
