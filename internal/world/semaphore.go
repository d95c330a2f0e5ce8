package world

import (
	"context"
	"fmt"
	"sync"
)

// Semaphore admits holders of weight, in the order of their arrival: a heavy one is not overtaken by light ones. All
// methods are safe for concurrent use.
type Semaphore struct {
	w    *common
	size int64

	mu struct {
		sync.Mutex
		free int64
		wait waitlist
	}
}

// NewSemaphore returns a semaphore with n units, all free; n >= 0.
func NewSemaphore(w World, n int64) *Semaphore {
	return newSemaphore(w.shared(), n)
}

func newSemaphore(w *common, n int64) *Semaphore {
	if n < 0 {
		panic("world: a semaphore needs n >= 0")
	}
	s := &Semaphore{w: w, size: n}
	s.mu.free = n
	return s
}

// Acquire takes k >= 0 units, waiting until they are free and everybody who came before is served. It returns the cause
// when ctx is done, and an error at once when k exceeds the size, and then holds nothing.
func (s *Semaphore) Acquire(ctx context.Context, k int64) error {
	c := s.w.enter(ctx)
	return s.acquire(&c, k)
}

func (s *Semaphore) acquire(c *caller, k int64) error {
	if k < 0 || k > s.size {
		return fmt.Errorf("acquire %d of a semaphore of %d", k, s.size)
	}
	if err := c.err(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.mu.wait.head == nil && s.mu.free >= k {
		s.mu.free -= k
		s.mu.Unlock()
		return nil
	}
	p := s.w.k.acquire(c.c)
	p.node.need = k
	s.mu.wait.add(&p.node)
	granted := false
	var err error
	for !granted && err == nil { // a spurious wake-up must not cost the place in the line
		s.mu.Unlock()
		err = c.park(p, Never, "a semaphore")
		s.mu.Lock()
		granted = p.node.list == nil
	}
	s.mu.wait.remove(&p.node)
	s.w.k.release(p)
	if err != nil {
		if granted {
			s.mu.free += k
		}
		s.grant() // the leaver may have stood before somebody who fits
	}
	s.mu.Unlock()
	throw(err)
	return err
}

// TryAcquire takes k units if they are free and nobody waits, and tells whether it did.
func (s *Semaphore) TryAcquire(k int64) bool {
	if !s.w.k.quick() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.wait.head != nil || s.mu.free < k {
		return false
	}
	s.mu.free -= k
	return true
}

// Release gives back k units. It works in deferred functions of a dead process too, since the semaphore may belong to
// the living.
func (s *Semaphore) Release(k int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.free += k
	if s.mu.free > s.size {
		panic("world: more released than acquired")
	}
	s.grant()
}

// grant serves waiters in order as long as they fit.
func (s *Semaphore) grant() {
	for n := s.mu.wait.head; n != nil && n.need <= s.mu.free; n = s.mu.wait.head {
		s.mu.free -= n.need
		s.mu.wait.remove(n)
		s.w.k.wake(n.p)
	}
}

// contended tells whether somebody waits.
func (s *Semaphore) contended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.wait.head != nil
}
