package world

import (
	"math/rand/v2"
	"slices"
	"strings"

	"statebench.dev/bench/internal/seed"
)

// Names of the scheduling policies.
const (
	// PolicyUniform draws uniformly among the ready processes.
	PolicyUniform = "uniform"
	// PolicyPriority gives each process a random rank, runs the highest and demotes the running one at a few random
	// steps (after Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", 2010).
	PolicyPriority = "priority"
	// PolicyStarveOne delays one process as long as another can run; it is another one from time to time.
	PolicyStarveOne = "starve-one"
)

// Policies lists the names of the scheduling policies, sorted.
func Policies() []string { return []string{PolicyPriority, PolicyStarveOne, PolicyUniform} }

const (
	demotions  = 8       // at most, in a run of the priority policy
	starveSpan = 1 << 14 // steps until the next victim, at most
	demoteSpan = 1 << 20 // steps until the next demotion, at most
)

// policy chooses among the ready processes. Its draws come from the scheduler's stream.
type policy struct {
	name   string
	rng    *rand.Rand
	change int64  // the step of the next change
	left   int    // changes of the priority policy
	lowest uint64 // rank given last to a demoted process
	victim *proc
}

// newPolicy returns the named policy, or one drawn from the seed.
func newPolicy(o SimOptions, rng *rand.Rand) policy {
	name := o.Policy
	if name == "" {
		name = []string{PolicyUniform, PolicyUniform, PolicyPriority, PolicyStarveOne}[seed.Hash(o.Seed, "world/policy")%4]
	}
	if !slices.Contains(Policies(), name) {
		panic("world: no policy is called " + name + "; there are " + strings.Join(Policies(), ", "))
	}
	c := policy{name: name, rng: rng, lowest: 1 << 62}
	switch name {
	case PolicyPriority:
		c.left = 1 + rng.IntN(demotions)
		c.change = c.gap(demoteSpan)
	case PolicyStarveOne:
		c.change = c.gap(64)
	}
	return c
}

// gap draws from [1, limit], each order of magnitude alike.
func (c *policy) gap(limit int64) int64 {
	n := int64(1)
	for n < limit && c.rng.IntN(4) != 0 {
		n *= 2
	}
	return 1 + c.rng.Int64N(n)
}

// choose returns an index of the ready list, which is not empty.
func (c *policy) choose(s *Sim) int {
	n := len(s.ready)
	if n == 1 {
		return 0
	}
	switch c.name {
	case PolicyPriority:
		i := highest(s.ready)
		if c.left > 0 && s.steps.Load() >= c.change {
			c.left--
			c.change = s.steps.Load() + c.gap(demoteSpan)
			c.demote(s.ready[i])
			i = highest(s.ready)
		}
		return s.flip(i, n)
	case PolicyStarveOne:
		if s.steps.Load() >= c.change {
			c.change = s.steps.Load() + c.gap(starveSpan)
			c.victim = s.ready[c.rng.IntN(n)]
		}
		if c.victim == nil || c.victim.place == 0 {
			return s.choose(n)
		}
		i := s.choose(n - 1)
		if i >= c.victim.place-1 {
			i++
		}
		return i
	}
	return s.choose(n)
}

// highest returns the index of the process of the highest rank.
func highest(ready []*proc) int {
	best := 0
	for i, p := range ready {
		if p.rank > ready[best].rank {
			best = i
		}
	}
	return best
}

// started gives a new process its rank.
func (c *policy) started(p *proc) {
	if c.name == PolicyPriority {
		p.rank = c.rng.Uint64() | 1<<63
	}
}

// yielded demotes a process that asks to be put last; without it the highest would spin.
func (c *policy) yielded(p *proc) {
	if c.name == PolicyPriority {
		c.demote(p)
	}
}

// demote ranks p below all others.
func (c *policy) demote(p *proc) {
	c.lowest--
	p.rank = c.lowest
}
