package engine

import (
	"context"
	"slices"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/world"
)

// places are those that an attempt's leader hands out, in the order in which they are asked for. They end with the attempt, and
// the loss of a worker ends the attempt: no dead worker keeps a place.
type places struct {
	held  []string // by whom
	queue []wish
}

// wish is a place that somebody waits for.
type wish struct {
	AskPermit
	worker string
}

// askPermit puts a subtask into the queue for a place.
func (c *coordinator) askPermit(ctx context.Context, m Message, b AskPermit) {
	a := c.current(m)
	if a == nil || slices.Contains(a.places.held, b.Holder) {
		return
	}
	a.places.queue = append(a.places.queue, wish{b, m.From})
	c.grantPermits(ctx, a)
}

// returnPermit takes a place back, or a wish out of the queue.
func (c *coordinator) returnPermit(ctx context.Context, m Message, b ReturnPermit) {
	a := c.current(m)
	if a == nil {
		return
	}
	p := &a.places
	p.held = slices.DeleteFunc(p.held, func(h string) bool { return h == b.Holder })
	p.queue = slices.DeleteFunc(p.queue, func(w wish) bool { return w.Holder == b.Holder })
	c.grantPermits(ctx, a)
}

// grantPermits gives the free places to the first of the queue.
func (c *coordinator) grantPermits(ctx context.Context, a *attempt) {
	p := &a.places
	for len(p.queue) > 0 && len(p.held) < p.queue[0].Most {
		first := p.queue[0]
		p.queue = p.queue[1:]
		p.held = append(p.held, first.Holder)
		c.end.Send(ctx, first.worker, a.id, Permit{first.Holder})
	}
}

// permits is a worker's side of them, for the backend of one attempt.
type permits struct {
	a *execution
	*world.Mutex
	waiting map[string]*world.Latch // by holder
}

var _ backend.Permits = (*permits)(nil)

func newPermits(a *execution) *permits {
	return &permits{a: a, Mutex: world.NewMutex(a.w.cfg.World), waiting: map[string]*world.Latch{}}
}

// Acquire implements backend.Permits.
func (p *permits) Acquire(ctx context.Context, holder string, most int) error {
	granted := world.NewLatch(p.a.w.cfg.World)
	p.Lock()
	p.waiting[holder] = granted
	p.Unlock()
	p.a.send(ctx, AskPermit{Holder: holder, Most: most})
	err := granted.Wait(ctx)
	p.Lock()
	delete(p.waiting, holder)
	p.Unlock()
	if err != nil {
		p.Release(ctx, holder)
	}
	return err
}

// Release implements backend.Permits.
func (p *permits) Release(ctx context.Context, holder string) { p.a.send(ctx, ReturnPermit{holder}) }

// granted wakes who waits for a place, and tells whether somebody does.
func (p *permits) granted(holder string) bool {
	p.Lock()
	defer p.Unlock()
	l := p.waiting[holder]
	if l != nil {
		l.Open()
	}
	return l != nil
}
