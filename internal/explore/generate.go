package explore

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/seed"
)

// length is how long the phases of a plan are, in seconds.
type length struct {
	warm, chaos int
	quiet       int     // at the end of the chaos, without a trigger
	outage      int     // of the phase for what befalls the container
	passages    int     // stages are placed at one of the first so many passages
	events      int     // other events at one of the first so many
	pace        float64 // by which intervals and time limits are multiplied
	faultMost   float64
	rateMost    float64 // records a second at most; 0: as drawn
	faultsLeast int     // more are drawn until there are so many
}

var (
	simulated = length{warm: 6, chaos: 56, quiet: 8, passages: 8, events: 15, pace: 1, faultMost: 5}               // read-only: the lengths are constants
	wallClock = length{warm: 1, chaos: 10, quiet: 3, outage: 4, passages: 3, events: 3, pace: 0.5, faultMost: 1.5} // read-only: the lengths are constants
)

// generator draws one plan.
type generator struct {
	n int
	l length
	r *rand.Rand
	p plan.Plan
}

// Generate returns plan number n, n >= 0, for the simulated world: at least 60 seconds of virtual time, at least two
// faults and one rescale. Even numbers are changelog-off, odd ones changelog-on.
func Generate(n int) plan.Plan { return generate(n, simulated) }

// GenerateReal returns plan number n for the real world, on the given store: the same draws in about 15 seconds. On store
// minio its container suffers something too, a few seconds later.
func GenerateReal(n int, store string) plan.Plan {
	g := draw(n, wallClock)
	g.p.World, g.p.Store.Kind = "real", store
	g.p.Scenario = fmt.Sprintf("explore-real-%d", n)
	if store == "minio" {
		g.container()
	}
	return g.p
}

func generate(n int, l length) plan.Plan {
	g := draw(n, l)
	g.storage()
	return g.p
}

func draw(n int, l length) *generator {
	g := &generator{n: n, l: l, r: seed.Stream(uint64(n), "explore/plan")}
	g.shape()
	g.windows()
	g.joins()
	g.backend()
	g.concurrent()
	g.thin()
	g.phases()
	g.disturb()
	g.disturbMore()
	g.atLeast()
	g.copies()
	g.upkeep()
	g.uploads()
	return g
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func seconds(n float64) plan.Duration { return plan.Duration(n * float64(time.Second)) }

// paced is a time in the pace of the plan.
func (g *generator) paced(n float64) plan.Duration { return seconds(n * g.l.pace) }

// shape draws job, backend and workload.
func (g *generator) shape() {
	r := g.r
	on := g.n%2 == 1
	arm := "changelog-off"
	if on {
		arm = "changelog-on"
	}
	preemptive := pick[int64](r, 1<<10, 16<<10, 1<<20)
	workers := 3 + r.IntN(3)
	slots := 2 + r.IntN(2)
	maxP := pick(r, 8, 16, 32, 128)
	g.p = plan.Plan{
		Schema: plan.Version, Scenario: fmt.Sprintf("explore-%d", g.n), Arm: arm, Rep: 1, Baseline: !on, Seed: uint64(g.n) + 1, World: "sim",
		Store:   plan.Store{Kind: "mem", Profile: "local"},
		Workers: plan.Workers{Count: workers, Slots: slots, Cores: 2, HeartbeatEvery: g.paced(0.5), HeartbeatTimeout: g.paced(pick(r, 2.0, 5))},
		Job: plan.Job{Parallelism: 1 + r.IntN(min(4, maxP)), MaxParallelism: maxP, RestartDelay: g.paced(pick(r, 0, 0.2, 1)),
			BufferRecords: pick(r, 16, 64, 256), Credits: 2 + r.IntN(4), FlushEvery: seconds(pick(r, 0.01, 0.05)),
			Checkpoint: plan.Checkpoint{Interval: g.paced(pick(r, 0.8, 1, 1.5)), Timeout: g.paced(pick(r, 4.0, 10, 20)), MinPause: g.paced(pick(r, 0, 0, 0.3)),
				Retain: 1 + r.IntN(3), MaxConcurrent: 1}},
		Backend: plan.Backend{Name: "heap", Changelog: plan.Changelog{Enabled: on, Materialize: g.paced(pick(r, 2.0, 6, 20, 600)),
			Preemptive: preemptive, BatchDelay: seconds(pick(r, 0, 0.005, 0.05)), BatchSize: pick[int64](r, 4<<10, 1<<20), InFlight: preemptive * pick[int64](r, 2, 64)}},
		Workload: plan.Workload{Name: "counter", Rate: float64(pick(r, 200, 500, 1000)), Options: g.options()},
		Verify:   plan.Verify{RestoreDigests: true, RecordIDs: true},
	}
}

// options draws the workload's; the run fills in what is not said.
func (g *generator) options() json.RawMessage {
	r := g.r
	o := map[string]any{
		"partitions": 1 + r.IntN(9),
		"keys":       map[string]any{"count": pick(r, 20, 300, 2000), "pick": pick(r, "uniform", "zipf")},
		"values":     map[string]any{"size": pick(r, "8B", "40B", "200B")},
		"second":     pick(r, "map", "list", "none"),
	}
	b, err := json.Marshal(o)
	if err != nil {
		panic(err) // a literal
	}
	return b
}

// windows gives one plan in six another workload. Its draws have a stream of their own, and move no others.
func (g *generator) windows() {
	r := seed.Stream(uint64(g.n), "explore/window/1")
	if r.IntN(6) > 0 {
		return
	}
	slide, disorder := time.Duration(pick(r, 200, 1000, 3000))*time.Millisecond, time.Duration(pick(r, 0, 300, 2000))*time.Millisecond
	o := map[string]any{
		"partitions": 1 + r.IntN(9),
		"keys":       map[string]any{"count": pick(r, 20, 300, 2000), "pick": pick(r, "uniform", "zipf")},
		"values":     map[string]any{"size": pick(r, "8B", "40B", "200B")},
		"size":       (slide * pick[time.Duration](r, 1, 2, 5)).String(), "slide": slide.String(),
		"panes": pick(r, "shared", "unshared"), "keep": pick(r, "none", "last", "all"), "late": pick(r, "emit", "drop"),
		"disorder": disorder.String(), "watermark": (disorder / pick[time.Duration](r, 1, 2, 8)).String(), "lateness": pick(r, "0s", "250ms", "4s"),
	}
	if r.IntN(3) > 0 {
		o["ttl"], o["ttlOnRead"] = pick(r, "500ms", "2s", "15s"), r.IntN(2) == 0
	}
	b, err := json.Marshal(o)
	if err != nil {
		panic(err) // a literal
	}
	g.p.Workload.Name, g.p.Workload.Options = "window", b
}

// backend gives half of the plans the other backend, of either arm. Its draws have a stream of their own too.
func (g *generator) backend() {
	g.p.Backend.Name = pick(seed.Stream(uint64(g.n), "explore/backend"), "heap", "lsm")
}

// concurrent lets up to three checkpoints be under way at a time in one plan of four. Its draws have a stream of their own too.
func (g *generator) concurrent() {
	if r := seed.Stream(uint64(g.n), "explore/concurrent"); r.IntN(4) == 0 {
		g.p.Job.Checkpoint.MaxConcurrent, g.p.Job.Checkpoint.MinPause = 2+r.IntN(2), 0
	}
}

func (g *generator) phases() {
	rate := int64(g.p.Workload.Rate)
	g.p.Phases = []plan.Phase{
		{Name: "warm", Records: rate * int64(g.l.warm)},
		{Name: "chaos", Records: rate * int64(g.l.chaos)},
		{Name: "heal", Until: plan.UntilRecovered, Within: seconds(120)},
		{Name: "drain", Until: plan.UntilDrained, Within: seconds(120), GCGrace: seconds(2)},
		{Name: "verify", Until: plan.UntilVerified, Within: seconds(120)},
	}
}

// disturb places two faults by the walk through all pairs, up to two drawn ones, and one to three rescales.
func (g *generator) disturb() {
	stages, kinds := Stages(), Faults()
	pairs := len(stages) * len(kinds)
	for i := range 2 {
		pair := (2*g.n + i) % pairs
		g.fault(kinds[pair%len(kinds)], g.atStage(stages[pair/len(kinds)]))
	}
	for range g.r.IntN(3) {
		g.fault(pick(g.r, kinds...), g.anywhere())
	}
	slots := g.p.Workers.Count * g.p.Workers.Slots
	for i := range 1 + g.r.IntN(3) {
		to := 1 + g.r.IntN(min(slots, 6, g.p.Job.MaxParallelism))
		g.p.Rescales = append(g.p.Rescales, plan.Rescale{ID: fmt.Sprintf("rescale-%d", i+1), Phase: "chaos", At: g.anywhere(), To: to,
			From: pick(g.r, "latest", "latest", "previous")})
	}
}

// disturbMore adds up to two faults of the kinds beside the walk. They have a stream of their own, so that the rest of a
// plan does not depend on them.
func (g *generator) disturbMore() {
	g.r = seed.Stream(uint64(g.n), "explore/more")
	for range g.r.IntN(3) {
		kind := pick(g.r, MoreFaults()...)
		at := g.anywhere()
		if kind == "flipped-byte" {
			at = plan.Trigger{Event: "attempt-started", Count: 1, Since: "phase"} // what it damages is read by restores
		}
		g.fault(kind, at)
	}
}

// copies lets workers keep copies on their disks in one plan of four, of half of these too few for all. Its draws have a stream of
// their own too. A plan whose reads are to be damaged gets none: with copies at hand a restore may read nothing from the store, and
// the fault would be without effect.
func (g *generator) copies() {
	if g.flipsBytes() {
		return
	}
	if r := seed.Stream(uint64(g.n), "explore/copies"); r.IntN(4) == 0 {
		g.p.Backend.LocalRecovery, g.p.Backend.LocalCopies = true, pick(r, int64(64<<10), 1<<30)
	}
}

// uploads lets uploads of the log have second attempts in one plan of three, soon enough to begin without a fault in some, and makes
// retries scarce in one of three. Its draws have a stream of their own too.
func (g *generator) uploads() {
	r := seed.Stream(uint64(g.n), "explore/uploads")
	u := &g.p.Backend.Changelog.Upload
	if r.IntN(3) == 0 {
		u.HedgeAfter, u.HedgeShare = seconds(pick(r, 0.002, 0.02, 0.3)), pick(r, 0.05, 1)
	}
	if r.IntN(3) == 0 {
		u.RetryShare, u.RetriesPerSecond = pick(r, 0.01, 0.1), 1+r.IntN(3)
	}
}

// storage lets the log lie in files beside the store in one of five simulated plans whose changelog is on. Its draws have a stream of their own
// too. A plan whose reads are to be damaged keeps its log in the store: the faults of the store do not reach the files.
func (g *generator) storage() {
	if !g.p.Backend.Changelog.Enabled || g.flipsBytes() {
		return
	}
	if r := seed.Stream(uint64(g.n), "explore/storage"); r.IntN(5) == 0 {
		g.p.Backend.Changelog.Storage = plan.LogFile
	}
}

// flipsBytes tells whether what restores read from the store is to be damaged.
func (g *generator) flipsBytes() bool {
	return slices.ContainsFunc(g.p.Faults, func(f plan.Fault) bool { return f.Kind == "flipped-byte" })
}

// container makes the server's container suffer one thing, in a phase of its own: while no request arrives, most faults of
// the store show no effect, and they hide that the server is gone. It lasts longer than two intervals between checkpoints, so
// that one of them meets it. In one plan of two a worker dies or the job is rescaled while the server is away.
func (g *generator) container() {
	g.r = seed.Stream(uint64(g.n), "explore/container")
	const phase = "outage"
	at := len(g.p.Phases) - 3 // before heal, drain and verify
	g.p.Phases = slices.Insert(g.p.Phases, at, plan.Phase{Name: phase, Records: int64(g.p.Workload.Rate) * int64(g.l.outage)})
	kind := pick(g.r, Containers()...)
	begin := plan.Trigger{Event: pick(g.r, failpoint.CheckpointUploadBegin, "checkpoint-triggered", "checkpoint-completed"), Count: 1, Since: "phase"}
	if kind == "container-restart" { // it is away for as long as it takes: the trigger must come right before requests
		begin = plan.Trigger{Event: pick(g.r, failpoint.CheckpointUploadBegin, failpoint.CheckpointMetadataBegin), Count: 1, Since: "phase"}
	}
	f := plan.Fault{ID: "container", Kind: kind, Phase: phase, Where: "store", At: begin, For: seconds(1.8 + g.r.Float64())}
	g.p.Faults = append(g.p.Faults, f)
	soon := plan.Trigger{Event: "fault-hit", Count: 1, Since: "phase"}
	switch g.r.IntN(4) {
	case 0:
		g.p.Faults = append(g.p.Faults, plan.Fault{ID: "meanwhile", Kind: "worker-crash", Phase: phase, Where: "worker/any", At: soon, For: seconds(1)})
	case 1:
		to := 1 + g.r.IntN(min(g.p.Workers.Count*g.p.Workers.Slots, 6, g.p.Job.MaxParallelism))
		g.p.Rescales = append(g.p.Rescales, plan.Rescale{ID: "meanwhile", Phase: phase, At: soon, To: to, From: pick(g.r, "latest", "previous")})
	}
}

// atStage fires at an early passage of the stage. Each checkpoint passes the coordinator's stages once.
func (g *generator) atStage(stage string) plan.Trigger {
	return plan.Trigger{Event: stage, Count: 1 + g.r.IntN(g.l.passages), Since: "phase"}
}

func (g *generator) anywhere() plan.Trigger {
	rate := g.p.Workload.Rate
	at := 1 + g.r.Float64()*float64(g.l.chaos-g.l.quiet-1)
	switch g.r.IntN(3) {
	case 0:
		d := seconds(at)
		return plan.Trigger{Time: &d}
	case 1:
		n := int64(at * rate)
		return plan.Trigger{Record: &n}
	}
	return plan.Trigger{Event: pick(g.r, "checkpoint-completed", "checkpoint-triggered", "sink-committed", "checkpoint-acked"), Count: 1 + g.r.IntN(g.l.events), Since: "phase"}
}

func (g *generator) fault(kind string, at plan.Trigger) {
	f := plan.Fault{ID: fmt.Sprintf("fault-%d", len(g.p.Faults)+1), Kind: kind, Phase: "chaos", At: at, For: seconds(1 + (g.l.faultMost-1)*g.r.Float64())}
	switch kind {
	case "worker-crash":
		f.Where = "worker/any"
		f.With = object("disk", pick(g.r, "keep", "lose"))
	case "task-error":
		f.Where, f.For = "subtask/any", 0
	case "store-errors":
		f.Where = "store"
		f.With = object("op", pick(g.r, "put", "put|get|list", "put|delete"), "share", pick(g.r, "40%", "60%", "90%"), "status", pick(g.r, 500, 503))
		f.For = seconds(3 + (g.l.faultMost-1)*g.r.Float64())
	case "store-latency":
		f.Where = "store"
		f.With = object("op", pick(g.r, "put", "put|get"), "delay", pick(g.r, "50ms", "400ms", "1500ms"), "jitter", pick(g.r, "10ms", "500ms"))
		f.For = seconds(2 + (g.l.faultMost-1)*g.r.Float64())
	case "store-outage":
		f.Where = "store"
		f.For = seconds(3 + (g.l.faultMost-1)*g.r.Float64())
	case "lost-ack":
		f.Where = "store"
		f.With = object("op", pick(g.r, "put", "put|delete"), "share", pick(g.r, "30%", "100%"))
		f.For = seconds(2 + (g.l.faultMost-1)*g.r.Float64())
	case "cut-body":
		f.Where = "store"
		f.With = object("op", pick(g.r, "put", "put|get|list"), "share", pick(g.r, "30%", "70%"))
		f.For = seconds(2 + (g.l.faultMost-1)*g.r.Float64())
	case "flipped-byte":
		f.Where = "store"
		way := g.r.IntN(3)
		if g.l == wallClock {
			way = 0 // the others may find nothing to read, or too much
		}
		switch way {
		case 0:
			f.With, f.For = object("request", 1), 0
		case 1:
			f.For = seconds(2.5 + 0.5*g.r.Float64()) // longer than any restart delay
		case 2: // in force until it is healed at the end
			f.With, f.For = object("share", "10%"), 0
		}
	}
	g.p.Faults = append(g.p.Faults, f)
}

func object(kv ...any) json.RawMessage {
	o := map[string]any{}
	for i := 0; i < len(kv); i += 2 {
		o[kv[i].(string)] = kv[i+1]
	}
	b, err := json.Marshal(o)
	if err != nil {
		panic(err) // literals
	}
	return b
}
