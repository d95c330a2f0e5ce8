package report

import (
	"slices"
	"testing"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/results"
)

func TestCurveHasTheRecoveriesByLengthOfLog(t *testing.T) {
	row := func(cause string, log, base, replay float64) results.RecoveryRow {
		return results.RecoveryRow{Cause: cause, DeltaBytes: results.Some(log), RestoreBase: results.Some(base), Replay: results.Some(replay)}
	}
	a := &arm{runs: []*Run{{Recoveries: []results.RecoveryRow{
		row("worker-crash", 300, 10, 7), row(history.CauseRescale, 200, 10, 5), row("worker-crash", 100, 10, 2),
		{Cause: "worker-crash"}, row(history.CauseStart, 50, 1, 1),
	}}}}
	if got, want := a.curve(), []point{{100, 12}, {300, 17}}; !slices.Equal(got, want) {
		t.Errorf("points %v, want %v", got, want)
	}
}

func TestPartsAreOfCompletedCheckpoints(t *testing.T) {
	row := func(status string, at, v float64) results.CheckpointRow {
		return results.CheckpointRow{Status: status, Trigger: results.Some(at), Base: results.Some(v), Materialized: results.Some(v + 1), Delta: results.Some(v + 2), Checkpointed: results.Some(v + 3)}
	}
	r := &Run{Checkpoints: []results.CheckpointRow{row(completed, 1, 10), row(aborted, 2, 20), row(completed, 3, 30)}}
	for i, p := range parts() {
		v := float64(i)
		if got, want := r.part(p), []point{{1, 10 + v}, {3, 30 + v}}; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", p.label, got, want)
		}
	}
}
