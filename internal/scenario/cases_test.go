package scenario

import (
	"fmt"
	"strings"
	"testing"
)

// TestC07MaterializationHasASwitchOfItsOwn (docs/known-faults.md): it is turned off by a word that says so, for one arm or all; an interval that
// is none is refused when the file is read.
func TestC07MaterializationHasASwitchOfItsOwn(t *testing.T) {
	source := func(outer, arm string) []byte {
		return fmt.Appendf(nil, `apiVersion: bench/v1
kind: Scenario
name: s
seed: 7
job:
  parallelism: 2
  changelog: {materialize: %s}
arms:
  never: {backend: heap, changelog: {enabled: true, materialize: %s}}
  often: {backend: heap, changelog: {enabled: true, materialize: {enabled: true, every: 1s}}}
baseline: never
workload:
  name: counter
  source: {partitions: 2, rate: 1000/s}
phases:
  - {name: steady, records: 1000}
`, outer, arm)
	}
	for _, c := range [][2]string{{"{every: 20s}", "{enabled: false}"}, {"{enabled: false}", "{every: 5s}"}} {
		s, plans := loadSource(t, "s.yaml", source(c[0], c[1]), testTables(), Overrides{})
		if len(plans) != 2 || !plans[0].Backend.Changelog.MaterializeOff || plans[1].Backend.Changelog.MaterializeOff {
			t.Errorf("%v: plans %+v", c, plans)
		}
		again, problems := Load("resolved.yaml", Resolved(s), testTables(), Overrides{})
		if len(problems) > 0 || !again.Arms[0].Backend.Changelog.MaterializeOff || again.Arms[1].Backend.Changelog.MaterializeOff {
			t.Errorf("%v: resolved to\n%s", c, Resolved(s))
		}
		if text := Explain(s, plans); !strings.Contains(text, "never materialized") || !strings.Contains(text, "materialized every 1s") {
			t.Errorf("explained as\n%s", text)
		}
	}
	for _, every := range []string{"-1", "-1s", "0", "0s", "off"} {
		_, problems := Load("s.yaml", source("{every: 20s}", "{every: "+every+"}"), testTables(), Overrides{})
		if len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), "s.yaml:9:") {
			t.Errorf("every: %s gives %v", every, problems)
		}
	}
}
