package explore_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"
)

// simulated is a plan for the simulated world without faults: parallelism 4, a checkpoint a second, every check on.
func simulated(changelog bool, rate float64, records int64) plan.Plan {
	arm := "changelog-off"
	if changelog {
		arm = "changelog-on"
	}
	second := plan.Duration(time.Second)
	return plan.Plan{
		Schema: plan.Version, Scenario: "speed", Arm: arm, Rep: 1, Baseline: !changelog, Seed: 1, World: "sim",
		Store:   plan.Store{Kind: "mem", Profile: "local"},
		Workers: plan.Workers{Count: 2, Slots: 2, Cores: 2, HeartbeatEvery: second, HeartbeatTimeout: 5 * second},
		Job: plan.Job{Parallelism: 4, MaxParallelism: 128, RestartDelay: second, BufferRecords: 256, Credits: 4, FlushEvery: second / 50,
			Checkpoint: plan.Checkpoint{Interval: second, Timeout: 20 * second, Retain: 2, MaxConcurrent: 1}},
		Backend: plan.Backend{Name: "heap", Changelog: plan.Changelog{Enabled: changelog, Materialize: 10 * second,
			Preemptive: 1 << 20, BatchDelay: second / 200, BatchSize: 1 << 20, InFlight: 64 << 20}},
		Workload: plan.Workload{Name: "counter", Rate: rate, Options: json.RawMessage(
			`{"partitions":4,"keys":{"count":1000,"pick":"uniform"},"values":{"size":"100B"},"second":"none"}`)},
		Verify: plan.Verify{RestoreDigests: true, RecordIDs: true},
		Phases: []plan.Phase{
			{Name: "load", Records: records},
			{Name: "heal", Until: plan.UntilRecovered, Within: 60 * second},
			{Name: "drain", Until: plan.UntilDrained, Within: 60 * second},
			{Name: "verify", Until: plan.UntilVerified, Within: 60 * second},
		},
	}
}

// cpu is the processor time that this process has used.
func cpu(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSimulatedRun executes and judges whole runs: virtual seconds and source records per second of processor time,
// garbage collection, files and judging included.
func BenchmarkSimulatedRun(b *testing.B) {
	for _, c := range []struct {
		name    string
		rate    float64
		records int64
	}{
		{"rate=2000", 2000, 2000 * 120},
		{"unthrottled", 0, 3_000_000},
	} {
		for _, changelog := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/changelog=%t", c.name, changelog), func(b *testing.B) {
				measure(b, resolved(b, simulated(changelog, c.rate, c.records)))
			})
		}
	}
}

// byDefault collects garbage as a program of its own does.
func byDefault(b *testing.B) {
	was := debug.SetGCPercent(100)
	b.Cleanup(func() { debug.SetGCPercent(was) })
}

func measure(b *testing.B, p plan.Plan) {
	byDefault(b)
	var virtual float64
	var records int64
	began := cpu(b)
	for b.Loop() {
		folder := b.TempDir()
		rd, err := results.Dir(folder).CreateRun("run-1")
		if err != nil {
			b.Fatal(err)
		}
		out, err := run.Run(deps(), p, rd, run.Options{})
		if err != nil {
			b.Fatal(err)
		}
		verdicts, err := run.Judge(deps(), results.Dir(folder), "run-1", catalog.Checks())
		if err != nil {
			b.Fatal(err)
		}
		if problem := describe(out, verdicts); problem != "" {
			b.Fatal(problem)
		}
		records += out.Records
		rows, err := results.ReadCSV[results.SeriesRow](rd.Path(results.SeriesFile))
		if err != nil || len(rows) == 0 {
			b.Fatal(err, len(rows))
		}
		virtual += rows[len(rows)-1].At
		if err := os.RemoveAll(filepath.Dir(filepath.Dir(string(rd)))); err != nil {
			b.Fatal(err)
		}
	}
	used := (cpu(b) - began).Seconds()
	b.ReportMetric(virtual/used, "x-realtime")
	b.ReportMetric(float64(records)/used, "records/cpu-s")
	b.ReportMetric(used/float64(b.N)*1e3, "cpu-ms/op")
}
