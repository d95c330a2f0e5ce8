package world

import (
	"context"
	"time"
)

// This file is what a process of the simulated world sees of its kernel: parking, waking, spending CPU time and being
// killed.

func (s *Sim) check(*wctx) {
	if p := s.cur; p != nil && p.doomed() {
		panic(killed{})
	}
}

// point gives others a turn from time to time, since else a process would run undisturbed until it has to wait.
func (s *Sim) point() {
	s.call()
	p := s.cur
	if p == nil {
		return
	}
	if p.locks > 0 {
		panic("world: a blocking call of process " + p.name + " while it holds a mutex")
	}
	if s.mean == 0 {
		return
	}
	if s.next--; s.next <= 0 {
		s.next = s.gap()
		s.turn()
	}
}

// gap draws the number of calls until the next forced turn.
func (s *Sim) gap() int64 {
	if s.mean == 0 {
		return 0
	}
	return 1 + s.rng.Int64N(2*int64(s.mean))
}

func (s *Sim) quick() bool {
	s.call()
	return s.cur == nil || !s.cur.doomed()
}

func (s *Sim) unwinding(d *Domain) {
	if p := s.cur; p != nil && (p.killed || p.dom != d && p.doomed()) {
		panic(killed{})
	}
}

func (s *Sim) acquire(*wctx) *proc {
	if s.cur == nil {
		panic("world: a call that has to wait, outside of the processes of the simulated world")
	}
	return s.cur
}

func (s *Sim) release(*proc) {}

func (s *Sim) park(p *proc, until time.Duration, _ <-chan struct{}) bool {
	p.state = isParked
	if until != Never {
		p.tm.p = p
		s.arm(&p.tm, until)
	}
	alive := s.leave(p)
	s.timers.remove(&p.tm)
	return alive
}

func (s *Sim) yield(*wctx) {
	s.pol.yielded(s.acquire(nil))
	s.turn()
}

// turn lets others run before the current process goes on.
func (s *Sim) turn() {
	p := s.cur
	s.enlist(p)
	if !s.leave(p) || p.doomed() {
		panic(killed{})
	}
}

// leave runs others until p's turn comes again; false: p must unwind.
func (s *Sim) leave(p *proc) bool {
	q := s.pick(false)
	alive := true
	if q == p {
		p.state = isRunning
	} else {
		s.chosen = q
		alive = p.yield(struct{}{})
	}
	return alive && !p.killed
}

// wake makes a parked process ready.
func (s *Sim) wake(p *proc) {
	if p.state == isParked {
		s.enlist(p)
	}
}

func (s *Sim) enlist(p *proc) {
	p.state = isReady
	s.ready = append(s.ready, p)
	p.place = len(s.ready)
}

// unready takes p from the ready list.
func (s *Sim) unready(p *proc) {
	last := len(s.ready) - 1
	moved := s.ready[last]
	s.ready[p.place-1], moved.place = moved, p.place
	s.ready[last] = nil
	s.ready = s.ready[:last]
	p.place = 0
}

func (s *Sim) start(p *proc) {
	s.pol.started(p)
	s.enlist(p)
}

func (s *Sim) ended(p *proc) { p.state = isEnded }

// compute collects cost until it is worth a switch, then spends it on a core of the domain, a slice at a time if others
// wait for one.
func (s *Sim) compute(ctx context.Context, wc *wctx, cost time.Duration) {
	p := s.cur
	if p == nil || cost <= 0 {
		return
	}
	if p.debt += cost; p.debt < s.o.Quantum || p.locks > 0 {
		return // what is done under a mutex is paid later
	}
	d := p.dom
	if wc != nil {
		d = wc.dom
	}
	c := &caller{w: &s.common, ctx: ctx, c: wc, deaf: true}
	for p.debt > 0 {
		if d != nil {
			throw(d.cores.acquire(c, 1))
		}
		err := s.spend(c, p, d)
		if d != nil {
			d.cores.Release(1)
		}
		throw(err)
	}
}

// spend pays the debt of p, or a part when somebody else waits for the core of d it holds.
func (s *Sim) spend(c *caller, p *proc, d *Domain) error {
	for p.debt > 0 {
		part := p.debt
		if d != nil {
			part = min(part, slice)
		}
		p.debt -= part
		for until := s.time + part; s.time < until; {
			if err := c.park(p, until, "the end of its computation"); err != nil {
				return err
			}
		}
		if p.debt > 0 && d != nil && d.cores.contended() {
			return nil
		}
	}
	return nil
}

func (s *Sim) reap(d *Domain) {
	self := s.cur
	for _, p := range d.members() {
		if p != self {
			s.unwind(p)
		}
	}
	if self != nil && self.dom == d {
		panic(killed{})
	}
}

// unwind ends a process that is not the running one: it runs its deferred functions and nothing else.
func (s *Sim) unwind(p *proc) {
	if p.killed || p.state == isEnded {
		return
	}
	p.killed = true
	s.timers.remove(&p.tm)
	if p.place > 0 {
		s.unready(p)
	}
	if s.chosen == p {
		s.chosen = nil
	}
	if p.resume == nil {
		s.finish(p, ErrKilled)
		return
	}
	outer := s.cur
	s.cur, p.state = p, isRunning
	p.stop()
	s.cur = outer
}

// unwindAll ends every process.
func (s *Sim) unwindAll() {
	s.cur = nil
	for _, p := range s.alive() {
		s.unwind(p)
	}
}
