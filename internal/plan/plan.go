// Package plan is a fully resolved run as plain data: nothing is left to a default or to chance. A plan and a commit are
// enough to repeat a run, in the simulated world bit by bit.
package plan

import (
	"encoding/json"
	"time"

	"statebench.dev/bench/internal/registry"
)

// Version is the schema version written into every plan.
const Version = 1

// Plan is one run: one arm, one repetition.
type Plan struct {
	Schema   int       `json:"schema"`
	Scenario string    `json:"scenario"`
	About    string    `json:"about,omitempty"`
	Arm      string    `json:"arm"`
	Rep      int       `json:"rep"`      // from 1
	Baseline bool      `json:"baseline"` // the arm the others are compared with
	Seed     uint64    `json:"seed"`
	World    string    `json:"world"`            // real or sim
	Policy   string    `json:"policy,omitempty"` // scheduling policy of the simulated world; empty: drawn from the seed
	Store    Store     `json:"store"`
	Workers  Workers   `json:"workers"`
	Job      Job       `json:"job"`
	Backend  Backend   `json:"backend"`
	Workload Workload  `json:"workload"`
	Phases   []Phase   `json:"phases"`
	Faults   []Fault   `json:"faults"`
	Rescales []Rescale `json:"rescales"`
	Verify   Verify    `json:"verify"`
	Charts   []string  `json:"charts"`
	Inputs   []Input   `json:"inputs"`
}

// Duration is written as text ("250ms") in JSON and YAML.
type Duration = registry.Duration

// Store says where objects go.
type Store struct {
	Kind    string  `json:"kind"`    // mem, dir:PATH, embedded
	Profile string  `json:"profile"` // its name: local adds nothing, of any other one Model holds the figures
	Model   Profile `json:"model,omitzero"`
}

// Workers are the killable units.
type Workers struct {
	Count            int      `json:"count"`
	Slots            int      `json:"slots"` // subtasks of each operator a worker can host: slot sharing, as in Flink
	Cores            int      `json:"cores"` // simulated cores
	HeartbeatEvery   Duration `json:"heartbeatEvery"`
	HeartbeatTimeout Duration `json:"heartbeatTimeout"`
}

// Job holds the engine's settings.
type Job struct {
	Parallelism    int        `json:"parallelism"`
	MaxParallelism int        `json:"maxParallelism"`
	Checkpoint     Checkpoint `json:"checkpoint"`
	RestartDelay   Duration   `json:"restartDelay"`
	BufferRecords  int        `json:"bufferRecords"` // records a buffer holds at most
	Credits        int        `json:"credits"`       // buffers a channel holds at most
	FlushEvery     Duration   `json:"flushEvery"`    // how long a partly filled buffer waits at most
}

// Checkpoint is the checkpoint schedule.
type Checkpoint struct {
	Interval      Duration `json:"interval"`
	Timeout       Duration `json:"timeout"`
	MinPause      Duration `json:"minPause"`
	Retain        int      `json:"retain"`
	MaxConcurrent int      `json:"maxConcurrent"`
}

// Backend is the state backend of the arm.
type Backend struct {
	Name      string    `json:"name"` // heap
	Changelog Changelog `json:"changelog"`
}

// Changelog are the options of the changelog around the backend.
type Changelog struct {
	Enabled     bool     `json:"enabled"`
	Materialize Duration `json:"materialize"` // interval between materializations of a subtask
	Preemptive  int64    `json:"preemptive"`  // bytes unsent above which a writer uploads ahead of the checkpoint
	BatchDelay  Duration `json:"batchDelay"`
	BatchSize   int64    `json:"batchSize"`
	InFlight    int64    `json:"inFlight"` // bytes of log a worker may have unsent or under way before its tasks wait
}

// Workload is the job to run and its options, as checked JSON that the workload decodes strictly.
type Workload struct {
	Name    string          `json:"name"`
	Options json.RawMessage `json:"options"`
	// Rate is the offered load in records a second of the whole source; 0: as fast as possible.
	Rate float64 `json:"rate"`
}

// Phase is one stretch of the run. Exactly one of For, Records, Until says when it ends.
type Phase struct {
	Name    string   `json:"name"`
	For     Duration `json:"for,omitempty"`     // a time
	Records int64    `json:"records,omitempty"` // records of the whole source
	Until   string   `json:"until,omitempty"`   // recovered (heal), drained (drain), verified (verify)
	Within  Duration `json:"within,omitempty"`  // limit for Until
	Discard bool     `json:"discard,omitempty"` // not part of statistics
	GCGrace Duration `json:"gcGrace,omitempty"` // drain: time left for deletes of unknown outcome
}

// The conditions of Phase.Until.
const (
	UntilRecovered = "recovered"
	UntilDrained   = "drained"
	UntilVerified  = "verified"
)

// Trigger says when something happens; exactly one of its forms is set.
type Trigger struct {
	Time   *Duration `json:"time,omitempty"`   // after the phase began
	Record *int64    `json:"record,omitempty"` // the sources together reach this record of the phase; 1 is the first
	Event  string    `json:"event,omitempty"`  // at the Count-th such event since Since
	Count  int       `json:"count,omitempty"`
	Since  string    `json:"since,omitempty"` // phase, run, or the id of a fault
	Phase  string    `json:"phase,omitempty"` // "start": when the phase begins
}

// Fault is one planned disturbance.
type Fault struct {
	ID    string          `json:"id"`
	Kind  string          `json:"fault"`
	Phase string          `json:"phase"`
	Where string          `json:"where"` // worker/1, worker/any, store, subtask/<name>, subtask/any
	With  json.RawMessage `json:"with,omitempty"`
	At    Trigger         `json:"at"`
	For   Duration        `json:"for,omitempty"` // 0: until phase heal
}

// Rescale is one planned change of parallelism.
type Rescale struct {
	ID    string  `json:"id"` // rescale-1, ...
	Phase string  `json:"phase"`
	At    Trigger `json:"at"`
	To    int     `json:"to"`
	From  string  `json:"from"` // latest, previous
}

// Verify says what the verify phase does and what the run records for the judges.
type Verify struct {
	// RestoreDigests records digests of the restored state at each restore inside the run.
	RestoreDigests bool `json:"restoreDigests"`
	// RecordIDs makes the sink keep the ids of records, not only counts and hashes.
	RecordIDs bool `json:"recordIds"`
	// Checks are the names of the checks to run, in order.
	Checks []string `json:"checks"`
}

// Input is a file that the workload reads.
type Input struct {
	Path   string `json:"path"` // as in the scenario
	File   string `json:"file"` // where it lies now; empty in stored plans: inputs/<sha256>
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// TotalRecords is the sum of the phases measured in records.
func (p *Plan) TotalRecords() int64 {
	var n int64
	for _, ph := range p.Phases {
		n += ph.Records
	}
	return n
}

// Simulated tells whether the plan runs in the simulated world.
func (p *Plan) Simulated() bool { return p.World == "sim" }

// D converts the value type to the standard library's.
func D(d Duration) time.Duration { return time.Duration(d) }
