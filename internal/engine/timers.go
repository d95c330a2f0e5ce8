package engine

import (
	"bytes"
	"fmt"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/keygroup"
)

// The names of the keyed states that hold an operator's timers.
const (
	timerState           = "timers"            // of event time
	processingTimerState = "processing-timers" // of processing time
)

// timers are the timers of one keyed subtask and one kind of time. The backend's timer state is the truth; the heap in memory says which
// is next, is rebuilt on restore, and may hold timers that were deleted or, after a deletion and a new registration, twice: a timer fires only if it is
// still in the state when its turn comes.
type timers struct {
	context *backend.Context
	state   *backend.TimerState
	heap    []timer
	keys    []byte // of the timers in heap
	live    int    // bytes of keys that are in use
	scratch []byte
	keep    bool // mutantKeepTimers
}

// timer is an entry of the heap; its key lies in timers.keys.
type timer struct {
	at    int64
	off   int
	len   int
	group keygroup.ID
}

// newTimers makes the timer service over the state of that name of a subtask and loads the timers that were restored.
func newTimers(c *backend.Context, name string) (*timers, error) {
	state, err := backend.NewTimers(c, name)
	if err != nil {
		return nil, err
	}
	t := &timers{context: c, state: state}
	r := c.Keyed().Range()
	for g := r.From; g < r.To; g++ {
		err := state.Scan(g, func(at int64, key []byte) bool {
			t.push(at, g, key)
			return true
		})
		if err != nil {
			return nil, fmt.Errorf("load timers of key group %d: %w", g, err)
		}
	}
	return t, nil
}

// register adds a timer of the current key.
func (t *timers) register(at int64) error {
	isNew, err := t.state.Register(at)
	if err == nil && isNew {
		t.push(at, t.context.Group(), t.context.Key())
	}
	return err
}

// delete removes a timer of the current key.
func (t *timers) delete(at int64) error { return t.state.Delete(at) }

// due tells whether a timer's time is not after now.
func (t *timers) due(now int64) bool { return len(t.heap) > 0 && t.heap[0].at <= now }

// next is the time of the first timer, which may have been deleted; false when there is none.
func (t *timers) next() (at int64, ok bool) {
	if len(t.heap) == 0 {
		return 0, false
	}
	return t.heap[0].at, true
}

// fire calls f for each timer due, in order of (time, key), those that f registers included. Before the call the key is
// made the current one and the timer is taken out of the state.
func (t *timers) fire(now int64, f func(at int64, key []byte, group keygroup.ID) error) error {
	for t.due(now) {
		next := t.pop()
		t.context.SetKey(next.group, t.scratch)
		there, err := t.state.Has(next.at)
		if err != nil {
			return err
		}
		if !there {
			continue
		}
		if !t.keep {
			err = t.state.Delete(next.at)
		}
		if err != nil {
			return err
		}
		if err := f(next.at, t.context.Key(), next.group); err != nil {
			return err
		}
	}
	return nil
}

func (t *timers) push(at int64, group keygroup.ID, key []byte) {
	if len(t.keys) > 2*t.live+1<<16 {
		t.compact()
	}
	t.heap = append(t.heap, timer{at: at, off: len(t.keys), len: len(key), group: group})
	t.keys = append(t.keys, key...)
	t.live += len(key)
	for i := len(t.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !t.less(i, up) {
			break
		}
		t.heap[i], t.heap[up] = t.heap[up], t.heap[i]
		i = up
	}
}

// pop removes the first timer and copies its key to scratch.
func (t *timers) pop() timer {
	top := t.heap[0]
	t.scratch = append(t.scratch[:0], t.keys[top.off:top.off+top.len]...)
	t.live -= top.len
	last := len(t.heap) - 1
	t.heap[0] = t.heap[last]
	t.heap = t.heap[:last]
	for i := 0; ; {
		least, left, right := i, 2*i+1, 2*i+2
		if left < last && t.less(left, least) {
			least = left
		}
		if right < last && t.less(right, least) {
			least = right
		}
		if least == i {
			return top
		}
		t.heap[i], t.heap[least] = t.heap[least], t.heap[i]
		i = least
	}
}

func (t *timers) less(i, j int) bool {
	a, b := &t.heap[i], &t.heap[j]
	if a.at != b.at {
		return a.at < b.at
	}
	return bytes.Compare(t.keys[a.off:a.off+a.len], t.keys[b.off:b.off+b.len]) < 0
}

// compact moves the keys in use together.
func (t *timers) compact() {
	keys := make([]byte, 0, t.live+t.live/2)
	for i := range t.heap {
		e := &t.heap[i]
		off := len(keys)
		keys = append(keys, t.keys[e.off:e.off+e.len]...)
		e.off = off
	}
	t.keys = keys
}
