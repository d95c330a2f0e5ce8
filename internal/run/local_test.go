package run_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"
)

// recovering is a plan whose workers have two subtasks of the keyed operator each, and of which one dies and comes back to its own
// subtasks, with its disk or without it.
func recovering(t *testing.T, backend string, changelog, local bool, disk string) plan.Plan {
	p := short(t, "sim", "mem")
	p.Workers.Count, p.Workers.Slots, p.Job.Parallelism = 2, 2, 4
	p.Backend.Name, p.Backend.Changelog.Enabled, p.Backend.LocalRecovery = backend, changelog, local
	p.Faults = p.Faults[1:]
	p.Faults[0].With = json.RawMessage(fmt.Sprintf(`{"disk":%q}`, disk))
	return p
}

// restoreReads counts, by attempt, worker and key, the requests for state that restores made.
func restoreReads(t *testing.T, rd results.RunDir, prefix string) map[string]int {
	reads := map[string]int{}
	for _, r := range lines[history.Request](t, rd, results.ObjectsFile) {
		if r.Op == history.OpGet && r.Cause == "restore" && strings.HasPrefix(r.Who, "worker-") && strings.HasPrefix(r.Key, prefix) {
			reads[fmt.Sprintf("%d %s %s", r.Attempt, r.Who, r.Key)]++
		}
	}
	return reads
}

// TestLogObjectIsReadOnceAWorker: in a run whose workers have several subtasks, a recovery asks for each log object once a worker, as the
// trace of the store shows.
func TestLogObjectIsReadOnceAWorker(t *testing.T) {
	rd := carryOut(t, recovering(t, "heap", true, false, "lose"))
	reads := restoreReads(t, rd, "log/")
	for what, n := range reads { // order-free: each for itself
		if n != 1 {
			t.Errorf("%s was read %d times", what, n)
		}
	}
	parts := 0
	for _, e := range lines[history.Event](t, rd, results.HistoryFile) {
		if e.Kind == history.RestoreReplayed && e.Records > 0 {
			parts++
		}
	}
	if len(reads) < 2 || parts < 4 {
		t.Errorf("%d objects read, by %d subtasks: nothing was shared", len(reads), parts)
	}
}

// TestLocalRecoveryChangesNoResult: with copies on the workers' disks, kept or lost in the crash, a run gives the same output bit by bit, and
// all checks of the restored state pass; with the disks kept it asks the store for nothing.
func TestLocalRecoveryChangesNoResult(t *testing.T) {
	for _, c := range []struct {
		backend   string
		changelog bool
	}{{"heap", true}, {"lsm", true}, {"lsm", false}} {
		if testing.Short() && !c.changelog {
			continue
		}
		var first []byte
		for _, v := range []struct {
			local bool
			disk  string
		}{{false, "keep"}, {true, "keep"}, {true, "lose"}} {
			what := fmt.Sprintf("%s, changelog %v, local recovery %v, disk %s", c.backend, c.changelog, v.local, v.disk)
			rd := carryOut(t, recovering(t, c.backend, c.changelog, v.local, v.disk))
			output, err := os.ReadFile(rd.Path(results.OutputFile))
			if err != nil || len(output) == 0 {
				t.Fatal(what, err)
			}
			if first == nil {
				first = output
			}
			if !bytes.Equal(output, first) {
				t.Errorf("%s: the output differs", what)
			}
			hits, misses := int64(0), int64(0)
			for _, e := range lines[history.Event](t, rd, results.HistoryFile) {
				if e.Kind == history.RestoreCopied {
					hits, misses = hits+e.Count, misses+e.From
				}
			}
			reads := len(restoreReads(t, rd, ""))
			lost := v.disk == "lose"
			if v.local != (hits > 0) || (v.local && lost) != (misses > 0) || (v.local && !lost) != (reads == 0) {
				t.Errorf("%s: %d requests answered by copies, %d not, %d objects read from the store", what, hits, misses, reads)
			}
		}
	}
}

// TestWorkersDisksAreFolders: in the real world copies lie in files of the run's folder, and nothing is left of them when the run ends, by itself or not.
func TestWorkersDisksAreFolders(t *testing.T) {
	for _, end := range []string{"finished", "interrupted"} {
		if testing.Short() && end == "finished" {
			continue // the longest, and TestLocalRecoveryChangesNoResult has it with disks in memory
		}
		t.Run(end, func(t *testing.T) {
			p := recovering(t, "heap", true, true, "lose")
			p.World = "real"
			rd, err := results.Dir(t.TempDir()).CreateRun(run.Name(&p))
			if err != nil {
				t.Fatal(err)
			}
			var seen atomic.Int64
			look := func(*history.Event) {
				found, _ := filepath.Glob(filepath.Join(rd.Path(results.DisksFolder), "worker-*", "*", "*"))
				seen.Store(max(seen.Load(), int64(len(found))))
			}
			out, err := run.Run(deps(), p, rd, run.Options{Progress: look, Interrupted: func() bool { return end == "interrupted" && seen.Load() > 0 }})
			if err != nil {
				t.Fatal(err)
			}
			if out.Status != end {
				t.Errorf("the run is %s, not %s: %v", out.Status, end, out.Err)
			}
			if seen.Load() == 0 {
				t.Error("no file was seen on a worker's disk")
			}
			if _, err := os.Stat(rd.Path(results.DisksFolder)); !os.IsNotExist(err) {
				t.Errorf("the folder of the disks is left: %v", err)
			}
		})
	}
}

// TestE04DownloadsAreApart: a recovery says how long it asked the store, and what came from copies instead.
func TestE04DownloadsAreApart(t *testing.T) {
	for _, disk := range []string{"keep", "lose"} {
		p := recovering(t, "heap", true, true, disk)
		p.Faults = append(p.Faults, plan.Fault{ID: "slow", Kind: "store-latency", Phase: "chaos", Where: "store",
			With: json.RawMessage(`{"op":"get","delay":"20ms"}`), At: plan.Trigger{Phase: "start"}, For: seconds(1.5)})
		rd := carryOut(t, p)
		rows, err := results.ReadCSV[results.RecoveryRow](rd.Path(results.RecoveriesFile))
		if err != nil || len(rows) != 1 {
			t.Fatalf("%d recoveries (%v), want 1", len(rows), err)
		}
		r := rows[0]
		all := r.BaseBytes.Value + r.DeltaBytes.Value
		if disk == "keep" && (r.Download.Value != 0 || !r.Download.Set || r.LocalBytes.Value != all || all == 0 || r.LocalMisses.Value != 0) {
			t.Errorf("disks kept: %+v", r)
		}
		if disk == "lose" && (r.Download.Value <= 0 || r.Download.Value > r.RestoreBase.Value+r.Replay.Value || r.LocalBytes.Value >= all || r.LocalMisses.Value == 0) {
			t.Errorf("a disk lost: %+v", r)
		}
	}
}
