package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/embedded"
	"statebench.dev/bench/backend/store/provision"
	"statebench.dev/bench/backend/store/provision/minio"
	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"
	"statebench.dev/bench/internal/world"
)

// child marks the process that serves the embedded store: the test binary runs again as it.
const child = "RUN_TEST_CHILD"

func TestMain(m *testing.M) {
	if of := os.Getenv(child); of != "" {
		serve := func() error { return embedded.ServeChild(os.Args[1:]...) }
		if of == "guard" {
			serve = minio.Guard
		}
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func deps() run.Deps {
	return run.Deps{
		Workloads: catalog.Workloads(), Faults: catalog.Faults(), Backends: catalog.Backends(), Storages: catalog.LogStorages(),
		Provision: func(ctx context.Context, w world.World, spec string) (store.Bucket, provision.Description, error) {
			return provision.Open(ctx, w, spec, provision.Options{Embedded: embedded.Options{Args: []string{}, Env: []string{child + "=1"}}})
		},
	}
}

func seconds(n float64) plan.Duration { return plan.Duration(n * float64(time.Second)) }

// short is a plan of about two seconds with the changelog on. Puts of the log are slow, and a worker dies while some are under
// way: the checkpoint after half a second was triggered, and its uploads take 150 ms.
func short(t *testing.T, where, kind string) plan.Plan {
	t.Helper()
	const rate = 2000
	soon := seconds(0.17)
	p := plan.Plan{
		Schema: plan.Version, Scenario: "crash", Arm: "changelog-on", Rep: 1, Seed: 3, World: where,
		Store:   plan.Store{Kind: kind, Profile: "local"},
		Workers: plan.Workers{Count: 3, Slots: 2, Cores: 2, HeartbeatEvery: seconds(0.1), HeartbeatTimeout: seconds(2)},
		Job: plan.Job{Parallelism: 3, MaxParallelism: 16, RestartDelay: seconds(0.05), BufferRecords: 64, Credits: 3, FlushEvery: seconds(0.01),
			Checkpoint: plan.Checkpoint{Interval: seconds(0.2), Timeout: seconds(10), Retain: 2, MaxConcurrent: 1}},
		Backend: plan.Backend{Name: "heap", Changelog: plan.Changelog{Enabled: true, Materialize: seconds(0.7),
			Preemptive: 1 << 20, BatchDelay: seconds(0.002), BatchSize: 1 << 20, InFlight: 16 << 20}},
		Workload: plan.Workload{Name: "counter", Rate: rate, Options: json.RawMessage(`{"partitions":3,"keys":{"count":300}}`)},
		Phases: []plan.Phase{
			{Name: "warm", Records: rate / 2}, {Name: "chaos", Records: rate},
			{Name: "heal", Until: plan.UntilRecovered, Within: seconds(20)},
			{Name: "drain", Until: plan.UntilDrained, Within: seconds(20), GCGrace: seconds(0.1)},
			{Name: "verify", Until: plan.UntilVerified, Within: seconds(20)},
		},
		Faults: []plan.Fault{
			{ID: "slow", Kind: "store-latency", Phase: "warm", Where: "store", With: json.RawMessage(`{"op":"put","prefix":"log/","delay":"150ms"}`),
				At: plan.Trigger{Phase: "start"}, For: seconds(1.5)},
			{ID: "crash", Kind: "worker-crash", Phase: "chaos", Where: "worker/1", At: plan.Trigger{Time: &soon}, For: seconds(0.3)},
		},
		Verify: plan.Verify{RestoreDigests: true, RecordIDs: true},
	}
	found, err := catalog.Workloads().Find(p.Workload.Name)
	if err == nil {
		p.Workload.Options, err = found.New.Resolve(p.Workload.Options)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// carryOut runs a plan, which must pass, and returns where its evidence lies.
func carryOut(t *testing.T, p plan.Plan) results.RunDir {
	t.Helper()
	dir := results.Dir(t.TempDir())
	rd, err := dir.CreateRun(run.Name(&p))
	if err != nil {
		t.Fatal(err)
	}
	out, err := run.Run(deps(), p, rd, run.Options{})
	if err = errors.Join(err, out.Err); err != nil {
		t.Fatal(err)
	}
	verdicts, err := run.Judge(deps(), dir, rd.Name(), catalog.Checks())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range verdicts {
		if v.Verdict != results.Pass {
			t.Errorf("seed %d: %s %s: %s", p.Seed, v.Check, v.Verdict, v.Summary)
		}
	}
	return rd
}

func lines[T any](t *testing.T, rd results.RunDir, name string) (all []T) {
	t.Helper()
	for v, err := range results.ReadLines[T](rd.Path(name)) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// aftermath counts what a crash met, and complains of what took effect afterwards.
type aftermath struct {
	pending int // puts that the dead worker had under way
	late    int // acknowledgements that it had sent and nobody had taken
	acks    int // acknowledgements that were refused
}

func (a *aftermath) look(t *testing.T, rd results.RunDir) {
	t.Helper()
	dead, failed := map[string]history.Event{}, map[uint64]bool{}
	attempt := uint64(0)
	for _, e := range lines[history.Event](t, rd, results.HistoryFile) {
		switch e.Kind {
		case history.AttemptStarted:
			attempt = e.Attempt
		case history.AttemptFailed:
			failed[e.Attempt] = true
		case history.WorkerDown:
			e.Attempt = attempt
			dead[e.Actor] = e
		case history.MessageDropped:
			if e.Reason == "gone" && strings.Contains(e.Text, "Acknowledge") {
				a.late++
			}
		case history.CheckpointAckTaken:
			switch {
			case e.Reason != "":
				a.acks++
			case failed[e.Attempt]:
				t.Errorf("event %d: an acknowledgement of the failed attempt %d was taken", e.N, e.Attempt)
			}
		}
	}
	if len(dead) == 0 {
		t.Fatal("no worker died")
	}
	listed := map[string]bool{}
	for _, l := range lines[results.Listed](t, rd, results.ListingFile) {
		listed[l.Key] = true
	}
	for _, q := range lines[history.Request](t, rd, results.ObjectsFile) {
		d, ok := dead[q.Who]
		if !ok || q.Op != history.OpPut || q.Attempt > d.Attempt || !q.Open && q.Start+q.Duration <= d.At {
			continue // before, or of another life
		}
		a.pending++
		if !q.Open || q.Applied == history.AppliedYes || listed[q.Key] {
			t.Errorf("put %d of %s was under way when %s died at %v, and took effect: %+v", q.Seq, q.Key, q.Who, d.At, q)
		}
	}
}

// TestCrashHasNoAfterEffects crashes a worker that has uploads and acknowledgements on their way: none of it takes effect.
func TestCrashHasNoAfterEffects(t *testing.T) {
	var a aftermath
	seeds := 10
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		p := short(t, "sim", "mem")
		p.Seed = uint64(seed) + 1
		if seed%2 == 1 { // where the acknowledgement was just sent
			p.Faults[1].At = plan.Trigger{Event: "checkpoint-ack-end", Count: 3 + seed, Since: "phase"}
		}
		a.look(t, carryOut(t, p))
	}
	t.Logf("simulated: %+v", a)
	if a.pending == 0 || a.late == 0 {
		t.Errorf("nothing was on its way when the workers died: %+v", a)
	}
	var real aftermath
	for range 5 { // on a busy machine the crash may miss the uploads
		if real.look(t, carryOut(t, short(t, "real", "mem"))); real.pending > 0 {
			t.Logf("real: %+v", real)
			return
		}
	}
	t.Error("nothing was on its way when the worker died")
}

// handles counts the open file descriptors of the process.
func handles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("the system does not tell: ", err)
	}
	return len(list)
}

// settled waits until there are no more goroutines and handles than before: some end a moment after what they belong to.
func settled(t *testing.T, goroutines, fds int) {
	t.Helper()
	end := time.Now().Add(5 * time.Second)
	for runtime.NumGoroutine() > goroutines || handles(t) > fds {
		if time.Now().After(end) {
			b := make([]byte, 64<<10)
			t.Errorf("%d goroutines and %d handles are left, there were %d and %d before:\n%s",
				runtime.NumGoroutine(), handles(t), goroutines, fds, b[:runtime.Stack(b, true)])
			return
		}
		runtime.Gosched()
	}
}

// TestRunsLeaveNothingInTheProcess compares goroutines and handles before and after runs with a crash.
func TestRunsLeaveNothingInTheProcess(t *testing.T) {
	kinds := []string{"mem", "dir:" + filepath.Join(t.TempDir(), "objects"), "embedded"}
	carryOut(t, short(t, "sim", "mem")) // what the process makes once and keeps
	goroutines, fds := runtime.NumGoroutine(), handles(t)
	carryOut(t, short(t, "sim", "mem"))
	settled(t, goroutines, fds)
	if testing.Short() {
		kinds = kinds[:1]
	}
	for i, kind := range kinds {
		p := short(t, "real", kind)
		p.Seed = uint64(i + 1)
		carryOut(t, p)
		t.Log(kind)
		settled(t, goroutines, fds)
	}
}
