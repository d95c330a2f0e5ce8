package scenario

import (
	"strings"
	"testing"
)

// What another backend opens has to be a canonical savepoint; the message stands where the arm does.
func TestStartOnAnotherBackend(t *testing.T) {
	tables := testTables()
	tables.Backends = []string{"heap", "lsm"}
	for stop, want := range map[string]string{
		"{savepoint: canonical}": "",
		"{savepoint: native}":    "s.yaml:18:45  arm on-lsm has backend lsm, and the job of arm on-heap runs on heap: only a canonical savepoint",
		"{}":                     "s.yaml:18:46  arm on-lsm has backend lsm, and the job of arm on-heap runs on heap: only a canonical savepoint",
	} {
		from := "last-savepoint"
		if stop == "{}" {
			from = "last-checkpoint"
		}
		src := `apiVersion: bench/v1
kind: Scenario
name: s
seed: 7
arms:
  on-heap: {backend: heap}
  on-lsm: {backend: lsm}
baseline: on-heap
workload:
  name: counter
  source: {partitions: 4, rate: 1_000/s}
phases:
  - {name: before, records: 1_000}
  - name: life
    steps:
      - {savepoint: canonical}
      - {stop: ` + stop + `}
      - {start: {from: ` + from + `, arm: on-lsm}}
`
		_, problems := Load("s.yaml", []byte(src), tables, Overrides{Drawn: 1})
		text := Format(problems)
		if want == "" && len(problems) > 0 || want != "" && (len(problems) != 1 || !strings.HasPrefix(text, want)) {
			t.Errorf("stop: %s: want one problem %q, got\n%s", stop, want, text)
		}
	}
}
