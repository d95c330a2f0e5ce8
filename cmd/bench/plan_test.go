package main

import (
	"strings"
	"testing"

	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/plan"
)

// TestStoredPlanMustNameWhatThereIs: a misspelt check cannot make a run pass with less judged, and a run that could not
// begin is refused before it does.
func TestStoredPlanMustNameWhatThereIs(t *testing.T) {
	good := func() plan.Plan {
		return plan.Plan{
			Verify: plan.Verify{Checks: catalog.Scenario().Checks}, Backend: plan.Backend{Name: "heap"},
			Workload: plan.Workload{Name: "counter"}, Faults: []plan.Fault{{ID: "f", Kind: "worker-crash", Where: "worker/any"}},
		}
	}
	if err := namesExist(good()); err != nil {
		t.Fatalf("what there is: %v", err)
	}
	for want, spoil := range map[string]func(p *plan.Plan){
		`check "nope" does not exist`:         func(p *plan.Plan) { p.Verify.Checks = []string{"nope"} },
		`backend "nope" does not exist`:       func(p *plan.Plan) { p.Backend.Name = "nope" },
		`workload "countr" does not exist`:    func(p *plan.Plan) { p.Workload.Name = "countr" },
		`keys.count`:                          func(p *plan.Plan) { p.Workload.Options = []byte(`{"keys":{"count":-1}}`) },
		`fault "worker-crsh" does not exist`:  func(p *plan.Plan) { p.Faults[0].Kind = "worker-crsh" },
		`where "moon" is not worker/<number>`: func(p *plan.Plan) { p.Faults[0].Where = "moon" },
	} {
		p := good()
		spoil(&p)
		if err := namesExist(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
