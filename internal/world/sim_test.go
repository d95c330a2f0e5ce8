package world

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"runtime"
	"strings"
	"testing"
	"time"
)

// pipeline is a busy little job: sources, a stage in a killable domain, a sink, timers, a semaphore. It returns a
// digest of what the sink saw and when.
func pipeline(s *Sim) (digest uint64, err error) {
	h := fnv.New64a()
	err = s.Run(func(ctx context.Context) error {
		mid, out := NewQueue[int](s, 3), NewQueue[int](s, Unbounded)
		slots := NewSemaphore(s, 2)
		sources := NewGroup(s)
		for i := range 4 {
			sources.Go(ctx, "source", func(ctx context.Context) error {
				r := s.Rand(fmt.Sprint("source/", i))
				for j := range 20 {
					if err := s.Sleep(ctx, time.Duration(r.IntN(3))*time.Millisecond); err != nil {
						return err
					}
					if err := mid.Put(ctx, 100*i+j); err != nil {
						return err
					}
				}
				return nil
			})
		}
		d := s.NewDomain("worker", DomainOptions{Cores: 2})
		stage := NewGroup(s)
		for range 3 {
			stage.Go(d.Enter(ctx), "stage", func(ctx context.Context) error {
				for {
					i, err := Wait(ctx, s, s.Now()+5*time.Millisecond, mid.Readable())
					if err != nil {
						return err
					}
					if i < 0 {
						out.TryPut(-1)
						continue
					}
					if err := slots.Acquire(ctx, 1); err != nil {
						return err
					}
					v, ok := mid.TryTake()
					s.Compute(ctx, 150*time.Microsecond)
					slots.Release(1)
					if ok {
						out.TryPut(v)
					}
				}
			})
		}
		s.Go(ctx, "killer", func(ctx context.Context) error {
			err := s.Sleep(ctx, 20*time.Millisecond)
			d.Kill()
			mid.Close()
			return err
		})
		if err := sources.Wait(ctx); err != nil && err != ErrClosed {
			return err
		}
		if err := stage.Wait(ctx); err != ErrKilled {
			return fmt.Errorf("stage: %v", err)
		}
		for v, ok := out.TryTake(); ok; v, ok = out.TryTake() {
			fmt.Fprintln(h, v, s.Now())
		}
		return nil
	})
	return h.Sum64(), err
}

func TestSameSeedSameRun(t *testing.T) {
	schedules, outcomes, policies := map[uint64]bool{}, map[uint64]bool{}, map[string]int{}
	for seed := range uint64(50) {
		var digests [2]uint64
		var sims [2]*Sim
		for i := range sims {
			sims[i] = NewSim(SimOptions{Seed: seed}).(*Sim)
			var err error
			if digests[i], err = pipeline(sims[i]); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		a, b := sims[0], sims[1]
		if a.Digest() != b.Digest() || digests[0] != digests[1] || a.Steps() != b.Steps() || a.Switches() != b.Switches() ||
			a.Now() != b.Now() {
			t.Errorf("seed %d: two runs differ: steps %d and %d, times %v and %v", seed, a.Steps(), b.Steps(), a.Now(), b.Now())
		}
		schedules[a.Digest()], outcomes[digests[0]] = true, true
		policies[a.PolicyName()]++

		flipped := NewSim(SimOptions{Seed: seed, FlipChoice: a.Choices() / 2}).(*Sim)
		if _, err := pipeline(flipped); err != nil {
			t.Fatalf("seed %d flipped: %v", seed, err)
		}
		if flipped.Digest() == a.Digest() {
			t.Errorf("seed %d: the digest misses the flipped choice %d", seed, a.Choices()/2)
		}
	}
	if len(schedules) != 50 || len(outcomes) < 40 {
		t.Errorf("50 seeds gave %d schedules and %d outcomes", len(schedules), len(outcomes))
	}
	if len(policies) != len(Policies()) {
		t.Errorf("policies drawn: %v", policies)
	}
}

// TestEqualTimesInEveryOrder: processes that wake at the same time run in every order, under every policy.
func TestEqualTimesInEveryOrder(t *testing.T) {
	for _, policy := range Policies() {
		orders := map[string]bool{}
		for seed := range uint64(200) {
			w := NewSim(SimOptions{Seed: seed, Policy: policy})
			var order []byte
			run(t, w, nil, func(ctx context.Context) error {
				g := NewGroup(w)
				for i := range 3 {
					g.Go(ctx, "sleeper", func(ctx context.Context) error {
						err := w.Sleep(ctx, time.Second)
						order = append(order, byte('a'+i))
						return err
					})
				}
				return g.Wait(ctx)
			})
			orders[string(order)] = true
		}
		if len(orders) != 6 {
			t.Errorf("%s: %d of 6 orders", policy, len(orders))
		}
	}
}

func TestStarveOneDelaysAProcess(t *testing.T) {
	longest := 0
	for seed := range uint64(20) {
		w := NewSim(SimOptions{Seed: seed, Policy: PolicyStarveOne, Preempt: -1})
		last := -1
		run(t, w, nil, func(ctx context.Context) error {
			g := NewGroup(w)
			for i := range 2 {
				g.Go(ctx, "spinner", func(ctx context.Context) error {
					streak := 0
					for range 1000 {
						if streak++; last != i {
							streak = 0
						}
						last = i
						longest = max(longest, streak)
						if err := w.Sleep(ctx, 0); err != nil {
							return err
						}
					}
					return nil
				})
			}
			return g.Wait(ctx)
		})
	}
	if longest < 500 {
		t.Errorf("the longest streak is %d steps", longest)
	}
}

func TestUnknownPolicyPanics(t *testing.T) {
	defer func() {
		if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), PolicyStarveOne) {
			t.Errorf("recovered %v", r)
		}
	}()
	NewSim(SimOptions{Policy: "fair"})
}

func TestDeadlockNamesTheProcesses(t *testing.T) {
	w := NewSim(SimOptions{Seed: 1})
	d := w.NewDomain("worker-1", DomainOptions{})
	unwound := false
	err := w.Run(func(ctx context.Context) error {
		w.Go(d.Enter(ctx), "reader", func(ctx context.Context) error {
			defer func() { unwound = true }()
			_, err := NewQueue[int](w, 1).Named("mailbox").Take(ctx)
			return err
		})
		return NewLatch(w).Wait(ctx)
	})
	if !errors.Is(err, ErrDeadlock) || !unwound {
		t.Fatalf("Run returned %v, unwound %v", err, unwound)
	}
	for _, want := range []string{"worker-1: reader waits for an item of queue mailbox", "main waits for a latch"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
}

func TestDeadlockKeepsTheFailure(t *testing.T) {
	w := NewSim(SimOptions{Seed: 1})
	err := w.Run(func(ctx context.Context) error {
		w.Go(ctx, "fails", func(context.Context) error { return errTest })
		return NewGroup(w).waitForEver(ctx)
	})
	if !errors.Is(err, ErrDeadlock) || !errors.Is(err, errTest) || errors.Is(err, ErrKilled) {
		t.Errorf("Run returned %v", err)
	}
}

// TestRunaway: every way to make no progress is found.
func TestRunaway(t *testing.T) {
	for name, spin := range map[string]func(ctx context.Context, w World) error{
		"yields": func(ctx context.Context, w World) error {
			for {
				if err := w.Sleep(ctx, 0); err != nil {
					return err
				}
			}
		},
		"asks for the time": func(_ context.Context, w World) error {
			for w.Now() < time.Second {
			}
			return nil
		},
		"polls a queue": func(_ context.Context, w World) error {
			for q := NewQueue[int](w, 1); ; {
				if _, ok := q.TryTake(); ok {
					return nil
				}
			}
		},
		"ignores errors": func(ctx context.Context, w World) error {
			ctx, cancel := w.WithCancel(ctx)
			cancel(nil)
			for {
				_ = w.Sleep(ctx, time.Second)
			}
		},
		"ignores kills": func(ctx context.Context, w World) error {
			d := w.NewDomain("suicidal", DomainOptions{})
			g := NewGroup(w)
			g.Go(d.Enter(ctx), "busy", func(context.Context) error {
				defer func() {
					for q := NewQueue[int](w, 1); !q.TryPut(1); {
					}
				}()
				d.Kill()
				return nil
			})
			return g.Wait(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewSim(SimOptions{Seed: 1, MaxSteps: 1000})
			err := w.Run(func(ctx context.Context) error {
				w.Go(ctx, "idle", NewLatch(w).Wait)
				g := NewGroup(w)
				g.Go(ctx, "busy", func(ctx context.Context) error { return spin(ctx, w) })
				return g.Wait(ctx)
			})
			if !errors.Is(err, ErrRunaway) || !strings.Contains(err.Error(), "busy") {
				t.Errorf("Run returned %v", err)
			}
		})
	}
}

func TestWatchdogDumpsStacks(t *testing.T) {
	w := NewSim(SimOptions{Seed: 1, Watchdog: 20 * time.Millisecond})
	release := make(chan struct{})
	ended := make(chan struct{})
	err := w.Run(func(context.Context) error {
		defer close(ended)
		<-release // blocks outside of the world, like a loop that never parks
		w.Now()   // and is unwound here
		panic("an abandoned process went on")
	})
	if !errors.Is(err, ErrRunaway) || !strings.Contains(err.Error(), "TestWatchdogDumpsStacks") {
		t.Errorf("Run returned %v", err)
	}
	close(release)
	<-ended
}

// TestComputeSharesCores: four processes with one second of work each on two cores need two seconds.
func TestComputeSharesCores(t *testing.T) {
	for _, tt := range []struct {
		cores int
		piece time.Duration
		want  time.Duration
	}{
		{0, time.Second, 4 * time.Second},
		{1, time.Millisecond, 4 * time.Second},
		{2, 100 * time.Microsecond, 2 * time.Second},
		{2, time.Microsecond, 2 * time.Second},
		{8, 10 * time.Millisecond, time.Second},
	} {
		w := NewSim(SimOptions{Seed: 1, Preempt: -1})
		d := w.NewDomain("worker", DomainOptions{Cores: tt.cores})
		var first time.Duration
		run(t, w, nil, func(ctx context.Context) error {
			g := NewGroup(w)
			for range 4 {
				g.Go(d.Enter(ctx), "worker", func(ctx context.Context) error {
					for spent := time.Duration(0); spent < time.Second; spent += tt.piece {
						w.Compute(ctx, tt.piece)
					}
					if first == 0 {
						first = w.Now()
					}
					return nil
				})
			}
			return g.Wait(ctx)
		})
		if w.Now() != tt.want {
			t.Errorf("%d cores, pieces of %v: %v, want %v", tt.cores, tt.piece, w.Now(), tt.want)
		}
		if first < w.Now()-w.Now()/20 {
			t.Errorf("%d cores, pieces of %v: unfair, the first ends at %v of %v", tt.cores, tt.piece, first, w.Now())
		}
	}
}

// TestComputeIsKilledAndNotCancelled: work in progress ends with the process only.
func TestComputeIsKilledAndNotCancelled(t *testing.T) {
	w := NewSim(SimOptions{Seed: 1})
	d := w.NewDomain("worker", DomainOptions{})
	run(t, w, nil, func(ctx context.Context) error {
		sub, cancel := w.WithCancel(d.Enter(ctx))
		g, dies := NewGroup(w), NewGroup(w)
		g.Go(sub, "computes", func(ctx context.Context) error {
			w.Compute(ctx, time.Second)
			return expect("time", w.Now(), time.Second)
		})
		if err := w.Sleep(ctx, time.Millisecond); err != nil {
			return err
		}
		cancel(nil)
		if err := g.Wait(ctx); err != nil {
			return err
		}
		dies.Go(d.Enter(ctx), "dies", func(ctx context.Context) error {
			w.Compute(ctx, time.Hour)
			return nil
		})
		if err := w.Sleep(ctx, time.Minute); err != nil {
			return err
		}
		d.Kill()
		w.Compute(ctx, time.Second) // outside of a domain there is always a core
		return errors.Join(expect("dies", dies.Wait(ctx), ErrKilled), expect("time", w.Now(), time.Second+time.Minute+time.Second))
	})
}

func TestMutexIsNotHeldAcrossAWait(t *testing.T) {
	w := NewSim(SimOptions{Seed: 1})
	m := NewMutex(w)
	err := w.Run(func(ctx context.Context) error {
		m.Lock()
		defer m.Unlock()
		return w.Sleep(ctx, 1)
	})
	var p *PanicError
	if !errors.As(err, &p) || !strings.Contains(err.Error(), "mutex") {
		t.Errorf("Run returned %v", err)
	}
	m.Lock()
	m.Unlock() //lint:ignore SA2001 that it can be had is the test
}

// TestMisusePanics lists what is refused at once.
func TestMisusePanics(t *testing.T) {
	w := NewSim(SimOptions{Seed: 1})
	w.NewDomain("worker", DomainOptions{})
	for name, f := range map[string]func(){
		"two domains of a name":          func() { w.NewDomain("worker", DomainOptions{}) },
		"a wait outside of processes":    func() { _ = NewLatch(w).Wait(context.Background()) },
		"a queue of no capacity":         func() { NewQueue[int](w, 0) },
		"a negative semaphore":           func() { NewSemaphore(w, -1) },
		"more released than acquired":    func() { NewSemaphore(w, 1).Release(1) },
		"unlock of an unlocked mutex":    func() { NewMutex(w).Unlock() },
		"a second lock of its own":       func() { m := NewMutex(w); m.Lock(); m.Lock() },
		"AfterFunc on a foreign context": func() { AfterFunc(context.Background(), func() {}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is accepted", name)
				}
			}()
			f()
		}()
	}
}

func TestForeignContextsAreRefused(t *testing.T) {
	w := NewSim(SimOptions{Seed: 1})
	err := w.Run(func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		return w.Sleep(ctx, 1)
	})
	var p *PanicError
	if !errors.As(err, &p) || !strings.Contains(err.Error(), "WithCancel") {
		t.Errorf("Run returned %v", err)
	}
}

// TestGoexitEndsTheCaller: a failing test inside of a process ends the test.
func TestGoexitEndsTheCaller(t *testing.T) {
	returned, ended := false, make(chan struct{})
	go func() {
		defer close(ended)
		w := NewSim(SimOptions{Seed: 1})
		_ = w.Run(func(ctx context.Context) error {
			g := NewGroup(w)
			w.Go(ctx, "other", NewLatch(w).Wait)
			g.Go(ctx, "fails", func(context.Context) error { runtime.Goexit(); return nil })
			return g.Wait(ctx)
		})
		returned = true
	}()
	<-ended
	if returned {
		t.Error("Run returned")
	}
}
