package world

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"statebench.dev/bench/internal/seed"
)

// SimOptions configure a simulated world. The zero value works.
type SimOptions struct {
	// Seed decides everything that is left to chance.
	Seed uint64
	// Policy is how the next process is chosen: PolicyUniform, PolicyPriority or PolicyStarveOne; empty: drawn from the
	// seed.
	Policy string
	// Preempt is the mean number of blocking calls that return at once between two where another process gets its turn
	// anyway; 0: drawn from the seed, negative: never.
	Preempt int
	// Quantum is the CPU time a process collects by Compute before it is spent; 0: 100µs, negative: at every call.
	Quantum time.Duration
	// MaxSteps is the number of steps without progress of time after which the run fails with ErrRunaway; 0: 1e6.
	MaxSteps int64
	// Watchdog is the wall time of one step after which the run fails with ErrRunaway; 0: 30s.
	Watchdog time.Duration
	// FlipChoice, when positive, makes the n-th choice of the scheduler among several processes take the other one: it
	// proves that digests notice.
	FlipChoice int64
}

// Defaults of SimOptions.
const (
	defaultQuantum  = 100 * time.Microsecond
	defaultMaxSteps = 1_000_000
	defaultWatchdog = 30 * time.Second
	slice           = 10 * time.Millisecond // of a core, when others wait for it
	callsPerStep    = 100                   // calls without a context that count like one step
)

// Sim is the simulated world: one thread, a virtual clock, a scheduler that is repeatable by its seed.
type Sim struct {
	common
	o    SimOptions
	rng  *rand.Rand
	pol  policy
	time time.Duration
	seq  int64

	cur    *proc   // running; nil in the scheduler
	chosen *proc   // to run next
	ready  []*proc // in no particular but repeatable order
	timers timerHeap
	next   int64 // blocking calls until the next forced turn
	mean   int   // of next; 0: never

	steps     atomic.Int64 // read by the watchdog
	abandoned atomic.Bool  // set by the watchdog
	switches  int64
	choices   int64
	idle      int64 // steps since the clock moved
	calls     int64 // calls without a context since then
	moves     int64 // of the clock
	digest    uint64
	fatal     error
}

var _ World = (*Sim)(nil)

// state of a simulated process.
type state uint8

const (
	isReady state = iota // also before the first step
	isRunning
	isParked
	isEnded
)

// simProc is what a process has in the simulated world.
type simProc struct {
	resume func() (struct{}, bool) // nil before the first step
	stop   func()
	yield  func(struct{}) bool
	state  state
	killed bool // unwinding, or to be unwound by its next call
	tm     timer
	place  int // in the ready list, plus one; 0 when not in it
	locks  int // held
	debt   time.Duration
	rank   uint64 // of the priority policy
	move   int64  // clock move in which idle counts
	idle   int64
}

// NewSim returns a simulated world, a *Sim. It panics for an unknown policy (see Policies).
func NewSim(o SimOptions) World {
	s := &Sim{o: o, rng: seed.Stream(o.Seed, "world/scheduler")}
	s.init(s, o.Seed, true, time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	s.pol = newPolicy(o, s.rng)
	switch draw := seed.Hash(o.Seed, "world/preempt") % 3; {
	case o.Preempt > 0:
		s.mean = o.Preempt
	case o.Preempt == 0 && draw > 0:
		s.mean = []int{0, 8, 64}[draw]
	}
	s.next = s.gap()
	if o.Quantum == 0 {
		s.o.Quantum = defaultQuantum
	}
	if o.MaxSteps == 0 {
		s.o.MaxSteps = defaultMaxSteps
	}
	if o.Watchdog == 0 {
		s.o.Watchdog = defaultWatchdog
	}
	return s
}

// PolicyName is the policy in force.
func (s *Sim) PolicyName() string { return s.pol.name }

// Steps is the number of times a process was chosen to run.
func (s *Sim) Steps() int64 { return s.steps.Load() }

// Switches is the number of steps that changed the coroutine: a process that is chosen again at once goes on without.
func (s *Sim) Switches() int64 { return s.switches }

// Choices is the number of draws among several processes or ready things so far, the range of FlipChoice.
func (s *Sim) Choices() int64 { return s.choices }

// Digest is a hash of the order of all steps and their times.
func (s *Sim) Digest() uint64 { return s.digest }

// Run runs the world until every process has ended, a deadlock or a runaway. The processes run on one goroutine, not
// the caller's, but runtime.Goexit in one (a failing test) ends the caller too.
func (s *Sim) Run(f func(ctx context.Context) error) error {
	s.begin()
	main := s.newMain(f)
	s.start(main)
	done := make(chan bool, 1)
	go func() {
		finished := false
		defer func() {
			s.unwindAll()
			done <- finished
		}()
		s.loop()
		finished = true
	}()
	if err := s.watch(done); err != nil {
		return err
	}
	if s.fatal != nil && main.result == ErrKilled {
		main.result = nil // by the end of the run
	}
	err := s.result(main.result)
	if s.fatal != nil {
		err = errors.Join(s.fatal, err)
	}
	return err
}

// watch waits for the end of the loop, or for a step that takes too long.
func (s *Sim) watch(done chan bool) error {
	tick := time.NewTicker(max(s.o.Watchdog/8, time.Millisecond))
	defer tick.Stop()
	seen, since := s.steps.Load(), time.Now()
	for {
		select {
		case finished := <-done:
			if !finished {
				runtime.Goexit()
			}
			return nil
		case <-tick.C:
		}
		if now := s.steps.Load(); now != seen {
			seen, since = now, time.Now()
			continue
		}
		if time.Since(since) >= s.o.Watchdog {
			s.abandoned.Store(true)
			buf := make([]byte, 1<<18)
			buf = buf[:runtime.Stack(buf, true)]
			return fmt.Errorf("%w: no process has parked for %v\n%s", ErrRunaway, s.o.Watchdog, buf)
		}
	}
}

// loop is the scheduler.
func (s *Sim) loop() {
	for s.live > 0 {
		p := s.chosen
		s.chosen = nil
		if p == nil {
			p = s.pick(true)
		}
		if s.fatal == nil && p == nil {
			s.fatal = fmt.Errorf("%w (at %v):%s", ErrDeadlock, s.time, describe(s.alive()))
		}
		if s.fatal != nil {
			s.unwindAll()
			return
		}
		s.dispatch(p)
	}
}

// dispatch lets p run until it parks or ends.
func (s *Sim) dispatch(p *proc) {
	if p.resume == nil {
		if p.doomed() {
			s.finish(p, ErrKilled)
			return
		}
		p.resume, p.stop = iter.Pull(func(yield func(struct{}) bool) {
			p.yield = yield
			p.run()
		})
	}
	s.cur, p.state = p, isRunning
	s.switches++
	p.resume()
	s.cur = nil
}

// pick chooses the next process, moving the clock when none is ready. It returns nil if there is none, if the run must
// end, or if a timer calls a function, which only the root of the scheduler may do, since that may kill the process on
// whose stack pick runs.
func (s *Sim) pick(root bool) *proc {
	for s.fatal == nil {
		for len(s.timers) > 0 && s.timers[0].at <= s.time {
			t := s.timers[0]
			if t.f != nil && !root {
				return nil
			}
			s.timers.remove(t)
			if t.f != nil {
				s.guarded(t.f)()
			} else {
				s.wake(t.p)
			}
		}
		if len(s.ready) > 0 {
			return s.step()
		}
		if len(s.timers) == 0 {
			return nil
		}
		s.time = s.timers[0].at
		s.moves++
		s.idle, s.calls = 0, 0
	}
	return nil
}

// step takes a process from the ready list and counts.
func (s *Sim) step() *proc {
	p := s.ready[s.pol.choose(s)]
	s.unready(p)
	s.steps.Store(s.steps.Load() + 1)
	s.digest = (s.digest ^ uint64(p.id)<<48 ^ uint64(s.time)) * 0x9fb21c651e98df25
	s.digest ^= s.digest >> 29
	if p.move != s.moves {
		p.move, p.idle = s.moves, 0
	}
	p.idle++
	if s.idle++; s.idle > s.o.MaxSteps {
		s.runaway()
		return nil
	}
	return p
}

// runaway fails the run and names the busiest process.
func (s *Sim) runaway() {
	var worst *proc
	for _, p := range s.alive() {
		if p.move == s.moves && (worst == nil || p.idle > worst.idle) {
			worst = p
		}
	}
	if s.cur != nil && s.calls > 0 {
		worst = s.cur
	}
	s.fatal = fmt.Errorf("%w: %d steps at %v, most of them by:%s", ErrRunaway, s.idle, s.time, describe([]*proc{worst}))
}

func (s *Sim) now() time.Duration {
	s.call()
	return s.time
}

// call counts a call without a context, by which a process may spin.
func (s *Sim) call() {
	if s.calls++; s.calls > s.o.MaxSteps*callsPerStep || s.abandoned.Load() {
		if s.cur == nil {
			s.calls = 0 // between runs
			return
		}
		if s.fatal == nil {
			s.runaway()
		}
		s.cur.killed = true
		panic(killed{})
	}
}

// choose draws from [0, n), n > 0.
func (s *Sim) choose(n int) int {
	if n == 1 {
		return 0
	}
	return s.flip(s.rng.IntN(n), n)
}

// flip counts the choice i of n and makes another one if it is the one to flip.
func (s *Sim) flip(i, n int) int {
	if s.choices++; s.choices == s.o.FlipChoice {
		return (i + 1) % n
	}
	return i
}

func (s *Sim) startTimer(t *timer, at time.Duration, f func()) {
	t.f = f
	s.arm(t, at)
}

func (s *Sim) arm(t *timer, at time.Duration) {
	s.seq++
	t.at, t.seq = at, s.seq
	s.timers.push(t)
}

func (s *Sim) stopTimer(t *timer) { s.timers.remove(t) }
