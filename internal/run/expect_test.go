package run_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"
)

// invoke carries a plan out as an invocation of its own.
func invoke(t *testing.T, p plan.Plan) (results.Dir, results.Manifest) {
	t.Helper()
	dir, m, err := run.Invoke(deps(), run.Invocation{Plans: []plan.Plan{p}, Resolved: []byte("x"), Out: t.TempDir(), Checks: catalog.Checks(),
		Clock: time.Now, Manifest: results.Manifest{Scenario: p.Scenario, World: p.World, Store: p.Store.Kind, Baseline: p.Arm, Repetitions: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return dir, m
}

func TestExpectationsAreJudgedFromWhatWasStored(t *testing.T) {
	p := short(t, "sim", "mem")
	p.Expect = []plan.Expectation{
		{Phase: "chaos", Metric: "checkpoints.completed", Op: ">=", Value: 3, Text: ">= 3"},
		{Phase: "chaos", Metric: "latency.p50", Op: "<", Value: 60_000, Text: "< 60s"},
		{Phase: "warm", Metric: "throughput", Op: ">=", Value: 1000, Text: ">= 1_000/s"},
		{Phase: "chaos", Metric: "rescale.total", Op: "<", Value: 1, Text: "< 1ms", Unset: true},
	}
	dir, m := invoke(t, p)
	if m.Exit != 0 || m.Outcome != "pass" || m.Runs[0].Expect != results.Met {
		t.Errorf("%+v", m)
	}
	var stored []results.Expectation
	if err := results.ReadJSON(dir.Run(m.Runs[0].Name).Path(results.ExpectFile), &stored); err != nil {
		t.Fatal(err)
	}
	again, err := run.Expectations(dir, m.Runs[0].Name)
	if err != nil || !slices.Equal(stored, again) || len(stored) != 4 || stored[1].N == 0 {
		t.Errorf("stored %+v, again %+v, %v", stored, again, err)
	}

	p.Expect = append(p.Expect, plan.Expectation{Phase: "chaos", Metric: "recoveries", Op: "==", Value: 0, Text: "== 0"})
	if _, m := invoke(t, p); m.Exit != 3 || m.Outcome != "expectation missed" || m.Runs[0].Expect != results.Missed || m.Runs[0].Verdict != results.Pass {
		t.Errorf("missed: %+v", m)
	}
	p.Phases[2].Within = plan.Duration(time.Millisecond) // no job recovers so fast: what is inconclusive misses nothing
	if _, m := invoke(t, p); m.Exit != 2 || m.Outcome != "inconclusive" {
		t.Errorf("inconclusive: %+v", m)
	}
}

func TestResultsHaveACap(t *testing.T) {
	p := short(t, "sim", "mem")
	p.MaxResults = 8 << 10
	dir, m := invoke(t, p)
	if e := m.Runs[0]; m.Exit != 2 || e.Status != "failed" || e.Verdict != results.Inconclusive || !strings.Contains(e.Error, "cap of 8KiB") || len(m.Warnings) > 0 {
		t.Errorf("%+v", m)
	}
	if n := dir.Run(m.Runs[0].Name).Size(); n < p.MaxResults || n > 64*p.MaxResults {
		t.Errorf("%d bytes of results", n)
	}
	p.MaxResults = 0
	if _, m := invoke(t, p); m.Exit != 0 {
		t.Errorf("without a cap: %+v", m)
	}
}
