package world

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// findKey is the key under which a context finds the nearest wctx below it.
var findKey = new(int) // read-only: only its address counts

// wctx is the context of this package. It knows the process it was made for, the domain that new processes join, and
// its scope of cancellation, which several contexts may share.
type wctx struct {
	parent context.Context
	scope  *scope
	proc   *proc
	dom    *Domain
}

var _ context.Context = (*wctx)(nil)

// find returns the nearest wctx of ctx, or nil for a context from elsewhere.
func find(ctx context.Context) *wctx {
	if c, ok := ctx.(*wctx); ok {
		return c
	}
	c, _ := ctx.Value(findKey).(*wctx)
	return c
}

// Deadline is given on the wall clock in the real world, on the virtual one, which began with the year 2000, in the
// simulated world.
func (c *wctx) Deadline() (time.Time, bool) {
	if c.scope.deadline == Never {
		return time.Time{}, false
	}
	return c.scope.w.began.Add(c.scope.deadline), true
}

func (c *wctx) Done() <-chan struct{} { return c.scope.std.Done() }

func (c *wctx) Err() error {
	err, _ := c.scope.errs()
	return err
}

func (c *wctx) Value(key any) any {
	if key == findKey {
		return c
	}
	// The standard context inside answers context.Cause and links standard children without a goroutine.
	if v := c.scope.std.Value(key); v != nil {
		return v
	}
	return c.parent.Value(key)
}

// AfterFunc calls f once when c is done, in the process that ends it, before the cancel function returns. stop
// prevents the call and tells whether it did. f must not block.
func (c *wctx) AfterFunc(f func()) (stop func() bool) { return c.scope.afterFunc(f) }

// AfterFunc calls f once when ctx, which must be a context of this package or carry values on top of one, is done: in
// the process that ends it and before its cancel function returns, or at once when it is done already. stop prevents
// the call and tells whether it did. f must not block. It replaces context.AfterFunc, which starts a goroutine.
func AfterFunc(ctx context.Context, f func()) (stop func() bool) {
	c := find(ctx)
	if c == nil {
		panic("world: AfterFunc on a context from elsewhere")
	}
	return c.scope.afterFunc(f)
}

// link is an entry of the ordered list of what a scope ends: a child or a function.
type link struct {
	next, prev *link
	owner      *scope // nil when not linked
	child      *scope
	f          func()
}

// scope is a unit of cancellation. It wakes the processes parked under it, then ends its children, in the order of
// their creation.
type scope struct {
	w        *common
	deadline time.Duration
	std      context.Context
	stdEnd   context.CancelCauseFunc
	self     link

	ended atomic.Bool
	mu    struct {
		sync.Mutex
		err, cause error
		below      link // ring
		parked     waitlist
		hooks      []func() bool // undo registrations elsewhere
		tm         timer
	}
}

// newScope returns a scope that ends with above (nil: with nothing else).
func newScope(w *common, above *scope) *scope {
	s := &scope{w: w, deadline: Never}
	s.std, s.stdEnd = context.WithCancelCause(context.Background())
	s.mu.below.next, s.mu.below.prev = &s.mu.below, &s.mu.below
	s.self.child = s
	if above != nil {
		s.deadline = above.deadline
		if err, cause := above.add(&s.self); err != nil {
			s.end(err, cause)
		}
	}
	return s
}

// errs returns what ctx.Err and context.Cause say.
func (s *scope) errs() (err, cause error) {
	if !s.ended.Load() {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.err, s.mu.cause
}

// add links l below s, or returns why s is done.
func (s *scope) add(l *link) (err, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.err != nil {
		return s.mu.err, s.mu.cause
	}
	last := s.mu.below.prev
	l.owner, l.prev, l.next = s, last, &s.mu.below
	last.next, s.mu.below.prev = l, l
	return nil, nil
}

// drop unlinks l and tells whether it was linked.
func (s *scope) drop(l *link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.owner != s {
		return false
	}
	l.prev.next, l.next.prev = l.next, l.prev
	l.owner, l.prev, l.next = nil, nil, nil
	return true
}

func (s *scope) afterFunc(f func()) func() bool {
	l := &link{f: f}
	if err, _ := s.add(l); err != nil {
		f()
		return func() bool { return false }
	}
	return func() bool { return s.drop(l) }
}

// end makes the scope done; only the first call counts.
func (s *scope) end(err, cause error) {
	if cause == nil {
		cause = err
	}
	s.mu.Lock()
	if s.mu.err != nil {
		s.mu.Unlock()
		return
	}
	s.mu.err, s.mu.cause = err, cause
	s.ended.Store(true)
	// Under the lock, so that who sees the error also sees the closed channel and the standard library's cause.
	s.stdEnd(cause)
	for n := s.mu.parked.head; n != nil; n = n.next {
		s.w.k.wake(n.p)
	}
	var below []*link
	for l := s.mu.below.next; l != &s.mu.below; l = l.next {
		below = append(below, l)
		l.owner = nil
	}
	s.mu.below.next, s.mu.below.prev = &s.mu.below, &s.mu.below
	s.w.k.stopTimer(&s.mu.tm)
	hooks := s.mu.hooks
	s.mu.hooks = nil
	s.mu.Unlock()

	for _, undo := range hooks {
		undo()
	}
	for _, l := range below {
		if l.child != nil {
			l.child.end(err, cause)
		} else {
			l.f()
		}
	}
}

// cancel ends the scope and forgets it above.
func (s *scope) cancel(err, cause error, above *scope) {
	s.end(err, cause)
	if above != nil {
		above.drop(&s.self)
	}
}

// hook makes the end of the scope call undo, at once when it has ended.
func (s *scope) hook(undo func() bool) {
	s.mu.Lock()
	ended := s.mu.err != nil
	if !ended {
		s.mu.hooks = append(s.mu.hooks, undo)
	}
	s.mu.Unlock()
	if ended {
		undo()
	}
}

// watch registers a parking process, or returns the cause why the scope is done.
func (s *scope) watch(n *waiter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.err != nil {
		return s.mu.cause
	}
	s.mu.parked.add(n)
	return nil
}

func (s *scope) unwatch(n *waiter) {
	s.mu.Lock()
	s.mu.parked.remove(n)
	s.mu.Unlock()
}

// scopeBelow makes a scope that ends with ctx. The simulated world refuses contexts that somebody else can cancel.
func (w *common) scopeBelow(ctx context.Context) (s, above *scope) {
	c := find(ctx)
	above = w.root.scope
	if c != nil {
		above = c.scope
	}
	s = newScope(w, above)
	if w.foreign(ctx, c) != nil {
		s.hook(context.AfterFunc(ctx, func() { s.cancel(ctx.Err(), context.Cause(ctx), above) }))
	}
	return s, above
}

// foreign returns the channel by which somebody outside of this package cancels ctx, or nil.
func (w *common) foreign(ctx context.Context, c *wctx) <-chan struct{} {
	if ctx == context.Context(c) {
		return nil
	}
	done := ctx.Done()
	if done == nil || c != nil && done == c.Done() {
		return nil
	}
	if w.sim {
		panic("world: a context of the simulated world must come from World.WithCancel or World.WithTimeout")
	}
	return done
}

func (w *common) WithCancel(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	s, above := w.scopeBelow(ctx)
	return w.contextOf(ctx, s), func(cause error) { s.cancel(context.Canceled, cause, above) }
}

func (w *common) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	s, above := w.scopeBelow(ctx)
	if d <= 0 {
		s.cancel(context.DeadlineExceeded, nil, above)
	} else if at := later(w.k.now(), d); at < s.deadline {
		s.deadline = at
		s.mu.Lock()
		if s.mu.err == nil {
			w.k.startTimer(&s.mu.tm, at, func() { s.cancel(context.DeadlineExceeded, nil, above) })
		}
		s.mu.Unlock()
	}
	return w.contextOf(ctx, s), func() { s.cancel(context.Canceled, nil, above) }
}

// contextOf returns ctx with the scope s.
func (w *common) contextOf(ctx context.Context, s *scope) *wctx {
	c := &wctx{parent: ctx, scope: s}
	if up := find(ctx); up != nil {
		c.proc, c.dom = up.proc, up.dom
	}
	return c
}

// later returns t+d, or Never when that does not fit.
func later(t, d time.Duration) time.Duration {
	if d > Never-t {
		return Never
	}
	return t + d
}
