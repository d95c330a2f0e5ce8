package world

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestContextTree(t *testing.T) {
	both(t, func(t *testing.T, w World) {
		run(t, w, nil, func(ctx context.Context) error {
			a, cancelA := w.WithCancel(context.WithValue(ctx, testKey{}, "a"))
			b, cancelB := w.WithCancel(context.WithValue(a, testKey{}, "b"))
			c, cancelC := w.WithCancel(b)
			var order []string
			stop := AfterFunc(a, func() { order = append(order, "never") })
			AfterFunc(b, func() { order = append(order, "b") })
			AfterFunc(c, func() { order = append(order, "c") })
			AfterFunc(a, func() { order = append(order, "a") })
			stopped := []bool{stop(), stop()}
			cancelC(nil)
			cancelA(errTest)
			cancelB(errors.New("too late"))
			AfterFunc(a, func() { order = append(order, "at once") })
			late, _ := w.WithCancel(a)
			<-a.Done()
			<-late.Done()
			return errors.Join(
				expect("order", order, []string{"c", "b", "a", "at once"}), expect("stopped", stopped, []bool{true, false}),
				expect("values", []any{a.Value(testKey{}), c.Value(testKey{}), c.Value(0)}, []any{"a", "b", nil}),
				expect("causes", []error{context.Cause(a), context.Cause(b), context.Cause(c), context.Cause(late), context.Cause(ctx)},
					[]error{errTest, errTest, context.Canceled, errTest, nil}),
				expect("errors", []error{a.Err(), b.Err(), c.Err(), late.Err(), ctx.Err()},
					[]error{context.Canceled, context.Canceled, context.Canceled, context.Canceled, nil}))
		})
	})
}

func TestTimeout(t *testing.T) {
	both(t, func(t *testing.T, w World) {
		run(t, w, nil, func(ctx context.Context) error {
			began := w.Now()
			far, cancelFar := w.WithTimeout(ctx, Never)
			outer, cancelOuter := w.WithTimeout(ctx, time.Second)
			inner, cancelInner := w.WithTimeout(outer, time.Hour)
			gone, cancelGone := w.WithTimeout(ctx, 0)
			unused, cancelUnused := w.WithTimeout(ctx, 2*time.Second)
			cancelUnused()
			_, hasFar := far.Deadline()
			at, _ := inner.Deadline()
			atOuter, has := outer.Deadline()
			fired := Never
			AfterFunc(outer, func() { fired = w.Now() - began })
			err := NewLatch(w).Wait(inner)
			cancelFar()
			cancelOuter()
			cancelInner()
			cancelGone()
			if err := w.Sleep(ctx, time.Minute); err != nil {
				return err
			}
			return errors.Join(
				expect("deadlines", []bool{hasFar, has, at.Equal(atOuter)}, []bool{false, true, true}),
				expect("wait", err, context.DeadlineExceeded), expect("fired", fired, time.Second),
				expect("errors", []error{inner.Err(), gone.Err(), unused.Err(), far.Err()},
					[]error{context.DeadlineExceeded, context.DeadlineExceeded, context.Canceled, context.Canceled}),
				expect("cause", context.Cause(inner), context.DeadlineExceeded))
		})
	})
}

// TestTimeoutKillsADomain: a function called by a timer may kill, also the process on whose stack the clock moves.
func TestTimeoutKillsADomain(t *testing.T) {
	both(t, func(t *testing.T, w World) {
		d := w.NewDomain("worker", DomainOptions{})
		run(t, w, nil, func(ctx context.Context) error {
			alarm, cancel := w.WithTimeout(ctx, time.Second)
			defer cancel()
			AfterFunc(alarm, d.Kill)
			g := NewGroup(w)
			for range 3 {
				g.Go(d.Enter(ctx), "victim", func(ctx context.Context) error {
					for {
						if err := w.Sleep(ctx, 100*time.Millisecond); err != nil {
							return err
						}
					}
				})
			}
			err := g.Wait(ctx)
			return errors.Join(expect("group", err, ErrKilled), expect("dead", d.Dead(), true), d.Await(ctx))
		})
	})
}

func TestPanicInATimerFailsTheRun(t *testing.T) {
	both(t, func(t *testing.T, w World) {
		err := w.Run(func(ctx context.Context) error {
			alarm, cancel := w.WithTimeout(ctx, time.Second)
			defer cancel()
			AfterFunc(alarm, func() { panic("boom") })
			return NewLatch(w).Wait(ctx)
		})
		var p *PanicError
		if !errors.As(err, &p) || p.Value != "boom" {
			t.Errorf("Run returned %v", err)
		}
	})
}

// TestStandardChild: a standard context below one of this package follows it without a goroutine, and a process that
// does not wait may read it.
func TestStandardChild(t *testing.T) {
	both(t, func(t *testing.T, w World) {
		run(t, w, nil, func(ctx context.Context) error {
			a, cancel := w.WithCancel(ctx)
			b, stop := context.WithCancelCause(a)
			defer stop(nil)
			cancel(errTest)
			return errors.Join(expect("err", b.Err(), context.Canceled), expect("cause", context.Cause(b), errTest))
		})
	})
}

// TestScopesAreForgotten: a context that was cancelled leaves nothing in its parent.
func TestScopesAreForgotten(t *testing.T) {
	both(t, func(t *testing.T, w World) {
		d := w.NewDomain("worker", DomainOptions{})
		run(t, w, nil, func(ctx context.Context) error {
			for range 100 {
				_, cancel := w.WithTimeout(ctx, time.Hour)
				cancel()
				w.Go(ctx, "short", func(context.Context) error { return nil })
				sub, end := w.WithCancel(ctx)
				d.Enter(sub)
				end(nil)
			}
			if err := settle(ctx, w); err != nil {
				return err
			}
			s := find(ctx).scope
			s.mu.Lock()
			defer s.mu.Unlock()
			timers := 0
			if sim, ok := w.(*Sim); ok {
				timers = len(sim.timers)
			}
			return errors.Join(expect("children", s.mu.below.next == &s.mu.below, true),
				expect("children of the domain", d.scope.mu.below.next == &d.scope.mu.below, true), expect("timers", timers, 0))
		})
	})
}

func TestLater(t *testing.T) {
	for _, tt := range []struct{ t, d, want time.Duration }{
		{1, 2, 3}, {0, Never, Never}, {5, Never, Never}, {Never, 1, Never}, {5, -2, 3},
	} {
		if got := later(tt.t, tt.d); got != tt.want {
			t.Error(fmt.Errorf("later(%d, %d) = %d, want %d", tt.t, tt.d, got, tt.want))
		}
	}
}
