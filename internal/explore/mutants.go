package explore

import (
	"encoding/json"
	"time"

	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/plan"
)

// Mutant is a planted bug, the plan under which it matters, and the checks that must see it. The bugs themselves stand in the code
// that asks failpoint.Set.Mutant for their names, and only in builds with the tag mutants.
type Mutant struct {
	Name  string
	Area  string // of the code: log, changelog, backend, registry, coordinator, rescale, engine, timers, sink
	About string // what it does wrong
	// Must are the checks that have to fail with one seed, all of them.
	Must    []string
	disturb func(p *plan.Plan)
}

// Plan is the plan made for the bug, with a seed.
func (m *Mutant) Plan(seed uint64) plan.Plan {
	p := small(seed)
	if m.disturb != nil {
		m.disturb(&p)
	}
	return p
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

func after(n float64) plan.Trigger {
	d := seconds(n)
	return plan.Trigger{Time: &d}
}

func stage(point string, count int) plan.Trigger {
	return plan.Trigger{Event: point, Count: count, Since: "phase"}
}

// fails adds an error of some subtask.
func fails(p *plan.Plan, at plan.Trigger) {
	p.Faults = append(p.Faults, plan.Fault{ID: "fail", Kind: "task-error", Phase: "chaos", Where: "subtask/any", At: at})
}

// crashes adds the loss of some worker.
func crashes(p *plan.Plan, at plan.Trigger) {
	p.Faults = append(p.Faults, plan.Fault{ID: "crash", Kind: "worker-crash", Phase: "chaos", Where: "worker/any", With: object("disk", "keep"), At: at, For: seconds(2)})
}

// slows adds slow puts of what lies under a prefix.
func slows(p *plan.Plan, prefix string, from, long float64, delay, jitter time.Duration) {
	p.Faults = append(p.Faults, plan.Fault{ID: "slow", Kind: "store-latency", Phase: "chaos", Where: "store",
		With: object("op", "put", "prefix", prefix, "delay", delay.String(), "jitter", jitter.String()), At: after(from), For: seconds(long)})
}

// rescales adds a change of parallelism.
func rescales(p *plan.Plan, from, to int) {
	p.Job.Parallelism = from
	p.Rescales = []plan.Rescale{{ID: "rescale-1", Phase: "chaos", At: after(3), To: to, From: "latest"}}
}

// joined makes a plan one over a join with a rule that changes often.
func joined(p *plan.Plan) {
	p.Workload.Name = "enrich"
	p.Workload.Options = json.RawMessage(`{"partitions":4,"keys":{"count":200},"rules":{"count":2,"share":"40%"},"disorder":"20ms"}`)
}

// windowed makes a plan one over windows whose contents expire.
func windowed(p *plan.Plan) {
	p.Workload.Name = "window"
	p.Workload.Options = json.RawMessage(`{"partitions":4,"keys":{"count":100},"size":"2s","slide":"1s","keep":"all","ttl":"500ms"}`)
}

// crowded makes the records so many that channels always hold some, and keeps all checkpoints: the last ones lie behind the end of the
// input, where nothing is in flight.
func crowded(p *plan.Plan) {
	p.Workload.Rate = 0
	p.Phases[0].Records, p.Phases[1].Records = 20_000, 60_000
	p.Job.Checkpoint.Interval, p.Job.Checkpoint.Retain = seconds(0.05), 200
}

// Mutants are all planted bugs.
func Mutants() []Mutant {
	return append(stored(), moved()...)
}

// stored are those of what stores state and of who decides what is stored.
func stored() []Mutant {
	const noMaterialization = 600
	return []Mutant{
		{"ack-before-durable", "log", "persist returns once its object is framed", []string{"F1"}, func(p *plan.Plan) {
			slows(p, "log/", 1, 6, 700*time.Millisecond, 0) // the acknowledgement overtakes a slow upload
		}},
		{"truncate-early", "log", "a segment is deleted that a retained checkpoint names", []string{"F1", "F5"}, func(p *plan.Plan) { p.Job.Checkpoint.Retain = 3 }},
		{"lose-part", "log", "of several parts that a checkpoint needs the last one is not named", []string{"S3"}, func(p *plan.Plan) {
			p.Backend.Changelog.Preemptive = 1 << 10
		}},
		{"replay-backwards", "log", "the parts of a log are replayed from the last one on", []string{"S3"}, func(p *plan.Plan) {
			p.Backend.Changelog.Materialize = seconds(noMaterialization)
			fails(p, after(6))
		}},
		{"ignore-checksum", "log", "blocks are replayed whatever their checksum says", []string{"S3"}, func(p *plan.Plan) {
			p.Backend.Changelog.Materialize = seconds(noMaterialization)
			p.Faults = append(p.Faults, plan.Fault{ID: "damage", Kind: "flipped-byte", Phase: "chaos", Where: "store", With: object("op", "get", "prefix", "log/", "share", "40%"),
				At: plan.Trigger{Event: "attempt-failed", Count: 1, Since: "phase"}})
			fails(p, after(6))
		}},
		{"drop-key-group", "changelog", "a subtask that takes over another one's key groups loses one of them", []string{"S5", "S1"}, func(p *plan.Plan) { rescales(p, 1, 4) }},
		{"forget-inherited", "changelog", "checkpoints after a restore do not name the log that was replayed", []string{"S3"}, func(p *plan.Plan) {
			p.Backend.Changelog.Materialize = seconds(noMaterialization)
			fails(p, after(6))
		}},
		{"cut-late", "changelog", "the log behind a materialization begins when that was uploaded, not when it was taken", []string{"S3"}, func(p *plan.Plan) {
			p.Backend.Changelog.Materialize, p.Job.Checkpoint.Retain = seconds(1.5), 30    // the next base makes up for it
			p.Workload.Options = json.RawMessage(`{"partitions":4,"keys":{"count":5000}}`) // a key that is lost does not come again soon
			slows(p, "base/", 1, 10, 700*time.Millisecond, 0)
		}},
		{"log-behind-cut", "changelog", "what a backend hands over late is logged behind the cut of the checkpoint", []string{"S5"}, func(p *plan.Plan) {
			p.Backend.Name = "lsm"
			fails(p, after(4))
		}},
		{"live-snapshot", "backend", "changes behind the barrier show in a snapshot of the heap", []string{"S3"}, func(p *plan.Plan) {
			p.Arm, p.Backend.Changelog.Enabled = "changelog-off", false
			crowded(p)
		}},
		{"delete-on-subsume", "registry", "objects of a subsumed checkpoint are deleted without a look at the registry", []string{"F5", "C3"}, func(p *plan.Plan) {
			// the last materialization lies before the last checkpoints: they share the base and the older log
			p.Backend.Changelog.Materialize = seconds(noMaterialization)
		}},
		{"drop-retained", "registry", "what only the lowest retained checkpoint names counts as unused", []string{"F5"}, func(p *plan.Plan) { p.Job.Checkpoint.Retain = 3 }},
		{"delete-early", "registry", "objects are deleted before the log says that their checkpoint was dropped", []string{"F5"}, func(p *plan.Plan) {
			slows(p, "coord/", 1, 9, 500*time.Millisecond, 0)
		}},
		{"accept-zombie", "coordinator", "acknowledgements of dead workers and fenced attempts count, and their uploads are kept", []string{"C4", "F2"}, func(p *plan.Plan) {
			slows(p, "log/", 1, 8, 600*time.Millisecond, 400*time.Millisecond) // a crash hits uploads under way
			crashes(p, after(3.4))
		}},
		{"early-complete", "coordinator", "a checkpoint completes with one acknowledgement missing", []string{"S3"}, nil},
		{"reuse-id", "coordinator", "the first checkpoint of a later attempt takes an id that was used", []string{"C1"}, func(p *plan.Plan) { fails(p, after(4)) }},
		{"stale-restore", "coordinator", "the oldest retained checkpoint is restored instead of the newest", []string{"S2"}, func(p *plan.Plan) {
			p.Job.Checkpoint.Retain = 3
			fails(p, after(6))
		}},
		{"count-twice", "coordinator", "the size of a checkpoint is twice what its subtasks stored", []string{"M1"}, nil},
	}
}

// moved are those of what moves records and of what is dealt out when a job is restored or rescaled.
func moved() []Mutant {
	return []Mutant{
		{"first-handle", "rescale", "of several handles a subtask restores the first only", []string{"S5", "S1"}, func(p *plan.Plan) { rescales(p, 4, 2) }},
		{"swap-positions", "rescale", "after a rescale a source partition begins where another one was", []string{"O2"}, func(p *plan.Plan) { rescales(p, 2, 3) }},
		{"forget-operator-state", "rescale", "after a rescale operator state is empty", []string{"S2"}, func(p *plan.Plan) {
			joined(p)
			rescales(p, 2, 3)
		}},
		{"replay-twice", "engine", "a source begins one record before the restored position", []string{"O2", "S2"}, func(p *plan.Plan) { fails(p, after(4)) }},
		{"replay-skip", "engine", "a source begins one record behind the restored position", []string{"O2", "S2"}, func(p *plan.Plan) { fails(p, after(4)) }},
		{"drop-broadcast", "engine", "some broadcast records reach the first subtask only", []string{"S1", "S2"}, joined},
		{"first-watermark", "engine", "the watermark of a second input is not waited for", []string{"S2"}, joined},
		{"unaligned", "engine", "a channel whose barrier has come is read on", []string{"S3"}, crowded},
		{"barrier-first", "engine", "a barrier overtakes the records of open buffers", []string{"S3"}, nil},
		{"forget-timers", "timers", "timers are not loaded on a restore", []string{"S2"}, func(p *plan.Plan) {
			windowed(p)
			fails(p, after(4))
		}},
		{"keep-timers", "timers", "a timer that fires stays in the state", []string{"S1"}, windowed},
		{"forget-expiry", "timers", "what has expired stays", []string{"S1"}, windowed},
		{"commit-at-snapshot", "sink", "the sink commits in the synchronous part of a checkpoint", []string{"S2"}, func(p *plan.Plan) {
			fails(p, stage(failpoint.CheckpointAckBegin, 5))
		}},
		{"drop-transactions", "sink", "what a restored checkpoint commits is not committed", []string{"S2"}, func(p *plan.Plan) {
			crashes(p, stage(failpoint.CheckpointNotifyBegin, 4))
		}},
	}
}
