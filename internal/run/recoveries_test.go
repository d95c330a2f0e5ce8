package run

import (
	"math"
	"path/filepath"
	"testing"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
)

// TestRecoveryWithoutCheckpoint checks that the segments add up to the outage when a job starts again from nothing.
func TestRecoveryWithoutCheckpoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), results.RecoveriesFile)
	table, err := newRecoveryTable(&plan.Plan{Arm: "on"}, path, func() []int64 { return []int64{6} }, func() string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []history.Event{
		{At: 3 * time.Second, Kind: history.AttemptFailed, Text: history.CauseWorkerLost, Attempt: 1},
		{At: 3100 * time.Millisecond, Kind: history.AttemptStarted, Attempt: 2, Count: 4},
		{At: 3101 * time.Millisecond, Kind: history.OutputFirst, Attempt: 2},
		{At: 4 * time.Second, Kind: history.CaughtUp, Attempt: 2, From: int64(4 * time.Second)},
	} {
		table.observe(&e)
	}
	if err := table.close(); err != nil {
		t.Fatal(err)
	}
	rows, err := results.ReadCSV[results.RecoveryRow](path)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 {
		t.Fatalf("%d rows, want 1", len(rows))
	}
	r := rows[0]
	if math.Abs(r.Outage.Value-101) > 0.001 || math.Abs(r.Detect.Value+r.FirstOutput.Value-r.Outage.Value) > 0.001 {
		t.Errorf("detect %v + first output %v, outage %v: want a sum of 101 ms", r.Detect, r.FirstOutput, r.Outage)
	}
	if r.Restart.Set || r.RestoreBase.Set || r.Replay.Set {
		t.Errorf("steps of a restore that was none: %+v", r)
	}
}
