package explore_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"statebench.dev/bench/internal/explore"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/validate"
)

// moody is a check that passes one run in three and finds one of two things in the others.
type moody struct{ seed uint64 }

func (m moody) Finish() validate.Verdict {
	switch m.seed % 3 {
	case 1:
		return validate.Verdict{Verdict: results.Fail, Summary: "much", Evidence: []string{fmt.Sprintf("key %q is off by %d", "k", m.seed)}}
	case 2:
		return validate.Verdict{Verdict: results.Fail, Summary: fmt.Sprintf("object base/1/x-0/%d is lost", m.seed)}
	}
	return validate.Verdict{Verdict: results.Pass}
}

// brief is plan n of a run of some virtual seconds.
func brief(n int) plan.Plan {
	p := simulated(true, 100, 300)
	p.Seed, p.Scenario = uint64(n), fmt.Sprintf("brief-%d", n)
	return p
}

// TestFuzzTellsFailuresApart: by check and evidence without figures; a few results of each are kept.
func TestFuzzTellsFailuresApart(t *testing.T) {
	r := runner(deps())
	r.Checks = []validate.Check{{ID: "X1", Name: "mood", New: func(c *validate.Case) validate.Judge { return moody{c.Plan.Seed} }}}
	kept, met := map[uint64]bool{}, 0
	found, err := r.Fuzz(explore.FuzzOptions{
		From: 9, Seeds: 15, Jobs: 2, Plan: brief,
		Keep:  func(x *explore.Result) (string, error) { kept[x.Plan.Seed] = true; return x.Plan.Scenario, nil },
		Found: func(*explore.Result, *explore.Failure) { met++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	var causes []string
	for _, f := range found.Failures {
		if len(f.Plans) != 5 || len(f.Kept) != 3 || f.Problem == "" && f.Check != "" {
			t.Errorf("%+v", f)
		}
		causes = append(causes, f.Class+": "+f.Cause.String())
	}
	slices.Sort(causes)
	want := []string{
		"inconclusive: few checkpoints completed, or for a short time only", // too short to say anything
		"violation: X1  key * is off by #",
		"violation: X1  object * is lost",
	}
	if !slices.Equal(causes, want) || found.Worst() != explore.Violation {
		t.Errorf("worst %s, causes\n%s", found.Worst(), strings.Join(causes, "\n"))
	}
	if found.Plans != 15 || found.Passed != 0 || len(kept) != 9 || met != 15 {
		t.Errorf("%d plans, %d passed, %d kept, %d told", found.Plans, found.Passed, len(kept), met)
	}
}

// TestFuzzEndsWhenInterrupted: no other plan begins, and what was under way counts for nothing.
func TestFuzzEndsWhenInterrupted(t *testing.T) {
	var done atomic.Bool
	r := runner(deps())
	r.Interrupted = done.Load
	found, err := r.Fuzz(explore.FuzzOptions{Jobs: 1, Plan: brief, Done: func(*explore.Found, *explore.Result) { done.Store(true) }})
	if err != nil || found.Plans != 1 {
		t.Errorf("%d plans, %v", found.Plans, err)
	}
	x, err := r.Run(brief(1))
	if err != nil || x.Outcome.Status != "interrupted" || x.Verdicts != nil {
		t.Errorf("a run that was interrupted: %+v, %v", x.Outcome, err)
	}
	if err := x.Remove(); err != nil {
		t.Error(err)
	}
}

// TestChaosPlansHaveTheirShape: hundreds a minute are promised of plans with so much load and so many faults.
func TestChaosPlansHaveTheirShape(t *testing.T) {
	for n := range 500 {
		p := explore.Chaos(n)
		seconds := float64(p.TotalRecords()) / p.Workload.Rate
		if p.Workload.Rate > 400 || len(p.Faults) < 4 || len(p.Rescales) < 1 || seconds < 60 {
			t.Errorf("plan %d: %v records/s, %d faults, %d rescales, %v s", n, p.Workload.Rate, len(p.Faults), len(p.Rescales), seconds)
		}
		was := explore.Generate(n)
		for i, f := range was.Faults {
			if f.Kind != p.Faults[i].Kind || string(f.With) != string(p.Faults[i].With) || f.For != p.Faults[i].For {
				t.Fatalf("plan %d: fault %d is not the one of Generate", n, i)
			}
		}
	}
}
