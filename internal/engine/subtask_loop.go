package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// pace is the shortest time that a source waits: what becomes due within it is sent together.
const pace = time.Millisecond

// loop is the one process that runs a subtask and those chained behind it: it waits for input, mailbox and timers in one
// primitive, and everything of its subtasks happens in it, but for the asynchronous work it starts on the pool.
type loop struct {
	a         *execution
	ctx       context.Context // of the loop's process
	group     *world.Group    // the loop's process and its asynchronous work
	subtasks  []*subtask      // in order of the flow
	takers    []taker         // those of subtasks that take records
	source    *source         // of the first one, or nil
	gate      *gate           // of the first one, or nil
	out       *fanout         // of the last one, or nil for a sink
	clock     *operator       // the first one, if it has timers of processing time
	throttle  backend.Throttler
	producer  *producer
	meter     *meter
	box       *world.Queue[any]
	wait      *world.WaitSet
	alarms    []alarm
	uploads   map[uint64]*upload // by checkpoint
	seen      uint64             // newest checkpoint started at a source or told to be aborted
	rec       graph.Record
	sampled   time.Duration // when the gauges were last read
	paid      int64         // bytes of output whose cost was declared
	simulated bool
}

// The entries of loop.wait.
const (
	onMail = iota
	onInput
	onUnblocked
)

// alarm is a call of the backend's that is due at a time.
type alarm struct {
	at time.Duration
	f  func()
}

// Messages of a loop to itself.
type (
	asyncDone struct { // work ended
		done func(error)
		err  error
	}
	asyncDied struct{ name string } // work panicked
	loopFail  struct{ err error }   // the backend gives up
	partDone  struct {              // a subtask's part of a checkpoint ended
		checkpoint uint64
		upload     *upload
	}
)

// errInjected is the error of a subtask that a fault made fail.
var errInjected = fmt.Errorf("error of user code: %w", store.ErrInjected)

var _ backend.Loop = (*loop)(nil)

// main is the loop's process.
func (l *loop) main(ctx context.Context) error {
	var cancel context.CancelCauseFunc
	l.ctx, cancel = l.a.w.cfg.World.WithCancel(ctx)
	l.producer.ctx = l.ctx
	defer cancel(nil)
	err := l.run(l.ctx)
	if l.source != nil {
		l.source.reportAll(ctx)
	}
	return err
}

func (l *loop) run(ctx context.Context) error {
	l.producer.now = l.a.w.cfg.World.Now()
	for _, s := range l.subtasks {
		if err := s.open(ctx); err != nil {
			return err
		}
	}
	for _, s := range l.subtasks {
		l.a.send(ctx, SubtaskRunning{Operator: s.node.ID, Index: s.d.Index, Restore: s.stats})
	}
	for {
		if err := l.step(ctx); err != nil {
			return err
		}
	}
}

// step does one batch of work, or waits.
func (l *loop) step(ctx context.Context) error {
	world.CheckAlive(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	now := l.a.w.cfg.World.Now()
	l.producer.now = now
	if err := l.mail(ctx); err != nil {
		return err
	}
	l.ring(now)
	l.sample(now)
	if l.throttle != nil && l.throttle.Blocked() {
		return l.throttled(ctx)
	}
	fired, err := l.clocked(ctx, now)
	if err != nil {
		return err
	}
	worked, err := l.work(ctx, now)
	if err != nil {
		return err
	}
	if l.out != nil {
		l.out.expire(now)
	}
	if worked || fired {
		return nil
	}
	return l.idle(ctx, now)
}

// clocked fires the timers of processing time that are due.
func (l *loop) clocked(ctx context.Context, now time.Duration) (fired bool, err error) {
	if l.clock == nil || !l.clock.processing.due(int64(now)) {
		return false, nil
	}
	if err := l.clock.fireProcessing(now); err != nil {
		return true, l.subtasks[0].failed(err)
	}
	return true, l.settle(ctx)
}

// work does one batch, if there is one.
func (l *loop) work(ctx context.Context, now time.Duration) (bool, error) {
	if l.source != nil {
		n, err := l.source.batch(ctx, now, l.producer.records)
		if err != nil {
			return false, l.subtasks[0].failed(err)
		}
		if n == 0 {
			return false, nil
		}
		return true, l.settle(ctx)
	}
	from, e, ok := l.gate.poll()
	if !ok {
		return false, nil
	}
	return true, l.take(ctx, from, &e)
}

// take processes an element of the gate.
func (l *loop) take(ctx context.Context, from int32, e *element) error {
	if e.buf != nil {
		if err := l.records(l.gate.chans[from], e.buf); err != nil {
			return l.subtasks[0].failed(err)
		}
		l.gate.chans[from].release(e.buf)
		if err := l.settle(ctx); err != nil {
			return err
		}
	}
	if e.watermark != noWatermark || e.idle {
		if err := l.note(from, e); err != nil {
			return err
		}
	}
	if e.barrier.ID == 0 {
		return nil
	}
	o := l.gate.arrive(from, e.barrier, l.a.w.cfg.World.Now())
	if o.superseded != 0 {
		l.superseded(ctx, o.superseded)
	}
	if o.aligned.ID == 0 {
		return nil
	}
	return l.checkpoint(ctx, o)
}

// records processes the records of a buffer that came over c.
func (l *loop) records(c *channel, b *buffer) error {
	first, n := l.takers[0], len(b.recs)
	if c.second {
		o := first.(*operator) // no other role has two inputs
		for i := range n {
			g := b.get(i, &l.rec)
			if err := o.processSecond(&l.rec, g, c.broadcast); err != nil {
				return err
			}
		}
	} else {
		for i := range n {
			g := b.get(i, &l.rec)
			if err := first.process(&l.rec, g); err != nil {
				return err
			}
		}
	}
	l.subtasks[0].counts.in += int64(n)
	return nil
}

// note passes a watermark on that rose.
func (l *loop) note(from int32, e *element) error {
	retired := l.gate.allIdle()
	if l.gate.note(from, e) {
		if err := l.takers[0].advance(l.gate.current); err != nil {
			return l.subtasks[0].failed(err)
		}
		return l.settle(l.ctx)
	}
	if !retired && l.gate.allIdle() {
		l.takers[0].retire()
	}
	return nil
}

// settle ends a batch.
func (l *loop) settle(ctx context.Context) error {
	w := l.a.w.cfg.World
	if cost := l.cost(); cost > 0 {
		w.Compute(ctx, cost)
	}
	now := w.Now()
	for _, t := range l.takers {
		if err := t.settle(now); err != nil {
			return l.subtasks[0].failed(err)
		}
	}
	l.publish()
	return nil
}

// idle flushes what has no company to wait for, and waits.
func (l *loop) idle(ctx context.Context, now time.Duration) error {
	until := world.Never
	if l.source != nil {
		until = l.nextBatch(now)
	} else if l.out != nil {
		l.out.flush()
	}
	if l.out != nil {
		until = min(until, l.out.markAt())
	}
	if l.clock != nil {
		if at, ok := l.clock.processing.next(); ok {
			until = min(until, time.Duration(at))
		}
	}
	return l.await(ctx, until, onInput, waitIdle)
}

// nextBatch is when a source is to go on: records that are due soon wait for each other, in the buffers that are open already or
// else for the pace.
func (l *loop) nextBatch(now time.Duration) time.Duration {
	next := l.source.nextDue()
	if l.out != nil {
		if flush := l.out.flushAt(); next <= flush && flush != world.Never {
			return flush
		}
		l.out.flush()
	}
	if next == world.Never {
		return next
	}
	return max(next, now+min(pace, l.producer.every))
}

// throttled waits until the backend takes writes again.
func (l *loop) throttled(ctx context.Context) error {
	if l.out != nil {
		l.out.flush()
	}
	l.wait.Set(onUnblocked, l.throttle.Unblocked())
	kind := waitThrottled
	if l.throttle.Exhausted() {
		kind = waitExhausted
	}
	return l.await(ctx, world.Never, onUnblocked, kind)
}

// await waits for the mailbox, the next alarm, until, and entry of the wait set.
func (l *loop) await(ctx context.Context, until time.Duration, entry int, kind wait) error {
	if len(l.alarms) > 0 {
		until = min(until, l.alarms[0].at)
	}
	l.wait.Enable(onInput, entry == onInput)
	l.wait.Enable(onUnblocked, entry == onUnblocked)
	w := l.a.w.cfg.World
	l.meter.enter(kind, w.Now())
	_, err := l.wait.Wait(ctx, until)
	l.meter.leave(w.Now())
	return err
}

// ring calls the alarms that are due.
func (l *loop) ring(now time.Duration) {
	for len(l.alarms) > 0 && l.alarms[0].at <= now {
		f := l.alarms[0].f
		l.alarms = append(l.alarms[:0], l.alarms[1:]...)
		f()
	}
}

// Async implements backend.Loop.
func (l *loop) Async(name string, work func(ctx context.Context) error, done func(error)) {
	l.start(l.ctx, name, work, func(err error) { l.post(asyncDone{done, err}) })
}

// start runs work on the pool. after is called beside the loop.
func (l *loop) start(ctx context.Context, name string, work func(ctx context.Context) error, after func(error)) {
	l.a.pool.start(ctx, l.group, l.subtasks[0].name+"/"+name, work, after, func() { l.post(asyncDied{name}) })
}

// After implements backend.Loop.
func (l *loop) After(d time.Duration, f func()) {
	at := l.a.w.cfg.World.Now() + d
	i := len(l.alarms)
	for i > 0 && l.alarms[i-1].at > at {
		i--
	}
	l.alarms = append(l.alarms, alarm{})
	copy(l.alarms[i+1:], l.alarms[i:])
	l.alarms[i] = alarm{at, f}
}

// Fail implements backend.Loop.
func (l *loop) Fail(err error) { l.post(loopFail{err}) }

// post puts a message into the loop's mailbox; one to a loop that is gone is dropped and counted.
func (l *loop) post(m any) {
	if !l.box.TryPut(m) {
		l.a.w.t.dropped.Add(1)
	}
}

// mail handles all messages that have come.
func (l *loop) mail(ctx context.Context) error {
	for {
		m, ok := l.box.TryTake()
		if !ok {
			return nil
		}
		if err := l.handle(ctx, m); err != nil {
			return err
		}
	}
}

func (l *loop) handle(ctx context.Context, m any) error {
	switch m := m.(type) {
	case TriggerCheckpoint:
		return l.trigger(ctx, m)
	case CheckpointCompleted:
		return l.completed(ctx, m)
	case CheckpointAborted:
		return l.aborted(ctx, m)
	case StartSources:
		return l.source.start(ctx, m.Began)
	case StopSources:
		l.source.stop(ctx, m.Limits)
	case FailSubtask:
		return l.named(m.Operator).failed(fmt.Errorf("%s: %w", m.Reason, errInjected))
	case asyncDone:
		m.done(m.err)
	case asyncDied:
		return errors.Join(fmt.Errorf("asynchronous work %q did not end", m.name), l.group.Err())
	case loopFail:
		return l.subtasks[0].failed(m.err)
	case partDone:
		l.partDone(m)
	}
	return nil
}

// named is the subtask of an operator in this loop.
func (l *loop) named(operator string) *subtask {
	for _, s := range l.subtasks {
		if s.node.ID == operator {
			return s
		}
	}
	return l.subtasks[0]
}

// record emits an event of every subtask.
func (l *loop) record(ctx context.Context, e history.Event) {
	for _, s := range l.subtasks {
		s.record(ctx, e)
	}
}
