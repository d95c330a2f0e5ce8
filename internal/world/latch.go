package world

import (
	"context"
	"sync"
	"sync/atomic"
)

// Latch is an event that happens once. It is Waitable, ready from its opening on. All methods are safe for concurrent
// use.
type Latch struct {
	w    *common
	open atomic.Bool
	mu   sync.Mutex
	wait side // guarded by mu
}

// NewLatch returns a latch that is not open.
func NewLatch(w World) *Latch { return &Latch{w: w.shared()} }

// Open lets everybody pass, now and later. A second call does nothing, nor does one by a dead process of the simulated
// world.
func (l *Latch) Open() {
	if !l.w.k.quick() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open.Store(true)
	l.wait.broadcast(l.w)
}

// Opened tells whether Open was called.
func (l *Latch) Opened() bool { return l.open.Load() }

// Wait waits until the latch is open or returns the cause when ctx is done, even if the latch is open.
func (l *Latch) Wait(ctx context.Context) error {
	c := l.w.enter(ctx)
	_, err := c.await(l, Never, "a latch")
	return err
}

func (l *Latch) ready() bool { return l.open.Load() }

func (l *Latch) arm(n *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open.Load() {
		return true
	}
	l.wait.pollers.add(n)
	return false
}

func (l *Latch) disarm(n *waiter) {
	l.mu.Lock()
	l.wait.pollers.remove(n)
	l.mu.Unlock()
}

// Mutex guards a short critical section in which nothing of this package that can block is called: the simulated world
// panics when a process waits while it holds one. The zero value works in both worlds but does not assert this.
type Mutex struct {
	sim    *Sim
	holder *proc
	held   bool
	mu     sync.Mutex
}

// NewMutex returns an unlocked mutex.
func NewMutex(w World) *Mutex {
	s, _ := w.(*Sim)
	return &Mutex{sim: s}
}

// Lock locks the mutex.
func (m *Mutex) Lock() {
	if m.sim == nil {
		m.mu.Lock()
		return
	}
	if m.held {
		panic("world: the mutex is held by a process that has ended or locks it again")
	}
	m.held, m.holder = true, m.sim.cur
	if m.holder != nil {
		m.holder.locks++
	}
}

// Unlock unlocks the mutex, which must be locked. It works in dead processes too.
func (m *Mutex) Unlock() {
	if m.sim == nil {
		m.mu.Unlock()
		return
	}
	if !m.held {
		panic("world: unlock of an unlocked mutex")
	}
	if m.holder != nil {
		m.holder.locks--
	}
	m.held, m.holder = false, nil
}
