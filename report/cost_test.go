package report

import (
	"testing"

	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
)

// TestCostIsOverTheCheckpointsThatItPaidFor: a phase that was cut off is not billed, and so its checkpoints do not make the others cheaper.
func TestCostIsOverTheCheckpointsThatItPaidFor(t *testing.T) {
	run := func(ended bool) *Run {
		r := &Run{}
		r.data.Plan = &plan.Plan{Store: plan.Store{Prices: &plan.Prices{Name: "mine", Write: 1000}}}
		r.data.Phases = []metrics.Phase{{Name: "p", From: 10, To: 20, Records: 1_000_000, Ended: ended}}
		r.data.Traffic = map[string]*metrics.Traffic{"p": {Usage: plan.Usage{Writes: 20}}}
		for range 10 {
			r.Checkpoints = append(r.Checkpoints, results.CheckpointRow{Status: completed, Phase: "p"})
		}
		return r
	}
	a := &arm{runs: []*Run{run(true), run(false)}}
	got := a.cost(window{"p"})
	if got.hour.Value != 20*360 || got.checkpoint.Value != 2 || got.checkpoint.N != 10 || got.million.Value != 20 {
		t.Errorf("%+v", got)
	}
	if f := a.perSecond(window{"p"}); f.Value != 1 {
		t.Errorf("%+v checkpoints a second", f)
	}
	cut := &arm{runs: []*Run{run(false)}}
	if got := cut.cost(window{"p"}); got.hour.OK() || got.checkpoint.OK() || got.million.OK() {
		t.Errorf("a phase that was cut off is billed: %+v", got)
	}
}
