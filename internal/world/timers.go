package world

import "time"

// timer is a call at a time or, in the simulated world, the wake-up of a process.
type timer struct {
	real *time.Timer // real world

	at    time.Duration // simulated world, as what follows
	seq   int64
	f     func() // nil: wake p
	p     *proc
	index int // in the heap, plus one; 0 when not in it
}

// timerHeap is a binary heap of timers by time, then by the order of their start.
type timerHeap []*timer

func (h timerHeap) less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}

func (h timerHeap) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (h timerHeap) up(i int) {
	for i > 0 {
		above := (i - 1) / 2
		if !h.less(i, above) {
			return
		}
		h.swap(i, above)
		i = above
	}
}

func (h timerHeap) down(i int) {
	for {
		below := 2*i + 1
		if below >= len(h) {
			return
		}
		if below+1 < len(h) && h.less(below+1, below) {
			below++
		}
		if !h.less(below, i) {
			return
		}
		h.swap(i, below)
		i = below
	}
}

func (h *timerHeap) push(t *timer) {
	*h = append(*h, t)
	t.index = len(*h)
	h.up(t.index - 1)
}

// remove takes t out if it is in.
func (h *timerHeap) remove(t *timer) {
	if t.index == 0 {
		return
	}
	i, last := t.index-1, len(*h)-1
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	t.index = 0
	if i < last {
		h.up(i)
		h.down(i)
	}
}
