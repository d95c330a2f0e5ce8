package explore

import "statebench.dev/bench/internal/seed"

// upkeep draws when subtasks materialize ahead of their time and how many at once, in half of the plans with a changelog, and spreads
// the keys of a quarter of all plans. Its draws have a stream of their own, and move no others.
func (g *generator) upkeep() {
	r := seed.Stream(uint64(g.n), "explore/upkeep")
	if r.IntN(4) == 0 {
		g.p.Store.Spread = pick(r, 2, 16)
	}
	c := &g.p.Backend.Changelog
	if !c.Enabled || r.IntN(2) == 0 {
		return
	}
	c.Growth, c.GrowthFloor = pick(r, 0, 0.3, 1), pick[int64](r, 0, 16<<10)
	c.ReplayBudget = seconds(pick(r, 0, 0.002, 2))
	c.ConcurrentJob = pick(r, 0, 1, 2)
}
