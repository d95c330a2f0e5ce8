package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
)

// lead makes the coordinator the leader: it reads the log, takes the next term, and learns what the retained checkpoints name.
// Until that is done it takes no message.
func (c *coordinator) lead(ctx context.Context) error {
	owner := fmt.Sprintf("%s/%d/%016x", c.name, c.life, c.world.Rand(fmt.Sprintf("engine/%s/%d", c.name, c.life)).Uint64())
	cctx := store.WithInfo(ctx, store.Info{Cause: "coord"})
	var log *checkpoint.Log
	err := c.insist(ctx, func() (err error) {
		log, err = checkpoint.OpenLog(cctx, c.world, c.bucket, owner)
		return err
	})
	if err != nil {
		return err
	}
	if err := c.insist(ctx, func() (err error) { c.term, err = log.TakeOver(cctx); return err }); err != nil {
		return err
	}
	c.end.Fence(c.term, 0)
	c.attempts = (c.term - 1) * attemptsPerTerm
	c.ledger = newLedger(c, log)
	c.record(ctx, history.Event{Kind: history.CoordinatorTakeover, Actor: c.name, Term: c.term})
	state := log.State()
	if err := c.insist(ctx, func() error { return log.Reserve(cctx, state.NextID()) }); err != nil {
		return err
	}
	c.checkpoints.next, c.checkpoints.reserved = state.NextID(), log.State().Reserved
	if err := c.recall(ctx, state); err != nil {
		return err
	}
	if err := c.rebuild(ctx, state.Retained); err != nil {
		return err
	}
	c.ledger.start(ctx)
	c.until = c.world.Now() + c.patience()
	c.pick(ctx)
	return nil
}

// insist repeats f while the store cannot be used, since there is nothing to do without it.
func (c *coordinator) insist(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil || ctx.Err() != nil || !passing(err) {
			return err
		}
		if err := c.world.Sleep(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
}

// passing tells whether an error of the store may be gone on the next try.
func passing(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrThrottled) || errors.Is(err, store.ErrAmbiguous)
}

// rebuild fills the completed store and the registry. A checkpoint that cannot be read stays retained, so that it is
// dropped in its turn, but nothing restores it.
func (c *coordinator) rebuild(ctx context.Context, retained []checkpoint.Retained) error {
	ctx = store.WithInfo(ctx, store.Info{Cause: "meta"})
	for _, r := range retained {
		done, err := c.fetch(ctx, r)
		switch {
		case ctx.Err() != nil:
			return err
		case err != nil:
			c.unreadable(ctx, r.ID, err.Error())
		default:
			c.learn(done)
		}
		c.subsume(ctx, c.checkpoints.completed.Add(done))
	}
	return nil
}

// learn tells the registry of a checkpoint that completed, or of a savepoint that was claimed.
func (c *coordinator) learn(done *checkpoint.Completed) {
	if _, ok := checkpoint.SavepointOf(done.Object.Key); !ok {
		c.checkpoints.registry.Complete(done.Metadata, done.Object)
		return
	}
	for i := range done.Metadata.Subtasks {
		c.checkpoints.registry.Register(done.Metadata.Subtasks[i].Keyed, done.Metadata.ID)
	}
}

// fetch reads a checkpoint's metadata. With an error comes one of which nothing is known but its id and where it lies.
func (c *coordinator) fetch(ctx context.Context, r checkpoint.Retained) (done *checkpoint.Completed, err error) {
	err = c.insist(ctx, func() (err error) {
		done, err = checkpoint.Fetch(ctx, c.world, c.bucket, r.Metadata)
		return err
	})
	if err != nil {
		done = &checkpoint.Completed{Metadata: &checkpoint.Metadata{ID: r.ID}, Object: checkpoint.ObjectUse{Key: r.Metadata}}
	}
	return done, err
}

// unreadable reports a checkpoint that cannot be restored, once; it is not tried again.
func (c *coordinator) unreadable(ctx context.Context, id uint64, why string) {
	if c.checkpoints.unreadable[id] {
		return
	}
	c.checkpoints.unreadable[id] = true
	c.record(ctx, history.Event{Kind: history.Note, Actor: c.name, Checkpoint: id, Error: why,
		Text: fmt.Sprintf("checkpoint %d cannot be restored, the next older one is tried", id)})
}

// advance takes the job from one phase to the next when nothing stands against it.
func (c *coordinator) advance(ctx context.Context, now time.Duration) {
	switch c.phase {
	case phaseFailing:
		if len(c.attempt.awaited) > 0 && now < c.until {
			return
		}
		c.fence(ctx)
		c.cleanAttempt(ctx, c.attempt.id)
		if c.verdict.final != nil {
			c.failJob(ctx, c.verdict.final)
			return
		}
		// Without any delay a job that fails at once would never let time pass.
		c.phase, c.until = phaseDelaying, now+max(c.verdict.delay, time.Millisecond)
		if c.cause == causeRescale {
			c.until = now
		}
		c.advance(ctx, now)
	case phaseDelaying:
		// A checkpoint that is being decided may yet be the newest completed one.
		if now >= c.until && !c.checkpoints.deciding() {
			c.pick(ctx)
		}
	case phaseWaiting:
		c.deploy(ctx)
	case phaseStopping:
		if len(c.attempt.awaited) == 0 || now >= c.until {
			c.fence(ctx)
			c.phase, c.until = phaseClearing, now+clearPatience
			c.advance(ctx, now)
		}
	case phaseSuspending:
		c.suspending(ctx, now)
	case phaseClearing:
		c.clear(ctx)
	}
}

// picked is the answer of pick.
type picked struct {
	turn       uint64                // of the search; one that another followed means nothing
	done       *checkpoint.Completed // nil: there is none to restore
	unreadable map[uint64]string     // checkpoints that were tried before it, and why they do not read
	tried      []uint64              // their ids, newest first
}

// pick finds, beside the loop, the newest completed checkpoint of which the metadata can be read.
func (c *coordinator) pick(ctx context.Context) {
	if c.phase != phaseStarting {
		c.phase = phasePicking
	}
	var candidates []*checkpoint.Completed
	all := c.checkpoints.completed.List()
	if c.origin != nil {
		all = append([]*checkpoint.Completed{c.origin}, all...)
	}
	for _, d := range all {
		if !c.checkpoints.unreadable[d.Metadata.ID] {
			candidates = append(candidates, d)
		}
	}
	if len(candidates) > 1 && c.mutant(mutantStaleRestore) {
		candidates = candidates[:1]
	}
	c.turn++
	turn := c.turn
	c.children.Go(ctx, "pick-checkpoint", func(ctx context.Context) error {
		ctx = store.WithInfo(ctx, store.Info{Cause: "restore"})
		p := picked{turn: turn, unreadable: map[uint64]string{}}
		for i := len(candidates) - 1; i >= 0 && p.done == nil; i-- {
			err := c.insist(ctx, func() (err error) {
				p.done, err = checkpoint.Fetch(ctx, c.world, c.bucket, candidates[i].Object.Key)
				return err
			})
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				id := candidates[i].Metadata.ID
				p.unreadable[id], p.done = err.Error(), nil
				p.tried = append(p.tried, id)
			}
		}
		c.end.Post(ctx, 0, p)
		return nil
	})
}

// pickedCheckpoint goes on with the deployment. Where something completed and nothing can be read the job is lost: to start from
// the beginning would repeat output.
func (c *coordinator) pickedCheckpoint(ctx context.Context, p picked) {
	if c.phase != phasePicking && c.phase != phaseStarting || p.turn != c.turn {
		return
	}
	for _, id := range p.tried {
		c.unreadable(ctx, id, p.unreadable[id])
	}
	if p.done == nil && (c.checkpoints.completed.Newest() != nil || c.origin != nil) {
		c.failJob(ctx, errors.New("none of the completed checkpoints can be restored"))
		return
	}
	c.choice = p.done
	c.phase = phaseWaiting
	c.deploy(ctx)
}
