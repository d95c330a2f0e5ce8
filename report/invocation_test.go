package report

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
)

// made describes an invocation that a test makes up. Its figures are invented and have no meaning beyond the tests.
type made struct {
	sim   bool
	arms  []string // the first is the baseline; "on" in a name means a changelog
	reps  int
	tiny  bool // state below the pre-emptive threshold
	quiet bool // neither checkpoints nor disturbances
	fail  bool // the last run violates F5
	// expect are bounds on figures of phase steady, metric and statement in turn.
	expect []string
	// starts are modes in which the job is started, one after the other, after the phase rescale.
	starts []string
	// change is called with every plan before it is written.
	change func(p *plan.Plan)
}

// write makes the invocation in dir, through package results.
func (m made) write(t *testing.T, dir results.Dir) {
	t.Helper()
	if err := os.MkdirAll(string(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	manifest := results.Manifest{
		Schema: results.Schema, Scenario: "made-up", About: "Figures invented for tests.", Command: []string{"bench", "run", "scenarios/made-up.yaml"},
		Version: results.Build{Commit: "0123456789abcdef", Go: "go1.26"}, Host: results.Host{OS: "linux", Arch: "amd64", Cores: 8, MemoryBytes: 32 << 30},
		World: m.world(), Store: m.store(), Profile: "local", Seed: 42, Resolved: "c0ffee", Detection: "connection loss, at once; silence after 3s",
		Started: time.Date(2026, 11, 30, 13, 36, 0, 0, time.UTC), Took: 2 * time.Minute, Outcome: "pass", Baseline: m.arms[0], Repetitions: m.reps,
	}
	if m.fail {
		manifest.Exit, manifest.Outcome = 1, "correctness violation"
	}
	for _, arm := range m.arms {
		for rep := 1; rep <= m.reps; rep++ {
			e := results.RunEntry{Name: fmt.Sprintf("%s-%d", arm, rep), Arm: arm, Rep: rep, Status: "finished", Verdict: "pass", Took: time.Minute}
			last := arm == m.arms[len(m.arms)-1] && rep == m.reps
			if last && m.fail {
				e.Verdict = "fail"
			}
			manifest.Runs = append(manifest.Runs, e)
			run, err := dir.CreateRun(e.Name)
			if err != nil {
				t.Fatal(err)
			}
			newMadeRun(t, m, run, arm, rep).write(last && m.fail)
		}
	}
	must(t, results.WriteFile(dir.Path(results.ResolvedFile), []byte("name: made-up\n")))
	must(t, results.WriteJSON(dir.Path(results.ManifestFile), manifest))
}

func (m made) world() string {
	if m.sim {
		return "sim"
	}
	return "real"
}

func (m made) store() string {
	if m.sim {
		return "mem"
	}
	return "embedded"
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// madeRun writes one run, second by second.
type madeRun struct {
	t      *testing.T
	m      made
	dir    results.RunDir
	plan   plan.Plan
	on     bool
	scale  float64
	now    time.Duration
	rec    *history.Recorder
	spool  *results.Lines
	phase  string
	random uint64
	rows   []results.CheckpointRow
	object []history.Request
	series []results.SeriesRow
	recs   []results.RecoveryRow
	id     uint64
}

func newMadeRun(t *testing.T, m made, dir results.RunDir, arm string, rep int) *madeRun {
	r := &madeRun{t: t, m: m, dir: dir, scale: 1, random: uint64(rep) + uint64(len(arm))*7}
	r.on = filepath.Base(arm) != arm || len(arm) >= 2 && arm[len(arm)-2:] == "on"
	if m.tiny {
		r.scale = 0.02
	}
	d := func(s float64) plan.Duration { return plan.Duration(s * float64(time.Second)) }
	record := int64(60_000)
	r.plan = plan.Plan{Schema: plan.Version, Scenario: "made-up", Arm: arm, Rep: rep, Baseline: arm == m.arms[0], Seed: 42, World: m.world(),
		Store:   plan.Store{Kind: m.store(), Profile: "local"},
		Workers: plan.Workers{Count: 4, Slots: 2, Cores: 2, HeartbeatEvery: d(0.5), HeartbeatTimeout: d(3)},
		Job: plan.Job{Parallelism: 4, MaxParallelism: 128, Checkpoint: plan.Checkpoint{Interval: d(1), Timeout: d(20), Retain: 3, MaxConcurrent: 1},
			RestartDelay: d(0.1), BufferRecords: 64, Credits: 4, FlushEvery: d(0.01)},
		Backend:  plan.Backend{Name: "heap", Changelog: plan.Changelog{Enabled: r.on, Materialize: d(5), Preemptive: 4 << 20, BatchDelay: d(0.01), BatchSize: 10 << 20, InFlight: 64 << 20}},
		Workload: plan.Workload{Name: "counter", Options: json.RawMessage(`{"keys":400000}`), Rate: 40_000},
		Phases: []plan.Phase{{Name: "fill", Records: 240_000, Discard: true}, {Name: "steady", Records: 960_000}, {Name: "crash", Records: 480_000},
			{Name: "rescale", Records: 320_000}, {Name: "heal", Until: plan.UntilRecovered, Within: d(60)}, {Name: "drain", Until: plan.UntilDrained, Within: d(60)}, {Name: "verify", Until: plan.UntilVerified, Within: d(60)}},
		Charts: Charts(), Faults: []plan.Fault{}, Rescales: []plan.Rescale{}, Inputs: []plan.Input{}, Verify: plan.Verify{Checks: []string{"S1", "F5"}},
	}
	if !m.quiet {
		r.plan.Faults = append(r.plan.Faults, plan.Fault{ID: "kill-1", Kind: "worker-crash", Phase: "crash", Where: "worker/1", With: json.RawMessage(`{"disk":"lose"}`), At: plan.Trigger{Record: &record}, For: d(5)})
		r.plan.Rescales = append(r.plan.Rescales, plan.Rescale{ID: "rescale-1", Phase: "rescale", At: plan.Trigger{Record: &record}, To: 6, From: "latest"})
	}
	for i := 0; i < len(m.expect); i += 2 {
		x, err := metrics.Lookup(m.expect[i])
		must(t, err)
		op, value, err := x.Bound(m.expect[i+1])
		must(t, err)
		r.plan.Expect = append(r.plan.Expect, plan.Expectation{Phase: "steady", Metric: x.Name, Op: op, Value: value, Text: m.expect[i+1]})
	}
	if m.change != nil {
		m.change(&r.plan)
	}
	return r
}

// noise is a number from 0 to 1, the same in each test.
func (r *madeRun) noise() float64 {
	r.random = r.random*6364136223846793005 + 1442695040888963407
	return float64(r.random>>40) / (1 << 24)
}

func (r *madeRun) event(e history.Event) { r.rec.Record(r.t.Context(), e) }

func (r *madeRun) write(fail bool) {
	t := r.t
	must(t, results.WriteJSON(r.dir.Path(results.PlanFile), r.plan))
	var err error
	r.spool, err = results.CreateLines(r.dir.Path(results.HistoryFile))
	must(t, err)
	r.rec = history.NewRecorder(func() time.Duration { return r.now }, r.spool)
	r.happen()
	must(t, r.rec.Close())
	must(t, r.spool.Close())
	writeRows(t, r.dir.Path(results.CheckpointsFile), r.rows)
	writeRows(t, r.dir.Path(results.RecoveriesFile), r.recs)
	writeRows(t, r.dir.Path(results.SeriesFile), r.series)
	writeLines(t, r.dir.Path(results.ObjectsFile), r.object)
	writeLines(t, r.dir.Path(results.ListingFile), []results.Listed{{Key: "run", Bytes: 40}, {Key: "coord/1", Bytes: 30}, {Key: "base/1/count-0/1", Bytes: 9 << 20}, {Key: "meta/57-1", Bytes: 4096}})
	restore := results.RestoreLine{MetaKey: "meta/57-1", OK: true, Parallelism: 6, Positions: []int64{1, 2}}
	writeLines(t, r.dir.Path(results.StatesFile), []results.StateLine{{Checkpoint: 57, Restore: &restore},
		{Checkpoint: 57, Group: &results.GroupLine{Operator: "count", State: "counts", Group: keygroup.ID(3), Count: 1234, Digest: "00"}}})
	verdicts := []results.Verdict{{Check: "S1", Name: "final keyed state equals the model", Verdict: results.Pass, Summary: "128 key groups, 400,000 elements"},
		{Check: "F5", Name: "no object deleted before its last reference was dropped", Verdict: results.Pass, Summary: "310 deletions"}}
	if fail {
		line := "log/3/worker-1/17.seg was deleted at 31.204s by coordinator-0; checkpoint 18 names it"
		verdicts[1] = results.Verdict{Check: "F5", Name: verdicts[1].Name, Verdict: results.Fail, Summary: "2 violations; the first: " + line,
			Evidence: []string{line, "log/3/worker-2/18.seg was deleted at 31.31s"}, Events: []int64{120}}
	}
	must(t, results.WriteJSON(r.dir.Path(results.VerdictsFile), verdicts))
	must(t, results.WriteJSON(r.dir.Path(results.OutputFile), map[string]any{"records": 1}))
	var late []results.LatencyRow
	for us := 1000; us < 200_000; us = us*5/4 + 1 {
		late = append(late, results.LatencyRow{Phase: "steady", UpTo: float64(us), Count: 960_000 / int64(us/500), Arm: r.plan.Arm, World: r.plan.World, Profile: "local"})
	}
	writeRows(t, r.dir.Path(results.LatenciesFile), late)
	if len(r.plan.Expect) > 0 {
		d, err := metrics.Read(r.dir)
		must(t, err)
		must(t, results.WriteJSON(r.dir.Path(results.ExpectFile), metrics.Judge(d)))
	}
}

func writeRows[T any](t *testing.T, path string, rows []T) {
	t.Helper()
	out, err := results.CreateCSV[T](path)
	must(t, err)
	for _, r := range rows {
		must(t, out.Append(r))
	}
	must(t, out.Close())
}

func writeLines[T any](t *testing.T, path string, lines []T) {
	t.Helper()
	out, err := results.CreateLines(path)
	must(t, err)
	for _, l := range lines {
		must(t, out.Append(l))
	}
	must(t, out.Close())
}

// happen tells 58 seconds of a job.
func (r *madeRun) happen() {
	r.event(history.Event{Kind: history.RunBegin, Actor: "run"})
	for _, f := range r.plan.Faults {
		r.event(history.Event{Kind: history.FaultPlanned, Fault: f.ID, Actor: f.Where, Text: f.Kind, Phase: f.Phase})
	}
	r.event(history.Event{Kind: history.AttemptStarted, Attempt: 1, Count: 4, Text: history.CauseSubmitted})
	begin := map[int]string{0: "fill", 6: "steady", 30: "crash", 42: "rescale", 50: "heal", 53: "drain", 56: "verify"}
	attempt := uint64(1)
	for s := range 58 {
		r.now = time.Duration(s) * time.Second
		if name := begin[s]; name != "" {
			if r.phase != "" {
				r.event(history.Event{Kind: history.PhaseEnd, Phase: r.phase, Records: int64(min(s, 50)) * 40_000})
			}
			r.phase = name
			r.event(history.Event{Kind: history.PhaseBegin, Phase: name})
		}
		r.sample(s)
		if k := s - 51; k >= 0 && k < len(r.m.starts) {
			r.event(history.Event{Kind: history.JobStopped, Checkpoint: r.id})
			r.event(history.Event{Kind: history.JobStarted, Checkpoint: r.id, Text: "last-checkpoint", Reason: r.m.starts[k], Count: 5})
		}
		if !r.m.quiet && s > 0 && s < 56 {
			attempt = r.disturb(s, attempt)
			r.checkpoint(s, attempt)
		}
	}
	r.event(history.Event{Kind: history.PhaseEnd, Phase: r.phase, Records: 2_000_000})
	r.event(history.Event{Kind: history.RunEnd, Actor: "run"})
}

func (r *madeRun) sample(s int) {
	row := results.SeriesRow{At: float64(s), Phase: r.phase, Emitted: int64(min(s, 50)) * 40_000, Rate: 40_000, Offered: 40_000, Lag: 20 * r.noise(),
		Live: int64(40e6 * r.scale * (1 - math.Exp(-float64(s)/8))), Parallelism: 4, State: "running", Arm: r.plan.Arm, World: r.plan.World, Profile: "local"}
	if !r.m.sim {
		row.CPU, row.StoreCPU = results.Some(float64(s)*1.2), results.Some(float64(s)*0.3)
	}
	r.series = append(r.series, row)
}

// disturb crashes a worker at 32 s and rescales at 44 s.
func (r *madeRun) disturb(s int, attempt uint64) uint64 {
	recovery := func(cause, id string, detect, base, replay, all float64) {
		r.recs = append(r.recs, results.RecoveryRow{Cause: cause, ID: id, Fault: results.Some(float64(s)), Detect: results.Some(detect), Restart: results.Some(110.0),
			RestoreBase: results.Some(base), Replay: results.Some(replay), FirstOutput: results.Some(30.0), Outage: results.Some(detect + 140 + base + replay),
			Recovery: results.Some(all), BaseBytes: results.Some(37e6 * r.scale), DeltaBytes: results.Some(replay * 4e4), Replayed: results.Some(math.Round(replay * 400)),
			Reprocessed: results.Some(21_000), Checkpoint: r.id, Attempt: attempt + 1, Parallelism: 4, Phase: r.phase, Arm: r.plan.Arm, World: r.plan.World, Profile: "local"})
	}
	base, replay := 240.0, 0.0
	if r.on {
		replay = 180
	}
	switch s {
	case 32:
		r.event(history.Event{Kind: history.FaultArmed, Fault: "kill-1", Text: "worker-crash"})
		r.event(history.Event{Kind: history.FaultHit, Fault: "kill-1", Text: "worker-1 died"})
		r.event(history.Event{Kind: history.AttemptFailed, Attempt: attempt, Text: history.CauseWorkerLost, Error: "worker-1: connection lost", Injected: true})
		recovery("worker-crash", "kill-1", 2, base, replay, 1900+2*replay)
		return attempt + 1
	case 37:
		r.event(history.Event{Kind: history.FaultHealed, Fault: "kill-1", Text: "worker-1 is back"})
	case 44:
		r.event(history.Event{Kind: history.RescaleBegin, Actor: "coordinator-0", From: 4, Count: 6})
		recovery("rescale", "rescale-1", 40, base, replay, 1200)
		return attempt + 1
	case 45:
		r.event(history.Event{Kind: history.RescaleDone, Actor: "coordinator-0", From: 4, Count: 6})
	}
	return attempt
}

func (r *madeRun) checkpoint(s int, attempt uint64) {
	row := results.CheckpointRow{Kind: "checkpoint", Status: completed, Planned: results.Some(float64(s)), Trigger: results.Some(float64(s) + 0.002), Late: results.Some(2.0),
		Phase: r.phase, Discard: r.phase == "fill" || s >= 50, Attempt: attempt, Arm: r.plan.Arm, World: r.plan.World, Profile: "local"}
	if s == 33 && !r.on {
		row.Status, row.Reason, row.Trigger, row.Late = skipped, "busy", results.Opt{}, results.Opt{}
		r.rows = append(r.rows, row)
		return
	}
	r.id++
	row.ID = fmt.Sprint(r.id)
	live := 37e6 * r.scale * (1 - math.Exp(-float64(s)/8))
	full, base, delta, part, ms := live, live, 0.0, live, 300+160*r.noise()
	if r.on {
		delta = r.scale * (3e6 + 2.2e6*float64(s%5))
		base, part, ms = live, 2.6e6*r.scale*(1+0.2*r.noise()), 50+25*r.noise()
		full = base + delta
	}
	r.now += 2 * time.Millisecond
	r.event(history.Event{Kind: history.CheckpointTriggered, Actor: "coordinator-0", Checkpoint: r.id, Attempt: attempt, Planned: time.Duration(s) * time.Second})
	if s == 41 && r.on {
		row.Status, row.Reason, row.Duration = aborted, "expired", results.Some(700.0)
		r.rows = append(r.rows, row)
		r.now += 700 * time.Millisecond
		r.event(history.Event{Kind: history.CheckpointAborted, Checkpoint: r.id, Reason: "expired"})
		return
	}
	row.Duration, row.Sync, row.Async, row.Align, row.StartDelay = results.Some(ms), results.Some(ms/90), results.Some(ms*0.9), results.Some(1.5), results.Some(3.0)
	row.Checkpointed, row.Full, row.Base, row.Delta = results.Some(math.Round(part)), results.Some(math.Round(full)), results.Some(math.Round(base)), results.Some(math.Round(delta))
	row.Preemptive, row.Materialized, row.Objects = results.Some(0.0), results.Some(0.0), results.Some(6.0)
	row.Dead, row.Metadata = results.Some(math.Round(delta/4)), results.Some(4096)
	r.rows = append(r.rows, row)
	puts := 12
	if r.on {
		puts = 5
	}
	for i := range puts {
		r.object = append(r.object, history.Request{Seq: uint64(len(r.object) + 1), Start: r.now, Duration: time.Duration(2e6 + 3e6*r.noise()), Op: history.OpPut,
			Key: fmt.Sprintf("base/%d/count-%d/%d", attempt, i, r.id), Bytes: int64(part) / int64(puts), Applied: history.AppliedYes, Cause: "base", Who: "worker-1"})
	}
	r.now += time.Duration(ms * 1e6)
	for i := range 4 {
		r.event(history.Event{Kind: history.CheckpointAcked, Actor: fmt.Sprintf("count-%d", i), Checkpoint: r.id, Sizes: &history.Sizes{Full: int64(full) / 4}})
	}
	r.event(history.Event{Kind: history.CheckpointCompleted, Actor: "coordinator-0", Checkpoint: r.id, Dur: time.Duration(ms * 1e6)})
	if r.on && s%5 == 4 {
		r.event(history.Event{Kind: history.MaterializationConfirmed, Actor: "count-0", Checkpoint: r.id, Count: int64(s / 5)})
	}
}
