package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"statebench.dev/bench/internal/history"
)

// attempt is one execution of the job, from its deployment until its processes have ended.
type attempt struct {
	id          uint64
	parallelism int
	restored    uint64
	where       []string          // by index: the worker that hosts subtask index of every operator
	hosts       []string          // the workers, in the order of their names
	lives       map[string]uint64 // of the hosts
	running     []bool            // by ordinal of the subtask
	left        int               // subtasks that do not run yet
	awaited     map[string]bool   // hosts whose processes have not ended, once they are to
	over        bool              // failed or cancelled: nothing of it counts any more
	places      places            // of what is bounded over all its hosts
	fenced      bool              // its processes have ended, or are past the leader's patience
}

// ordinal numbers the subtasks of an attempt in order of (operator, index); false for one that is not part of it.
func (c *coordinator) ordinal(a *attempt, operator string, index int) (int, bool) {
	at, ok := c.job.at[operator]
	if !ok || index < 0 || index >= a.parallelism {
		return 0, false
	}
	return at*a.parallelism + index, true
}

func subtaskName(operator string, index int) string { return operator + "-" + strconv.Itoa(index) }

// failure is why an attempt ends.
type failure struct {
	cause    string // worker-lost, subtask-failed, rescale
	actor    string
	err      string
	injected bool
}

// current returns the newest attempt if m belongs to it and it counts.
func (c *coordinator) current(m Message) *attempt {
	if a := c.attempt; a != nil && a.id == m.Attempt && !a.over {
		return a
	}
	return nil
}

// subtaskRunning counts the subtasks that run; with the last one the sources start.
func (c *coordinator) subtaskRunning(ctx context.Context, m Message, b SubtaskRunning) {
	a := c.current(m)
	if a == nil || c.phase != phaseDeploying {
		return
	}
	o, ok := c.ordinal(a, b.Operator, b.Index)
	if !ok || a.running[o] {
		return
	}
	a.running[o] = true
	if a.left--; a.left > 0 {
		return
	}
	c.phase = phaseRunning
	if !c.running {
		c.running, c.began = true, c.world.Now()
		c.checkpoints.begin(c.began)
	}
	c.record(ctx, history.Event{Kind: history.AttemptRunning, Actor: c.name, Attempt: a.id, Count: int64(a.parallelism), Checkpoint: a.restored})
	c.toHosts(ctx, a, StartSources{Began: c.began})
	if c.halted {
		c.halt(ctx)
	}
	c.rescaleDone(ctx)
	c.startDone(ctx)
}

// toHosts sends body to every live host of an attempt.
func (c *coordinator) toHosts(ctx context.Context, a *attempt, body any) {
	for _, h := range a.hosts {
		if r := c.workers.get(h); r != nil && r.life == a.lives[h] {
			c.end.Send(ctx, h, a.id, body)
		}
	}
}

// subtaskFailed fails the attempt.
func (c *coordinator) subtaskFailed(ctx context.Context, m Message, b SubtaskFailed) {
	a := c.current(m)
	if a == nil {
		return
	}
	if b.Unreadable && c.phase == phaseDeploying && a.restored != 0 {
		c.unreadable(ctx, a.restored, b.Error)
	}
	foreign := b.Foreign && c.phase == phaseDeploying
	c.fail(ctx, failure{cause: "subtask-failed", actor: subtaskName(b.Operator, b.Index), err: b.Error, injected: b.Injected})
	if foreign {
		c.verdict.final = errors.New(b.Error)
	}
}

// attemptEnded notes that a host is done with an attempt. One that ends by itself, since it did not hear from the
// leader, takes the attempt down.
func (c *coordinator) attemptEnded(ctx context.Context, m Message, b AttemptEnded) {
	a := c.attempt
	if a == nil || a.id != m.Attempt {
		return
	}
	if !a.over && slices.Contains(a.hosts, b.Worker) {
		c.fail(ctx, failure{cause: "worker-lost", actor: b.Worker, err: b.Worker + " ended its part by itself"})
	}
	delete(a.awaited, b.Worker)
}

// fail ends the running attempt: no checkpoint of it completes any more unless it is already being decided, and its hosts are
// told to end it.
func (c *coordinator) fail(ctx context.Context, f failure) {
	if c.phase != phaseRunning && c.phase != phaseDeploying {
		return
	}
	a := c.attempt
	c.cause = f.cause
	c.judgeFailure(f)
	c.cancel(ctx, phaseFailing, ReasonAttemptFailed, func() {
		c.record(ctx, history.Event{Kind: history.AttemptFailed, Actor: f.actor, Attempt: a.id, Error: f.err, Text: f.cause, Injected: f.injected})
	})
}

// cancel ends the newest attempt and goes to phase to, where its end is waited for. say records why.
func (c *coordinator) cancel(ctx context.Context, to phase, reason string, say func()) {
	a := c.attempt
	a.over = true
	c.phase = to
	c.until = c.world.Now() + c.patience()
	a.awaited = map[string]bool{}
	for _, h := range a.hosts {
		if r := c.workers.get(h); r != nil && r.life == a.lives[h] {
			a.awaited[h] = true
		}
	}
	say()
	if !c.zombies() {
		c.abortPending(ctx, func(*pending) bool { return true }, reason, "", false)
	}
	for _, h := range a.hosts {
		if a.awaited[h] {
			c.end.Send(ctx, h, a.id, CancelAttempt{})
		}
	}
}

// fence closes the books on the attempt once its processes have ended, or the patience with them.
func (c *coordinator) fence(ctx context.Context) {
	a := c.attempt
	a.fenced = true
	e := history.Event{Kind: history.AttemptFenced, Actor: c.name, Attempt: a.id}
	if n := len(a.awaited); n > 0 {
		e.Reason = fmt.Sprintf("%d workers had not ended it in time", n)
	}
	c.network.Release(a.id)
	c.record(ctx, e)
}
