package lsm

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// lazy is a restore that goes on beside the loop: the database is open on tables of which some bytes are still in the store
// alone. What is read comes by ranges of blocks, each compared with its checksum; meanwhile a process brings the rest.
type lazy struct {
	k      *keyed
	ctx    context.Context // of reads that the database makes
	tables []*farTable
	began  time.Duration
	opened int64        // bytes that came before the loop began
	bytes  atomic.Int64 // that came in all
	done   *world.Latch
	err    error // once done is open
}

// local waits until every byte of the restored state is here, or returns what kept it from coming.
func (k *keyed) local(ctx context.Context) error {
	if k.far == nil {
		return nil
	}
	if err := k.far.done.Wait(ctx); err != nil {
		return err
	}
	return k.far.err
}

// remote tells whether some bytes may be in the store alone.
func (k *keyed) remote() bool { return k.far != nil && (!k.far.done.Opened() || k.far.err != nil) }

// Local waits until the restore is over: with lazy attachment that is when every byte of the state is on the worker and was
// compared with its checksum. It returns what made it fail, which fails the subtask too.
func (k *keyed) Local(ctx context.Context) error { return k.local(ctx) }

// attachLater makes the objects known to the database without their content, and returns those that have to come at once:
// what belongs to the user may be gone once the job runs.
func (r *restorer) attachLater(ctx context.Context, objects []object) (now []object, err error) {
	k := r.k
	l := &lazy{k: k, ctx: store.WithInfo(k.ctx, store.InfoOf(ctx)), began: k.b.e.World.Now(), done: world.NewLatch(k.b.e.World)}
	for _, o := range objects {
		if k.borrowed || backend.OfSavepoint(o.key) {
			now = append(now, o)
			continue
		}
		t, err := k.bucket.expect(l, o)
		if err != nil {
			return nil, err
		}
		l.tables = append(l.tables, t)
	}
	if len(l.tables) > 0 {
		k.far = l
	}
	return now, nil
}

// complete brings all that is missing, some tables at the same time, and ends the restore.
func (l *lazy) complete(ctx context.Context, loop backend.Loop) error {
	k := l.k
	err := errClosed // unless it comes to an end
	defer func() {
		l.err = err
		l.done.Open()
	}()
	ctx = store.WithInfo(ctx, store.InfoOf(l.ctx))
	w := k.b.e.World
	fetches, turns := world.NewGroup(w), world.NewSemaphore(w, int64(k.b.o.Parallel))
	errs := make([]error, len(l.tables))
	var failed atomic.Bool
	for i := 0; i < len(l.tables) && !failed.Load() && ctx.Err() == nil && !k.life.dead.Load(); i++ {
		if turns.Acquire(ctx, 1) != nil {
			break
		}
		t := l.tables[i]
		fetches.Go(ctx, "fetch "+t.key, func(ctx context.Context) error {
			defer turns.Release(1)
			if errs[i] = t.completeAlive(ctx); errs[i] != nil {
				failed.Store(true)
			}
			return nil
		})
	}
	_ = fetches.Wait(ctx) // the group has no errors but a kill, which unwinds this process too
	if ctx.Err() != nil || k.life.dead.Load() {
		return nil
	}
	for _, e := range errs {
		if e != nil {
			err = fmt.Errorf("restore %s: %w", k.subtask, e)
			loop.Fail(err)
			return nil
		}
	}
	err = nil
	k.b.e.Emit(ctx, history.Event{
		Kind: history.RestoreLocal, Actor: k.subtask, Attempt: k.b.e.Attempt, Dur: w.Now() - l.began, Bytes: l.bytes.Load() - l.opened,
	})
	return nil
}

// completeAlive completes a table unless the subtask has ended.
func (t *farTable) completeAlive(ctx context.Context) error {
	if !t.l.k.life.enter() {
		return nil
	}
	defer t.l.k.life.leave()
	return t.complete(ctx)
}
