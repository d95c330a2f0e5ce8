package compare

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
)

var offOn = []string{"changelog-off", "changelog-on"} // read-only: names

func TestIdenticalArmsAreEquivalentAndSlowerOnesARegression(t *testing.T) {
	same := compared(t, load(t, string(made{arms: offOn, reps: 10, checkpoints: 40}.write(t))), nil, Options{})
	if r := row(t, same, "steady/checkpoint.late.p50"); !r.Primary || r.Verdict != Equivalent || same.Exit() != 0 || len(same.Pairs) != 10 {
		t.Errorf("exit %d, %+v\n%s", same.Exit(), r.Judgement, same.Text())
	}
	slow := compared(t, load(t, string(made{arms: offOn, reps: 10, checkpoints: 40, slower: 1.2}.write(t))), nil, Options{})
	if r := row(t, slow, "steady/checkpoint.late.p50"); r.Verdict != Regression || r.Low > 0.2 || r.High < 0.2 || slow.Exit() != 4 {
		t.Errorf("exit %d, %+v\n%s", slow.Exit(), r.Judgement, slow.Text())
	}
	if s := strings.Join(slow.Sentences(), "\n"); !strings.Contains(s, "worse: steady/checkpoint.late.p50 +") {
		t.Error(s)
	}
	fast := compared(t, load(t, string(made{arms: offOn, reps: 10, checkpoints: 40, slower: 0.8}.write(t))), nil, Options{})
	if r := row(t, fast, "steady/checkpoint.late.p50"); r.Verdict != Improvement || fast.Exit() != 0 {
		t.Errorf("exit %d, %+v", fast.Exit(), r.Judgement)
	}
}

func TestTooFewPairsSayHowManyAreMissing(t *testing.T) {
	c := compared(t, load(t, string(made{arms: offOn, reps: 3, checkpoints: 40, slower: 2}.write(t))), nil, Options{})
	if r := row(t, c, "steady/checkpoint.late.p50"); r.Verdict != Inconclusive || r.More != 4 || c.Exit() != 2 {
		t.Errorf("exit %d, %+v", c.Exit(), r.Judgement)
	}
	if !strings.Contains(c.Text(), "no test possible with 3 of at least 7 pairs; 4 pairs more should tell") {
		t.Error(c.Text())
	}
}

func TestInvalidRunsAreListedAndTheirPairsLeftOut(t *testing.T) {
	m := made{arms: offOn, reps: 10, checkpoints: 40, canary: func(arm string, rep int) *Canary {
		c := &Canary{Schema: 1, Loop: results.Some(1000 + float64(rep)), Foreign: results.Some(0.01), FreeDisk: results.Some(0.5)}
		switch {
		case arm == "changelog-on" && rep == 2:
			c.Foreign = results.Some(0.4)
		case arm == "changelog-on" && rep == 5:
			c.Loop = results.Some(1500.0)
		}
		return c
	}, change: func(_ *plan.Plan, e *results.RunEntry) {
		if e.Name == "changelog-off-7" {
			e.Status, e.Error = "failed", "the disk was full"
		}
	}}
	c := compared(t, load(t, string(m.write(t))), nil, Options{})
	text := c.Text()
	for _, want := range []string{
		"20, of which 3 do not count: 7 pairs of the same seed", "invalid   changelog-on-2: other processes used 40 % of the processors (limit 10 %)",
		"invalid   changelog-on-5: the canary took 1.50 s, the median is", "invalid   changelog-off-7: failed: the disk was full", "3 runs without a partner, left out",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if c.Exit() != 0 {
		t.Errorf("exit %d\n%s", c.Exit(), text)
	}
}

func TestI11ManyInvalidRunsMakeItInconclusive(t *testing.T) {
	m := made{arms: offOn, reps: 10, checkpoints: 40, slower: 1.5, change: func(_ *plan.Plan, e *results.RunEntry) {
		if e.Rep > 6 {
			e.Status = "not-run"
		}
	}}
	c := compared(t, load(t, string(m.write(t))), nil, Options{})
	if c.Exit() != 2 || !strings.Contains(c.Text(), "8 of 20 runs do not count, more than 30 %") || !strings.Contains(c.Text(), "changelog-on-9: was not run") {
		t.Errorf("exit %d\n%s", c.Exit(), c.Text())
	}
}

func TestCorrectnessIsNoStatistic(t *testing.T) {
	m := made{arms: offOn, reps: 10, checkpoints: 40, change: func(_ *plan.Plan, e *results.RunEntry) {
		if e.Name == "changelog-on-4" {
			e.Verdict = results.Fail
		}
	}}
	c := compared(t, load(t, string(m.write(t))), nil, Options{})
	if c.Exit() != 1 || !strings.Contains(c.Text(), "invalid   changelog-on-4: correctness violation: S1 state") {
		t.Errorf("exit %d\n%s", c.Exit(), c.Text())
	}
}

func TestH06DriftingArmBlocksItsVerdict(t *testing.T) {
	c := compared(t, load(t, string(made{arms: offOn, reps: 10, checkpoints: 100, slower: 1.3, drift: 1}.write(t))), nil, Options{})
	if r := row(t, c, "steady/checkpoint.late.p50"); r.Verdict != Inconclusive || !strings.Contains(r.Reason, "drifts") || c.Exit() != 2 {
		t.Errorf("exit %d, %+v", c.Exit(), r.Judgement)
	}
	if r := row(t, c, "steady/store.bytesPerRecord"); r.Verdict != Equivalent {
		t.Errorf("bytes do not drift: %+v", r.Judgement)
	}
}

func TestTwoInvocationsArePairedBySeed(t *testing.T) {
	before := made{arms: offOn, reps: 8, checkpoints: 40}.write(t)
	after := made{arms: offOn, reps: 8, checkpoints: 40, started: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC), change: func(p *plan.Plan, _ *results.RunEntry) {
		p.Job.Checkpoint.Retain = 2
	}}.write(t)
	sides, err := Sides(load(t, string(before)), load(t, string(after)))
	if err != nil {
		t.Fatal(err)
	}
	list, err := Compare(sides, Options{})
	if err != nil || len(list) != 2 {
		t.Fatalf("%d comparisons, %v", len(list), err)
	}
	text := list[1].Text()
	for _, want := range []string{"A         A changelog-on", "differs   job.checkpoint.retain: 1 against 2", "8 pairs of the same seed", "all runs of one variant came before all of the other: weak evidence"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestRunsWithoutCommonSeedsAreWeakEvidence(t *testing.T) {
	a := made{arms: offOn[:1], reps: 8, checkpoints: 40}.write(t)
	b := made{arms: offOn[:1], reps: 8, checkpoints: 40, seed: 500, slower: 1}.write(t)
	c := compared(t, load(t, string(a)), load(t, string(b)), Options{})
	r := row(t, c, "steady/checkpoint.late.p50")
	if !c.Unpaired || !r.Weak || r.Verdict != Equivalent || !strings.Contains(c.Text(), "8 against 8, not paired") {
		t.Errorf("%+v\n%s", r.Judgement, c.Text())
	}
}

func TestWhatCannotBeComparedIsSaid(t *testing.T) {
	real := load(t, string(made{arms: offOn, reps: 1, checkpoints: 30}.write(t)))
	sim := load(t, string(made{arms: offOn, reps: 1, checkpoints: 30, world: "sim"}.write(t)))
	sides, err := Sides(real, sim)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Compare(sides, Options{}); err == nil || !strings.Contains(err.Error(), "never mixed") {
		t.Errorf("I09: measured and simulated runs: %v", err)
	}
	other := load(t, string(made{arms: []string{"x", "y"}, reps: 1, checkpoints: 30}.write(t)))
	if _, err := Sides(real, other); err == nil || !strings.Contains(err.Error(), "no arm stands on both sides") {
		t.Errorf("%v", err)
	}
	rate := load(t, string(made{arms: offOn, reps: 10, checkpoints: 30, change: func(p *plan.Plan, _ *results.RunEntry) {
		if !p.Baseline {
			p.Workload.Rate = 900
		}
	}}.write(t)))
	if c := compared(t, rate, nil, Options{}); c.Exit() != 2 || !strings.Contains(c.Void, "different work to do: workload.rate is 1000 against 900") {
		t.Errorf("%s, exit %d", c.Void, c.Exit())
	}
	pool := load(t, string(made{arms: offOn, reps: 10, checkpoints: 30, change: func(p *plan.Plan, _ *results.RunEntry) {
		if !p.Baseline {
			p.Workers.Slots = 2
		}
	}}.write(t)))
	if c := compared(t, pool, nil, Options{}); !strings.Contains(c.Void, "may differ in their backend only: workers.slots") {
		t.Errorf("%s", c.Void)
	}
	for pattern, want := range map[string]string{"throughput": "phase/metric", "steady/thruput": "throughput", "no/throughput": "steady", "steady/busy.mean": "neither better nor worse"} {
		sides, err := Sides(real, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Compare(sides, Options{Primary: []string{pattern}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

// A run that never restored has no figure, and is the worst of all: without it the others must not pass.
func TestRunsWithoutAFigureAreNotLeftOut(t *testing.T) {
	m := made{arms: offOn, reps: 10, checkpoints: 40, change: func(p *plan.Plan, _ *results.RunEntry) {
		p.Faults = []plan.Fault{{ID: "f", Kind: "worker-crash", Phase: "steady", Where: "worker/1", At: plan.Trigger{Phase: "start"}}}
	}, recovery: func(arm string, rep int) results.RecoveryRow {
		if arm == "changelog-on" && rep == 3 {
			return results.RecoveryRow{}
		}
		return results.RecoveryRow{RestoreBase: results.Some(100.0), Replay: results.Some(0.0)}
	}}
	c := compared(t, load(t, string(m.write(t))), nil, Options{})
	if r := row(t, c, "steady/recovery.restore"); !r.Primary || r.Verdict != Inconclusive || !strings.Contains(c.Text(), "1 of 20 runs have none: 1 of 1 did not restore") || c.Exit() != 2 || c.Settled() {
		t.Errorf("exit %d, %+v\n%s", c.Exit(), r.Judgement, c.Text())
	}
	m.recovery = func(string, int) results.RecoveryRow {
		return results.RecoveryRow{RestoreBase: results.Some(100.0), Replay: results.Some(0.0)}
	}
	c = compared(t, load(t, string(m.write(t))), nil, Options{})
	if r := row(t, c, "steady/recovery.restore"); !r.Primary || r.Verdict != Equivalent || c.Exit() != 0 || !c.Settled() {
		t.Errorf("exit %d, %+v\n%s", c.Exit(), r.Judgement, c.Text())
	}
}

func TestPhasesThatAreDisturbedDifferentlyAreNotCompared(t *testing.T) {
	fault := func(p *plan.Plan, _ *results.RunEntry) {
		if !p.Baseline {
			p.Faults = []plan.Fault{{ID: "f", Kind: "worker-crash", Phase: "steady", Where: "worker/1", At: plan.Trigger{Phase: "start"}}}
		}
	}
	c := compared(t, load(t, string(made{arms: offOn, reps: 10, checkpoints: 30, change: fault}.write(t))), nil, Options{})
	if c.Exit() != 2 || !strings.Contains(c.Text(), "phase steady is not compared: its faults or rescales differ") {
		t.Errorf("exit %d\n%s", c.Exit(), c.Text())
	}
}

// H11: every line has the same keys, whatever the verdict; no number is one that JSON does not know.
func TestH11LinesHaveOneShape(t *testing.T) {
	shapes := map[string]string{}
	for _, m := range []made{{arms: offOn, reps: 10, checkpoints: 40, slower: 1.3}, {arms: offOn, reps: 2, checkpoints: 3}, {arms: offOn, reps: 10, checkpoints: 40}} {
		b, err := Lines([]*Comparison{compared(t, load(t, string(m.write(t))), nil, Options{Primary: []string{"steady/*"}})})
		if err != nil {
			t.Fatal(err)
		}
		for in := bufio.NewScanner(bytes.NewReader(b)); in.Scan(); {
			var line map[string]json.RawMessage
			if err := json.Unmarshal(in.Bytes(), &line); err != nil {
				t.Fatal(err)
			}
			keys := fmt.Sprint(len(line))
			kind := string(line["kind"])
			if was, ok := shapes[kind]; ok && was != keys {
				t.Errorf("a line of kind %s has %s keys, another %s", kind, keys, was)
			}
			shapes[kind] = keys
		}
	}
	if len(shapes) != 4 {
		t.Errorf("kinds: %v", shapes)
	}
}

func TestMarkdownAndForestSayTheSame(t *testing.T) {
	c := compared(t, load(t, string(made{arms: offOn, reps: 10, checkpoints: 40, slower: 1.3, world: "sim"}.write(t))), nil, Options{})
	md := c.Markdown()
	for _, want := range []string{"**SIMULATED:**", "| steady/checkpoint.late.p50 |", "regression", "differs: backend.changelog.enabled: false against true"} {
		if !strings.Contains(md, want) {
			t.Errorf("no %q in\n%s", want, md)
		}
	}
	f := c.Forest()
	if !f.Simulated || len(f.Rows) < 3 || f.Rows[0].Group != "primary" {
		t.Errorf("%+v", f)
	}
	for _, r := range f.Rows {
		if r.Label == "steady/checkpoint.late.p50" && (r.Ratio < 1.2 || len(r.Dots) != 10 || r.Verdict != "regression") {
			t.Errorf("%+v", r)
		}
		if !(r.Low <= r.Ratio && r.Ratio <= r.High) {
			t.Errorf("the estimate lies outside of its interval: %+v", r)
		}
	}
}

// A day of a checkpoint a second in each of two runs: 172,800 checkpoints.
func TestComparisonOfADayIsQuickAndSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 100 MB")
	}
	dir := made{arms: offOn, reps: 1, checkpoints: 86_400, world: "sim"}.write(t)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	c := compared(t, load(t, string(dir)), nil, Options{})
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	t.Logf("two runs of 86,400 checkpoints: %.1f s, %d MiB taken from the system", took.Seconds(), (after.HeapSys-min(after.HeapSys, before.HeapSys))>>20)
	if len(c.Pairs) != 1 || took > 20*time.Second || after.HeapSys > 500<<20 {
		t.Errorf("%s, %d MiB", took, after.HeapSys>>20)
	}
}
