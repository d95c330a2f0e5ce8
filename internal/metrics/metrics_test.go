package metrics_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/registry"
	"statebench.dev/bench/internal/results"
)

func TestNamesAreUniqueAndEachHasWords(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range metrics.All() {
		if seen[m.Name] || m.Name == "" || m.About == "" || m.Samples == "" || strings.ContainsAny(m.Name, " -_/") {
			t.Errorf("%+v", m)
		}
		seen[m.Name] = true
		if op, _, err := m.Bound(m.Example()); err != nil || op == "" {
			t.Errorf("%s: example %q: %v", m.Name, m.Example(), err)
		}
		if again, err := metrics.Lookup(m.Name); err != nil || again.About != m.About {
			t.Errorf("%s is not found: %v", m.Name, err)
		}
	}
	_, err := metrics.Lookup("checkpoint.durations.p50")
	var unknown *registry.UnknownError
	if !errors.As(err, &unknown) || unknown.Nearest != "checkpoint.duration.p50" {
		t.Errorf("%v", err)
	}
}

func TestNeedFollowsThePercentile(t *testing.T) {
	for name, want := range map[string]int{"checkpoint.late.p50": 20, "checkpoint.late.p90": 100, "checkpoint.late.p99": 1000, "checkpoint.late.max": 0, "recoveryPointAge.p99w": 0, "latency.p99": 1000} {
		if m, err := metrics.Lookup(name); err != nil || m.Need != want {
			t.Errorf("%s needs %d, %v", name, m.Need, err)
		}
	}
}

func TestBound(t *testing.T) {
	for _, c := range []struct {
		metric, text, op string
		value            float64
		says             string
	}{
		{metric: "checkpoint.late.p90", text: "< 1s", op: "<", value: 1000},
		{metric: "checkpoint.late.p90", text: "<=250ms", op: "<=", value: 250},
		{metric: "checkpoint.size.full.p50", text: " <= 25MiB ", op: "<=", value: 25 << 20},
		{metric: "throughput", text: ">= 39_200/s", op: ">=", value: 39200},
		{metric: "checkpoints.aborted", text: "== 0", op: "==", value: 0},
		{metric: "lag.slope", text: "<= -0.5", op: "<=", value: -0.5},
		{metric: "cpuPerRecord", text: "< 8µs", op: "<", value: 8},
		{metric: "cost.perHour", text: "< $0.25", op: "<", value: 0.25},
		{metric: "cost.perHour", text: "< 0.25", op: "<", value: 0.25},
		{metric: "busy.mean", text: "> 5%", op: ">", value: 0.05},
		{metric: "checkpoint.late.p90", text: "1s", says: "does not begin with one of"},
		{metric: "checkpoint.late.p90", text: "< 600", says: "no unit"},
		{metric: "throughput", text: ">= 40k", says: "40_000/s"},
		{metric: "checkpoints.aborted", text: "<= few", says: "plain number"},
		{metric: "checkpoints.aborted", text: "<= NaN", says: "plain number"},
		{metric: "storedBytes.max", text: "< 1G", says: "ambiguous"},
	} {
		m, err := metrics.Lookup(c.metric)
		if err != nil {
			t.Fatal(err)
		}
		op, value, err := m.Bound(c.text)
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s %q: %v", c.metric, c.text, err)
			}
			continue
		}
		if err != nil || op != c.op || value != c.value {
			t.Errorf("%s %q: %s %v, %v", c.metric, c.text, op, value, err)
		}
	}
}

func TestHolds(t *testing.T) {
	for op, want := range map[string][3]bool{"<": {true, false, false}, "<=": {true, true, false}, ">": {false, false, true}, ">=": {false, true, true}, "==": {false, true, false}, "!=": {}} {
		for i, v := range []float64{1, 2, 3} {
			if metrics.Holds(v, op, 2) != want[i] {
				t.Errorf("%v %s 2 is %v", v, op, !want[i])
			}
		}
	}
}

func TestCapacity(t *testing.T) {
	p := &plan.Plan{Job: plan.Job{Checkpoint: plan.Checkpoint{Interval: plan.Duration(time.Second)}}, Workload: plan.Workload{Rate: 40_000},
		Phases:   []plan.Phase{{Name: "steady", Records: 5_200_000}, {Name: "timed", For: plan.Duration(30 * time.Second)}, {Name: "heal", Until: plan.UntilRecovered}},
		Rescales: []plan.Rescale{{Phase: "timed"}}}
	for _, c := range []struct {
		metric, phase string
		want          int64
		known         bool
	}{
		{"checkpoint.late.p99", "steady", 130, true}, {"checkpoint.late.p99", "timed", 30, true}, {"checkpoint.late.p99", "heal", 0, false},
		{"latency.p99", "steady", 5_200_000, true}, {"latency.p99", "timed", 1_200_000, true}, {"rescale.total", "timed", 1, true},
		{"recovery.total", "timed", 0, false}, {"lag.max", "timed", 30, true}, {"lag.max", "nowhere", 0, false},
	} {
		m, err := metrics.Lookup(c.metric)
		if err != nil {
			t.Fatal(err)
		}
		if n, known := m.Capacity(p, c.phase); n != c.want || known != c.known {
			t.Errorf("%s in %s: %d, %v", c.metric, c.phase, n, known)
		}
	}
	p.Workload.Rate = 0
	if m, _ := metrics.Lookup("checkpoint.late.p99"); m.Name != "" {
		if _, known := m.Capacity(p, "steady"); known {
			t.Error("a phase of a source without a rate has a known length")
		}
	}
}

// made is a run with one phase of ten seconds; its figures are invented.
func made() *metrics.Data {
	d := &metrics.Data{
		Plan:   &plan.Plan{World: "real"},
		Phases: []metrics.Phase{{Name: "warm", From: 0, To: 10, Records: 10, Ended: true}, {Name: "p", From: 10, To: 20, Records: 1000, Materializations: 3, Ended: true}, {Name: "cut", From: 20, To: 25}},
	}
	for i := range 30 {
		d.Checkpoints = append(d.Checkpoints, results.CheckpointRow{ID: fmt.Sprint(i + 1), Status: "completed", Phase: "p", Trigger: results.Some(10 + float64(i)/3),
			Late: results.Some(2), Duration: results.Some(10 * (i + 1)), Checkpointed: results.Some(100), Full: results.Some(1000 * (i + 1))})
	}
	d.Checkpoints = append(d.Checkpoints, results.CheckpointRow{Status: "aborted", Phase: "p"}, results.CheckpointRow{Status: "skipped", Phase: "p"}, results.CheckpointRow{Status: "completed", Phase: "warm", Duration: results.Some(1e6)})
	d.Recoveries = []results.RecoveryRow{
		{Cause: "worker-crash", Phase: "p", Recovery: results.Some(3000), RestoreBase: results.Some(200), Replay: results.Some(100)},
		{Cause: "worker-crash", Phase: "p", Recovery: results.Some(5000), RestoreBase: results.Some(250)},
		{Cause: "rescale", Phase: "p", Recovery: results.Some(9000)},
		{Cause: "start", Phase: "p", Recovery: results.Some(7000), RestoreBase: results.Some(10)},
	}
	for i := range 25 {
		phase := []string{"warm", "p", "cut"}[i/10]
		d.Series = append(d.Series, results.SeriesRow{At: float64(i), Phase: phase, Emitted: int64(i * 100), Lag: float64(i%10) * 2, Live: 500, CPU: results.Some(float64(i) * 0.001), Heap: results.Some(1 << 20)})
	}
	for us, n := range map[float64]int64{1000: 900, 5000: 95, 90_000: 5} { // order-free: sorted below
		d.Latencies = append(d.Latencies, results.LatencyRow{Phase: "p", UpTo: us, Count: n})
	}
	slices.SortFunc(d.Latencies, func(a, b results.LatencyRow) int { return int(a.UpTo - b.UpTo) })
	trace := metrics.NewTrafficReader(d.Phases)
	at := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	for _, q := range []history.Request{
		{Start: at(5), Op: history.OpPut, Key: "a", Bytes: 400, Applied: history.AppliedYes},
		{Start: at(11), Op: history.OpPut, Key: "b", Bytes: 600, Applied: history.AppliedYes},
		{Start: at(12), Op: history.OpPut, Key: "c", Bytes: 50, Applied: history.AppliedNo},
		{Start: at(13), Op: history.OpGet, Key: "b", Bytes: 600, Applied: history.AppliedYes, Cause: "restore"},
		{Start: at(14), Op: history.OpDelete, Key: "a", Applied: history.AppliedYes},
		{Start: at(24), Op: history.OpPut, Key: "b", Bytes: 100, Applied: history.AppliedUnknown},
	} {
		trace.See(&q)
	}
	d.Traffic = trace.Traffic()
	return d
}

func TestFigures(t *testing.T) {
	d := made()
	for name, want := range map[string]float64{
		"checkpoint.duration.p50": 150, "checkpoint.duration.max": 300, "checkpoint.duration.mean": 155, "checkpoint.late.p50": 152,
		"checkpoint.size.full.max": 30_000, "checkpoint.checkpointed.p50": 100,
		"checkpoints.completed": 30, "checkpoints.aborted": 1, "checkpoints.skipped": 1, "materializations": 3,
		"recoveries": 2, "recovery.total": 5000, "recovery.restore": 300, "rescales": 1, "rescale.total": 9000, "starts": 1, "start.total": 7000, "start.restore": 10,
		"throughput": 100, "records": 1000, "lag.max": 18, "lag.end": 18, "lag.slope": 2,
		"latency.p50": 1, "latency.p95": 5, "latency.p99": 5, "latency.max": 90,
		"requestsPerCheckpoint": 0.1, "bytesPerCheckpoint": 650.0 / 30, "store.bytesPerRecord": 0.65, "storedBytes.max": 1000, "storedBytes.end": 600, "amplification": 1.2,
		"cpuPerRecord": 10, "heap.max": 1 << 20,
	} {
		m, err := metrics.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if f := m.Figure(d, "p"); !f.OK() || math.Abs(f.Value-want) > 1e-9*max(1, want) {
			t.Errorf("%s is %+v, want %v", name, f, want)
		}
	}
}

// A phase begins with what the one before left, even if the first thing that it does is to remove it.
func TestAPhaseBeginsWithWhatIsStored(t *testing.T) {
	trace := metrics.NewTrafficReader([]metrics.Phase{{Name: "p", To: 10}, {Name: "q", From: 10, To: 20}})
	trace.See(&history.Request{Start: time.Second, Op: history.OpPut, Key: "a", Bytes: 400, Applied: history.AppliedYes})
	trace.See(&history.Request{Start: 12 * time.Second, Op: history.OpDelete, Key: "a", Applied: history.AppliedYes})
	if q := trace.Traffic()["q"]; q.StoredMax != 400 || q.StoredEnd != 0 {
		t.Errorf("%+v", q)
	}
}

func TestWhatCannotBeTrustedIsAReason(t *testing.T) {
	d := made()
	for name, want := range map[string]string{"checkpoint.duration.p90": "30 of 100", "rescale.restore": "1 of 1 did not restore", "checkpoint.align.p50": "no samples", "storeCpuPerRecord": "not measured"} {
		m, _ := metrics.Lookup(name)
		if f := m.Figure(d, "p"); f.OK() || !strings.Contains(f.Warning, want) {
			t.Errorf("%s is %+v, want %q", name, f, want)
		}
	}
	for _, m := range metrics.All() { // none of them may fail on a run that left nothing
		if f := m.Figure(&metrics.Data{}, "p"); f.OK() && f.Value != 0 {
			t.Errorf("%s of nothing is %+v", m.Name, f)
		}
		if f := m.Figure(d, "cut"); f.OK() && m.Samples == metrics.Whole {
			t.Errorf("%s of a phase that was cut is %+v", m.Name, f)
		}
	}
}

func TestAgeGrowsUntilACheckpointCompletes(t *testing.T) {
	d := &metrics.Data{Phases: []metrics.Phase{{Name: "p", From: 2, To: 10, Ended: true}}, Checkpoints: []results.CheckpointRow{
		{Status: "completed", Trigger: results.Some(4), Duration: results.Some(1000)}, {Status: "completed", Trigger: results.Some(3), Duration: results.Some(4000)},
	}}
	m, _ := metrics.Lookup("recoveryPointAge.max")
	// Until 5 s it is the age of the run; the checkpoint triggered at 3 s that completes at 7 s is older than what is there.
	if f := m.Figure(d, "p"); f.Value != 6000 {
		t.Errorf("%+v", f)
	}
}

func TestJudge(t *testing.T) {
	d := made()
	d.Plan.Expect = []plan.Expectation{
		{Phase: "p", Metric: "checkpoint.duration.p50", Op: "<", Value: 200, Text: "< 200ms"},
		{Phase: "p", Metric: "checkpoint.duration.p50", Op: "<", Value: 100, Text: "< 100ms"},
		{Phase: "p", Metric: "checkpoint.duration.p90", Op: "<", Value: 1e9, Text: "< 11d", Unset: true},
		{Phase: "p", Metric: "checkpoint.align.p50", Op: "<", Value: 1, Text: "< 1ms"},
		{Phase: "p", Metric: "checkpoint.align.p50", Op: "<", Value: 1, Text: "< 1ms", Unset: true},
		{Phase: "p", Metric: "rescale.restore", Op: "<", Value: 1e9, Text: "< 11d", Unset: true},
		{Phase: "p", Metric: "storeCpuPerRecord", Op: "<", Value: 1, Text: "< 1µs", Unset: true},
		{Phase: "cut", Metric: "throughput", Op: ">", Value: 0, Text: "> 0/s"},
		{Phase: "p", Metric: "elegance", Op: ">", Value: 0},
	}
	var got []string
	for _, x := range metrics.Judge(d) {
		got = append(got, x.Outcome)
	}
	want := []string{results.Met, results.Missed, results.Missed, results.Missed, results.Met, results.Missed, results.Missed, results.Unknown, results.Unknown}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	d.Plan.World = "sim"
	d.Plan.Expect = []plan.Expectation{{Phase: "p", Metric: "cpuPerRecord", Op: "<", Value: 1e9}, {Phase: "p", Metric: "throughput", Op: ">", Value: 1}, {Phase: "p", Metric: "checkpoints.aborted", Op: "==", Value: 1}}
	all := metrics.Judge(d)
	if all[0].Outcome != results.Unknown || !all[1].Simulated || all[1].Outcome != results.Met || all[2].Simulated || all[2].Outcome != results.Met {
		t.Errorf("%+v", all)
	}
}
