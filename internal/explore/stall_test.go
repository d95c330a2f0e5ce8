package explore_test

import (
	"strings"
	"testing"

	"statebench.dev/bench/internal/explore"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"
	"statebench.dev/bench/internal/validate"
)

// A job that can never restore again used to keep a phase measured in records going for ever: nothing was healed, since the
// phase that heals never began.
func TestJobThatGetsNowhereEndsTheRun(t *testing.T) {
	p := resolved(t, explore.Generate(1))
	n := int64(5 * p.Workload.Rate)
	at := plan.Trigger{Record: &n}
	p.Rescales = nil
	p.Faults = []plan.Fault{
		{ID: "unreadable", Kind: "store-errors", Phase: "chaos", Where: "store", With: []byte(`{"op":"get","status":500}`), At: at},
		{ID: "crash", Kind: "worker-crash", Phase: "chaos", Where: "worker/0", At: at, For: plan.Duration(2e9)},
	}
	out, verdicts, rd := execute(t, p, run.Options{})
	defer discard(t, p, rd, false)
	if out.Err == nil || !strings.Contains(out.Err.Error(), "got nowhere") {
		t.Errorf("the run ended with %v", out.Err)
	}
	if v := validate.Overall(verdicts); v != results.Inconclusive {
		t.Errorf("overall %s, want inconclusive", v)
	}
}
