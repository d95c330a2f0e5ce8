package world

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestOrdinaryContexts: in the real world everything works from an ordinary test, without Run.
func TestOrdinaryContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewReal(1)
		q, l, s, g := NewQueue[int](w, 1), NewLatch(w), NewSemaphore(w, 1), NewGroup(w)
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		g.Go(ctx, "put", func(ctx context.Context) error {
			l.Open()
			return errors.Join(q.Put(ctx, 1), s.Acquire(ctx, 1))
		})
		_, err := q.Take(ctx)
		d := w.NewDomain("worker", DomainOptions{})
		sub, stop := w.WithTimeout(d.Enter(ctx), 24*time.Hour)
		defer stop()
		if err := errors.Join(err, l.Wait(ctx), g.Wait(ctx), w.Sleep(ctx, time.Second)); err != nil {
			t.Fatal(err)
		}
		CheckAlive(ctx)
		w.Compute(ctx, time.Hour)

		// Every blocking call ends with the ordinary context.
		for name, wait := range map[string]func(ctx context.Context) error{
			"take":    func(ctx context.Context) error { _, err := q.Take(ctx); return err },
			"acquire": func(ctx context.Context) error { return s.Acquire(ctx, 1) },
			"sleep":   func(ctx context.Context) error { return w.Sleep(ctx, time.Hour) },
			"latch":   NewLatch(w).Wait,
			"process": func(ctx context.Context) error {
				g := NewGroup(w)
				g.Go(ctx, "waits", NewLatch(w).Wait)
				return g.Wait(ctx)
			},
		} {
			ctx, cancel := context.WithCancelCause(ctx)
			var wg sync.WaitGroup
			wg.Go(func() {
				if err := wait(ctx); err != errTest {
					t.Errorf("%s returned %v", name, err)
				}
			})
			synctest.Wait()
			cancel(errTest)
			wg.Wait()
		}
		cancel(errTest)
		synctest.Wait()
		if err := NewLatch(w).Wait(sub); err != errTest {
			t.Errorf("below a cancelled context: %v", err)
		}
	})
}

// TestSharedContext: goroutines from outside may share the context of a process.
func TestSharedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewReal(1)
		q := NewQueue[int](w, Unbounded)
		run(t, w, nil, func(ctx context.Context) error {
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range 100 {
						if _, err := q.Take(ctx); err != nil {
							t.Error(err)
						}
					}
				})
			}
			for range 400 {
				q.TryPut(1)
			}
			wg.Wait()
			return nil
		})
	})
}

func TestStuckProcessIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewReal(1)
		never := make(chan struct{})
		err := w.Run(func(ctx context.Context) error {
			w.Go(ctx, "stuck outside", func(context.Context) error { <-never; return nil })
			w.Go(ctx, "obedient", NewLatch(w).Wait)
			return errTest
		})
		if !errors.Is(err, ErrStuck) || !errors.Is(err, errTest) || !strings.Contains(err.Error(), "stuck outside") ||
			strings.Contains(err.Error(), "obedient") {
			t.Errorf("Run returned %v", err)
		}
		close(never)
	})
}

// TestRealStress moves items through contended queues while consumers are cancelled and domains killed; none is lost
// and none taken twice. It is for the race detector and for lost wake-ups, which would hang it.
func TestRealStress(t *testing.T) {
	w := NewReal(1)
	const items, producers = 3000, 3
	q, out := NewQueue[int](w, 2), NewQueue[int](w, Unbounded)
	run(t, w, nil, func(ctx context.Context) error {
		puts, takes := NewGroup(w), NewGroup(w)
		for i := range producers {
			puts.Go(ctx, "put", func(ctx context.Context) error {
				for j := range items {
					if err := q.Put(ctx, i*items+j); err != nil {
						return err
					}
				}
				return nil
			})
		}
		stop := NewLatch(w)
		for i := range 4 {
			takes.Go(ctx, "take", func(ctx context.Context) error { return consume(ctx, w, q, out, stop, i) })
		}
		w.Go(ctx, "disturb", func(ctx context.Context) error {
			for i := 0; !stop.Opened(); i++ {
				if err := disturb(ctx, w, q, out, i); err != nil {
					return err
				}
			}
			return nil
		})
		if err := puts.Wait(ctx); err != nil {
			return err
		}
		q.Close()
		err := takes.Wait(ctx)
		stop.Open()
		return err
	})
	seen := map[int]bool{}
	for v, ok := out.TryTake(); ok; v, ok = out.TryTake() {
		if seen[v] {
			t.Errorf("item %d is taken twice", v)
		}
		seen[v] = true
	}
	if len(seen) != producers*items {
		t.Errorf("%d items of %d arrived", len(seen), producers*items)
	}
}

// consume takes until the queue ends: by Take, or by a WaitSet.
func consume(ctx context.Context, w World, q, out *Queue[int], stop *Latch, i int) error {
	set := NewWaitSet(w, stop, q.Readable())
	for {
		var v int
		var err error
		ok := true
		if i%2 == 0 {
			v, err = q.Take(ctx)
		} else if _, err = set.Wait(ctx, w.Now()+time.Minute); err == nil {
			if v, ok = q.TryTake(); !ok && q.Closed() {
				return nil
			}
		}
		switch {
		case err == ErrClosed:
			return nil
		case err != nil:
			return err
		case ok:
			out.TryPut(v)
		}
	}
}

// disturb starts takers in a domain that is killed and under a context that is cancelled.
func disturb(ctx context.Context, w World, q, out *Queue[int], i int) error {
	d := w.NewDomain(fmt.Sprint("worker/", i), DomainOptions{})
	sub, cancel := w.WithCancel(d.Enter(ctx))
	g := NewGroup(w)
	for range 2 {
		g.Go(sub, "disturbed", func(ctx context.Context) error {
			v, err := q.Take(ctx)
			if err == nil {
				out.TryPut(v)
			}
			return err
		})
	}
	if i%2 == 0 {
		d.Kill()
	} else {
		cancel(nil)
	}
	if err := g.Wait(ctx); err != nil && err != ErrKilled && err != context.Canceled && err != ErrClosed {
		return err
	}
	return d.Await(ctx)
}
