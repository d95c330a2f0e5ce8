package world

import (
	"context"
	"errors"
	"sync"
)

// Group starts processes and waits for them. It is Waitable, ready when every process started so far has ended (an
// empty group is). All methods are safe for concurrent use.
type Group struct {
	w  *common
	mu struct {
		sync.Mutex
		running int
		err     error
		panics  []*PanicError // all of them
		wait    side
	}
}

// NewGroup returns an empty group.
func NewGroup(w World) *Group { return &Group{w: w.shared()} }

// Go starts a process in ctx's domain, like World.Go, whose result goes to the group.
func (g *Group) Go(ctx context.Context, name string, f func(ctx context.Context) error) {
	c := g.w.caller(ctx)
	g.mu.Lock()
	g.mu.running++
	g.mu.Unlock()
	g.w.spawn(&c, name, f, g)
}

// Wait waits until every process of the group has ended and returns the first error of one: ErrKilled for a process
// whose domain was killed, a *PanicError for a panic; later panics are joined to it. It does not return early when ctx
// is done, since the processes then end by themselves if they run under it; where that is wrong, wait for the group
// together with other things by the function Wait. It may be called again, also after further calls of Go.
func (g *Group) Wait(ctx context.Context) error {
	c := g.w.enter(ctx)
	c.deaf = true
	c.await(g, Never, "a group") // deaf: no error
	return g.Err()
}

// Err returns what Wait would return, of the processes that have ended so far.
func (g *Group) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.mu.err
	for _, p := range g.mu.panics {
		p.told.Store(true)
		if !errors.Is(err, p) {
			err = errors.Join(err, p)
		}
	}
	return err
}

// Running is the number of processes that have not ended.
func (g *Group) Running() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.running
}

// done takes the result of a process.
func (g *Group) done(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.err == nil {
		g.mu.err = err
	}
	if p, ok := err.(*PanicError); ok {
		g.mu.panics = append(g.mu.panics, p)
	}
	g.mu.running--
	if g.mu.running == 0 {
		g.mu.wait.broadcast(g.w)
	}
}

func (g *Group) ready() bool { return g.Running() == 0 }

func (g *Group) arm(n *waiter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.running == 0 {
		return true
	}
	g.mu.wait.pollers.add(n)
	return false
}

func (g *Group) disarm(n *waiter) {
	g.mu.Lock()
	g.mu.wait.pollers.remove(n)
	g.mu.Unlock()
}
