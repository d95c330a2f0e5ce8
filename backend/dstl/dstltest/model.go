package dstltest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// randomRun runs subtasks and a coordinator over one log: changes, materializations, up to three checkpoints at a time that
// complete, expire or fail, notifications that get lost, and a store that fails. The coordinator deletes what no retained
// checkpoint references, as a registry does. Checked are every checkpoint when it completes and as long as it is
// retained, and what is left in the store at the end.
func randomRun(h *harness, checkpoints int) {
	r := h.rng
	h.open(dstl.Options{
		Preemptive: 200 + r.Int64N(2000), PreemptiveOff: r.IntN(5) == 0, BlockSize: 100 + r.IntN(2000),
		BatchDelay: time.Duration(r.IntN(3)) * 5 * time.Millisecond, BatchSize: 500 + r.Int64N(4000),
		InFlight: 2000 + r.Int64N(10000), Prefetch: 1 + r.IntN(5), Upload: h.randomUploads(),
	})
	heal := h.randomFaults()
	c := &coordinator{
		h: h, acks: world.NewQueue[ack](h.w, world.Unbounded), used: map[string]uint64{}, pending: map[uint64]*pending{},
		retain: 1 + r.IntN(2), rng: h.w.Rand("coordinator"),
	}
	loops := world.NewGroup(h.w)
	for i := range 1 + r.IntN(3) {
		s := &subtask{
			logWriter: h.writer(fmt.Sprint("count-", i)), c: c, index: i, inbox: world.NewQueue[notice](h.w, world.Unbounded),
			persists: world.NewGroup(h.w), told: map[uint64]string{}, refs: map[uint64][]backend.ObjectRef{}, mu: world.NewMutex(h.w),
		}
		c.subtasks = append(c.subtasks, s)
		loops.Go(h.worker.Ctx, s.Name(), s.loop)
	}
	c.run(checkpoints)
	if r.IntN(2) == 0 {
		heal()
	}
	for _, s := range c.subtasks {
		s.inbox.TryPut(notice{kind: "stop"})
	}
	h.ok(loops.Wait(h.ctx))
	heal()
	for _, s := range c.subtasks {
		h.ok(s.persists.Wait(h.ctx))
	}
	h.ok(h.log.Close(h.worker.Ctx))
	c.checkLeft()
}

// randomUploads lets half of the runs make second attempts. The draws have a stream of their own.
func (h *harness) randomUploads() (o dstl.UploadOptions) {
	r := h.w.Rand("uploads")
	if r.IntN(2) == 0 {
		o.HedgeAfter, o.HedgeShare = time.Duration(1+r.IntN(15))*time.Millisecond, []float64{0.05, 0.5, 1}[r.IntN(3)]
	}
	return o
}

// randomFaults makes the store slow and unreliable.
func (h *harness) randomFaults() (heal func()) {
	r := h.rng
	remove := []func(){h.inj.Add(store.Rule{Name: "slow", Delay: 1, Jitter: time.Duration(1+r.IntN(20)) * time.Millisecond})}
	if r.IntN(3) > 0 {
		remove = append(remove,
			h.inj.Add(store.Rule{Name: "fail", Ops: []string{"put"}, Share: 0.15, Status: 500}),
			h.inj.Add(store.Rule{Name: "lose", Ops: []string{"put", "delete"}, Share: 0.1, LostAck: true}),
			h.inj.Add(store.Rule{Name: "keep", Ops: []string{"delete"}, Share: 0.2, Status: 503}))
	}
	return func() {
		for _, f := range remove {
			f()
		}
	}
}

// notice is what the coordinator tells a subtask.
type notice struct {
	kind     string // barrier, complete, abort, stop
	id       uint64
	subsumed uint64
}

// ack is a subtask's answer to a barrier.
type ack struct {
	subtask, id int
	err         error
	refs        []backend.ObjectRef
	base, want  elements
}

// pending is a checkpoint that has not ended.
type pending struct {
	id   uint64
	acks []ack
}

// coordinator takes checkpoints and owns what they reference.
type coordinator struct {
	h        *harness
	rng      *rand.Rand
	acks     *world.Queue[ack]
	subtasks []*subtask
	retain   int
	next     uint64
	pending  map[uint64]*pending
	retained []*pending
	used     map[string]uint64 // object to the newest checkpoint that was acknowledged with it
}

// run triggers that many checkpoints and sees them end.
func (c *coordinator) run(checkpoints int) {
	h := c.h
	for int(c.next) < checkpoints || len(c.pending) > 0 {
		if int(c.next) < checkpoints && len(c.pending) < 3 && c.rng.IntN(2) == 0 {
			c.next++
			c.pending[c.next] = &pending{id: c.next}
			c.tell(notice{kind: "barrier", id: c.next}, 0)
		}
		if _, err := world.Wait(h.ctx, h.w, h.w.Now()+time.Duration(c.rng.IntN(20))*time.Millisecond, c.acks.Readable()); err != nil {
			h.ok(err)
		}
		if a, ok := c.acks.TryTake(); ok {
			c.take(a)
		} else if oldest := c.oldest(); oldest != 0 && c.rng.IntN(40) == 0 {
			c.abort(oldest)
		}
	}
}

func (c *coordinator) oldest() uint64 {
	if len(c.pending) == 0 {
		return 0
	}
	return slices.Min(slices.Collect(maps.Keys(c.pending)))
}

// tell notifies the subtasks; each is lost with the given probability in percent.
func (c *coordinator) tell(n notice, lost int) {
	for _, s := range c.subtasks {
		if c.rng.IntN(100) >= lost {
			s.inbox.TryPut(n)
		}
	}
}

// take registers what was acknowledged, late or not, and completes the checkpoint if it was the last.
func (c *coordinator) take(a ack) {
	for _, r := range a.refs {
		c.used[r.Key] = max(c.used[r.Key], uint64(a.id))
	}
	p := c.pending[uint64(a.id)]
	switch {
	case p == nil:
	case a.err != nil:
		c.abort(p.id)
	default:
		if p.acks = append(p.acks, a); len(p.acks) == len(c.subtasks) {
			c.complete(p)
		}
	}
}

func (c *coordinator) abort(id uint64) {
	delete(c.pending, id)
	c.tell(notice{kind: "abort", id: id}, 10)
}

// complete retains p, drops what is too old, and checks all that is retained.
func (c *coordinator) complete(p *pending) {
	delete(c.pending, p.id)
	for o := c.oldest(); o != 0 && o < p.id; o = c.oldest() {
		c.abort(o)
	}
	c.retained = append(c.retained, p)
	var subsumed uint64
	for len(c.retained) > c.retain {
		subsumed = c.retained[0].id
		c.retained = c.retained[1:]
	}
	lowest := c.retained[0].id
	for _, key := range slices.Sorted(maps.Keys(c.used)) {
		if c.used[key] < lowest {
			delete(c.used, key)
			c.h.ok(c.h.raw.Delete(c.h.ctx, []string{key})[0].Err)
		}
	}
	c.check()
	c.tell(notice{kind: "complete", id: p.id, subsumed: subsumed}, 10)
}

// check reads all retained checkpoints back.
func (c *coordinator) check() {
	for _, p := range c.retained {
		for _, a := range p.acks {
			c.h.holds(a.base, a.refs, groups, a.want)
		}
	}
}

// checkLeft compares the store with what must and what may be there once everything is closed.
func (c *coordinator) checkLeft() {
	c.check()
	may := map[string]bool{}
	for _, s := range c.subtasks {
		for id, refs := range s.refs { // order-free: fills a set
			for _, r := range refs {
				may[r.Key] = may[r.Key] || s.told[id] != "abort"
			}
		}
	}
	for _, key := range c.h.keys() {
		c.h.want(may[key], "%s is an orphan", key)
	}
}

// record is a checkpoint that a subtask has started and that is not over.
type record struct{ id, from, to uint64 }

// subtask is the loop of one writer: it does what package changelog does, without a nested backend.
type subtask struct {
	*logWriter
	c        *coordinator
	index    int
	inbox    *world.Queue[notice]
	persists *world.Group

	from       uint64 // the log begins here: all before is materialized
	confirmed  bool   // a completed checkpoint contains the newest materialization
	cutAt      uint64 // of the materialization under way
	running    bool
	records    []record
	subsumedTo uint64
	told       map[uint64]string // how a checkpoint ended

	mu   *world.Mutex
	refs map[uint64][]backend.ObjectRef // what was persisted, guarded by mu
}

func (s *subtask) loop(ctx context.Context) error {
	s.confirmed = true
	for {
		for s.Blocked() {
			if _, err := world.Wait(ctx, s.h.w, s.h.w.Now()+time.Second, s.Unblocked(), s.inbox.Readable()); err != nil {
				return err
			}
			if s.inbox.Len() > 0 {
				break
			}
		}
		switch n := s.rng.IntN(10); {
		case n < 5:
			s.random(s.rng.IntN(20))
		case n < 7:
			s.materialize()
		default:
			if err := s.h.w.Sleep(ctx, time.Duration(s.rng.IntN(8))*time.Millisecond); err != nil {
				return err
			}
		}
		if m, ok := s.inbox.TryTake(); ok {
			if m.kind == "stop" {
				return s.stop(ctx)
			}
			s.notice(ctx, m)
		}
	}
}

// stop closes the writer, now and then while it persists.
func (s *subtask) stop(ctx context.Context) error {
	if s.rng.IntN(2) == 0 {
		if err := s.persists.Wait(ctx); err != nil {
			return err
		}
	}
	return s.Close()
}

// materialize begins a materialization or ends the one under way.
func (s *subtask) materialize() {
	switch {
	case s.running && s.rng.IntN(4) == 0:
		s.running = false // it failed
	case s.running:
		s.from, s.running, s.confirmed = s.cutAt, false, false
		if s.rng.IntN(2) == 0 {
			s.Cover(s.from)
		}
		s.truncate()
	case s.confirmed:
		if s.cutAt = s.next(); s.cutAt > s.from {
			s.running = true
		}
	}
}

func (s *subtask) notice(ctx context.Context, m notice) {
	switch m.kind {
	case "barrier":
		s.barrier(ctx, m.id)
	case "complete":
		s.told[m.id] = m.kind
		s.h.ok(s.Confirm(ctx, m.id, m.subsumed))
		for _, r := range s.records {
			s.confirmed = s.confirmed || r.id == m.id && r.from == s.from
			if r.id <= m.subsumed {
				s.subsumedTo = max(s.subsumedTo, r.to)
			}
		}
		s.records = slices.DeleteFunc(s.records, func(r record) bool { return r.id <= m.subsumed })
		s.truncate()
	case "abort":
		s.told[m.id] = m.kind
		s.Reset(m.id)
		s.records = slices.DeleteFunc(s.records, func(r record) bool { return r.id == m.id })
	}
}

func (s *subtask) truncate() {
	to := min(s.from, s.subsumedTo)
	if s.rng.IntN(2) == 0 {
		to = s.from // pins alone must protect what runs
	}
	s.h.ok(s.Truncate(s.h.worker.Ctx, to))
}

func (s *subtask) barrier(ctx context.Context, id uint64) {
	from := s.from
	to := s.cut(from, id)
	s.records = append(s.records, record{id: id, from: from, to: to})
	base, want := s.at[from], s.at[to]
	delay := time.Duration(s.rng.IntN(30)) * time.Millisecond
	s.persists.Go(ctx, "persist", func(ctx context.Context) error {
		if err := s.h.w.Sleep(ctx, delay); err != nil {
			return err
		}
		p, err := s.Persist(ctx, from, id)
		if err == nil {
			s.contiguous(p.Refs, from, to)
			s.mu.Lock()
			s.refs[id] = p.Refs
			s.mu.Unlock()
		} else if !errors.Is(err, store.ErrAmbiguous) && !errors.Is(err, dstl.ErrReset) && !errors.Is(err, dstl.ErrClosed) {
			return err
		}
		s.c.acks.TryPut(ack{subtask: s.index, id: int(id), err: err, refs: p.Refs, base: base, want: want})
		return nil
	})
}
