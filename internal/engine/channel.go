package engine

import (
	"math"
	"time"

	"statebench.dev/bench/internal/world"
)

// noWatermark is the watermark before the first.
const noWatermark = math.MinInt64

// element is what a channel carries: the records of a buffer, or a watermark that holds after them, or a barrier.
type element struct {
	buf       *buffer // nil: no records
	watermark int64   // after the records; noWatermark: as before
	idle      bool    // the producer does not count for the consumer's watermark: it has no partition, nor ever will in this attempt
	barrier   barrier
}

// barrier starts a checkpoint at those who take it; ID 0 is none.
type barrier struct {
	ID uint64
	At time.Duration // when the checkpoint was triggered
	form
}

// channel leads from one producer subtask to one consumer subtask. Buffers need credit: at most credits of them exist, the one being filled
// included, and the producer waits for the consumer to give one back. Watermarks and barriers need none: watermarks merge
// into the last element, and barriers are as few as there are pending checkpoints. What lies in a channel can be looked at in place (each), barriers
// behind records included.
type channel struct {
	index     int32                  // in the consumer's gate
	second    bool                   // it is of the consumer's second input
	broadcast bool                   // it is of a broadcast edge
	ready     *world.Queue[int32]    // of the gate: channels that hold something, each once
	credit    *world.Queue[struct{}] // of the producer: a bell for returned buffers; nil until it attached
	credits   int
	mu        *world.Mutex
	// Guarded by mu.
	ring    []element // its length is a power of two
	first   int
	n       int
	free    []*buffer
	made    int
	starved bool // the producer waits for a buffer
}

// acquire takes an empty buffer, or returns nil and makes release ring the producer's bell.
func (c *channel) acquire() *buffer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.free); n > 0 {
		b := c.free[n-1]
		c.free = c.free[:n-1]
		return b
	}
	if c.made < c.credits {
		c.made++
		return &buffer{}
	}
	c.starved = true
	return nil
}

// release gives a buffer back to the producer. One that waits is woken when half of its credit is back: it would else be woken for
// every buffer, and each time find room for no more than that. What is queued always flows until then, since a producer sends a
// barrier to all its consumers at once, so that no alignment that blocks the channel can wait for a producer that waits for the channel.
func (c *channel) release(b *buffer) {
	b.reset()
	c.mu.Lock()
	c.free = append(c.free, b)
	starved := c.starved && 2*len(c.free) >= c.credits
	if starved {
		c.starved = false
	}
	c.mu.Unlock()
	if starved {
		c.credit.TryPut(struct{}{})
	}
}

// attach makes bell the one that release rings.
func (c *channel) attach(bell *world.Queue[struct{}]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.credit = bell
}

// send appends e and never blocks. A mere watermark merges into an element that is not a barrier.
func (c *channel) send(e element) {
	c.mu.Lock()
	if c.n > 0 && e.buf == nil && e.barrier.ID == 0 {
		if last := c.at(c.n - 1); last.barrier.ID == 0 {
			last.watermark = max(last.watermark, e.watermark)
			last.idle = last.idle || e.idle
			c.mu.Unlock()
			return
		}
	}
	if c.n == len(c.ring) {
		c.grow()
	}
	*c.at(c.n) = e
	c.n++
	first := c.n == 1
	c.mu.Unlock()
	if first {
		c.ready.TryPut(c.index)
	}
}

// take removes the first element and tells whether more are left.
func (c *channel) take() (e element, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.at(0)
	e, *p = *p, element{}
	c.first = (c.first + 1) & (len(c.ring) - 1)
	c.n--
	return e, c.n > 0
}

// each calls f for the elements that wait in the channel, in order. f must not keep them nor block.
func (c *channel) each(f func(e *element)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.n {
		f(c.at(i))
	}
}

func (c *channel) at(i int) *element { return &c.ring[(c.first+i)&(len(c.ring)-1)] }

func (c *channel) grow() {
	ring := make([]element, max(4, 2*len(c.ring)))
	n := copy(ring, c.ring[c.first:])
	copy(ring[n:], c.ring[:c.first])
	c.ring, c.first = ring, 0
}
