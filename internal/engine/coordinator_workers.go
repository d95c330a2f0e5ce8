package engine

import (
	"context"
	"slices"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
)

// crew is the workers the leader knows, in the order of their names.
type crew struct {
	names []string
	of    map[string]*remote
}

// remote is a worker as the leader sees it.
type remote struct {
	name  string
	life  uint64
	slots int
	last  time.Duration // when it was heard last
	alive bool
}

// get returns a worker that is alive, or nil.
func (w *crew) get(name string) *remote {
	if r := w.of[name]; r != nil && r.alive {
		return r
	}
	return nil
}

// seen notes a sign of life. One of a life that is not registered is nothing to go by.
func (w *crew) seen(name string, life uint64, now time.Duration) {
	if r := w.get(name); r != nil && r.life == life {
		r.last = now
	}
}

// alive lists the live workers in the order of their names.
func (w *crew) alive() []*remote {
	var all []*remote
	for _, name := range w.names {
		if r := w.get(name); r != nil {
			all = append(all, r)
		}
	}
	return all
}

// register takes a worker in, or a new life of it, and answers with a heartbeat. A repeated registration changes nothing.
func (c *coordinator) register(ctx context.Context, m Register) {
	now := c.world.Now()
	old := c.workers.of[m.Worker]
	switch {
	case old != nil && m.Life < old.life:
		return
	case old != nil && old.life == m.Life && old.alive:
		old.last = now
	default:
		if old != nil && old.alive {
			c.lost(ctx, m.Worker, old.life, "replaced by a new life")
		}
		if old == nil {
			at, _ := slices.BinarySearch(c.workers.names, m.Worker)
			c.workers.names = slices.Insert(c.workers.names, at, m.Worker)
			if c.workers.of == nil {
				c.workers.of = map[string]*remote{}
			}
		}
		c.workers.of[m.Worker] = &remote{name: m.Worker, life: m.Life, slots: m.Slots, last: now, alive: true}
		c.record(ctx, history.Event{Kind: history.WorkerUp, Actor: m.Worker, Count: int64(m.Slots)})
	}
	c.end.Send(ctx, m.Worker, 0, Heartbeat{Sent: now, Life: m.Life})
}

// heartbeat tells every worker that the leader lives, and finds those that have been silent for too long.
func (c *coordinator) heartbeat(ctx context.Context, now time.Duration) {
	c.beat = now + max(plan.D(c.cfg.Workers.HeartbeatEvery), time.Millisecond)
	timeout := plan.D(c.cfg.Workers.HeartbeatTimeout)
	for _, r := range c.workers.alive() {
		if timeout > 0 && now-r.last > timeout {
			c.lost(ctx, r.name, r.life, "silent")
			continue
		}
		c.end.Send(ctx, r.name, 0, Heartbeat{Sent: now, Life: r.life})
	}
	c.retryDrops(ctx)
}

// lost takes a worker out. If it hosts a part of the running attempt, that fails.
func (c *coordinator) lost(ctx context.Context, name string, life uint64, why string) {
	r := c.workers.get(name)
	if r == nil || r.life != life {
		return
	}
	r.alive = false
	c.record(ctx, history.Event{Kind: history.WorkerDown, Actor: name, Reason: why})
	a := c.attempt
	if a == nil || a.lives[name] != life {
		return
	}
	delete(a.awaited, name)
	c.fail(ctx, failure{cause: "worker-lost", actor: name, err: name + ": " + why})
}
