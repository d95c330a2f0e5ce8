package metrics_test

import (
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/results"
)

// TestLogBytesByCause: the attempts of an upload are told apart, in the phase in which they began, also where the log lies in files.
func TestLogBytesByCause(t *testing.T) {
	for _, files := range []bool{false, true} {
		d := made()
		d.Phases = []metrics.Phase{{Name: "a", To: 10, Ended: true}, {Name: "b", From: 10, To: 20, Ended: true}}
		r := metrics.NewTrafficReader(d.Phases)
		for _, q := range []history.Request{
			{Start: 1, Op: history.OpPut, Key: "log/1", Bytes: 100, Cause: "log", Applied: history.AppliedNo},
			{Start: 2, Op: history.OpPut, Key: "log/1", Bytes: 100, Cause: "log", Applied: history.AppliedYes}, // again
			{Start: 3, Op: history.OpPut, Key: "log/2", Bytes: 100, Cause: "hedge", Applied: history.AppliedUnknown},
			{Start: 4, Op: history.OpPut, Key: "log/2", Bytes: 100, Cause: "hedge", Applied: history.AppliedNo}, // again
			{Start: 5, Op: history.OpPut, Key: "log/3", Bytes: 7, Cause: "log", Applied: history.AppliedNo},     // never stored
			{Start: 6, Op: history.OpPut, Key: "base/1", Bytes: 1000, Cause: "base", Applied: history.AppliedYes},
			{Start: 11 * time.Second, Op: history.OpDelete, Key: "log/2", Cause: "log", Applied: history.AppliedNo},
			{Start: 12 * time.Second, Op: history.OpDelete, Key: "log/2", Cause: "log", Applied: history.AppliedYes},
			{Start: 13 * time.Second, Op: history.OpDelete, Key: "log/2", Cause: "log", Applied: history.AppliedYes}, // once more
			{Start: 14 * time.Second, Op: history.OpDelete, Key: "log/3", Cause: "log", Applied: history.AppliedYes},
			{Start: 15 * time.Second, Op: history.OpDelete, Key: "log/1", Cause: "drop", Applied: history.AppliedYes}, // of a checkpoint
		} {
			q.Log = files && strings.HasPrefix(q.Key, "log/")
			r.See(&q)
		}
		d.Traffic = r.Traffic()
		for name, want := range map[string][2]float64{"logPut": {407, 0}, "logRetried": {200, 0}, "logHedged": {100, 0}, "logDiscarded": {0, 100}} {
			m, err := metrics.Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			for i, phase := range []string{"a", "b"} {
				if f := m.Figure(d, phase); !f.OK() || f.Value != want[i] {
					t.Errorf("files %v: %s of phase %s is %+v, want %v", files, name, phase, f, want[i])
				}
			}
		}
	}
}

// TestLogBlockOfOldResults: the parts of the blocked time are a figure where they were measured, else none.
func TestLogBlockOfOldResults(t *testing.T) {
	for _, c := range []struct {
		hard       results.Opt
		soft, full float64
		ok         bool
	}{{results.Some(0.1), 0.2, 0.1, true}, {results.Opt{}, 0, 0, false}} {
		d := made()
		for i := range d.Series {
			d.Series[i].LogBlocked, d.Series[i].LogHard = 0.3, c.hard
		}
		for name, want := range map[string]float64{"logSoftBlocked.mean": c.soft, "logHardBlocked.mean": c.full} {
			m, err := metrics.Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			if f := m.Figure(d, "p"); f.OK() != c.ok || f.Value < want-1e-9 || f.Value > want+1e-9 {
				t.Errorf("%s is %+v, want %v", name, f, want)
			}
		}
	}
}
