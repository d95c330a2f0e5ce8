package explore

import (
	"encoding/json"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/seed"
)

// joins gives one plan in seven the join of events with broadcast rules, and with it other ways to restart and to bear failed
// checkpoints. Its draws have a stream of their own, and move no others.
func (g *generator) joins() {
	r := seed.Stream(uint64(g.n), "explore/enrich/1")
	if r.IntN(7) > 0 {
		return
	}
	b, err := json.Marshal(map[string]any{
		"partitions": 1 + r.IntN(9),
		"keys":       map[string]any{"count": pick(r, 20, 300, 2000), "pick": pick(r, "uniform", "zipf")},
		"values":     map[string]any{"size": pick(r, "8B", "40B", "200B")},
		"rules":      map[string]any{"count": pick(r, 1, 7, 100), "share": pick(r, "0.5%", "5%", "40%")},
		"disorder":   pick(r, "0s", "100ms", "1s", "4s"), "hold": pick(r, "0s", "30ms", "700ms", "5s"),
	})
	if err != nil {
		panic(err) // a literal
	}
	g.p.Workload.Name, g.p.Workload.Options = "enrich", b
	if r.IntN(2) == 0 {
		g.p.Job.Restart = plan.Restart{Strategy: plan.RestartExponential, MaxDelay: seconds(3), Multiplier: pick(r, 1, 1.5, 4.), Jitter: 0.3, ResetAfter: seconds(10)}
	}
	if r.IntN(3) == 0 {
		tolerated := 1 + r.IntN(5)
		g.p.Job.Checkpoint.TolerableFailures = &tolerated
	}
}
