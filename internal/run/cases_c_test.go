package run_test

import (
	"testing"

	"statebench.dev/bench/internal/history"
)

// TestC07NothingMaterializesWhereThatIsOff (docs/known-faults.md): a run with a crash in which the log grows from its beginning to its end.
func TestC07NothingMaterializesWhereThatIsOff(t *testing.T) {
	for _, off := range []bool{true, false} {
		p := short(t, "sim", "mem")
		p.Backend.Changelog.MaterializeOff = off
		begun := 0
		for _, e := range lines[history.Event](t, carryOut(t, p), "history.jsonl") {
			if e.Kind == history.MaterializationBegin {
				begun++
			}
		}
		if (begun == 0) != off {
			t.Errorf("off %t: %d materializations", off, begun)
		}
	}
}
