package engine

import (
	"math"
	"time"

	"statebench.dev/bench/internal/world"
)

// gate is the input of one loop: the channels of all edges that lead to its first subtask. It hands out elements channel by
// channel in turn, keeps the smallest watermark of its channels, and lets the alignment decide which of them may be taken from.
type gate struct {
	ready   *world.Queue[int32]
	chans   []*channel
	align   *alignment
	held    []int32 // channels that hold something and are blocked
	marks   []int64 // watermark by channel
	idle    []bool  // by channel
	asleep  int     // number of idle ones
	current int64   // smallest watermark of those that are not idle; it never falls
	lax     bool    // mutantFirstWatermark
}

func newGate(ready *world.Queue[int32], chans []*channel) *gate {
	g := &gate{ready: ready, chans: chans, align: newAlignment(len(chans)), marks: make([]int64, len(chans)),
		idle: make([]bool, len(chans)), current: noWatermark}
	for i := range g.marks {
		g.marks[i] = noWatermark
	}
	return g
}

// poll takes the next element of a channel that is not blocked.
func (g *gate) poll() (from int32, e element, ok bool) {
	for {
		i, ok := g.ready.TryTake()
		if !ok {
			return 0, element{}, false
		}
		if g.align.blocked[i] {
			g.held = append(g.held, i)
			continue
		}
		e, more := g.chans[i].take()
		if more {
			g.ready.TryPut(i)
		}
		return i, e, true
	}
}

// arrive takes the barrier that channel from has handed out.
func (g *gate) arrive(from int32, b barrier, now time.Duration) outcome {
	o := g.align.arrive(int(from), b, now)
	if o.released {
		g.unhold()
	}
	return o
}

// abort gives up a checkpoint.
func (g *gate) abort(id uint64) {
	if g.align.abort(id) {
		g.unhold()
	}
}

// unhold makes channels that were blocked available again; those still blocked come back to held when polled.
func (g *gate) unhold() {
	for _, i := range g.held {
		g.ready.TryPut(i)
	}
	g.held = g.held[:0]
}

// note takes the watermark and the idle mark of an element that was processed, and tells whether the gate's own watermark rose.
func (g *gate) note(from int32, e *element) (rose bool) {
	lowest := false // whether the channel may be what held the watermark back
	if e.watermark > g.marks[from] {
		lowest = g.marks[from] <= g.current && !g.idle[from]
		g.marks[from] = e.watermark
	}
	if e.idle && !g.idle[from] {
		g.idle[from] = true
		g.asleep++
		lowest = true
	}
	if !lowest || g.allIdle() {
		return false
	}
	least := int64(math.MaxInt64)
	for i, m := range g.marks {
		if !g.idle[i] && !(g.lax && g.chans[i].second) {
			least = min(least, m)
		}
	}
	if least <= g.current {
		return false
	}
	g.current = least
	return true
}

// allIdle tells whether no channel counts for the watermark.
func (g *gate) allIdle() bool { return g.asleep == len(g.chans) }

// queued is the number of records that wait in the channels, and the number of barriers among them.
func (g *gate) queued() (records, barriers int64) {
	for _, c := range g.chans {
		c.each(func(e *element) {
			if e.buf != nil {
				records += int64(len(e.buf.recs))
			}
			if e.barrier.ID != 0 {
				barriers++
			}
		})
	}
	return records, barriers
}
