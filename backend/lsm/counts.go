package lsm

import (
	"math/rand/v2"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/keygroup"
)

// counts estimate elements and bytes of each key group. A put into a log-structured merge tree does not look for the
// element it replaces, and looking would cost more than the put: so only some writes do, drawn at random, and each counts
// for those that did not. The estimate has no bias, and an error in the order of the root of the writes.
type counts struct {
	from     keygroup.ID
	elements []int64
	bytes    []int64
	every    int
	exactly  int // writes left that are all counted
	rng      *rand.Rand
	left     int
}

func newCounts(r keygroup.Range, every int, rng *rand.Rand) counts {
	return counts{from: r.From, elements: make([]int64, r.Len()), bytes: make([]int64, r.Len()), every: every, exactly: CountExactly, rng: rng}
}

// sample returns for how many writes the next one stands, 0 for none.
func (c *counts) sample() int64 {
	switch {
	case c.every == 1:
		return 1
	case c.exactly > 0:
		c.exactly--
		return 1
	case c.left == 0:
		// The distance to the next sample is uniform in [1, 2*every-1]: its mean is every.
		c.left = 1 + c.rng.IntN(2*c.every-1)
	}
	if c.left--; c.left == 0 {
		return int64(c.every)
	}
	return 0
}

func (c *counts) add(g keygroup.ID, elements, bytes int64) {
	c.elements[g-c.from] += elements
	c.bytes[g-c.from] += bytes
}

// Gauges implements backend.Keyed. LiveBytes and Elements are estimates (Options.CountEvery).
func (k *keyed) Gauges() backend.Gauges {
	var g backend.Gauges
	for i := range k.counts.elements {
		g.Elements += k.counts.elements[i]
		g.LiveBytes += k.counts.bytes[i]
	}
	return backend.Gauges{Elements: max(0, g.Elements), LiveBytes: max(0, g.LiveBytes)}
}

// clone returns the figures alone.
func (c *counts) clone() counts {
	return counts{from: c.from, elements: append([]int64(nil), c.elements...), bytes: append([]int64(nil), c.bytes...)}
}
