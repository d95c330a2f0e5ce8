package world

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
)

// grace is how long a real run waits for cancelled processes before it reports them as stuck.
const grace = time.Minute

// realWorld runs processes as goroutines on the monotonic clock.
type realWorld struct {
	common
	start0 time.Time
	grace  time.Duration
}

var _ World = (*realWorld)(nil)

// realProc is what a process has in the real world.
type realProc struct {
	parker chan struct{} // capacity 1: a pending wake-up
	alarm  *time.Timer
	busy   atomic.Bool // parked or about to
}

// NewReal returns a world of goroutines and the monotonic clock. A context from elsewhere works too, which lets an
// ordinary test call everything without Run.
func NewReal(seed uint64) World {
	r := &realWorld{start0: time.Now(), grace: grace}
	r.init(r, seed, false, r.start0)
	return r
}

func (r *realWorld) now() time.Duration { return time.Since(r.start0) }

func (r *realWorld) PolicyName() string { return "" }

// Run calls f on the calling goroutine, so that a test may fail in it.
func (r *realWorld) Run(f func(ctx context.Context) error) (err error) {
	r.begin()
	p := r.newMain(f)
	defer func() {
		stuck := r.drain()
		err = r.result(p.result)
		if stuck != nil {
			err = errors.Join(stuck, err)
		}
	}()
	p.run()
	return nil
}

// drain waits until no process is left.
func (r *realWorld) drain() error {
	r.mu.Lock()
	if r.live == 0 {
		r.mu.Unlock()
		return nil
	}
	drained := make(chan struct{})
	r.drained = drained
	r.mu.Unlock()
	patience := time.NewTimer(r.grace)
	defer patience.Stop()
	select {
	case <-drained:
		return nil
	case <-patience.C:
		return fmt.Errorf("%w for %v:%s", ErrStuck, r.grace, describe(r.alive()))
	}
}

func (r *realWorld) check(c *wctx) {
	if c != nil && c.proc != nil && c.proc.doomed() {
		panic(killed{})
	}
}

func (r *realWorld) point() {}

func (r *realWorld) quick() bool { return true }

func (r *realWorld) unwinding(*Domain) {}

// acquire returns a temporary process for a context without one, and for one whose process is parked already: then a
// goroutine from outside shares the context.
func (r *realWorld) acquire(c *wctx) *proc {
	if c != nil && c.proc != nil && c.proc.busy.CompareAndSwap(false, true) {
		p := c.proc
		if len(p.parker) > 0 {
			select {
			case <-p.parker:
			default:
			}
		}
		return p
	}
	p := &proc{w: &r.common}
	p.parker = make(chan struct{}, 1)
	p.node.p, p.watch.p = p, p
	if c != nil && c.proc != nil {
		p.dom = c.proc.dom
	}
	return p
}

func (r *realWorld) release(p *proc) { p.busy.Store(false) }

func (r *realWorld) park(p *proc, until time.Duration, foreign <-chan struct{}) bool {
	if until == Never && foreign == nil {
		<-p.parker
		return true
	}
	var alarm <-chan time.Time
	if until != Never {
		d := until - r.now()
		if p.alarm == nil {
			p.alarm = time.NewTimer(d)
		} else {
			p.alarm.Reset(d)
		}
		defer p.alarm.Stop()
		alarm = p.alarm.C
	}
	select {
	case <-p.parker:
	case <-foreign:
	case <-alarm:
	}
	return true
}

func (r *realWorld) wake(p *proc) {
	select {
	case p.parker <- struct{}{}:
	default:
	}
}

func (r *realWorld) yield(*wctx) { runtime.Gosched() }

func (r *realWorld) choose(int) int { return 0 }

func (r *realWorld) compute(context.Context, *wctx, time.Duration) {}

func (r *realWorld) start(p *proc) { go p.run() }

func (r *realWorld) ended(*proc) {}

func (r *realWorld) reap(*Domain) {}

func (r *realWorld) startTimer(t *timer, at time.Duration, f func()) {
	t.real = time.AfterFunc(at-r.now(), r.guarded(f))
}

func (r *realWorld) stopTimer(t *timer) {
	if t.real != nil {
		t.real.Stop()
	}
}
