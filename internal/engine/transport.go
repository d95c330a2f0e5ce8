package engine

import (
	"context"
	"fmt"
	"sync/atomic"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// Reasons of a MessageDropped event.
const (
	DroppedFenced = "fenced" // an older term, or an older attempt
	DroppedGone   = "gone"   // the receiver or the sender is dead
)

// Transport carries all messages between coordinators and workers, and nothing else connects the two. Sending never
// blocks; messages of one pair arrive in order; mailboxes are unbounded, since bounded ones both ways between a
// coordinator and a worker deadlock, and their length is a gauge. It is also the one place where fencing tokens are
// stamped (Endpoint.Send) and checked (Endpoint.Take). Safe for concurrent use by all processes of the run.
type Transport struct {
	record func(ctx context.Context, e history.Event)
	world  world.World
	// zombies lets messages of dead senders through: the planted bug accept-zombie.
	zombies func() bool
	dropped atomic.Int64
	peak    atomic.Int64
	mu      struct {
		*world.Mutex
		ends map[string]*Endpoint // by actor: its newest life
	}
}

// NewTransport returns a transport without any actor. record is called for each dropped message; zombies, which may be
// nil, tells whether messages of dead senders are let through.
func NewTransport(w world.World, record func(ctx context.Context, e history.Event), zombies func() bool) *Transport {
	if zombies == nil {
		zombies = func() bool { return false }
	}
	t := &Transport{record: record, world: w, zombies: zombies}
	t.mu.Mutex = world.NewMutex(w)
	t.mu.ends = map[string]*Endpoint{}
	return t
}

// Dropped is the number of messages that were dropped since the run began.
func (t *Transport) Dropped() int64 { return t.dropped.Load() }

// Longest is the longest that any mailbox has been, in messages.
func (t *Transport) Longest() int64 { return t.peak.Load() }

// Endpoint is an actor's side of the transport: its mailbox, and the token of what it sends. Send may be called by every
// process of the actor; Take, TryTake and Fence by its loop only.
type Endpoint struct {
	t       *Transport
	name    string
	life    uint64
	domain  *world.Domain // nil for an actor that cannot be killed
	box     *world.Queue[Message]
	lost    atomic.Bool // nothing is sent to or taken from this life any more
	told    atomic.Bool // that its connection was lost
	watch   atomic.Bool // gets ConnectionLost messages
	term    atomic.Uint64
	attempt atomic.Uint64
}

// Attach gives the actor called name, which lives in domain d (nil: none), its mailbox. An endpoint of a former life of
// the same name is closed, and what is addressed to the name goes to the new one from then on. life counts the lives of a
// worker from 1.
func (t *Transport) Attach(name string, d *world.Domain, life uint64) *Endpoint {
	e := &Endpoint{t: t, name: name, life: life, domain: d, box: world.NewQueue[Message](t.world, world.Unbounded)}
	t.mu.Lock()
	old := t.mu.ends[name]
	t.mu.ends[name] = e
	t.mu.Unlock()
	if old != nil {
		old.lost.Store(true)
		old.box.Close()
	}
	return e
}

// Mailbox returns the current mailbox of an actor, or nil. It is for gauges; an actor takes its messages with Endpoint.Take.
func (t *Transport) Mailbox(name string) *world.Queue[Message] {
	if e := t.end(name); e != nil {
		return e.box
	}
	return nil
}

func (t *Transport) end(name string) *Endpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.ends[name]
}

// Disconnect is called when a worker's domain was killed: messages from and to that life are dropped from now on, and
// every watching actor gets a ConnectionLost at once, which is the first half of the failure-detection model. It may be called
// more than once and by any process, a dying one too: it does not block, nor does it call the recorder.
func (t *Transport) Disconnect(name string, life uint64) {
	t.mu.Lock()
	e := t.mu.ends[name]
	var watching []*Endpoint
	if e != nil && e.life == life && !e.told.Swap(true) {
		e.lost.Store(true)
		for _, o := range t.mu.ends { // order-free: each gets one message in its own mailbox, and there is one watcher a coordinator
			if o.watch.Load() && !o.lost.Load() {
				watching = append(watching, o)
			}
		}
	}
	t.mu.Unlock()
	for _, o := range watching {
		o.put(Message{From: name, To: o.name, Term: o.term.Load(), Body: ConnectionLost{Worker: name, Life: life}})
	}
}

// put appends to a mailbox; false when it is closed.
func (e *Endpoint) put(m Message) bool {
	if !e.box.TryPut(m) {
		return false
	}
	for n := int64(e.box.Len()); ; {
		p := e.t.peak.Load()
		if n <= p || e.t.peak.CompareAndSwap(p, n) {
			return true
		}
	}
}

// Watch asks for ConnectionLost messages.
func (e *Endpoint) Watch() { e.watch.Store(true) }

// Name is the actor's name.
func (e *Endpoint) Name() string { return e.name }

// Life is the actor's life.
func (e *Endpoint) Life() uint64 { return e.life }

// Fence raises what the endpoint accepts and stamps: messages of a lower term, and those that belong to a lower attempt, are
// dropped when they are taken. Neither ever goes down; 0 leaves one as it is. An actor that does not watch connections, a worker,
// follows the highest term it hears. A coordinator raises its term only, since it has to see what belongs to an older
// attempt: objects named there must not be forgotten.
func (e *Endpoint) Fence(term, attempt uint64) {
	raise(&e.term, term)
	raise(&e.attempt, attempt)
}

func raise(a *atomic.Uint64, to uint64) {
	for {
		v := a.Load()
		if to <= v || a.CompareAndSwap(v, to) {
			return
		}
	}
}

// Term is the term of the leader that the actor follows or is.
func (e *Endpoint) Term() uint64 { return e.term.Load() }

// Send stamps body with the endpoint's name, term and the given attempt (0: none) and delivers it to the actor called to. It
// does not block. The process of a dead domain is unwound instead; a message to nobody is dropped and counted.
func (e *Endpoint) Send(ctx context.Context, to string, attempt uint64, body any) {
	world.CheckAlive(ctx)
	m := Message{From: e.name, To: to, Term: e.term.Load(), Attempt: attempt, Body: body, sender: e}
	r := e.t.end(to)
	if r == nil || r.lost.Load() || !r.put(m) {
		e.t.drop(ctx, m, DroppedGone)
	}
}

// Post puts a message of the actor to itself into its own mailbox, for results of work done beside the loop. It is not
// fenced by term.
func (e *Endpoint) Post(ctx context.Context, attempt uint64, body any) {
	world.CheckAlive(ctx)
	m := Message{From: e.name, To: e.name, Term: e.term.Load(), Attempt: attempt, Body: body, sender: e}
	if !e.put(m) {
		e.t.drop(ctx, m, DroppedGone)
	}
}

// Readable is ready when TryTake may find a message, or the endpoint is closed.
func (e *Endpoint) Readable() world.Waitable { return e.box.Readable() }

// Take waits for the next message that is not fenced. It returns world.ErrClosed once the endpoint is closed and empty.
func (e *Endpoint) Take(ctx context.Context) (Message, error) {
	for {
		m, err := e.box.Take(ctx)
		if err != nil {
			return Message{}, err
		}
		if e.accept(ctx, m) {
			return m, nil
		}
	}
}

// TryTake returns the next message that is not fenced, if there is one.
func (e *Endpoint) TryTake(ctx context.Context) (Message, bool) {
	for {
		m, ok := e.box.TryTake()
		if !ok {
			return Message{}, false
		}
		if e.accept(ctx, m) {
			return m, true
		}
	}
}

// accept checks the fencing token of a message, and whether its sender still lives: a crash leaves nothing behind that
// was still on its way.
func (e *Endpoint) accept(ctx context.Context, m Message) bool {
	_, announces := m.Body.(Register) // by a worker that does not know the leader's term yet
	switch {
	case m.sender != nil && m.sender != e && m.sender.gone() && !e.t.zombies():
		e.t.drop(ctx, m, DroppedGone)
	case m.Term < e.term.Load() && !announces && m.sender != e, m.Attempt != 0 && m.Attempt < e.attempt.Load() && !e.t.zombies():
		e.t.drop(ctx, m, DroppedFenced)
	default:
		// A leader that hears of a later term must not speak in its name: it steps down.
		if m.Term > e.term.Load() && !e.watch.Load() {
			e.Fence(m.Term, 0)
		}
		return true
	}
	return false
}

func (e *Endpoint) gone() bool { return e.lost.Load() || e.domain != nil && e.domain.Dead() }

// Closed tells whether the endpoint was closed.
func (e *Endpoint) Closed() bool { return e.box.Closed() }

// Close ends the endpoint: messages to it are dropped and counted from then on.
func (e *Endpoint) Close() {
	e.lost.Store(true)
	e.box.Close()
}

func (t *Transport) drop(ctx context.Context, m Message, reason string) {
	t.dropped.Add(1)
	t.record(ctx, history.Event{
		Kind: history.MessageDropped, Actor: m.To, Attempt: m.Attempt, Term: m.Term, Reason: reason,
		Text: fmt.Sprintf("%s from %s", messageName(m.Body), m.From),
	})
}
