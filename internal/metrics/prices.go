package metrics

import (
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/stats"
)

// prices are what the store would bill for a phase: its requests, restores included, the bytes they moved, and what lay there.
// In a simulated run the hour is a simulated one.
func prices() []Metric {
	cost := func(name, about string, over Samples, of func(d *Data, p Phase, cost float64) stats.Figure) Metric {
		return Metric{Name: name, About: about, Unit: Dollars, Better: Lower, Samples: over, of: func(d *Data, phase string, _ *Metric) stats.Figure {
			return d.whole(phase, func(p Phase) stats.Figure {
				u := d.Traffic[p.Name]
				if u == nil {
					return stats.None(0, "the object trace was not read")
				}
				return of(d, p, d.Prices().Cost(u.Usage))
			})
		}}
	}
	return []Metric{
		cost("cost.perHour", "what the store would bill for an hour such as the phase", Whole, func(_ *Data, p Phase, cost float64) stats.Figure {
			return CostPerHour(cost, p.To-p.From)
		}),
		cost("cost.perCheckpoint", "what the store would bill for the phase over completed checkpoints", Checkpoints, func(d *Data, p Phase, cost float64) stats.Figure {
			return CostPerCheckpoint(cost, d.ended(p.Name, completed))
		}),
		cost("cost.perMillionRecords", "what the store would bill for a million records first emitted", Whole, func(_ *Data, p Phase, cost float64) stats.Figure {
			return CostPerMillion(cost, p.Records)
		}),
	}
}

// Prices are those of the plan's store, StandardPrices where there is no plan.
func (d *Data) Prices() plan.Prices {
	if d.Plan == nil {
		return plan.StandardPrices()
	}
	return d.Plan.Store.Billed()
}

// CostPerHour spreads a cost in dollars over the seconds in which it came up.
func CostPerHour(cost, seconds float64) stats.Figure {
	if seconds <= 0 {
		return stats.None(0, "the phase took no time")
	}
	return stats.Figure{Value: cost / seconds * 3600, N: 1}
}

// CostPerCheckpoint spreads a cost in dollars over completed checkpoints.
func CostPerCheckpoint(cost float64, completed int) stats.Figure {
	if completed == 0 {
		return stats.None(0, "no checkpoint completed")
	}
	return stats.Figure{Value: cost / float64(completed), N: completed}
}

// CostPerMillion spreads a cost in dollars over records.
func CostPerMillion(cost float64, records int64) stats.Figure {
	if records <= 0 {
		return stats.None(0, "no records")
	}
	return stats.Figure{Value: cost / float64(records) * 1e6, N: 1}
}
