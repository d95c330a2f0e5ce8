package world

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// lateKill is a condition that marks its domain dead while the waiter, which has forgotten the wake-up of that, is about
// to park.
type lateKill struct{ d *Domain }

func (l lateKill) ready() bool { return false }

func (l lateKill) arm(n *waiter) bool {
	l.d.MarkDead()
	if n.p.parker != nil {
		<-n.p.parker
	}
	return false
}

func (l lateKill) disarm(*waiter) {}

// TestKillJustBeforeTheParking: the wake-up is gone, the death must be seen all the same.
func TestKillJustBeforeTheParking(t *testing.T) {
	both(t, func(t *testing.T, w World) {
		d := w.NewDomain("worker", DomainOptions{})
		run(t, w, nil, func(ctx context.Context) error {
			g := NewGroup(w)
			g.Go(d.Enter(ctx), "p", func(ctx context.Context) error {
				c := caller{w: w.shared(), ctx: ctx, c: find(ctx), deaf: true}
				_, err := c.await(lateKill{d}, Never, "its death")
				return err
			})
			return expect("group", g.Wait(ctx), ErrKilled)
		})
	})
}

// killCase starts victims under the context of a domain that is then killed; log takes what must not happen.
type killCase struct {
	name  string
	start func(ctx context.Context, w World, g *Group, log func(string))
	// want is what the log holds after the kill, in any order.
	want []string
}

var killCases = []killCase{
	{"parked in a take", func(ctx context.Context, w World, g *Group, log func(string)) {
		g.Go(ctx, "p", func(ctx context.Context) error {
			_, err := NewQueue[int](w, 1).Take(ctx)
			log("went on")
			return err
		})
	}, nil},
	{"parked in a sleep, a wait, a latch, an acquire, a group", func(ctx context.Context, w World, g *Group, log func(string)) {
		s := NewSemaphore(w, 1)
		s.TryAcquire(1)
		other := NewGroup(w)
		other.Go(ctx, "child", NewLatch(w).Wait)
		for _, f := range []func(ctx context.Context) error{
			func(ctx context.Context) error { return w.Sleep(ctx, time.Hour) },
			func(ctx context.Context) error { _, err := Wait(ctx, w, Never, NewLatch(w)); return err },
			func(ctx context.Context) error { return s.Acquire(ctx, 1) },
			other.Wait,
		} {
			g.Go(ctx, "p", func(ctx context.Context) error {
				err := f(ctx)
				log("went on")
				return err
			})
		}
	}, nil},
	{"deferred functions run, their calls do nothing", func(ctx context.Context, w World, g *Group, log func(string)) {
		outside := NewQueue[int](w, 10)
		g.Go(ctx, "p", func(ctx context.Context) error {
			defer log("deferred")
			defer func() {
				_ = outside.Put(ctx, 1)
				log("put")
			}()
			defer func() {
				w.Go(ctx, "new", func(context.Context) error { return nil })
				log("started")
			}()
			defer func() {
				CheckAlive(ctx)
				log("alive")
			}()
			return NewLatch(w).Wait(ctx)
		})
	}, []string{"deferred"}},
	{"parked under a context of its own", func(ctx context.Context, w World, g *Group, log func(string)) {
		g.Go(ctx, "p", func(ctx context.Context) error {
			sub, cancel := w.WithTimeout(ctx, time.Hour)
			defer cancel()
			err := NewLatch(w).Wait(context.WithValue(sub, testKey{}, nil))
			log("went on")
			return err
		})
	}, nil},
	{"several and their children", func(ctx context.Context, w World, g *Group, log func(string)) {
		for range 3 {
			g.Go(ctx, "p", func(ctx context.Context) error {
				w.Go(ctx, "child", func(ctx context.Context) error {
					defer log("child deferred")
					return NewLatch(w).Wait(ctx)
				})
				defer log("deferred")
				return NewLatch(w).Wait(ctx)
			})
		}
	}, []string{"child deferred", "child deferred", "child deferred", "deferred", "deferred", "deferred"}},
}

func TestKill(t *testing.T) {
	for _, tt := range killCases {
		t.Run(tt.name, func(t *testing.T) {
			both(t, func(t *testing.T, w World) { testKill(t, w, tt) })
		})
	}
}

func testKill(t *testing.T, w World, tt killCase) {
	d := w.NewDomain("worker", DomainOptions{})
	mu := NewMutex(w)
	var got []string
	run(t, w, nil, func(ctx context.Context) error {
		g := NewGroup(w)
		tt.start(d.Enter(ctx), w, g, func(s string) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, s)
		})
		if err := settle(ctx, w); err != nil {
			return err
		}
		if d.Procs() == 0 || d.Dead() {
			return errors.New("the victims do not live")
		}
		d.Kill()
		if w.Simulated() && d.Procs() != 0 {
			return errors.New("a process outlives the kill")
		}
		return errors.Join(d.Await(ctx), expect("group", g.Wait(ctx), ErrKilled))
	})
	slices.Sort(got)
	if fmt.Sprint(got) != fmt.Sprint(tt.want) {
		t.Errorf("log %v, want %v", got, tt.want)
	}
}

// TestKillOfTheReady kills processes that could run: started ones between two puts, and one before its first step.
func TestKillOfTheReady(t *testing.T) {
	both(t, func(t *testing.T, w World) {
		d := w.NewDomain("worker", DomainOptions{})
		q := NewQueue[int](w, 1)
		run(t, w, nil, func(ctx context.Context) error {
			g, unstarted := NewGroup(w), NewGroup(w)
			g.Go(d.Enter(ctx), "put", func(ctx context.Context) error {
				for i := range 10 {
					if err := q.Put(ctx, i); err != nil {
						return err
					}
				}
				return nil
			})
			for i := range 4 {
				v, err := q.Take(ctx)
				if err := errors.Join(err, expect("item", v, i)); err != nil {
					return err
				}
			}
			if w.Simulated() {
				unstarted.Go(d.Enter(ctx), "new", func(context.Context) error { panic("a dead process ran") })
			}
			d.Kill()
			left := q.Len()
			unstarted.Go(d.Enter(ctx), "newer", func(context.Context) error { panic("a dead process ran") })
			err := errors.Join(d.Await(ctx), expect("group", g.Wait(ctx), ErrKilled),
				expect("unstarted", unstarted.Wait(ctx), ErrKilled))
			if w.Simulated() {
				err = errors.Join(err, expect("items put after the kill", q.Len()-left, 0))
			}
			return err
		})
	})
}

// TestSuicide: a process kills its own domain, in the middle of its work.
func TestSuicide(t *testing.T) {
	for _, kill := range []struct {
		name string
		f    func(ctx context.Context, d *Domain)
	}{
		{"kill", func(ctx context.Context, d *Domain) { d.Kill(); CheckAlive(ctx) }},
		{"mark", func(ctx context.Context, d *Domain) { d.MarkDead(); CheckAlive(ctx) }},
		{"mark and kill", func(ctx context.Context, d *Domain) { d.MarkDead(); d.Kill(); CheckAlive(ctx) }},
		{"kill again in deferred code", func(ctx context.Context, d *Domain) {
			defer d.Kill()
			d.Kill()
			CheckAlive(ctx)
		}},
	} {
		t.Run(kill.name, func(t *testing.T) {
			both(t, func(t *testing.T, w World) { testSuicide(t, w, kill.f) })
		})
	}
}

func testSuicide(t *testing.T, w World, kill func(ctx context.Context, d *Domain)) {
	d := w.NewDomain("worker", DomainOptions{})
	mu := NewMutex(w)
	deferred, after := 0, 0
	count := func(n *int) {
		mu.Lock()
		defer mu.Unlock()
		*n++
	}
	run(t, w, nil, func(ctx context.Context) error {
		g := NewGroup(w)
		for range 3 {
			g.Go(d.Enter(ctx), "other", func(ctx context.Context) error {
				defer count(&deferred)
				defer count(&after)
				defer func() { _ = w.Sleep(ctx, 1); count(&after) }()
				return NewLatch(w).Wait(ctx)
			})
		}
		if err := settle(ctx, w); err != nil {
			return err
		}
		g.Go(d.Enter(ctx), "killer", func(ctx context.Context) error {
			defer count(&deferred)
			kill(ctx, d)
			count(&after)
			return nil
		})
		return errors.Join(expect("group", g.Wait(ctx), ErrKilled), d.Await(ctx), expect("processes", d.Procs(), 0))
	})
	if deferred != 4 || after != 3 {
		t.Errorf("%d deferred calls ran, want 4; %d calls after the kill, want 3", deferred, after)
	}
}

// TestMarkDeadLetsTheEmitterFinish: it goes on until its next call of this package.
func TestMarkDeadLetsTheEmitterFinish(t *testing.T) {
	both(t, func(t *testing.T, w World) {
		d := w.NewDomain("worker", DomainOptions{})
		recorded := false
		run(t, w, nil, func(ctx context.Context) error {
			g := NewGroup(w)
			g.Go(d.Enter(ctx), "emitter", func(ctx context.Context) error {
				d.MarkDead()
				recorded = true
				_ = w.Sleep(ctx, 1)
				panic("a dead process went on")
			})
			return expect("group", g.Wait(ctx), ErrKilled)
		})
		if !recorded {
			t.Error("the emitter did not finish its record")
		}
	})
}

// TestKillLeavesTheOutsideAlone: who only waits under the domain's context is cancelled, who holds a shared semaphore
// gives it back, and a panic in deferred code is not lost.
func TestKillLeavesTheOutsideAlone(t *testing.T) {
	both(t, func(t *testing.T, w World) {
		d := w.NewDomain("worker", DomainOptions{})
		shared := NewSemaphore(w, 1)
		run(t, w, nil, func(ctx context.Context) error {
			g, out := NewGroup(w), NewGroup(w)
			entered := d.Enter(ctx)
			g.Go(entered, "holder", func(ctx context.Context) error {
				if err := shared.Acquire(ctx, 1); err != nil {
					return err
				}
				defer shared.Release(1)
				defer panic("in deferred code")
				return NewLatch(w).Wait(ctx)
			})
			out.Go(ctx, "observer", func(context.Context) error { return NewLatch(w).Wait(entered) })
			if err := settle(ctx, w); err != nil {
				return err
			}
			if err := errors.Join(expect("of ctx", DomainOf(ctx) == nil, true),
				expect("of entered", DomainOf(entered), d)); err != nil {
				return err
			}
			d.Kill()
			var p *PanicError
			if err := g.Wait(ctx); !errors.As(err, &p) {
				return fmt.Errorf("the panic of deferred code is lost: %v", err)
			}
			return errors.Join(expect("observer", out.Wait(ctx), ErrKilled), shared.Acquire(ctx, 1),
				expect("cause", context.Cause(entered), ErrKilled), expect("err", entered.Err(), context.Canceled))
		})
	})
}

// TestDeadDomainCannotWrite: its disk is fenced; the next domain takes the disk over.
func TestDeadDomainCannotWrite(t *testing.T) {
	both(t, func(t *testing.T, w World) {
		d := w.NewDomain("worker#1", DomainOptions{})
		f, err := d.Disk().Create("open")
		if err := errors.Join(err, d.Disk().WriteFile("a", []byte("1"))); err != nil {
			t.Fatal(err)
		}
		d.Kill()
		_, err = f.Write([]byte("late"))
		_, created := d.Disk().Create("b")
		for what, err := range map[string]error{
			"write": err, "create": created, "sync file": f.Sync(), "write file": d.Disk().WriteFile("a", nil),
			"link": d.Disk().Link("a", "b"), "rename": d.Disk().Rename("a", "b"), "remove": d.Disk().Remove("a"),
			"remove all": d.Disk().RemoveAll(""), "sync": d.Disk().Sync("a"),
		} {
			if err != ErrKilled {
				t.Errorf("%s on a dead domain's disk: %v", what, err)
			}
		}
		next := w.NewDomain("worker#2", DomainOptions{Disk: d.Disk()}).Disk()
		next.Crash()
		got, err := next.ReadFile("a")
		if err := errors.Join(err, expect("content", string(got), "1"), next.Rename("a", "b")); err != nil {
			t.Error(err)
		}
		if _, err := next.Open("open"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a file that was not synced survives: %v", err)
		}
	})
}

// TestEffectsOfDeadDeferredCode: calls without a context do nothing in a dead simulated process.
func TestEffectsOfDeadDeferredCode(t *testing.T) {
	w := NewSim(SimOptions{Seed: 1})
	d := w.NewDomain("worker", DomainOptions{})
	q, l, s := NewQueue[int](w, 2), NewLatch(w), NewSemaphore(w, 1)
	q.TryPut(1)
	run(t, w, nil, func(ctx context.Context) error {
		g := NewGroup(w)
		g.Go(d.Enter(ctx), "p", func(ctx context.Context) error {
			defer func() {
				_, took := q.TryTake()
				if took || q.TryPut(2) || s.TryAcquire(1) {
					panic("a dead process acts")
				}
				q.Close()
				l.Open()
			}()
			return w.Sleep(ctx, time.Hour)
		})
		if err := settle(ctx, w); err != nil {
			return err
		}
		d.Kill()
		return errors.Join(expect("group", g.Wait(ctx), ErrKilled), expect("opened", l.Opened(), false),
			expect("closed", q.Closed(), false), expect("items", q.Len(), 1))
	})
}

// TestDeadProcessCannotKill: deferred code of a dead simulated process does not take another domain along.
func TestDeadProcessCannotKill(t *testing.T) {
	w := NewSim(SimOptions{Seed: 1})
	d, other := w.NewDomain("worker", DomainOptions{}), w.NewDomain("other", DomainOptions{})
	run(t, w, nil, func(ctx context.Context) error {
		g := NewGroup(w)
		g.Go(d.Enter(ctx), "p", func(ctx context.Context) error {
			defer other.Kill()
			return NewLatch(w).Wait(ctx)
		})
		if err := settle(ctx, w); err != nil {
			return err
		}
		d.Kill()
		return errors.Join(expect("group", g.Wait(ctx), ErrKilled), expect("other is dead", other.Dead(), false))
	})
}

// TestGoroutinesReturn: no coroutine and no goroutine is left, whatever ended the processes.
func TestGoroutinesReturn(t *testing.T) {
	before := runtime.NumGoroutine()
	for seed := range uint64(20) {
		w := NewSim(SimOptions{Seed: seed})
		d := w.NewDomain("worker", DomainOptions{})
		_ = w.Run(func(ctx context.Context) error {
			for range 10 {
				w.Go(d.Enter(ctx), "victim", NewLatch(w).Wait)
				w.Go(ctx, "deadlocked", func(ctx context.Context) error { return NewGroup(w).waitForEver(ctx) })
			}
			if err := w.Sleep(ctx, 1); err != nil {
				return err
			}
			d.Kill()
			if seed%2 == 0 {
				return nil
			}
			return NewLatch(w).Wait(ctx)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := NewReal(1)
		d := w.NewDomain("worker", DomainOptions{})
		run(t, w, nil, func(ctx context.Context) error {
			for range 10 {
				w.Go(d.Enter(ctx), "victim", NewLatch(w).Wait)
			}
			synctest.Wait()
			d.Kill()
			return d.Await(ctx)
		})
	}) // a bubble waits for its goroutines
	// A goroutine that has told the bubble it is done is still counted until the scheduler has taken it away, so the
	// number is awaited; one that is really left never goes.
	for i := 0; runtime.NumGoroutine() > before && i < 1_000_000; i++ {
		runtime.Gosched()
	}
	if after := runtime.NumGoroutine(); after > before {
		buf := make([]byte, 1<<20)
		t.Errorf("%d goroutines, before %d:\n%s", after, before, buf[:runtime.Stack(buf, true)])
	}
}

// waitForEver waits for something that no cancellation reaches.
func (g *Group) waitForEver(ctx context.Context) error {
	g.mu.Lock()
	g.mu.running++
	g.mu.Unlock()
	return g.Wait(ctx)
}
