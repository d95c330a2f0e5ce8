package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"statebench.dev/bench/internal/seed"
)

// kernel is what the two worlds do differently.
type kernel interface {
	shared() *common
	now() time.Duration
	// check unwinds the calling process if it is dead; c is its context, if known.
	check(c *wctx)
	// point is a place where a blocking call begins.
	point()
	// quick tells whether a call without a context may take effect: not that of a dead process.
	quick() bool
	// unwinding unwinds a caller of d.Kill that is dead for another reason.
	unwinding(d *Domain)
	// acquire returns the process that is about to park, forgetting wake-ups so far; release gives it back.
	acquire(c *wctx) *proc
	release(p *proc)
	// park waits for wake, until or foreign. It may return early, and returns false for a process that must unwind.
	park(p *proc, until time.Duration, foreign <-chan struct{}) bool
	wake(p *proc)
	// yield lets others run.
	yield(c *wctx)
	// choose draws from [0, n).
	choose(n int) int
	// compute spends CPU time.
	compute(ctx context.Context, c *wctx, cost time.Duration)
	start(p *proc)
	ended(p *proc)
	// reap unwinds the processes of a dead domain.
	reap(d *Domain)
	// startTimer calls f at a time unless the timer is stopped before.
	startTimer(t *timer, at time.Duration, f func())
	stopTimer(t *timer)
}

// killed is the panic that unwinds a dead process.
type killed struct{}

// Killed tells whether a recovered value is the one that unwinds a dead process. Only tests and the root of a process
// recover.
func Killed(recovered any) bool {
	_, ok := recovered.(killed)
	return ok
}

// PanicError is a panic in a process.
type PanicError struct {
	Process string // its name
	Value   any    // of the panic
	Stack   []byte // as debug.Stack prints it
	told    atomic.Bool
}

// Error names the process and the value and shows the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("process %s panicked: %v\n%s", e.Process, e.Value, e.Stack)
}

// Unwrap returns the value of the panic if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// common is what the two worlds share.
type common struct {
	k     kernel
	sim   bool
	seed  uint64
	began time.Time // wall clock or virtual calendar
	root  *wctx
	turns atomic.Uint32

	mu          sync.Mutex // guards what follows
	names       map[string]bool
	first, last *proc // alive, in the order of their start
	live        int
	started     int64
	ran         bool
	drained     chan struct{} // closed when live becomes 0; nil: nobody waits
	failure     error
	panics      []*PanicError
}

func (w *common) init(k kernel, master uint64, sim bool, began time.Time) {
	w.k, w.seed, w.sim, w.began, w.names = k, master, sim, began, map[string]bool{}
	w.root = &wctx{parent: context.Background(), scope: newScope(w, nil)}
}

func (w *common) shared() *common { return w }

func (w *common) Now() time.Duration { return w.k.now() }

func (w *common) Simulated() bool { return w.sim }

func (w *common) Rand(name string) *rand.Rand { return seed.Stream(w.seed, name) }

func (w *common) Go(ctx context.Context, name string, f func(ctx context.Context) error) {
	c := w.caller(ctx)
	w.spawn(&c, name, f, nil)
}

func (w *common) Sleep(ctx context.Context, d time.Duration) error {
	c := w.enter(ctx)
	if err := c.err(); err != nil {
		return err
	}
	if d <= 0 {
		w.k.yield(c.c)
		return c.err()
	}
	return c.sleep(later(w.k.now(), d), "a time")
}

// sleep waits until a time.
func (c *caller) sleep(until time.Duration, op string) error {
	for c.w.k.now() < until {
		p := c.w.k.acquire(c.c)
		err := c.park(p, until, op)
		c.w.k.release(p)
		if err != nil {
			throw(err)
			return err
		}
	}
	return nil
}

func (w *common) Compute(ctx context.Context, cost time.Duration) {
	c := find(ctx)
	w.k.check(c)
	w.k.compute(ctx, c, cost)
}

// proc is a process.
type proc struct {
	w     *common
	id    int64
	name  string
	dom   *Domain
	group *Group // nil: the world takes the result
	under context.Context
	ctx   *wctx
	f     func(context.Context) error

	main   bool
	result error // of the main process

	node  waiter // in the primitive it waits for
	watch waiter // in the scope it waits under
	op    string // what it waits for

	next, prev       *proc // alive in the world
	domNext, domPrev *proc // alive in the domain

	realProc
	simProc
}

// doomed tells whether the process must unwind.
func (p *proc) doomed() bool {
	return p.killed || p.dom != nil && p.dom.dead.Load()
}

// spawn starts a process.
func (w *common) spawn(c *caller, name string, f func(context.Context) error, g *Group) {
	p := &proc{w: w, name: name, group: g, under: c.ctx, f: f}
	if c.c != nil && w.foreign(c.ctx, c.c) == nil {
		p.ctx = &wctx{parent: c.ctx, scope: c.c.scope, proc: p, dom: c.c.dom}
	} else {
		s, _ := w.scopeBelow(c.ctx)
		p.ctx = w.contextOf(c.ctx, s)
		p.ctx.proc = p
	}
	w.register(p)
	w.k.start(p)
}

// newMain registers the main process.
func (w *common) newMain(f func(context.Context) error) *proc {
	p := &proc{w: w, name: "main", f: f, main: true, under: w.root}
	p.ctx = &wctx{parent: w.root, scope: w.root.scope, proc: p}
	w.register(p)
	return p
}

// register enters a process in the books.
func (w *common) register(p *proc) {
	p.node.p, p.watch.p = p, p
	p.dom = p.ctx.dom
	if !w.sim {
		p.parker = make(chan struct{}, 1)
	}
	w.mu.Lock()
	w.started++
	p.id = w.started
	p.prev = w.last
	if w.last == nil {
		w.first = p
	} else {
		w.last.next = p
	}
	w.last = p
	w.live++
	w.mu.Unlock()
	if p.dom != nil {
		p.dom.add(p)
	}
}

// run is the root of a process.
func (p *proc) run() {
	returned := false
	var err error
	defer func() {
		r := recover()
		switch {
		case returned:
		case r == nil:
			err = errGoexit
		case Killed(r):
			err = ErrKilled
		default:
			err = &PanicError{Process: p.name, Value: r, Stack: debug.Stack()}
		}
		p.w.finish(p, err)
	}()
	if p.doomed() {
		err, returned = ErrKilled, true
		return
	}
	err = p.f(p.ctx)
	returned = true
}

// finish takes a process that has ended from the books and delivers its result.
func (w *common) finish(p *proc, err error) {
	if pe, ok := err.(*PanicError); ok {
		w.mu.Lock()
		w.panics = append(w.panics, pe)
		w.mu.Unlock()
	}
	switch {
	case p.group != nil:
		p.group.done(err)
	case !p.main:
		w.report(p, err)
	}
	if p.main {
		p.result = err
		w.root.scope.end(context.Canceled, nil)
	}
	if p.dom != nil {
		p.dom.remove(p)
	}
	w.mu.Lock()
	if p.prev == nil {
		w.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		w.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	w.live--
	if w.live == 0 && w.drained != nil {
		close(w.drained)
	}
	w.mu.Unlock()
	w.k.ended(p)
}

// report takes the error of a process that no group waits for.
func (w *common) report(p *proc, err error) {
	if err == nil || err == ErrKilled {
		return
	}
	if why := context.Cause(p.under); why != nil && (errors.Is(err, why) || errors.Is(err, p.under.Err())) {
		return
	}
	w.fail(err)
}

// guarded returns f, a call by a timer, with its panic turned into a failure of the run.
func (w *common) guarded(f func()) func() {
	return func() {
		defer func() {
			if r := recover(); r != nil {
				w.fail(&PanicError{Process: "timer", Value: r, Stack: debug.Stack()})
			}
		}()
		f()
	}
}

// fail makes Run return err and cancels everything.
func (w *common) fail(err error) {
	w.mu.Lock()
	if w.failure == nil {
		w.failure = err
	}
	w.mu.Unlock()
	w.root.scope.end(context.Canceled, err)
}

// begin claims the only Run of the world.
func (w *common) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ran {
		panic("world: Run is called once")
	}
	w.ran = true
}

// result is what Run returns: the main process's error, the first failure of a process nobody waits for, and panics
// that no Wait has returned.
func (w *common) result(main error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := main
	if f := w.failure; f != nil && !errors.Is(err, f) {
		if err == nil || err == context.Canceled {
			err = f
		} else {
			err = errors.Join(f, err)
		}
	}
	for _, p := range w.panics {
		if !p.told.Load() && !errors.Is(err, p) {
			err = errors.Join(err, p)
		}
	}
	return err
}

// alive returns the processes that have not ended, in the order of their start.
func (w *common) alive() []*proc {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*proc, 0, w.live)
	for p := w.first; p != nil; p = p.next {
		all = append(all, p)
	}
	return all
}

// describe lists at most 20 processes and what they wait for.
func describe(all []*proc) string {
	var b []byte
	for _, p := range all[:min(len(all), 20)] {
		b = append(b, "\n\t"...)
		if p.dom != nil {
			b = append(b, p.dom.name+": "...)
		}
		b = append(b, p.name...)
		if p.w.sim && p.op != "" {
			b = append(b, " waits for "+p.op...)
		}
	}
	if n := len(all) - 20; n > 0 {
		b = fmt.Appendf(b, "\n\tand %d more", n)
	}
	return string(slices.Clip(b))
}
