package scenario

import (
	"fmt"
	"strings"
	"testing"
	"time"
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

// TestMaterializationAheadOfItsTime: growth and replay budget have defaults, and words that turn them off; what is written is read
// again, and an arm may differ from the job.
func TestMaterializationAheadOfItsTime(t *testing.T) {
	source := func(outer, arm string) []byte {
		return fmt.Appendf(nil, `apiVersion: bench/v1
kind: Scenario
name: s
seed: 7
job:
  parallelism: 2
  changelog: {materialize: %s}
arms:
  one: {backend: heap, changelog: {enabled: true, materialize: %s}}
workload:
  name: counter
  source: {partitions: 2, rate: 1000/s}
phases:
  - {name: steady, records: 1000}
`, outer, arm)
	}
	for _, c := range []struct {
		outer, arm string
		growth     float64
		floor      int64
		budget     time.Duration
		explained  string
	}{
		{"{}", "{}", 1, 1 << 20, 2 * time.Second, "materialized every 20s or when the log exceeds 100% of the base and 1MiB or 2s of replay"},
		{"{growth: off, replayBudget: off}", "{}", 0, 1 << 20, 0, "materialized every 20s, "},
		{"{growth: 0%, replayBudget: 0s}", "{growthFloor: 0B}", 0, 0, 0, "materialized every 20s, "},
		{"{growth: off}", "{growth: 40%, growthFloor: 64KiB}", 0.4, 64 << 10, 2 * time.Second, "40% of the base and 64KiB"},
		{"{growth: 40%}", "{growth: off, replayBudget: 300ms}", 0, 1 << 20, 300 * time.Millisecond, "materialized every 20s or 300ms of replay"},
	} {
		s, plans := loadSource(t, "s.yaml", source(c.outer, c.arm), testTables(), Overrides{})
		again, problems := Load("resolved.yaml", Resolved(s), testTables(), Overrides{})
		if len(plans) != 1 || len(problems) > 0 || again.Arms[0].Backend != s.Arms[0].Backend {
			t.Fatalf("%v: %v, resolved to\n%s", c, problems, Resolved(s))
		}
		got := plans[0].Backend.Changelog
		if got.Growth != c.growth || got.GrowthFloor != c.floor || time.Duration(got.ReplayBudget) != c.budget {
			t.Errorf("%v: %+v", c, got)
		}
		if text := Explain(s, plans); !strings.Contains(text, c.explained) {
			t.Errorf("%v is explained as\n%s", c, text)
		}
	}
	for _, bad := range []string{"{growth: none}", "{growth: -1}", "{growthFloor: off}", "{replayBudget: -1s}", "{replayBudget: 5}"} {
		_, problems := Load("s.yaml", source("{}", bad), testTables(), Overrides{})
		if len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), "s.yaml:9:") {
			t.Errorf("%s gives %v", bad, problems)
		}
	}
}
