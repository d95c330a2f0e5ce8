package backendtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/world"
)

// Loop is a subtask's event loop for tests: the process that uses the Keyed is the loop, and takes its turns by calling
// Drain or Until. Close ends the work that it started.
type Loop struct {
	w       world.World
	ctx     context.Context
	cancel  context.CancelCauseFunc
	mailbox *world.Queue[func()]
	work    *world.Group
	timers  *world.Group
	mu      *world.Mutex
	pending int // Async calls whose done has not run; guarded by mu
	failed  error
}

var _ backend.Loop = (*Loop)(nil)

var errLoopClosed = errors.New("loop was closed")

// NewLoop returns a loop whose work runs under ctx.
func NewLoop(ctx context.Context, w world.World) *Loop {
	l := &Loop{
		w: w, mailbox: world.NewQueue[func()](w, world.Unbounded), work: world.NewGroup(w), timers: world.NewGroup(w),
		mu: world.NewMutex(w),
	}
	l.ctx, l.cancel = w.WithCancel(ctx)
	return l
}

// Async implements backend.Loop.
func (l *Loop) Async(name string, work func(ctx context.Context) error, done func(error)) {
	l.add(1)
	l.work.Go(l.ctx, name, func(ctx context.Context) error {
		err := work(ctx)
		l.mailbox.TryPut(func() {
			l.add(-1)
			done(err)
		})
		return nil
	})
}

// After implements backend.Loop.
func (l *Loop) After(d time.Duration, f func()) {
	l.timers.Go(l.ctx, "timer", func(ctx context.Context) error {
		if l.w.Sleep(ctx, d) == nil {
			l.mailbox.TryPut(f)
		}
		return nil
	})
}

// Fail implements backend.Loop. The first error stays and is returned by Drain, Until and Failed.
func (l *Loop) Fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = fmt.Errorf("subtask failed: %w", err)
	}
}

// Failed is the error given to Fail first.
func (l *Loop) Failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// Turn runs what is in the mailbox, without waiting.
func (l *Loop) Turn() {
	for {
		f, ok := l.mailbox.TryTake()
		if !ok {
			return
		}
		f()
	}
}

// Drain takes turns until all work started by Async, and by the turns, has ended. It does not wait for timers.
func (l *Loop) Drain(ctx context.Context) error {
	for l.Turn(); l.unfinished() > 0; l.Turn() {
		if err := l.Failed(); err != nil {
			return err
		}
		if _, err := world.Wait(ctx, l.w, world.Never, l.mailbox.Readable()); err != nil {
			return err
		}
	}
	return l.Failed()
}

// Until takes turns until ready is, Fail was called, or ctx is done.
func (l *Loop) Until(ctx context.Context, ready world.Waitable) error {
	for {
		if err := l.Failed(); err != nil {
			return err
		}
		i, err := world.Wait(ctx, l.w, world.Never, l.mailbox.Readable(), ready)
		if err != nil || i == 1 {
			return err
		}
		l.Turn()
	}
}

// Sleep takes turns for that long.
func (l *Loop) Sleep(ctx context.Context, d time.Duration) error {
	end := l.w.Now() + d
	for {
		if err := l.Failed(); err != nil {
			return err
		}
		i, err := world.Wait(ctx, l.w, end, l.mailbox.Readable())
		if err != nil || i < 0 {
			return err
		}
		l.Turn()
	}
}

// Close cancels the work that is under way and waits for its end; what it left in the mailbox does not run.
func (l *Loop) Close(ctx context.Context) error {
	l.cancel(errLoopClosed)
	return errors.Join(l.work.Wait(ctx), l.timers.Wait(ctx))
}

func (l *Loop) add(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending += n
}

func (l *Loop) unfinished() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pending
}
