package main

import (
	"strings"
	"testing"

	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/plan"
)

// TestPlanWithAnUnknownCheckIsRefused checks that a misspelt check cannot make a run pass with less judged.
func TestPlanWithAnUnknownCheckIsRefused(t *testing.T) {
	p := plan.Plan{Verify: plan.Verify{Checks: catalog.Scenario().Checks}}
	if err := checksExist(p); err != nil {
		t.Errorf("the checks there are: %v", err)
	}
	p.Verify.Checks = []string{"nope"}
	if err := checksExist(p); err == nil || !strings.Contains(err.Error(), `check "nope" does not exist`) {
		t.Errorf("got %v", err)
	}
}
