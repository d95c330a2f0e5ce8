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
	"statebench.dev/bench/internal/explore"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"
)

// Bounds on the plans that are tried to find a planted bug: seeds of the plan made for it, and random plans.
const (
	maxSeeds = 12
	maxPlans = 20
)

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
		{"log-behind-cut", []string{"S5"}, func(p *plan.Plan) {
			p.Backend.Name = "lsm"
			p.Faults = []plan.Fault{{ID: "fault-1", Kind: "task-error", Phase: "chaos", Where: "subtask/any", At: after(4)}}
		}},
		{"drop-broadcast", []string{"S1", "S2"}, joins},
		{"first-watermark", []string{"S2"}, joins},
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

// joins makes a plan one over a join with a rule that changes often.
func joins(p *plan.Plan) {
	p.Workload.Name = "enrich"
	p.Workload.Options = json.RawMessage(`{"partitions":4,"keys":{"count":200},"rules":{"count":2,"share":"40%"},"disorder":"20ms"}`)
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

// find is how a planted bug was found: by which checks, and with the how manieth plan.
type find struct {
	checks map[string]bool
	seeds  int
	random int // among random plans; 0: not tried
}

// TestMutantsAreKilled plants each bug in runs that pass without it, and prints which checks find it: in the plan made for
// it, where the named ones must, and in random plans, where any may.
func TestMutantsAreKilled(t *testing.T) {
	if !failpoint.MutantsBuilt {
		t.Fatal("planted bugs are not compiled in")
	}
	found := map[string]*find{}
	for _, m := range mutants() {
		f := &find{checks: map[string]bool{}}
		found[m.name] = f
		t.Run(m.name, func(t *testing.T) {
			f.seeds = m.kill(t, f)
			if !testing.Short() {
				f.random = m.meet(t)
			}
		})
	}
	t.Log("\n" + table(found))
}

// kill returns the first seed with which all checks that must fail do.
func (m *mutant) kill(t *testing.T, f *find) int {
	for n := 1; n <= maxSeeds; n++ {
		p := small(uint64(n))
		m.disturb(&p)
		p = resolved(t, p)
		if problem := describe(judged(t, p)); problem != "" {
			t.Fatalf("seed %d, without the bug: %s", n, problem)
		}
		_, verdicts := judged(t, p, m.name)
		bad := failed(verdicts)
		for _, id := range bad {
			f.checks[id] = true
		}
		if !slices.ContainsFunc(m.must, func(id string) bool { return !slices.Contains(bad, id) }) {
			return n
		}
	}
	t.Errorf("%d seeds, and %v did not all fail at once; there failed %v", maxSeeds, m.must, keys(f.checks))
	return 0
}

// meet returns how many random plans it takes until one of the checks fails that must.
func (m *mutant) meet(t *testing.T) int {
	for n := range maxPlans {
		p := resolved(t, explore.Generate(2*n+1)) // an odd one has the changelog on
		if _, verdicts := judged(t, p, m.name); slices.ContainsFunc(failed(verdicts), func(id string) bool { return slices.Contains(m.must, id) }) {
			return n + 1
		}
	}
	t.Errorf("%d random plans, and none of %v failed", maxPlans, m.must)
	return 0
}

// judged carries a plan out with planted bugs, judges it and removes what it left.
func judged(t *testing.T, p plan.Plan, bugs ...string) (run.Outcome, []results.Verdict) {
	out, verdicts, rd := execute(t, p, run.Options{Mutants: bugs})
	discard(t, p, rd, false)
	return out, verdicts
}

func keys(set map[string]bool) (ids []string) {
	for _, c := range catalog.Checks() {
		if set[c.ID] {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// table shows which checks found which planted bug: X where that is demanded, x where it happened besides.
func table(found map[string]*find) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "planted bug")
	for _, c := range catalog.Checks() {
		fmt.Fprint(w, "\t", c.ID)
	}
	fmt.Fprint(w, "\tseeds\trandom plans\n")
	for _, m := range mutants() {
		f := found[m.name]
		fmt.Fprint(w, m.name)
		for _, c := range catalog.Checks() {
			mark := "."
			switch {
			case f.checks[c.ID] && slices.Contains(m.must, c.ID):
				mark = "X"
			case f.checks[c.ID]:
				mark = "x"
			}
			fmt.Fprint(w, "\t", mark)
		}
		fmt.Fprintf(w, "\t%d\t%d\n", f.seeds, f.random)
	}
	_ = w.Flush()
	return b.String()
}
