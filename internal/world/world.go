// Package world is where everything that runs gets its time, concurrency, randomness and local disk.
//
// One source text runs in two worlds. The real world uses goroutines and the monotonic clock. The simulated world is
// one thread: each process is a coroutine that runs until it blocks in a primitive of this package, a seeded scheduler
// picks the next one, and the clock jumps when nobody can run. The same seed gives the same run, always.
//
// The steps of use: create a world (NewReal, NewSim), call Run with the main process, start further processes with
// Go or a Group, block only through Queue, Latch, Semaphore, Group, Sleep, Wait. A Domain is a killable unit (a worker
// or a coordinator): what runs under its context dies with it, without a graceful trace.
package world

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"
)

// Never is the deadline that does not come.
const Never = time.Duration(math.MaxInt64)

// Errors of the primitives.
var (
	// ErrClosed is returned by Put on a closed queue and by Take on a closed and drained one.
	ErrClosed = errors.New("queue is closed")
	// ErrDeadlock ends a simulated run in which every process waits and no timer is armed.
	ErrDeadlock = errors.New("deadlock: every process waits and no timer is armed")
	// ErrRunaway ends a simulated run that makes steps without any progress of time, or never parks.
	ErrRunaway = errors.New("runaway: no progress of virtual time")
	// ErrKilled is what a group reports for a process whose domain was killed, the cause of the contexts entered into
	// that domain, and what its disk answers.
	ErrKilled = errors.New("process was killed")
	// ErrStuck ends a real run in which processes outlive their cancellation by the grace period of one minute,
	// because they are blocked outside of this package or ignore their contexts.
	ErrStuck = errors.New("processes did not end after their cancellation")
	// errGoexit is the result of a process that called runtime.Goexit, as a failing test does.
	errGoexit = errors.New("process called runtime.Goexit")
	// errDead travels from a park to the frame that may unwind; it never leaves this package.
	errDead = errors.New("process is dead")
)

// World is the source of time, concurrency and randomness. It is implemented by the real and the simulated world of
// this package only. All methods may be called concurrently by the world's processes.
type World interface {
	// Now is the time since the world began; it never goes back.
	Now() time.Duration
	// Simulated tells whether durations come from a cost model.
	Simulated() bool
	// Rand returns the stream called name, seeded with a fixed hash of the world's seed and the name. The same name
	// gives a new generator with the same draws. A generator is not safe for concurrent use.
	Rand(name string) *rand.Rand
	// Run makes f the main process and returns its error once every process has ended. It is called once. When f returns
	// before other processes do, their contexts are cancelled. A panic in a process becomes a *PanicError, which Run
	// returns unless a Group has. A simulated run also ends with ErrDeadlock or ErrRunaway, which name the processes, and
	// a real one with ErrStuck if processes outlive their cancellation for a minute.
	Run(f func(ctx context.Context) error) error
	// Go starts a process in ctx's domain; if that is dead, it never runs. Its error or panic, unless it is a kill or the
	// cancellation of ctx, ends Run with that error. Prefer Group.Go where somebody waits for the result.
	Go(ctx context.Context, name string, f func(ctx context.Context) error)
	// Sleep waits for d, or until ctx is done and then returns context.Cause(ctx). d <= 0 yields once.
	Sleep(ctx context.Context, d time.Duration) error
	// Compute declares CPU work of the given cost. In the simulated world it takes one core of ctx's domain for that
	// long, also when ctx is done; small costs are collected first (SimOptions.Quantum), so that a call per batch is
	// cheap. In the real world it does nothing.
	Compute(ctx context.Context, cost time.Duration)
	// WithCancel and WithTimeout are the only sources of contexts; cancelling wakes every process parked under it.
	// context.WithValue may be put on top, context.Cause works, the function AfterFunc replaces context.AfterFunc.
	WithCancel(ctx context.Context) (context.Context, context.CancelCauseFunc)
	WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
	// NewDomain creates a killable unit. Names are unique in a world; a second use of a name panics.
	NewDomain(name string, o DomainOptions) *Domain
	// PolicyName is the scheduling policy of the simulated world, "" in the real one.
	PolicyName() string

	kernel
}

// DomainOptions say what a domain has.
type DomainOptions struct {
	// Cores bounds concurrent Compute calls in the simulated world; 0 means 1.
	Cores int
	// Folder is where the domain's Disk lives in the real world; empty: the disk is in memory in both worlds.
	Folder string
	// Disk, when not nil, is the disk of an earlier domain on the same machine (Domain.Disk) that this one takes over:
	// the earlier domain's own view stays fenced once it is dead, this one's works.
	Disk Disk
}
