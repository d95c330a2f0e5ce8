package compare

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/internal/plan"
)

func repetitions(arms []string, n int) (plans []plan.Plan) {
	for rep := range n {
		for _, a := range arms {
			plans = append(plans, plan.Plan{Arm: a, Rep: rep + 1})
		}
	}
	return plans
}

func TestOrdersAreBalancedAndKeepPairsTogether(t *testing.T) {
	for _, order := range Orders() {
		for _, arms := range [][]string{{"a", "b"}, {"a", "b", "c"}} {
			const n = 20
			plans := Order(repetitions(arms, n), order, 7)
			if len(plans) != n*len(arms) {
				t.Fatalf("%s: %d plans", order, len(plans))
			}
			before := map[string]int{}
			for i := 0; i < len(plans); i += len(arms) {
				block := plans[i : i+len(arms)]
				for k, p := range block {
					if p.Rep != block[0].Rep {
						t.Fatalf("%s: repetition %d is torn apart", order, p.Rep)
					}
					for _, q := range block[k+1:] {
						before[p.Arm+q.Arm]++
					}
				}
			}
			for pair, count := range before {
				if count != n/2 {
					t.Errorf("%s: %s in this order %d of %d times", order, pair, count, n)
				}
			}
		}
	}
	text := func(s uint64) string {
		var b strings.Builder
		for _, p := range Order(repetitions([]string{"a", "b"}, 10), RandomPairs, s) {
			b.WriteString(p.Arm)
		}
		return b.String()
	}
	first, again, other := text(1), text(1), text(2)
	if first != again || first == other {
		t.Errorf("orders are not drawn from the seed: %s, %s, %s", first, again, other)
	}
}

func TestPhasesBecomeWholeCycles(t *testing.T) {
	second := plan.Duration(time.Second)
	p := plan.Plan{Arm: "on", Workload: plan.Workload{Rate: 1000}, Backend: plan.Backend{Changelog: plan.Changelog{Enabled: true, Materialize: 7 * second}},
		Job: plan.Job{Checkpoint: plan.Checkpoint{Interval: second}}, Phases: []plan.Phase{
			{Name: "fill", Records: 10, Discard: true}, {Name: "warm", Records: 10, Discard: true}, {Name: "steady", Records: 10_000}, {Name: "timed", For: 50 * second}, {Name: "heal", Until: plan.UntilRecovered}}}
	off := p
	off.Arm, off.Backend = "off", plan.Backend{}
	plans, changes := Lengthen([]plan.Plan{off, p})
	for _, x := range plans {
		got := fmt.Sprint(x.Phases[0].Records, x.Phases[1].Records, x.Phases[2].Records, x.Phases[3].For, x.Phases[4].For)
		if got != fmt.Sprint(10, 21_000, 42_000, 56*second, plan.Duration(0)) {
			t.Errorf("%s: %s", x.Arm, got)
		}
	}
	if len(changes) != 3 || changes[0] != "phase warm takes 21000 records instead of 10" || changes[2] != "phase timed lasts 56s instead of 50s" {
		t.Errorf("%q", changes)
	}
	if p.Phases[2].Records != 10_000 {
		t.Error("the plans given were changed")
	}
	p.Workload.Rate = 0
	if plans, changes := Lengthen([]plan.Plan{p}); plans[0].Phases[2].Records != 10_000 || !strings.Contains(changes[0], "the source has no rate") {
		t.Errorf("%q", changes)
	}
}

func TestHostIsWatched(t *testing.T) {
	h := &Host{loop: 900 * time.Millisecond, before: read()}
	c := h.End(0, t.TempDir())
	if !c.Loop.Set || c.Loop.Value != 900 || !c.FreeDisk.Set || c.FreeDisk.Value < 0 || c.FreeDisk.Value > 1 {
		t.Errorf("%+v", c)
	}
	if spin(10) == spin(11) {
		t.Error("the work is not done")
	}
	var n counters
	n.total = -1
	n.processors(strings.Fields("10 20 30 40 50 60 70 80 90 100"))
	if n.total != 360 || n.idle != 90 || n.steal != 80 {
		t.Errorf("%+v", n)
	}
	bad := counters{total: -1}
	bad.processors([]string{"1", "x"})
	if bad.total != -1 {
		t.Errorf("%+v", bad)
	}
}
