package engine

import (
	"context"
	"time"

	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// producer is what the outputs of one loop share: its clock, its bell for credit, its meter.
type producer struct {
	world   world.World
	ctx     context.Context // of the loop, once it runs
	records int             // per buffer at most
	every   time.Duration   // how long a partly filled buffer waits at most
	now     time.Duration   // as of the batch being processed
	meter   *meter
	bell    *world.Queue[struct{}]
	wait    *world.WaitSet
}

func newProducer(w world.World, records int, every time.Duration, m *meter) *producer {
	p := &producer{world: w, records: max(1, records), every: every, meter: m, bell: world.NewQueue[struct{}](w, 1)}
	p.wait = world.NewWaitSet(w, p.bell.Readable())
	return p
}

// acquire takes an empty buffer of c, waiting for credit. That time is back-pressured.
func (p *producer) acquire(c *channel) (*buffer, error) {
	b := c.acquire()
	if b != nil {
		return b, nil
	}
	p.meter.enter(waitBackpressured, p.world.Now())
	for b == nil {
		if _, err := p.wait.Wait(p.ctx, world.Never); err != nil {
			return nil, err
		}
		p.bell.TryTake()
		b = c.acquire()
	}
	p.now = p.world.Now()
	p.meter.leave(p.now)
	return b, nil
}

// output is one edge's channels from one subtask; of a broadcast edge, one of its channels. It is used by the subtask's loop only.
type output struct {
	*producer
	max   int      // max parallelism
	table []uint16 // key group -> place in chans; nil when there is one channel for all
	chans []*channel
	open  []*buffer // being filled, or nil
	sent  []int64   // the watermark that each channel has been told
	bytes int64     // sent so far

	failpoints *failpoint.Set
	copy       int // which one of a broadcast edge's it is
}

// newOutputs makes the outputs of an edge.
func newOutputs(l *loop, exchange graph.Exchange, chans []*channel) []*output {
	if exchange != graph.Broadcast {
		return []*output{newOutput(l, exchange, chans)}
	}
	outs := make([]*output, len(chans))
	for i := range chans {
		outs[i] = newOutput(l, exchange, chans[i:i+1])
		outs[i].copy = i
	}
	return outs
}

func newOutput(l *loop, exchange graph.Exchange, chans []*channel) *output {
	cfg := l.a.w.cfg
	o := &output{producer: l.producer, max: cfg.Settings.MaxParallelism, chans: chans, open: make([]*buffer, len(chans)), sent: make([]int64, len(chans)),
		failpoints: cfg.Failpoints}
	if exchange == graph.Hash {
		o.table = make([]uint16, o.max)
		for g := range o.table {
			o.table[g] = uint16(keygroup.SubtaskOf(keygroup.ID(g), len(chans), o.max))
		}
	}
	for i, c := range chans {
		o.sent[i] = noWatermark
		c.attach(l.producer.bell)
	}
	return o
}

// put copies r into the open buffer of its channel and sends it when it is full.
func (o *output) put(r *graph.Record) error {
	if o.failpoints.Mutant(mutantDropBroadcast) && o.copy > 0 && r.Index%5 == 0 {
		return nil
	}
	g, i := keygroup.Of(r.Hash, o.max), 0
	if o.table != nil {
		i = int(o.table[g])
	}
	b := o.open[i]
	if b == nil {
		var err error
		if b, err = o.acquire(o.chans[i]); err != nil {
			return err
		}
		o.open[i] = b
	}
	b.put(r, g)
	if b.full(o.records) {
		o.send(i, noWatermark)
	}
	return nil
}

// send sends the open buffer of channel i, with a watermark that holds after it.
func (o *output) send(i int, watermark int64) {
	b := o.open[i]
	o.open[i] = nil
	o.bytes += int64(len(b.slab))
	o.chans[i].send(element{buf: b, watermark: watermark})
}

// flush sends all open buffers, each with the watermark that holds after it.
func (o *output) flush(watermark int64) {
	for i, b := range o.open {
		if b != nil {
			o.send(i, watermark)
			o.sent[i] = watermark
		}
	}
}

// mark sends the watermark to every channel that has been told less.
func (o *output) mark(watermark int64) {
	for i, told := range o.sent {
		if told < watermark {
			o.chans[i].send(element{watermark: watermark})
			o.sent[i] = watermark
		}
	}
}

// maxMarkEvery bounds the time between watermarks that travel without records; it is Flink's default interval.
const maxMarkEvery = 200 * time.Millisecond

// markEvery is that time for an exchange of the given parallelism. It grows with it, since each watermark goes to every consumer:
// without that, a thousand subtasks would do little else.
func markEvery(flush time.Duration, parallelism int) time.Duration {
	return max(flush, min(maxMarkEvery, time.Duration(parallelism)*time.Millisecond))
}

// fanout is where the records of a subtask go that is the last of its loop: its output edges.
type fanout struct {
	*producer
	outs      []*output
	marking   time.Duration // between watermarks without records
	records   int64         // collected so far
	dirty     bool          // something was collected since the last flush
	since     time.Duration // when it became dirty
	watermark int64
	marked    int64         // the watermark that all channels have been told at least
	last      time.Duration // when marked was raised
}

// Collect implements graph.Collector.
func (f *fanout) Collect(r *graph.Record) error {
	f.records++
	if !f.dirty {
		f.dirty, f.since = true, f.now
	}
	for _, o := range f.outs {
		if err := o.put(r); err != nil {
			return err
		}
	}
	return nil
}

// advance notes a watermark. It goes out with the buffers that are sent, at its time to the other channels, and before a barrier.
func (f *fanout) advance(watermark int64) error {
	f.watermark = max(f.watermark, watermark)
	return nil
}

// flush sends the buffers that are open.
func (f *fanout) flush() {
	if f.dirty {
		f.dirty = false
		for _, o := range f.outs {
			o.flush(f.watermark)
		}
	}
}

// mark tells the watermark to those channels that have not got it with a buffer.
func (f *fanout) mark(now time.Duration) {
	if f.marked < f.watermark {
		f.marked, f.last = f.watermark, now
		for _, o := range f.outs {
			o.mark(f.watermark)
		}
	}
}

// flushAt and markAt are when flush and mark are due.
func (f *fanout) flushAt() time.Duration {
	if !f.dirty {
		return world.Never
	}
	return f.since + f.every
}

func (f *fanout) markAt() time.Duration {
	if f.marked == f.watermark {
		return world.Never
	}
	return f.last + f.marking
}

// expire does what is due. Open buffers go before a watermark that holds after them.
func (f *fanout) expire(now time.Duration) {
	mark := now >= f.markAt()
	if mark || now >= f.flushAt() {
		f.flush()
	}
	if mark {
		f.mark(now)
	}
}

// retire tells all consumers that this subtask does not count for their watermark.
func (f *fanout) retire() {
	for _, o := range f.outs {
		for _, c := range o.chans {
			c.send(element{watermark: noWatermark, idle: true})
		}
	}
}

// barrier sends what is open, the exact watermark, and the barrier behind it.
func (f *fanout) barrier(b barrier) {
	if len(f.outs) == 0 || !f.outs[0].failpoints.Mutant(mutantBarrierFirst) {
		f.flush()
	}
	f.mark(f.now)
	for _, o := range f.outs {
		for _, c := range o.chans {
			c.send(element{watermark: noWatermark, barrier: b})
		}
	}
}

// bytes is what the subtask has sent so far.
func (f *fanout) bytes() (n int64) {
	for _, o := range f.outs {
		n += o.bytes
	}
	return n
}
