package engine

import "time"

// alignment is the state machine of aligned checkpoints at one gate: a channel whose barrier has come is blocked until those of
// all the others have come too. It knows nothing of channels but their number, so that other ways to align can take its place.
type alignment struct {
	blocked []bool
	id      uint64 // being aligned; 0: none
	at      time.Duration
	begun   time.Duration // when its first barrier came
	arrived int
	last    uint64   // the newest checkpoint that was aligned, given up or superseded: barriers up to it mean nothing
	open    bool     // mutantUnaligned
	aborted []uint64 // newer ones that were aborted before their first barrier came, ascending
}

// outcome is what an alignment wants done.
type outcome struct {
	aligned    barrier       // all barriers have come; ID 0: not yet
	took       time.Duration // from the first to the last of them
	delay      time.Duration // from the trigger to the first of them
	superseded uint64        // a checkpoint that was given up for a newer one; 0: none
	released   bool          // channels are no longer blocked
}

func newAlignment(channels int) *alignment { return &alignment{blocked: make([]bool, channels)} }

// arrive takes barrier b of a channel that is not blocked.
func (a *alignment) arrive(channel int, b barrier, now time.Duration) (o outcome) {
	if b.ID <= a.last || b.ID < a.id || a.isAborted(b.ID) {
		return o
	}
	if b.ID > a.id {
		if a.id != 0 {
			o.superseded, o.released = a.id, true
			a.end()
		}
		a.id, a.at, a.begun = b.ID, b.At, now
	}
	a.blocked[channel] = !a.open
	a.arrived++
	if a.arrived == len(a.blocked) {
		o.aligned = b
		o.took, o.delay = now-a.begun, max(0, a.begun-a.at)
		o.released = true
		a.end()
	}
	return o
}

// abort gives up checkpoint id, aligned or not yet begun, and tells whether channels were released.
func (a *alignment) abort(id uint64) (released bool) {
	switch {
	case id == a.id && id != 0:
		a.end()
		return true
	case id > a.last && !a.isAborted(id):
		i := len(a.aborted)
		for i > 0 && a.aborted[i-1] > id {
			i--
		}
		a.aborted = append(a.aborted, 0)
		copy(a.aborted[i+1:], a.aborted[i:])
		a.aborted[i] = id
	}
	return false
}

// end closes the current checkpoint and forgets what is older.
func (a *alignment) end() {
	a.last, a.id, a.arrived = a.id, 0, 0
	clear(a.blocked)
	for len(a.aborted) > 0 && a.aborted[0] <= a.last {
		a.aborted = a.aborted[1:]
	}
}

func (a *alignment) isAborted(id uint64) bool {
	for _, x := range a.aborted {
		if x == id {
			return true
		}
	}
	return false
}
