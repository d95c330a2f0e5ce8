//go:build mutants

package explore_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"
)

// maxSeeds bounds the seeds that are tried to kill a mutant.
const maxSeeds = 12

// mutant is a planted bug, the plan under which it matters, and the checks that must fail then.
type mutant struct {
	name    string
	must    []string
	disturb func(p *plan.Plan)
}

// mutants are all planted bugs. Names are those the code asks for (failpoint.Set.Mutant).
func mutants() []mutant {
	return []mutant{
		{"ack-before-durable", []string{"F1"}, func(p *plan.Plan) {
			// the acknowledgement overtakes a slow upload
			p.Faults = []plan.Fault{storeFault("store-latency", "chaos", 1, 6, "op", "put", "prefix", "log/", "delay", "700ms")}
		}},
		{"drop-key-group", []string{"S5", "S1"}, func(p *plan.Plan) {
			p.Job.Parallelism = 1
			p.Rescales = []plan.Rescale{{ID: "rescale-1", Phase: "chaos", At: after(3), To: 4, From: "latest"}}
		}},
		{"truncate-early", []string{"F1", "F5"}, func(p *plan.Plan) {
			p.Job.Checkpoint.Retain = 3
		}},
		{"delete-on-subsume", []string{"F5", "C3"}, func(p *plan.Plan) {
			// the last materialization lies before the last checkpoints: they share the base and the older log
			p.Backend.Changelog.Materialize = seconds(600)
		}},
		{"replay-twice", []string{"O2", "S2"}, func(p *plan.Plan) {
			p.Faults = []plan.Fault{{ID: "fault-1", Kind: "task-error", Phase: "chaos", Where: "subtask/any", At: after(4)}}
		}},
		{"accept-zombie", []string{"C4", "F2"}, func(p *plan.Plan) {
			p.Faults = []plan.Fault{
				// a crash hits uploads under way
				storeFault("store-latency", "chaos", 1, 8, "op", "put", "prefix", "log/", "delay", "600ms", "jitter", "400ms"),
				{ID: "fault-2", Kind: "worker-crash", Phase: "chaos", Where: "worker/any", With: object("disk", "keep"), At: after(3.4), For: seconds(2)},
			}
		}},
	}
}

func seconds(n float64) plan.Duration { return plan.Duration(n * float64(time.Second)) }

func after(n float64) plan.Trigger {
	d := seconds(n)
	return plan.Trigger{Time: &d}
}

func object(kv ...string) json.RawMessage {
	var words []string
	for i := 0; i < len(kv); i += 2 {
		words = append(words, fmt.Sprintf("%q:%q", kv[i], kv[i+1]))
	}
	return json.RawMessage("{" + strings.Join(words, ",") + "}")
}

func storeFault(kind, phase string, at, long float64, with ...string) plan.Fault {
	return plan.Fault{ID: "fault-1", Kind: kind, Phase: phase, Where: "store", With: object(with...), At: after(at), For: seconds(long)}
}

// small is a plan of some seconds with the changelog on and nothing that disturbs it.
func small(seed uint64) plan.Plan {
	const rate, warm, chaos = 300, 3, 12
	return plan.Plan{
		Schema: plan.Version, Scenario: "mutants", Arm: "changelog-on", Rep: 1, Seed: seed, World: "sim",
		Store:   plan.Store{Kind: "mem", Profile: "local"},
		Workers: plan.Workers{Count: 3, Slots: 2, Cores: 2, HeartbeatEvery: seconds(0.5), HeartbeatTimeout: seconds(2)},
		Job: plan.Job{Parallelism: 3, MaxParallelism: 16, RestartDelay: seconds(0.2), BufferRecords: 32, Credits: 3, FlushEvery: seconds(0.02),
			Checkpoint: plan.Checkpoint{Interval: seconds(0.8), Timeout: seconds(10), Retain: 2, MaxConcurrent: 1}},
		Backend: plan.Backend{Name: "heap", Changelog: plan.Changelog{Enabled: true, Materialize: seconds(4),
			Preemptive: 1 << 20, BatchDelay: seconds(0.005), BatchSize: 1 << 20, InFlight: 16 << 20}},
		Workload: plan.Workload{Name: "counter", Rate: rate, Options: json.RawMessage(`{"partitions":4,"keys":{"count":200}}`)},
		Phases: []plan.Phase{
			{Name: "warm", Records: rate * warm}, {Name: "chaos", Records: rate * chaos},
			{Name: "heal", Until: plan.UntilRecovered, Within: seconds(60)},
			{Name: "drain", Until: plan.UntilDrained, Within: seconds(60), GCGrace: seconds(2)},
			{Name: "verify", Until: plan.UntilVerified, Within: seconds(60)},
		},
		Verify: plan.Verify{RestoreDigests: true, RecordIDs: true},
	}
}

// failed lists the checks that fail.
func failed(verdicts []results.Verdict) (ids []string) {
	for _, v := range verdicts {
		if v.Verdict == results.Fail {
			ids = append(ids, v.Check)
		}
	}
	return ids
}

// TestMutantsAreKilled plants each bug in a run that passes without it, and prints which checks find it.
func TestMutantsAreKilled(t *testing.T) {
	if !failpoint.MutantsBuilt {
		t.Fatal("planted bugs are not compiled in")
	}
	seeds := map[string]int{}
	killed := map[string]map[string]bool{}
	for _, m := range mutants() {
		killed[m.name] = map[string]bool{}
		t.Run(m.name, func(t *testing.T) {
			for n := 1; n <= maxSeeds; n++ {
				p := small(uint64(n))
				m.disturb(&p)
				p = resolved(t, p)
				out, verdicts, rd := execute(t, p, run.Options{})
				if problem := describe(out, verdicts); problem != "" {
					t.Fatalf("seed %d, without the bug: %s", n, problem)
				}
				discard(t, p, rd, false)
				out, verdicts, rd = execute(t, p, run.Options{Mutants: []string{m.name}})
				bad := failed(verdicts)
				for _, id := range bad {
					killed[m.name][id] = true
				}
				if testing.Verbose() {
					t.Logf("seed %d: %s", n, describe(out, verdicts))
				}
				discard(t, p, rd, false)
				if !slices.ContainsFunc(m.must, func(id string) bool { return !slices.Contains(bad, id) }) {
					seeds[m.name] = n
					return
				}
			}
			t.Errorf("%d seeds, and %v did not all fail at once; there failed %v", maxSeeds, m.must, keys(killed[m.name]))
		})
	}
	t.Log("\n" + table(killed, seeds))
}

func keys(set map[string]bool) (ids []string) {
	for _, c := range catalog.Checks() {
		if set[c.ID] {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// table shows which checks found which planted bug: X where that is demanded, x where it happened.
func table(killed map[string]map[string]bool, seeds map[string]int) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "mutant")
	for _, c := range catalog.Checks() {
		fmt.Fprint(w, "\t", c.ID)
	}
	fmt.Fprint(w, "\tseeds\n")
	for _, m := range mutants() {
		fmt.Fprint(w, m.name)
		for _, c := range catalog.Checks() {
			switch {
			case killed[m.name][c.ID] && slices.Contains(m.must, c.ID):
				fmt.Fprint(w, "\tX")
			case killed[m.name][c.ID]:
				fmt.Fprint(w, "\tx")
			default:
				fmt.Fprint(w, "\t.")
			}
		}
		fmt.Fprint(w, "\t", seeds[m.name], "\n")
	}
	_ = w.Flush()
	return b.String()
}
