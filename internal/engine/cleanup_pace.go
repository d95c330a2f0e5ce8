package engine

import (
	"context"
	"time"

	"statebench.dev/bench/internal/world"
)

// deletePace spreads deletes over time, so that those of a large checkpoint leave the store room for those who write. Turns are taken
// in the leader's loop; waiting for them may go on anywhere.
type deletePace struct {
	world     world.World
	perSecond int           // objects; 0: no limit
	next      time.Duration // when the next turn is due
	// hurry, when open, ends all waiting.
	hurry *world.Latch
}

func newDeletePace(w world.World, perSecond int) deletePace {
	return deletePace{world: w, perSecond: perSecond, hurry: world.NewLatch(w)}
}

// batch is how many objects are deleted by one request at most: no more than is allowed in a tenth of a second, so that the rate
// holds over short times too.
func (p *deletePace) batch() int {
	if p.perSecond == 0 {
		return deleteBatch
	}
	return min(deleteBatch, max(1, p.perSecond/10))
}

// slot is a turn: not before at, unless hurry is open.
type slot struct {
	world world.World
	at    time.Duration
	hurry *world.Latch
}

// turn is when the next n objects may be deleted. It begins a stretch in which they use the rate up.
func (p *deletePace) turn(n int) slot {
	at := max(p.next, p.world.Now())
	if p.perSecond > 0 {
		p.next = at + time.Duration(n)*time.Second/time.Duration(p.perSecond)
	}
	return slot{p.world, at, p.hurry}
}

// rush says whether the limit is off: since nobody is left who needs the room. All who wait go on then.
func (p *deletePace) rush(on bool) {
	switch {
	case on == p.hurry.Opened():
	case on:
		p.hurry.Open()
	default:
		p.hurry, p.next = world.NewLatch(p.world), 0
	}
}

// wait waits for the turn.
func (s slot) wait(ctx context.Context) error {
	if s.at <= s.world.Now() {
		return nil
	}
	_, err := world.Wait(ctx, s.world, s.at, s.hurry)
	return err
}

// idle tells whether nobody of the job needs the store's room: its input has ended, or it is stopped or will be.
func (c *coordinator) idle() bool {
	return c.halted || c.ending() || c.phase == phaseSuspending || c.phase == phaseStopped || c.phase == phaseFailed
}
