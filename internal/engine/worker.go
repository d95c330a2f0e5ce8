package engine

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/world"
)

// worker hosts subtasks. It is one loop over one mailbox, and the processes of the attempts it takes part in. Subtask i of every operator
// shares a slot. A worker that hears nothing from its leader for the heartbeat timeout ends its subtasks by itself.
type worker struct {
	cfg   *Config
	t     *Transport
	net   *Network
	name  string
	life  uint64
	end   *Endpoint
	nodes map[string]*graph.Node
	// group has the processes that watch over the attempts.
	group  *world.Group
	leader atomic.Pointer[string] // whom messages go to

	// Of the loop only.
	heard     time.Duration // when the leader was heard last; meaningless before the first time
	followed  bool          // a leader has been heard since the last silence
	beat      time.Duration // when the next heartbeat is due
	cancelled uint64        // the newest attempt that was told to end

	running struct {
		*world.Mutex
		all []*execution // that have not ended, in order of attempts
	}
}

// newWorker makes one life of a worker; run attaches it to the transport.
func newWorker(cfg *Config, t *Transport, n *Network, name string, life uint64) *worker {
	w := &worker{cfg: cfg, t: t, net: n, name: name, life: life, group: world.NewGroup(cfg.World), nodes: map[string]*graph.Node{}}
	for i := range cfg.Job.Nodes {
		w.nodes[cfg.Job.Nodes[i].ID] = &cfg.Job.Nodes[i]
	}
	w.running.Mutex = world.NewMutex(cfg.World)
	return w
}

// node is the job's operator of that name, or nil.
func (w *worker) node(operator string) *graph.Node { return w.nodes[operator] }

// run is the worker's main process; ctx is of its domain. It returns nil once ctx is done and all processes of its attempts have ended.
func (w *worker) run(ctx context.Context) error {
	w.end = w.t.Attach(w.name, world.DomainOf(ctx), w.life)
	err := w.loop(ctx)
	for _, a := range w.executions() {
		a.cancel(err)
	}
	if werr := w.group.Wait(ctx); err == nil || isCancel(err) {
		err = werr
	}
	w.end.Close()
	if isCancel(err) {
		return nil
	}
	return err
}

func (w *worker) loop(ctx context.Context) error {
	mail := world.NewWaitSet(w.cfg.World, w.end.Readable())
	for {
		w.tick(ctx, w.cfg.World.Now())
		if _, err := mail.Wait(ctx, w.wakeAt()); err != nil {
			return err
		}
		if w.end.Closed() {
			return world.ErrClosed
		}
		for {
			m, ok := w.end.TryTake(ctx)
			if !ok {
				break
			}
			w.handle(ctx, m)
		}
	}
}

func (w *worker) timeout() time.Duration { return plan.D(w.cfg.Workers.HeartbeatTimeout) }

// wakeAt is when tick has something to do.
func (w *worker) wakeAt() time.Duration {
	if w.followed && w.timeout() > 0 {
		return min(w.beat, w.heard+w.timeout())
	}
	return w.beat
}

// tick sends heartbeats, or announces the worker to those who may lead, and notices a silent leader.
func (w *worker) tick(ctx context.Context, now time.Duration) {
	if w.followed && w.timeout() > 0 && now >= w.heard+w.timeout() {
		w.followed = false
		for _, a := range w.executions() {
			a.cancel(errLeaderSilent)
		}
	}
	if now < w.beat {
		return
	}
	w.beat = now + max(plan.D(w.cfg.Workers.HeartbeatEvery), time.Millisecond)
	if w.followed {
		w.end.Send(ctx, *w.leader.Load(), 0, Heartbeat{Sent: now, Life: w.life})
		return
	}
	for i := 0; ; i++ {
		name := "coordinator-" + strconv.Itoa(i)
		if w.t.Mailbox(name) == nil {
			return
		}
		w.end.Send(ctx, name, 0, Register{Worker: w.name, Slots: w.cfg.Workers.Slots, Life: w.life})
	}
}

// errLeaderSilent ends the attempts of a worker that does not hear from its leader.
var errLeaderSilent = errors.New("leader was silent for the heartbeat timeout")

func (w *worker) handle(ctx context.Context, m Message) {
	w.heard, w.followed = w.cfg.World.Now(), true
	if l := w.leader.Load(); l == nil || *l != m.From {
		w.leader.Store(&m.From)
	}
	switch b := m.Body.(type) {
	case Heartbeat:
	case Deploy:
		w.deploy(ctx, m, b)
	case CancelAttempt:
		w.cancel(ctx, m)
	case Permit:
		if a := w.execution(m.Attempt); a == nil || !a.permits.granted(b.Holder) {
			w.send(ctx, m.Attempt, ReturnPermit(b))
		}
	default:
		w.deliver(ctx, m)
	}
}

// deploy begins an attempt. Attempts before it end: a leader starts one only when it counts them as ended.
func (w *worker) deploy(ctx context.Context, m Message, d Deploy) {
	if m.Attempt <= w.cancelled || w.execution(m.Attempt) != nil {
		w.t.drop(ctx, m, DroppedFenced)
		return
	}
	w.end.Fence(m.Term, m.Attempt)
	for _, a := range w.executions() {
		if a.id < m.Attempt {
			a.cancel(errSuperseded)
		}
	}
	a := newExecution(ctx, w, m, d)
	w.running.Lock()
	w.running.all = append(w.running.all, a)
	w.running.Unlock()
	w.group.Go(ctx, a.name(), a.supervise)
}

// errSuperseded ends an attempt that a newer one replaces.
var errSuperseded = errors.New("attempt was replaced by a newer one")

// cancel ends an attempt; its end is told once no process of it is left, at once when there is none.
func (w *worker) cancel(ctx context.Context, m Message) {
	w.cancelled = max(w.cancelled, m.Attempt)
	if a := w.execution(m.Attempt); a != nil {
		a.cancel(errCancelled)
		return
	}
	w.send(ctx, m.Attempt, AttemptEnded{Worker: w.name})
}

// errCancelled ends an attempt because the leader says so.
var errCancelled = errors.New("attempt was cancelled")

// deliver passes a message on to the loops it is for.
func (w *worker) deliver(ctx context.Context, m Message) {
	a := w.execution(m.Attempt)
	if m.Attempt == 0 {
		if all := w.executions(); len(all) > 0 {
			a = all[len(all)-1]
		}
	}
	if a == nil || !a.deliver(m.Body) {
		w.t.drop(ctx, m, DroppedGone)
	}
}

// send sends a message about an attempt to the leader. It may be called by every process of the worker.
func (w *worker) send(ctx context.Context, attempt uint64, body any) {
	w.end.Send(ctx, *w.leader.Load(), attempt, body)
}

// executions are the attempts that have not ended, in order.
func (w *worker) executions() []*execution {
	w.running.Lock()
	defer w.running.Unlock()
	return slices.Clone(w.running.all)
}

func (w *worker) execution(attempt uint64) *execution {
	for _, a := range w.executions() {
		if a.id == attempt {
			return a
		}
	}
	return nil
}

// ended forgets an attempt of which no process is left but the caller, and tells the leader.
func (w *worker) ended(ctx context.Context, a *execution) {
	w.running.Lock()
	w.running.all = slices.DeleteFunc(w.running.all, func(x *execution) bool { return x == a })
	w.running.Unlock()
	w.send(ctx, a.id, AttemptEnded{Worker: w.name})
}

// metrics returns the figures of the running subtasks. It may be called by any process.
func (w *worker) metrics() []SubtaskMetrics {
	var all []SubtaskMetrics
	now := w.cfg.World.Now()
	for _, a := range w.executions() {
		for _, l := range a.loops {
			all = append(all, l.metrics(now)...)
		}
	}
	return all
}
