package explore_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"
)

// target is who a fault's evidence names: a worker or a subtask.
var target = regexp.MustCompile(`\b[a-z]+-[0-9]+\b`)

// targets are whom the faults of a plan hit that draw their target, by id of the fault.
func targets(t *testing.T, p plan.Plan) map[string]string {
	t.Helper()
	out, verdicts, rd := execute(t, p, run.Options{})
	if problem := describe(out, verdicts); problem != "" {
		t.Error(problem)
	}
	all := map[string]string{}
	for e, err := range results.ReadLines[history.Event](rd.Path(results.HistoryFile)) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == history.FaultHit {
			all[e.Fault] = target.FindString(e.Text)
		}
	}
	discard(t, p, rd, false)
	return all
}

// TestOneFaultLessMovesNoDraws: the faults of a plan draw whom they hit from streams of their own, so that without one of them, the
// others hit whom they hit before. Shrinking depends on it. What rules of the store touch is tested there.
func TestOneFaultLessMovesNoDraws(t *testing.T) {
	p := simulated(true, 100, 100*24)
	p.Workers.Count, p.Seed = 5, 3
	for i := range 5 {
		at := plan.Duration(time.Duration(2+4*i) * time.Second)
		f := plan.Fault{ID: fmt.Sprintf("fault-%d", i+1), Kind: "worker-crash", Phase: "load", Where: "worker/any", At: plan.Trigger{Time: &at}, For: plan.Duration(time.Second)}
		if i%2 == 1 {
			f.Kind, f.Where, f.For = "task-error", "subtask/any", 0
		}
		p.Faults = append(p.Faults, f)
	}
	p = resolved(t, p)
	want := targets(t, p)
	if len(want) != 5 || len(slices.Compact(slices.Sorted(maps.Values(want)))) < 3 || want["fault-1"] == "" {
		t.Fatalf("the faults hit %v", want)
	}
	for i, gone := range p.Faults {
		less := p
		less.Faults = slices.Delete(slices.Clone(p.Faults), i, i+1)
		rest := maps.Clone(want)
		delete(rest, gone.ID)
		if got := targets(t, less); !maps.Equal(got, rest) {
			t.Errorf("without %s the others hit %v, before %v", gone.ID, got, rest)
		}
	}
}
