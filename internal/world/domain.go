package world

import (
	"context"
	"sync"
	"sync/atomic"
)

// Domain is a killable unit: a worker or a coordinator with its processes and its local disk. A restarted worker is a
// new domain. All methods are safe for concurrent use.
type Domain struct {
	w     *common
	name  string
	dead  atomic.Bool
	scope *scope
	cores *Semaphore
	disk  *fencedDisk

	mu struct {
		sync.Mutex
		first, last *proc // in the order of their start
		n           int
		gone        side
	}
}

func (w *common) NewDomain(name string, o DomainOptions) *Domain {
	w.mu.Lock()
	taken := w.names[name]
	w.names[name] = true
	w.mu.Unlock()
	if taken {
		panic("world: domain " + name + " exists already")
	}
	d := &Domain{w: w, name: name, scope: newScope(w, nil), cores: newSemaphore(w, int64(max(1, o.Cores)))}
	d.disk = newFencedDisk(d, o, w.sim)
	return d
}

// Name is the name given to NewDomain.
func (d *Domain) Name() string { return d.name }

// Enter returns ctx with this domain: processes started under it belong to the domain, and killing the domain cancels
// it with the cause ErrKilled. The calling process stays where it is.
func (d *Domain) Enter(ctx context.Context) context.Context {
	s, above := d.w.scopeBelow(ctx)
	s.hook(d.scope.afterFunc(func() { s.cancel(context.Canceled, ErrKilled, above) }))
	c := d.w.contextOf(ctx, s)
	c.dom = d
	return c
}

// Dead tells whether the domain was killed or marked dead.
func (d *Domain) Dead() bool { return d.dead.Load() }

// MarkDead marks the domain dead, cancels the contexts entered into it and wakes its processes, each of which unwinds
// in its next call of this package. It returns to its caller also when that belongs to the domain, so that an emitter
// can finish its record before it unwinds in CheckAlive.
func (d *Domain) MarkDead() {
	if d.dead.Swap(true) {
		return
	}
	d.scope.end(context.Canceled, ErrKilled)
	d.mu.Lock()
	defer d.mu.Unlock()
	for p := d.mu.first; p != nil; p = p.domNext {
		d.w.k.wake(p)
	}
}

// Kill kills every process of the domain. In the simulated world they are unwound before Kill returns, and a caller
// that belongs to the domain is unwound last, instead of a return; processes that never ran run nothing. In the real
// world Kill is MarkDead: a caller of the domain that wants to unwind at once calls CheckAlive next, which is right in
// both worlds. Await tells when all have ended. A second Kill finishes what MarkDead began.
func (d *Domain) Kill() {
	d.w.k.unwinding(d)
	d.MarkDead()
	d.w.k.reap(d)
}

// Await waits until no process of the domain is left, or returns the cause when ctx is done. In the real world that
// takes as long as the slowest of them needs to come back to a call of this package.
func (d *Domain) Await(ctx context.Context) error {
	c := d.w.enter(ctx)
	_, err := c.await(d, Never, "the end of a domain")
	return err
}

// Procs is the number of processes that have not ended.
func (d *Domain) Procs() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.n
}

// Disk is the domain's local disk. Once the domain is dead, what would change the disk returns ErrKilled, except Crash
// and Wipe, which belong to whoever replaces the machine.
func (d *Domain) Disk() Disk { return d.disk }

// DomainOf returns the domain that processes started under ctx belong to, or nil.
func DomainOf(ctx context.Context) *Domain {
	if c := find(ctx); c != nil {
		return c.dom
	}
	return nil
}

// CheckAlive unwinds the calling process when it is dead, as every call of this package does that takes a context. It
// must not be called while a lock of somebody else is held without a deferred unlock.
func CheckAlive(ctx context.Context) {
	if c := find(ctx); c != nil {
		c.scope.w.k.check(c)
	}
}

func (d *Domain) add(p *proc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p.domPrev = d.mu.last
	if d.mu.last == nil {
		d.mu.first = p
	} else {
		d.mu.last.domNext = p
	}
	d.mu.last = p
	d.mu.n++
}

func (d *Domain) remove(p *proc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.domPrev == nil {
		d.mu.first = p.domNext
	} else {
		p.domPrev.domNext = p.domNext
	}
	if p.domNext == nil {
		d.mu.last = p.domPrev
	} else {
		p.domNext.domPrev = p.domPrev
	}
	d.mu.n--
	if d.mu.n == 0 {
		d.mu.gone.broadcast(d.w)
	}
}

// members returns the processes in the order of their start.
func (d *Domain) members() []*proc {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []*proc
	for p := d.mu.first; p != nil; p = p.domNext {
		all = append(all, p)
	}
	return all
}

func (d *Domain) ready() bool { return d.Procs() == 0 }

func (d *Domain) arm(n *waiter) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.n == 0 {
		return true
	}
	d.mu.gone.pollers.add(n)
	return false
}

func (d *Domain) disarm(n *waiter) {
	d.mu.Lock()
	d.mu.gone.pollers.remove(n)
	d.mu.Unlock()
}
