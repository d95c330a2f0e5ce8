package explore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/internal/explore"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/validate"
)

// picky is a check that finds fault with plans alone: it stands for a bug that needs one crash and some records and keys. The
// other one fails as soon as the first passes, to tempt the search.
type picky struct {
	p     plan.Plan
	other bool
}

func (k picky) Finish() validate.Verdict {
	crash := slices.ContainsFunc(k.p.Faults, func(f plan.Fault) bool { return f.Kind == "worker-crash" })
	bad := crash && k.p.TotalRecords() >= 60 && strings.Contains(string(k.p.Workload.Options), `"count":`)
	if bad != k.other {
		return validate.Verdict{Verdict: results.Fail, Summary: "so it is"}
	}
	return validate.Verdict{Verdict: results.Pass}
}

// disturbed is a plan of some seconds with six faults and two rescales.
func disturbed() plan.Plan {
	p := brief(7)
	second := plan.Duration(time.Second)
	at := func(n int64) plan.Trigger { return plan.Trigger{Record: &n} }
	for i, kind := range []string{"task-error", "task-error", "task-error", "worker-crash", "task-error", "task-error"} {
		f := plan.Fault{ID: fmt.Sprintf("fault-%d", i+1), Kind: kind, Phase: "load", Where: "subtask/any", At: at(int64(20 * (i + 1)))}
		if kind == "worker-crash" {
			f.Where, f.For = "worker/any", second
		}
		p.Faults = append(p.Faults, f)
	}
	for i := range 2 {
		p.Rescales = append(p.Rescales, plan.Rescale{ID: fmt.Sprintf("rescale-%d", i+1), Phase: "load", At: at(int64(150 + 50*i)), To: 2 + i, From: "latest"})
	}
	return p
}

// TestShrinkKeepsWhatTheFailureNeeds: the fault and the records that matter stay, all else goes, and the same check fails.
func TestShrinkKeepsWhatTheFailureNeeds(t *testing.T) {
	r := runner(deps())
	for i, id := range []string{"X1", "X2"} {
		r.Checks = append(r.Checks, validate.Check{ID: id, Name: "pickiness", New: func(c *validate.Case) validate.Judge { return picky{c.Plan, i == 1} }})
	}
	p := resolved(t, disturbed())
	steps := 0
	s, err := r.Shrink(p, explore.ShrinkOptions{Step: func(string, *plan.Plan) { steps++ }})
	if err != nil {
		t.Fatal(err)
	}
	if n := s.Plan.TotalRecords(); n < 60 || n > 80 {
		t.Errorf("%d records are left", n)
	}
	if len(s.Plan.Faults) != 1 || s.Plan.Faults[0].Kind != "worker-crash" || len(s.Plan.Rescales) != 0 || s.Plan.Job.Parallelism != 1 {
		t.Errorf("left are %+v, %+v, parallelism %d", s.Plan.Faults, s.Plan.Rescales, s.Plan.Job.Parallelism)
	}
	if s.Check != "X1" || !s.Whole || s.Digest == "" || steps < 5 || s.Runs <= steps {
		t.Errorf("check %s, whole %t, %d steps, %d runs", s.Check, s.Whole, steps, s.Runs)
	}
	if len(p.Faults) != 6 {
		t.Error("the plan that was given is changed")
	}

	if s, err = r.Shrink(p, explore.ShrinkOptions{Over: func() bool { return true }}); err != nil || s.Whole || len(s.Plan.Faults) != 6 {
		t.Errorf("without time: %v, %+v", err, s)
	}
	if _, err = r.Shrink(p, explore.ShrinkOptions{Check: "X2"}); !errors.Is(err, explore.ErrPasses) {
		t.Errorf("by a check that does not fail: %v", err)
	}
}
