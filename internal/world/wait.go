package world

import (
	"context"
	"sync"
	"time"
)

// Waitable is something a process can wait for together with other things: a side of a Queue, a Latch, a Group, a
// Domain. It tells a condition and promises nothing: who is told that it holds may find it taken by somebody else.
type Waitable interface {
	// ready tells whether the condition holds.
	ready() bool
	// arm links n, so that its process is woken when the condition may hold, unless it holds now: then it returns true.
	arm(n *waiter) bool
	// disarm unlinks n.
	disarm(n *waiter)
}

// waiter stands for a process in one waiting list.
type waiter struct {
	next, prev *waiter
	list       *waitlist // nil when not linked
	p          *proc
	need       int64 // of a semaphore
}

// waitlist is a list of waiters, first come first served. Its owner's mutex guards it.
type waitlist struct{ head, tail *waiter }

func (l *waitlist) add(n *waiter) {
	n.list, n.prev, n.next = l, l.tail, nil
	if l.tail == nil {
		l.head = n
	} else {
		l.tail.next = n
	}
	l.tail = n
}

// remove unlinks n and tells whether it was linked here.
func (l *waitlist) remove(n *waiter) bool {
	if n.list != l {
		return false
	}
	if n.prev == nil {
		l.head = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		l.tail = n.prev
	} else {
		n.next.prev = n.prev
	}
	n.list, n.next, n.prev = nil, nil, nil
	return true
}

// side is a condition and who waits for it: all pollers are woken by a signal, since they may turn to something else,
// but only the first of those that will use up what was signalled. The owner's mutex guards it.
type side struct{ pollers, takers waitlist }

// signal says that one taker can go on.
func (s *side) signal(w *common) {
	for n := s.pollers.head; n != nil; n = n.next {
		w.k.wake(n.p)
	}
	if n := s.takers.head; n != nil {
		s.takers.remove(n)
		w.k.wake(n.p)
	}
}

// broadcast says that everybody can go on.
func (s *side) broadcast(w *common) {
	s.signal(w)
	for s.takers.head != nil {
		n := s.takers.head
		s.takers.remove(n)
		w.k.wake(n.p)
	}
}

// caller is who calls a primitive and under which context.
type caller struct {
	w    *common
	ctx  context.Context
	c    *wctx // nearest of ctx; nil for a context from elsewhere
	deaf bool  // ignore the end of the context
}

// caller begins a call: it unwinds a dead process.
func (w *common) caller(ctx context.Context) caller {
	c := caller{w: w, ctx: ctx, c: find(ctx)}
	w.k.check(c.c)
	return c
}

// enter begins a call that may block, where the simulated scheduler may turn to another process.
func (w *common) enter(ctx context.Context) caller {
	c := w.caller(ctx)
	w.k.point()
	return c
}

// err returns the cause why the caller's context is done, or nil.
func (c *caller) err() error {
	if c.deaf {
		return nil
	}
	if c.ctx == context.Context(c.c) {
		_, cause := c.c.scope.errs()
		return cause
	}
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	return nil
}

// park waits until p is woken, until comes or the caller's context ends. errDead asks the caller to clean up and call
// throw; any other error is the context's. What p waits for was linked before, so that no signal is lost.
func (c *caller) park(p *proc, until time.Duration, op string) error {
	var foreign <-chan struct{}
	watched := c.c != nil && !c.deaf
	if !c.deaf {
		foreign = c.w.foreign(c.ctx, c.c)
	}
	if watched {
		if err := c.c.scope.watch(&p.watch); err != nil {
			if p.doomed() {
				return errDead
			}
			return err
		}
	}
	alive := !p.doomed()
	if alive {
		p.op = op
		alive = c.w.k.park(p, until, foreign)
		p.op = ""
	}
	if watched {
		c.c.scope.unwatch(&p.watch)
	}
	if !alive || p.doomed() {
		return errDead
	}
	return c.err()
}

// throw unwinds the process if err says that it is dead.
func throw(err error) {
	if err == errDead {
		panic(killed{})
	}
}

// block parks the caller as a taker on l until it is signalled (then used is true: it must use the signal or pass it
// on) or gets an error, which goes to throw once mu, held on entry and on return, is let go.
func (c *caller) block(mu *sync.Mutex, l *waitlist, op string) (used bool, err error) {
	p := c.w.k.acquire(c.c)
	l.add(&p.node)
	mu.Unlock()
	err = c.park(p, Never, op)
	mu.Lock()
	used = !l.remove(&p.node)
	c.w.k.release(p)
	return used, err
}

// await waits until a holds.
func (c *caller) await(a Waitable, until time.Duration, op string) (bool, error) {
	for {
		if err := c.err(); err != nil {
			return false, err
		}
		if a.ready() {
			return true, nil
		}
		if until != Never && c.w.k.now() >= until {
			return false, nil
		}
		p := c.w.k.acquire(c.c)
		var err error
		if !a.arm(&p.node) {
			err = c.park(p, until, op)
			a.disarm(&p.node)
		}
		c.w.k.release(p)
		throw(err)
	}
}

// Wait waits until one of ws is ready and returns its index: in the simulated world drawn by the scheduler among those
// ready, in the real one the first ready after a start that moves on. It returns -1 and no error at until, a time of the
// world's clock (Never: no limit), and -1 and the cause when ctx is done, even if something is ready. A nil entry is
// never ready. Whoever waits again and again for the same things should use a WaitSet, which does not allocate.
func Wait(ctx context.Context, w World, until time.Duration, ws ...Waitable) (int, error) {
	return NewWaitSet(w, ws...).Wait(ctx, until)
}

// WaitSet is a fixed list of things that one process waits for again and again. It is not safe for concurrent use.
type WaitSet struct {
	w     *common
	what  []Waitable
	off   []bool
	nodes []waiter
	found []int // scratch
	turn  int
}

// NewWaitSet returns a set of ws, all enabled.
func NewWaitSet(w World, ws ...Waitable) *WaitSet {
	s := &WaitSet{w: w.shared()}
	if !s.w.sim {
		s.turn = int(s.w.turns.Add(1) & 0xffff)
	}
	for _, x := range ws {
		s.Add(x)
	}
	return s
}

// Add appends x, which may be nil, enabled, and returns its index.
func (s *WaitSet) Add(x Waitable) int {
	s.what = append(s.what, x)
	s.off = append(s.off, false)
	s.nodes = append(s.nodes, waiter{})
	s.found = append(s.found, 0)
	return len(s.what) - 1
}

// Set replaces entry i by x; nil is never ready.
func (s *WaitSet) Set(i int, x Waitable) { s.what[i] = x }

// Enable says whether Wait considers entry i; new entries are enabled.
func (s *WaitSet) Enable(i int, on bool) { s.off[i] = !on }

// Len is the number of entries.
func (s *WaitSet) Len() int { return len(s.what) }

// Wait waits until an enabled entry is ready, like the function Wait. It does not allocate. In the real world it
// takes turns, so that no entry that stays ready hides another.
func (s *WaitSet) Wait(ctx context.Context, until time.Duration) (int, error) {
	c := s.w.enter(ctx)
	for {
		if err := c.err(); err != nil {
			return -1, err
		}
		if i := s.pick(); i >= 0 {
			return i, nil
		}
		if until != Never && s.w.k.now() >= until {
			return -1, nil
		}
		throw(s.park(&c, until))
	}
}

// pick returns a ready entry or -1.
func (s *WaitSet) pick() int {
	if s.w.sim {
		n := 0
		for i, x := range s.what {
			if x != nil && !s.off[i] && x.ready() {
				s.found[n] = i
				n++
			}
		}
		if n == 0 {
			return -1
		}
		return s.found[s.w.k.choose(n)]
	}
	n := len(s.what)
	for j := range n {
		i := s.turn + j
		if i >= n {
			i -= n
		}
		if i >= n {
			i %= n
		}
		if x := s.what[i]; x != nil && !s.off[i] && x.ready() {
			s.turn = i + 1
			return i
		}
	}
	return -1
}

// park links the entries, waits and unlinks them.
func (s *WaitSet) park(c *caller, until time.Duration) error {
	p := s.w.k.acquire(c.c)
	armed, hit := 0, false
	for i, x := range s.what {
		armed = i + 1
		if x == nil || s.off[i] {
			continue
		}
		s.nodes[i].p = p
		if hit = x.arm(&s.nodes[i]); hit {
			break
		}
	}
	var err error
	if !hit {
		err = c.park(p, until, "one of several things")
	}
	for i, x := range s.what[:armed] {
		if x != nil && !s.off[i] {
			x.disarm(&s.nodes[i])
			s.nodes[i].p = nil
		}
	}
	s.w.k.release(p)
	return err
}
