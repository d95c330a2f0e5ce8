package compare

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
)

// made is an invocation to be written: what the checkpoints of its arms take.
type made struct {
	arms        []string
	reps        int
	seed        uint64  // of the first pair
	slower      float64 // how many times longer those of arms behind the first take
	drift       float64 // by which they grow over the phase, as a share
	checkpoints int
	world       string
	change      func(p *plan.Plan, r *results.RunEntry)
	canary      func(arm string, rep int) *Canary
	recovery    func(arm string, rep int) results.RecoveryRow // one of phase steady; nil: none
	started     time.Time
	blocks      bool // all runs of one arm, then those of the next
	noise       *rand.Rand
}

// write leaves the invocation in a folder of its own.
func (m made) write(t testing.TB) results.Dir {
	t.Helper()
	if m.world == "" {
		m.world = "real"
	}
	if m.noise == nil {
		m.noise = rand.New(rand.NewPCG(1, m.seed))
	}
	if m.started.IsZero() {
		m.started = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	}
	dir, err := results.Create(t.TempDir(), "made", m.started, m.seed)
	if err != nil {
		t.Fatal(err)
	}
	manifest := results.Manifest{Schema: results.Schema, Scenario: "made", World: m.world, Store: "mem", Profile: "local", Seed: m.seed, Started: m.started, Baseline: m.arms[0], Exit: 0, Outcome: "pass"}
	type turn struct{ arm, rep int }
	var turns []turn
	if m.blocks {
		for arm := range m.arms {
			for rep := range m.reps {
				turns = append(turns, turn{arm, rep + 1})
			}
		}
	} else {
		for rep := range m.reps {
			for arm := range m.arms {
				turns = append(turns, turn{(arm + rep) % len(m.arms), rep + 1})
			}
		}
	}
	for _, turn := range turns {
		arm := m.arms[turn.arm]
		e := results.RunEntry{Name: fmt.Sprintf("%s-%d", arm, turn.rep), Arm: arm, Rep: turn.rep, Status: "finished", Verdict: results.Pass, Took: time.Minute}
		p := m.plan(turn.arm, turn.rep)
		if m.change != nil {
			m.change(&p, &e)
		}
		manifest.Runs = append(manifest.Runs, e)
		if e.Status != "not-run" {
			m.run(t, dir, &p, e, turn.arm)
		}
	}
	if err := results.WriteJSON(dir.Path(results.ManifestFile), manifest); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (m made) plan(arm, rep int) plan.Plan {
	return plan.Plan{
		Schema: plan.Version, Scenario: "made", Arm: m.arms[arm], Rep: rep, Baseline: arm == 0, Seed: m.seed + uint64(rep), World: m.world,
		Store: plan.Store{Kind: "mem", Profile: "local"}, Workers: plan.Workers{Count: 1, Slots: 1, Cores: 1, HeartbeatEvery: plan.Duration(time.Second), HeartbeatTimeout: plan.Duration(3 * time.Second)},
		Job: plan.Job{Parallelism: 1, MaxParallelism: 4, BufferRecords: 1, Credits: 1, FlushEvery: plan.Duration(time.Millisecond), RestartDelay: 1,
			Checkpoint: plan.Checkpoint{Interval: plan.Duration(time.Second), Timeout: plan.Duration(time.Second), Retain: 1, MaxConcurrent: 1}},
		Backend:  plan.Backend{Name: "heap", Changelog: plan.Changelog{Enabled: arm > 0, Materialize: plan.Duration(time.Second), Preemptive: 1, BatchDelay: 1, BatchSize: 1, InFlight: 1}},
		Workload: plan.Workload{Name: "counter", Options: json.RawMessage(`{}`), Rate: 1000},
		Phases:   []plan.Phase{{Name: "steady", Records: 1000 * int64(m.checkpoints)}, {Name: "verify", Until: plan.UntilVerified, Within: plan.Duration(time.Minute)}},
		Faults:   []plan.Fault{}, Rescales: []plan.Rescale{}, Charts: []string{}, Verify: plan.Verify{Checks: []string{}},
	}
}

// run writes the files of one run: a checkpoint a second.
func (m made) run(t testing.TB, dir results.Dir, p *plan.Plan, e results.RunEntry, arm int) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	run, err := dir.CreateRun(e.Name)
	must(err)
	text, err := p.Encode()
	must(err)
	must(os.WriteFile(run.Path(results.PlanFile), text, 0o644))
	must(results.WriteJSON(run.Path(results.VerdictsFile), []results.Verdict{{Check: "S1", Name: "state", Verdict: e.Verdict, Summary: "looked at"}}))
	checkpoints, err := results.CreateCSV[results.CheckpointRow](run.Path(results.CheckpointsFile))
	must(err)
	series, err := results.CreateCSV[results.SeriesRow](run.Path(results.SeriesFile))
	must(err)
	recoveries, err := results.CreateCSV[results.RecoveryRow](run.Path(results.RecoveriesFile))
	must(err)
	events, err := results.CreateLines(run.Path(results.HistoryFile))
	must(err)
	requests, err := results.CreateLines(run.Path(results.ObjectsFile))
	must(err)
	must(events.Append(history.Event{N: 1, Kind: history.PhaseBegin, Phase: "steady"}))
	if m.recovery != nil {
		row := m.recovery(p.Arm, p.Rep)
		row.Cause, row.Phase, row.Arm, row.World, row.Profile = "worker-crash", "steady", p.Arm, m.world, "local"
		must(recoveries.Append(row))
	}
	level := 100 * (1 + 0.02*m.noise.NormFloat64())
	if arm > 0 && m.slower > 0 {
		level *= m.slower
	}
	for i := range m.checkpoints {
		at := float64(i)
		took := level * (1 + m.drift*float64(i)/float64(m.checkpoints)) * (1 + 0.05*m.noise.NormFloat64())
		must(checkpoints.Append(results.CheckpointRow{ID: fmt.Sprint(i + 1), Kind: "checkpoint", Status: "completed", Planned: results.Some(at), Trigger: results.Some(at), Late: results.Some(0.0),
			Duration: results.Some(took), Sync: results.Some(1.0), Checkpointed: results.Some(1000.0), Full: results.Some(5000.0), Phase: "steady", Arm: p.Arm, World: m.world, Profile: "local"}))
		must(series.Append(results.SeriesRow{At: at + 1, Phase: "steady", Emitted: int64(1000 * (i + 1)), Rate: 1000, Offered: 1000, Live: 4000, Parallelism: 1, State: "running", Arm: p.Arm, World: m.world, Profile: "local"}))
		must(requests.Append(history.Request{Seq: uint64(i + 1), Start: time.Duration(i) * time.Second, Op: history.OpPut, Key: fmt.Sprintf("base/1/1/%d", i%100), Bytes: 1000, Applied: history.AppliedYes, Cause: "base"}))
	}
	must(events.Append(history.Event{N: 2, At: time.Duration(m.checkpoints) * time.Second, Kind: history.PhaseEnd, Phase: "steady", Records: 1000 * int64(m.checkpoints)}))
	for _, c := range []interface{ Close() error }{checkpoints, series, recoveries, events, requests} {
		must(c.Close())
	}
	if m.canary == nil {
		return
	}
	if c := m.canary(p.Arm, p.Rep); c != nil {
		must(results.WriteJSON(run.Path(CanaryFile), c))
	}
}

// load opens what was written.
func load(t testing.TB, path ...string) []*Run {
	t.Helper()
	runs, err := Load(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// compared is the only comparison of some runs.
func compared(t testing.TB, a, b []*Run, o Options) *Comparison {
	t.Helper()
	sides, err := Sides(a, b)
	if err != nil {
		t.Fatal(err)
	}
	list, err := Compare(sides, o)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d comparisons, %v", len(list), err)
	}
	return list[0]
}

// row finds a metric of the comparison.
func row(t testing.TB, c *Comparison, name string) *Row {
	t.Helper()
	for i := range c.Rows {
		if c.Rows[i].Name() == name {
			return &c.Rows[i]
		}
	}
	t.Fatalf("there is no %s:\n%s", name, c.Text())
	return nil
}
