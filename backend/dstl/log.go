package dstl

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/world"
)

// segmentLog is the Log that writes segment objects log/<attempt>/<worker>/<n>.seg.
//
// One process, the flusher, takes what writers hand over, waits for more as the options say, frames one object a batch
// and starts one process for each upload, once the bytes under upload leave room. Writers, batches and uploads fail alone:
// the change sets of a failed upload go back to their writers.
type segmentLog struct {
	env    backend.WorkerEnv
	o      Options
	queue  *world.Queue[*upload]
	room   *world.Semaphore // bytes under upload
	framer framer           // the flusher's
	pool   *pool            // what several readers need
	budget *store.RetryBudget
	share  atomic.Int64  // bytes that one writer may have waiting
	calls  atomic.Uint64 // of writers to upload early

	mu      *world.Mutex // guards what follows and all sets, pins and objects
	open    []*writer
	names   []string // of all writers, open or closed
	next    uint64   // number of the next object
	closed  bool
	running int          // processes of this log
	idle    *world.Latch // set by Close while processes run
	free    []*changeSet
	bodies  [][]byte
	doomed  []string // keys to delete
	// doubtful are keys of puts that failed: they are deleted at once and again by Close, when whatever was still under way has ended.
	doubtful []string
	deletes  bool    // a process deletes
	hedges   float64 // second attempts that are allowed
	spoiled  bool    // the mutant truncate-early has struck
}

// Limits of the free lists: sets and bodies beyond them go to the collector.
const (
	maxFree   = 32
	maxBodies = 4
	// maxDoubtful bounds doubtful keys; what is left of further ones is the leader's to find.
	maxDoubtful = 1000
)

var _ Log = (*segmentLog)(nil)

// New starts the log of a worker in one attempt: e.Spawn starts its processes, which end with Close or the attempt.
func New(e backend.WorkerEnv, o Options) (Log, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("options of the log: %w", err)
	}
	o = o.withDefaults()
	l := &segmentLog{
		env: e, o: o, mu: world.NewMutex(e.World), pool: newPool(e),
		queue: world.NewQueue[*upload](e.World, queueCapacity).Named("log uploads"),
		room:  world.NewSemaphore(e.World, o.InFlight),
	}
	l.hedges = firstHedges
	l.budget = store.NewRetryBudget(e.World, o.Upload.RetryShare, float64(o.Upload.RetriesPerSecond))
	l.framer.blockSize = o.BlockSize
	l.share.Store(o.InFlight)
	l.spawn("log-flush", l.flush)
	return l, nil
}

// queueCapacity is beyond what can be waiting: each upload in the queue holds at least one byte of a writer's share.
const queueCapacity = 1 << 30

// spawn starts a process of the log that Close waits for.
func (l *segmentLog) spawn(name string, f func(ctx context.Context)) {
	l.mu.Lock()
	l.running++
	l.mu.Unlock()
	l.env.Spawn(name, func(ctx context.Context) error {
		f(ctx)
		l.mu.Lock()
		l.running--
		idle := l.idle
		if l.running > 0 {
			idle = nil
		}
		l.mu.Unlock()
		if idle != nil {
			idle.Open()
		}
		return nil
	})
}

// Writer opens the log of a subtask.
func (l *segmentLog) Writer(o WriterOptions) (Writer, error) {
	w := &writer{
		l: l, name: fmt.Sprintf("%d/%s", l.env.Attempt, o.Subtask), subtask: o.Subtask, groups: o.Range,
		active: &changeSet{}, unblocked: world.NewLatch(l.env.World),
	}
	w.active.reset(0)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case o.Range.Empty():
		return nil, fmt.Errorf("writer %s has no key groups", w.name)
	case l.closed:
		return nil, fmt.Errorf("writer %s: %w", w.name, ErrClosed)
	case slices.Contains(l.names, w.name):
		return nil, fmt.Errorf("writer %s was opened before", w.name)
	}
	l.names = append(l.names, w.name)
	l.open = append(l.open, w)
	l.divide()
	return w, nil
}

// divide gives each open writer its share, with mu held.
func (l *segmentLog) divide() { l.share.Store(l.o.InFlight / int64(max(1, len(l.open)))) }

// Close ends the log.
func (l *segmentLog) Close(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	if l.running > 0 && l.idle == nil {
		l.idle = world.NewLatch(l.env.World)
	}
	idle := l.idle
	l.mu.Unlock()
	l.queue.Close()
	if idle != nil && idle.Wait(ctx) != nil {
		return nil // the attempt is over, and with it its processes
	}
	l.mu.Lock()
	for _, key := range l.doubtful {
		if !slices.Contains(l.doomed, key) {
			l.doomed = append(l.doomed, key)
		}
	}
	l.doubtful = nil
	l.mu.Unlock()
	l.deleteDoomed(ctx)
	return nil
}

// release is called, with mu held, when s may have become unneeded.
func (l *segmentLog) release(w *writer, s *set) {
	if s.needed() {
		return
	}
	switch s.state {
	case unsent:
		if s.changes != nil {
			w.waiting.Add(-s.raw)
			l.recycle(s)
		}
	case stored:
		o := s.part.object
		if o.live--; o.live == 0 && !o.owned {
			l.doomed = append(l.doomed, o.key)
		}
		s.part = nil
		s.state = unsent
	case sent: // the upload's end releases it
	}
}

// recycle puts the memory of s on the free list, with mu held.
func (l *segmentLog) recycle(s *set) {
	if len(l.free) < maxFree && int64(cap(s.changes.arena)) <= 2*l.o.Preemptive {
		l.free = append(l.free, s.changes)
	}
	s.changes = nil
}

// fresh returns an empty change set for about n changes, with mu held.
func (l *segmentLog) fresh(n int) *changeSet {
	c := &changeSet{}
	if i := len(l.free) - 1; i >= 0 {
		c, l.free = l.free[i], l.free[:i]
	}
	c.reset(n)
	return c
}

// sweep starts a process that deletes what is doomed, unless there is none or one runs.
func (l *segmentLog) sweep() {
	l.mu.Lock()
	start := len(l.doomed) > 0 && !l.deletes && !l.closed
	l.deletes = l.deletes || start
	l.mu.Unlock()
	if start {
		l.spawn("log-delete", l.deleteDoomed)
	}
}

// deleteDoomed deletes until nothing is doomed or a delete fails; then the rest stays for the next time.
func (l *segmentLog) deleteDoomed(ctx context.Context) {
	for {
		l.mu.Lock()
		keys := l.doomed
		l.doomed = nil
		l.deletes = len(keys) > 0
		l.mu.Unlock()
		if len(keys) == 0 {
			return
		}
		if failed := l.deleteKeys(ctx, keys); len(failed) > 0 {
			l.mu.Lock()
			l.doomed = append(l.doomed, failed...)
			l.deletes = false
			l.mu.Unlock()
			return
		}
	}
}

// deleteKeys returns the keys that could not be deleted.
func (l *segmentLog) deleteKeys(ctx context.Context, keys []string) (failed []string) {
	if l.env.Failpoints.Hit(ctx, failpoint.LogDeleteBegin, l.env.Worker) != nil {
		return keys
	}
	for i, d := range l.env.Bucket.Delete(l.info(ctx, "log", 0), keys) {
		if d.Err != nil {
			failed = append(failed, keys[i])
		}
	}
	if l.env.Failpoints.Hit(ctx, failpoint.LogDeleteEnd, l.env.Worker) != nil {
		return nil
	}
	return failed
}

// retryDelay is how long a writer whose upload failed waits before it tries again without a checkpoint.
func retryDelay(failures int) time.Duration {
	return min(100*time.Millisecond<<min(failures, 6), 5*time.Second)
}
