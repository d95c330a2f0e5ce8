package explore_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"
)

// damaged is a plan with two crashes of a worker and a rescale, all of whose restores meet damaged answers.
func damaged(changelog bool, seed uint64, kind string, with map[string]any) plan.Plan {
	const rate = 300
	p := simulated(changelog, rate, rate*8)
	p.Scenario, p.Seed = "damaged", seed
	p.Workers = plan.Workers{Count: 3, Slots: 2, Cores: 2, HeartbeatEvery: plan.Duration(time.Second / 2), HeartbeatTimeout: plan.Duration(2 * time.Second)}
	p.Job.Parallelism, p.Job.MaxParallelism, p.Job.RestartDelay = 3, 16, 0
	p.Job.Checkpoint.Interval = plan.Duration(400 * time.Millisecond)
	p.Backend.Changelog.Materialize = plan.Duration(1500 * time.Millisecond)
	p.Workload.Options = json.RawMessage(`{"partitions":4,"keys":{"count":150}}`)
	options, err := json.Marshal(with)
	if err != nil {
		panic(err) // literals
	}
	at := func(s float64) plan.Trigger {
		d := plan.Duration(s * float64(time.Second))
		return plan.Trigger{Time: &d}
	}
	p.Faults = []plan.Fault{
		{ID: "damage", Kind: kind, Phase: "load", Where: "store", With: options, At: plan.Trigger{Event: "attempt-failed", Count: 1, Since: "phase"}},
		{ID: "kill-1", Kind: "worker-crash", Phase: "load", Where: "worker/any", With: json.RawMessage(`{"disk":"lose"}`), At: at(2.3), For: plan.Duration(time.Second)},
		{ID: "kill-2", Kind: "worker-crash", Phase: "load", Where: "worker/any", At: at(6), For: plan.Duration(time.Second)},
	}
	p.Rescales = []plan.Rescale{{ID: "rescale-1", Phase: "load", At: at(4.5), To: 2 + int(seed%4), From: "latest"}}
	return p
}

// TestDamagedAnswersNeverReachTheState: flipped bytes and cut bodies in what restores read, of metadata, bases and log, in
// one read after the other and in a share of them, leave state, output and store as they must be.
func TestDamagedAnswersNeverReachTheState(t *testing.T) {
	type trial struct {
		changelog bool
		kind      string
		with      map[string]any
	}
	var trials []trial
	for _, changelog := range []bool{false, true} {
		prefixes := []string{"meta/", "base/"}
		if changelog {
			prefixes = append(prefixes, "log/")
		}
		for _, kind := range []string{"flipped-byte", "cut-body"} {
			for _, prefix := range prefixes {
				for request := 1; request <= 3; request++ {
					if prefix != "meta/" || request < 3 { // of it a restore reads one object
						trials = append(trials, trial{changelog, kind, map[string]any{"op": "get", "prefix": prefix, "request": request}})
					}
				}
				if prefix != "meta/" {
					trials = append(trials, trial{changelog, kind, map[string]any{"op": "get", "prefix": prefix, "share": "40%"}})
				}
			}
			trials = append(trials, trial{changelog, kind, map[string]any{"op": "get", "share": "20%"}})
		}
	}
	if testing.Short() {
		trials = trials[:8]
	}
	next := make(chan int)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := range next {
				x := trials[i]
				p := resolved(t, damaged(x.changelog, uint64(i+1), x.kind, x.with))
				out, verdicts, rd := execute(t, p, run.Options{})
				problem := describe(out, verdicts)
				if problem != "" {
					t.Errorf("%s %s: %s", p.Arm, fmt.Sprint(x.kind, x.with), problem)
				}
				if rows, err := results.ReadCSV[results.RecoveryRow](rd.Path(results.RecoveriesFile)); err != nil || len(rows) < 2 {
					t.Errorf("%d recoveries, %v", len(rows), err)
				}
				discard(t, p, rd, problem != "")
			}
		})
	}
	for i := range trials {
		next <- i
	}
	close(next)
	wg.Wait()
}
