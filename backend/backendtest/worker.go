package backendtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// Worker is a worker's surroundings for tests, in a domain of its own: what a backend needs (Env), and what it did (Events).
type Worker struct {
	Env    backend.WorkerEnv
	Domain *world.Domain
	// Ctx belongs to the domain: work of the worker runs under it.
	Ctx    context.Context
	cancel context.CancelCauseFunc
	spawns *world.Group
	mu     *world.Mutex
	events []history.Event
}

// NewWorker returns the worker called name in an attempt; the two together must be new in the world. Its bucket is b as
// it is.
func NewWorker(ctx context.Context, w world.World, b store.Bucket, name string, attempt uint64) *Worker {
	k := &Worker{
		Domain: w.NewDomain(fmt.Sprintf("%s-%d", name, attempt), world.DomainOptions{Cores: 2}),
		spawns: world.NewGroup(w), mu: world.NewMutex(w),
	}
	k.Ctx, k.cancel = w.WithCancel(k.Domain.Enter(ctx))
	k.Ctx = store.WithInfo(k.Ctx, store.Info{Who: name, Attempt: attempt})
	k.Env = backend.WorkerEnv{
		World: w, Bucket: b, Worker: name, Attempt: attempt, Failpoints: failpoint.New(),
		Emit: func(_ context.Context, e history.Event) {
			k.mu.Lock()
			defer k.mu.Unlock()
			e.At = w.Now()
			k.events = append(k.events, e)
		},
		Spawn: func(name string, f func(ctx context.Context) error) { k.spawns.Go(k.Ctx, name, f) },
	}
	return k
}

// Events returns what was emitted so far.
func (k *Worker) Events() []history.Event {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]history.Event(nil), k.events...)
}

// Stop cancels the attempt, waits for the processes that were spawned and reports their first error, or those of the domain
// that nobody ended.
func (k *Worker) Stop(ctx context.Context) error {
	k.cancel(context.Canceled)
	if err := k.spawns.Wait(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("spawned by %s: %w", k.Env.Worker, err)
	}
	// In the real world a process leaves its domain a moment after its group knows that it has ended.
	bounded, cancel := k.Env.World.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := k.Domain.Await(bounded); err != nil {
		return fmt.Errorf("%s has %d processes left: %w", k.Env.Worker, k.Domain.Procs(), err)
	}
	return nil
}
