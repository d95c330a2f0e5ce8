package report

import (
	"slices"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
)

// TestE10PacingIsTold (docs/known-faults.md): checkpoints a second say whether the interval limits them, the pause after each, or what a checkpoint takes; the last is a
// warning with what became of the triggers that came meanwhile.
func TestE10PacingIsTold(t *testing.T) {
	armOf := func(name string, interval time.Duration, took float64, busy int) *arm {
		r := &Run{data: metrics.Data{Phases: []metrics.Phase{{Name: "p", From: 10, To: 20, Ended: true}, {Name: "q", From: 20, To: 30, Ended: true}}}}
		for range 50 {
			r.Checkpoints = append(r.Checkpoints, results.CheckpointRow{Status: completed, Phase: "p", Duration: results.Some(took)},
				results.CheckpointRow{Status: completed, Phase: "q", Duration: results.Some(took * 100)})
		}
		for range busy {
			r.Checkpoints = append(r.Checkpoints, results.CheckpointRow{Status: skipped, Reason: busyReason, Phase: "p"})
		}
		p := &plan.Plan{}
		p.Job.Checkpoint.Interval = plan.Duration(interval)
		return &arm{name: name, short: name, plan: p, runs: []*Run{r}}
	}
	pausing := func(name string, took float64, busy, paused int) *arm {
		a := armOf(name, 100*time.Millisecond, took, busy)
		a.plan.Job.Checkpoint.MinPause = plan.Duration(150 * time.Millisecond)
		for range paused {
			a.runs[0].Checkpoints = append(a.runs[0].Checkpoints, results.CheckpointRow{Status: skipped, Reason: pauseReason, Phase: "p"})
		}
		return a
	}
	quick, slow := armOf("quick", 100*time.Millisecond, 5, 0), armOf("slow", 100*time.Millisecond, 190, 49)
	beside := armOf("beside", 100*time.Millisecond, 190, 0) // several were under way, and none held another up
	for _, c := range []struct {
		arms     []*arm
		note     string
		warnings int
	}{
		{[]*arm{quick}, "limited by interval", 0},
		{[]*arm{beside}, "limited by interval", 0},
		{[]*arm{slow}, "limited by what a checkpoint takes", 1},
		{[]*arm{quick, slow}, "limited by interval: quick; by what a checkpoint takes: slow", 1},
		{[]*arm{pausing("held", 5, 0, 50)}, "limited by minPause", 0},
		{[]*arm{pausing("held", 190, 49, 100)}, "limited by minPause", 1},
		{[]*arm{pausing("own", 190, 49, 40)}, "limited by what a checkpoint takes", 1},
		{[]*arm{pausing("free", 5, 0, 0)}, "limited by interval", 0}, // no trigger met the pause
		{[]*arm{quick, pausing("held", 5, 0, 50), slow}, "limited by interval: quick; by minPause: held; by what a checkpoint takes: slow", 1},
	} {
		tab := &table{arms: c.arms, window: window{"p"}}
		tab.pacingRows()
		r := tab.rows[0]
		if r.note != c.note || r.figures[0].Value != 5 {
			t.Errorf("%q, %+v; want %q and 5 a second", r.note, r.figures, c.note)
		}
		if w := tab.pacingWarnings(); len(w) != c.warnings || c.warnings > 0 && !(strings.Contains(w[0], "100 ms (median 190 ms)") && strings.Contains(w[0], "49 triggers")) {
			t.Errorf("warnings %q", w)
		}
	}
	if none := (&table{arms: []*arm{{name: "x"}}, window: window{"p"}}); len(none.pacingWarnings()) != 0 {
		t.Error("an arm that was not run is warned of")
	}
}

// Figures that results of before do not have are no rows.
func TestE08E09RowsOfNewColumns(t *testing.T) {
	labels := func(c results.CheckpointRow) (all []string) {
		a := &arm{runs: []*Run{{}}}
		for range 20 {
			a.runs[0].Checkpoints = append(a.runs[0].Checkpoints, c)
		}
		tab := &table{arms: []*arm{a}, window: window{"p"}}
		tab.partRows()
		for _, r := range tab.rows {
			all = append(all, r.unit.format(r.figures[0].Value, false))
		}
		return all
	}
	c := results.CheckpointRow{Status: completed, Phase: "p"}
	if got := labels(c); len(got) != 0 {
		t.Errorf("%q", got)
	}
	c.Dead, c.Metadata = results.Some(700), results.Some(40)
	if got := labels(c); !slices.Equal(got, []string{"700 B", "40 B"}) {
		t.Errorf("%q", got)
	}
}
