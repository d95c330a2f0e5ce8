package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var errTest = errors.New("test")

// testKey is the key of a value in test contexts.
type testKey struct{}

// both runs f in the real world, on the fake clock of a bubble, and in simulated worlds of every policy.
func both(t *testing.T, f func(t *testing.T, w World)) {
	t.Helper()
	t.Run("real", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t, NewReal(1)) })
	})
	for _, policy := range Policies() {
		t.Run("sim/"+policy, func(t *testing.T) {
			for seed := range uint64(10) {
				f(t, NewSim(SimOptions{Seed: seed, Policy: policy}))
			}
		})
	}
}

// settle returns when every other process waits.
func settle(ctx context.Context, w World) error {
	if !w.Simulated() {
		synctest.Wait()
		return ctx.Err()
	}
	return w.Sleep(ctx, time.Nanosecond)
}

// run fails the test unless Run returns want.
func run(t *testing.T, w World, want error, f func(ctx context.Context) error) {
	t.Helper()
	if err := w.Run(f); !errors.Is(err, want) || (err != nil) != (want != nil) {
		t.Errorf("Run returned %v, want %v", err, want)
	}
}

// semantics holds for both worlds. Each row is a main process.
var semantics = []struct {
	name string
	want error
	f    func(ctx context.Context, w World) error
}{
	{"empty", nil, func(context.Context, World) error { return nil }},
	{"error of main", errTest, func(context.Context, World) error { return errTest }},
	{"queue keeps order and blocks at its capacity", nil, queueOrder},
	{"closed queue is drained", nil, queueClose},
	{"close wakes takers and putters", nil, queueCloseWakes},
	{"cancel wakes a taker", nil, func(ctx context.Context, w World) error {
		q := NewQueue[int](w, 1)
		return cancelled(ctx, w, func(ctx context.Context) error { _, err := q.Take(ctx); return err })
	}},
	{"cancel wakes a putter", nil, func(ctx context.Context, w World) error {
		q := NewQueue[int](w, 1)
		q.TryPut(1)
		err := cancelled(ctx, w, func(ctx context.Context) error { return q.Put(ctx, 2) })
		return errors.Join(err, expect("items", q.Len(), 1))
	}},
	{"cancel wakes a latch's waiter", nil, func(ctx context.Context, w World) error {
		return cancelled(ctx, w, NewLatch(w).Wait)
	}},
	{"cancel wakes a sleeper", nil, func(ctx context.Context, w World) error {
		return cancelled(ctx, w, func(ctx context.Context) error { return w.Sleep(ctx, time.Hour) })
	}},
	{"cancel wakes an acquirer", nil, func(ctx context.Context, w World) error {
		s := NewSemaphore(w, 1)
		s.TryAcquire(1)
		return cancelled(ctx, w, func(ctx context.Context) error { return s.Acquire(ctx, 1) })
	}},
	{"cancel wakes Wait", nil, func(ctx context.Context, w World) error {
		return cancelled(ctx, w, func(ctx context.Context) error {
			_, err := Wait(ctx, w, Never, NewLatch(w), nil, NewQueue[int](w, 1).Readable())
			return err
		})
	}},
	{"a taken signal is passed on", nil, signalPassedOn},
	{"latch", nil, latchOpens},
	{"semaphore is fair", nil, semaphoreFair},
	{"semaphore refuses the impossible", nil, semaphoreRefuses},
	{"group returns the first error after all have ended", nil, groupError},
	{"panic of a group's process", nil, groupPanic},
	{"wait returns what is ready, or -1 at the deadline", nil, waitDeadline},
	{"wait set: disabled and changed entries", nil, waitSetEntries},
	{"wait for room, for a group, for a domain", nil, waitOthers},
	{"sleep advances the clock", nil, sleepAdvances},
	{"main's return cancels the others", nil, mainReturns},
	{"error of a process nobody waits for ends the run", errTest, orphanError},
	{"cancellation of a process nobody waits for is none", nil, orphanCancelled},
}

func TestSemantics(t *testing.T) {
	for _, tt := range semantics {
		t.Run(tt.name, func(t *testing.T) {
			both(t, func(t *testing.T, w World) {
				run(t, w, tt.want, func(ctx context.Context) error { return tt.f(ctx, w) })
			})
		})
	}
}

// expect compares.
func expect[T any](what string, got, want T) error {
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		return fmt.Errorf("%s: %s, want %s", what, g, w)
	}
	return nil
}

// cancelled checks that f, which waits, returns the cause once its context is cancelled, and at once from then on.
func cancelled(ctx context.Context, w World, f func(ctx context.Context) error) error {
	sub, cancel := w.WithCancel(ctx)
	g := NewGroup(w)

	g.Go(context.WithValue(sub, testKey{}, "value"), "waiter", f)
	if err := settle(ctx, w); err != nil {
		return err
	}
	cancel(errTest)
	err := expect("group", g.Wait(ctx), errTest)
	return errors.Join(err, expect("again", f(sub), errTest))
}

func queueOrder(ctx context.Context, w World) error {
	q, g := NewQueue[int](w, 3), NewGroup(w)
	g.Go(ctx, "put", func(ctx context.Context) error {
		for i := range 20 {
			if err := q.Put(ctx, i); err != nil {
				return err
			}
		}
		return nil
	})
	if err := settle(ctx, w); err != nil {
		return err
	}
	if err := errors.Join(expect("len", q.Len(), 3), expect("full", q.Full(), true), expect("cap", q.Cap(), 3),
		expect("put", q.TryPut(1), false)); err != nil {
		return err
	}
	for i := range 20 {
		v, err := q.Take(ctx)
		if err := errors.Join(err, expect("item", v, i)); err != nil {
			return err
		}
	}
	_, ok := q.TryTake()
	return errors.Join(g.Wait(ctx), expect("take", ok, false))
}

func queueClose(ctx context.Context, w World) error {
	q := NewQueue[string](w, Unbounded)
	q.TryPut("a")
	q.Close()
	q.Close()
	v, err := q.Take(ctx)
	_, end := q.Take(ctx)
	return errors.Join(err, expect("item", v, "a"), expect("take", end, ErrClosed), expect("put", q.Put(ctx, "b"), ErrClosed),
		expect("try put", q.TryPut("b"), false), expect("closed", q.Closed(), true))
}

func queueCloseWakes(ctx context.Context, w World) error {
	empty, full, g := NewQueue[int](w, 1), NewQueue[int](w, 1), NewGroup(w)
	full.TryPut(0)
	for range 3 {
		g.Go(ctx, "take", func(ctx context.Context) error { _, err := empty.Take(ctx); return err })
		g.Go(ctx, "put", func(ctx context.Context) error { return full.Put(ctx, 1) })
	}
	if err := settle(ctx, w); err != nil {
		return err
	}
	empty.Close()
	full.Close()
	return errors.Join(expect("group", g.Wait(ctx), ErrClosed), expect("running", g.Running(), 0))
}

// signalPassedOn: a taker that is signalled and cancelled at once must not take the signal with it.
func signalPassedOn(ctx context.Context, w World) error {
	q, g := NewQueue[int](w, 1), NewGroup(w)
	sub, cancel := w.WithCancel(ctx)
	first := NewGroup(w)
	first.Go(sub, "first", func(ctx context.Context) error { _, err := q.Take(ctx); return err })
	if err := settle(ctx, w); err != nil {
		return err
	}
	g.Go(ctx, "second", func(ctx context.Context) error { _, err := q.Take(ctx); return err })
	if err := settle(ctx, w); err != nil {
		return err
	}
	q.TryPut(1)
	cancel(nil)
	if first.Wait(ctx) == nil { // it was quicker than the cancellation
		q.TryPut(2)
	}
	return g.Wait(ctx)
}

func latchOpens(ctx context.Context, w World) error {
	l, g := NewLatch(w), NewGroup(w)
	for range 3 {
		g.Go(ctx, "waiter", l.Wait)
	}
	if err := settle(ctx, w); err != nil {
		return err
	}
	before := l.Opened()
	l.Open()
	l.Open()
	return errors.Join(g.Wait(ctx), l.Wait(ctx), expect("opened", []bool{before, l.Opened()}, []bool{false, true}))
}

func semaphoreFair(ctx context.Context, w World) error {
	s, g := NewSemaphore(w, 3), NewGroup(w)
	if err := s.Acquire(ctx, 3); err != nil {
		return err
	}
	var order []int64
	mu := NewMutex(w)
	for _, k := range []int64{1, 3, 1, 2} {
		g.Go(ctx, "acquire", func(ctx context.Context) error {
			if err := s.Acquire(ctx, k); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			order = append(order, k)
			return nil
		})
		if err := settle(ctx, w); err != nil {
			return err
		}
	}
	for _, step := range []struct {
		release int64
		want    []int64
	}{{2, []int64{1}}, {1, []int64{1}}, {1, []int64{1, 3}}, {3, []int64{1, 3, 1, 2}}} {
		s.Release(step.release)
		if err := settle(ctx, w); err != nil {
			return err
		}
		slices.Sort(order[min(2, len(order)):]) // the last two are let in together
		if err := errors.Join(expect("order", order, step.want), expect("try", s.TryAcquire(1), false)); err != nil {
			return err
		}
	}
	return g.Wait(ctx)
}

func semaphoreRefuses(ctx context.Context, w World) error {
	s := NewSemaphore(w, 2)
	if s.Acquire(ctx, 3) == nil || s.TryAcquire(3) {
		return errors.New("more than the size is granted")
	}
	// A heavy waiter that gives up lets the light one behind it pass.
	if err := s.Acquire(ctx, 1); err != nil {
		return err
	}
	sub, cancel := w.WithCancel(ctx)
	heavy, light := NewGroup(w), NewGroup(w)
	heavy.Go(sub, "heavy", func(ctx context.Context) error { return s.Acquire(ctx, 2) })
	if err := settle(ctx, w); err != nil {
		return err
	}
	light.Go(ctx, "light", func(ctx context.Context) error { return s.Acquire(ctx, 1) })
	if err := settle(ctx, w); err != nil {
		return err
	}
	cancel(nil)
	return errors.Join(expect("heavy", heavy.Wait(ctx), context.Canceled), light.Wait(ctx))
}

func groupError(ctx context.Context, w World) error {
	g, l := NewGroup(w), NewLatch(w)
	ended := 0
	g.Go(ctx, "fails", func(context.Context) error { defer l.Open(); return errTest })
	g.Go(ctx, "fails later", func(ctx context.Context) error {
		err := l.Wait(ctx)
		ended++
		return errors.Join(err, errors.New("another"))
	})
	err := expect("group", g.Wait(ctx), errTest)
	return errors.Join(err, expect("ended", ended, 1), expect("empty group", NewGroup(w).Wait(ctx), error(nil)))
}

func groupPanic(ctx context.Context, w World) error {
	g := NewGroup(w)
	g.Go(ctx, "bad", func(context.Context) error { panic(errTest) })
	if err := settle(ctx, w); err != nil {
		return err
	}
	g.Go(ctx, "worse", func(context.Context) error { panic("boom") })
	err := g.Wait(ctx)
	var p *PanicError
	if !errors.As(err, &p) || p.Process != "bad" || !errors.Is(err, errTest) ||
		!strings.Contains(string(p.Stack), "groupPanic") {
		return fmt.Errorf("group returned %w", err)
	}
	if !strings.Contains(err.Error(), "boom") {
		return errors.New("the second panic is lost")
	}
	return nil
}

func waitDeadline(ctx context.Context, w World) error {
	l, q := NewLatch(w), NewQueue[int](w, 1)
	start := w.Now()
	i, err := Wait(ctx, w, start+time.Second, l, q.Readable())
	if err := errors.Join(err, expect("index", i, -1), expect("time", w.Now()-start, time.Second)); err != nil {
		return err
	}
	g := NewGroup(w)
	g.Go(ctx, "put", func(ctx context.Context) error {
		if err := w.Sleep(ctx, time.Second); err != nil {
			return err
		}
		return q.Put(ctx, 1)
	})
	i, err = Wait(ctx, w, Never, l, q.Readable())
	j, err2 := Wait(ctx, w, 0, q.Writable(), nil, g)
	return errors.Join(err, err2, expect("index", i, 1), expect("time", w.Now()-start, 2*time.Second),
		expectOneOf("poll", j, -1, 2), g.Wait(ctx))
}

func expectOneOf(what string, got int, want ...int) error {
	if !slices.Contains(want, got) {
		return fmt.Errorf("%s: %d, want one of %v", what, got, want)
	}
	return nil
}

func waitSetEntries(ctx context.Context, w World) error {
	a, b := NewLatch(w), NewLatch(w)
	a.Open()
	b.Open()
	s := NewWaitSet(w, nil, a)
	s.Add(b)
	count := map[int]int{}
	for range 200 {
		i, err := s.Wait(ctx, Never)
		if err != nil {
			return err
		}
		count[i]++
	}
	if count[1] < 50 || count[2] < 50 || count[0] != 0 {
		return fmt.Errorf("ready entries are drawn unfairly: %v", count)
	}
	s.Enable(1, false)
	s.Set(2, nil)
	i, err := s.Wait(ctx, w.Now()+1)
	s.Enable(1, true)
	j, err2 := s.Wait(ctx, Never)
	return errors.Join(err, err2, expect("indices", []int{i, j, s.Len()}, []int{-1, 1, 3}))
}

// waitOthers covers the things to wait for that the other rows do not.
func waitOthers(ctx context.Context, w World) error {
	q, g, d := NewQueue[int](w, 1), NewGroup(w), w.NewDomain(fmt.Sprint("worker at ", w.Now()), DomainOptions{})
	q.TryPut(1)
	empty := d.ready()
	g.Go(d.Enter(ctx), "take", func(ctx context.Context) error {
		if err := w.Sleep(ctx, time.Second); err != nil {
			return err
		}
		_, err := q.Take(ctx)
		return errors.Join(err, w.Sleep(ctx, time.Second))
	})
	set := NewWaitSet(w, q.Writable(), g, d)
	room, err := set.Wait(ctx, Never)
	set.Enable(room, false)
	set.Enable(2, false)
	group, err2 := set.Wait(ctx, Never)
	set.Enable(group, false)
	set.Enable(2, true)
	domain, err3 := set.Wait(ctx, Never)
	return errors.Join(err, err2, err3, expect("ready", []int{room, group, domain}, []int{0, 1, 2}),
		expect("empty", empty, true), expect("name", strings.HasPrefix(d.Name(), "worker"), true))
}

func sleepAdvances(ctx context.Context, w World) error {
	start := w.Now()
	var order []string
	mu, g := NewMutex(w), NewGroup(w)
	for _, d := range []time.Duration{3, 1, 2} {
		g.Go(ctx, "sleeper", func(ctx context.Context) error {
			if err := w.Sleep(ctx, d*time.Hour); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			order = append(order, (w.Now() - start).String())
			return nil
		})
	}
	return errors.Join(w.Sleep(ctx, 0), w.Sleep(ctx, -1), g.Wait(ctx),
		expect("order", order, []string{"1h0m0s", "2h0m0s", "3h0m0s"}))
}

func mainReturns(ctx context.Context, w World) error {
	for range 3 {
		w.Go(ctx, "waits for ever", func(ctx context.Context) error { return NewLatch(w).Wait(ctx) })
	}
	return nil
}

func orphanError(ctx context.Context, w World) error {
	w.Go(ctx, "fails", func(context.Context) error { return fmt.Errorf("wrapped: %w", errTest) })
	return NewLatch(w).Wait(ctx)
}

func orphanCancelled(ctx context.Context, w World) error {
	sub, cancel := w.WithCancel(ctx)
	w.Go(sub, "cancelled", func(ctx context.Context) error { return w.Sleep(ctx, time.Hour) })
	if err := settle(ctx, w); err != nil {
		return err
	}
	cancel(errTest)
	if err := settle(ctx, w); err != nil {
		return err
	}
	return ctx.Err()
}

func TestPanicOfMainAndOfAnUnattendedProcess(t *testing.T) {
	both(t, func(t *testing.T, w World) {
		err := w.Run(func(ctx context.Context) error {
			w.Go(ctx, "bad", func(context.Context) error { panic("boom") })
			return NewLatch(w).Wait(ctx)
		})
		var p *PanicError
		if !errors.As(err, &p) || p.Process != "bad" {
			t.Errorf("Run returned %v", err)
		}
	})
	both(t, func(t *testing.T, w World) {
		err := w.Run(func(ctx context.Context) error {
			g := NewGroup(w) // nobody waits for it
			g.Go(ctx, "bad", func(context.Context) error { panic("boom") })
			if err := settle(ctx, w); err != nil {
				return err
			}
			panic("main too")
		})
		if err == nil || !strings.Contains(err.Error(), "boom") || !strings.Contains(err.Error(), "main too") {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestRunIsCalledOnce(t *testing.T) {
	both(t, func(t *testing.T, w World) {
		run(t, w, nil, func(context.Context) error { return nil })
		defer func() {
			if recover() == nil {
				t.Error("a second Run is accepted")
			}
		}()
		_ = w.Run(func(context.Context) error { return nil })
	})
}

func TestRandIsFixedByName(t *testing.T) {
	both(t, func(t *testing.T, w World) {
		if a, b, c := w.Rand("a").Uint64(), w.Rand("a").Uint64(), w.Rand("b").Uint64(); a != b || a == c {
			t.Errorf("draws %d, %d of a, %d of b", a, b, c)
		}
	})
}
