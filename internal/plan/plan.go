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
	// Expect are absolute statements on the figures of this run; the run misses its expectations when one does not hold.
	Expect []Expectation `json:"expect,omitempty"`
	// MaxResults is how many bytes the run's files may reach: then it ends early, says so, and is inconclusive. 0: 4 GiB.
	MaxResults int64 `json:"maxResults,omitempty"`
}

// Expectation is one absolute statement: a metric of a phase, an operator and a value.
type Expectation struct {
	Phase  string  `json:"phase"`
	Metric string  `json:"metric"`         // a name of bench list metrics
	Op     string  `json:"op"`             // <, <=, >, >=, ==
	Value  float64 `json:"value"`          // in the unit of the metric
	Text   string  `json:"text"`           // as the scenario has it, "< 1s"
	Unset  bool    `json:"unset,omitzero"` // holds where the metric has no samples; without it, no samples are a miss
}

// Duration is written as text ("250ms") in JSON and YAML.
type Duration = registry.Duration

// Store says where objects go.
type Store struct {
	Kind    string  `json:"kind"`    // mem, dir:PATH, embedded
	Profile string  `json:"profile"` // its name: local adds nothing, of any other one Model holds the figures
	Model   Profile `json:"model,omitzero"`
	Image   string  `json:"image,omitempty"` // of a container store: the image's digest reference; empty: the one built here
	Limits  Limits  `json:"limits,omitzero"` // of a container store; zero: its defaults
	// Spread is over how many prefixes the keys of data objects are spread; 0: each kind has one.
	Spread int `json:"spread,omitempty"`
	// Prices are what its requests and bytes are billed at; nil: StandardPrices. They change no run.
	Prices *Prices `json:"prices,omitempty"`
}

// Limits bound a container; 0 leaves the store's default.
type Limits struct {
	CPUs   float64 `json:"cpus,omitempty"`
	Memory int64   `json:"memory,omitempty"` // bytes
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
	RestartDelay   Duration   `json:"restartDelay"` // between a failure and the next attempt; the first one of exponential-delay
	Restart        Restart    `json:"restart,omitzero"`
	BufferRecords  int        `json:"bufferRecords"` // records a buffer holds at most
	Credits        int        `json:"credits"`       // buffers a channel holds at most
	FlushEvery     Duration   `json:"flushEvery"`    // how long a partly filled buffer waits at most
}

// Restart says when a failed job is started again and when it is given up, as Flink's restart strategies do.
type Restart struct {
	Strategy string `json:"strategy,omitempty"` // fixed-delay, exponential-delay, failure-rate, none; empty: fixed-delay
	// Attempts are the restarts that fixed-delay and exponential-delay allow; 0: any number. A rescale is none.
	Attempts int `json:"attempts,omitempty"`
	// Failures are allowed within each stretch of Within by failure-rate.
	Failures int      `json:"failures,omitempty"`
	Within   Duration `json:"within,omitempty"`
	// MaxDelay, Multiplier, Jitter (a share) and ResetAfter (time without a failure) belong to exponential-delay.
	MaxDelay   Duration `json:"maxDelay,omitempty"`
	Multiplier float64  `json:"multiplier,omitempty"`
	Jitter     float64  `json:"jitter,omitempty"`
	ResetAfter Duration `json:"resetAfter,omitempty"`
}

// The restart strategies.
const (
	RestartFixed       = "fixed-delay"
	RestartExponential = "exponential-delay"
	RestartRate        = "failure-rate"
	RestartNone        = "none"
)

// Checkpoint is the checkpoint schedule.
type Checkpoint struct {
	Interval      Duration `json:"interval"`
	Timeout       Duration `json:"timeout"`
	MinPause      Duration `json:"minPause"`
	Retain        int      `json:"retain"`
	MaxConcurrent int      `json:"maxConcurrent"`
	// TolerableFailures is how many checkpoints may fail one after the other before the job itself fails and restarts; nil: any number.
	TolerableFailures *int `json:"tolerableFailures,omitempty"`
	// DeletesPerSecond bounds the objects that the leader deletes in a second while the job runs; 0: as fast as it goes.
	DeletesPerSecond int `json:"deletesPerSecond,omitempty"`
}

// Backend is the state backend of the arm.
type Backend struct {
	Name      string    `json:"name"` // heap
	Changelog Changelog `json:"changelog"`
	// LSM are the options of backend lsm; the zero value is the backend's own defaults.
	LSM LSM `json:"lsm,omitzero"`
	// LocalRecovery makes workers keep copies of what they upload on their disks, of LocalCopies bytes at most, and restore from them.
	LocalRecovery bool  `json:"localRecovery,omitzero"`
	LocalCopies   int64 `json:"localCopies,omitzero"` // 0: the default
}

// LSM are the sizes of the log-structured merge tree, in bytes; 0: the backend's default.
type LSM struct {
	Cache       int64  `json:"cache"`       // block cache of a worker
	Memtable    int64  `json:"memtable"`    // changes of a subtask that are not written to tables
	Rows        int64  `json:"rows"`        // current values of a subtask that are kept in memory
	Files       int64  `json:"files"`       // what table files aim at
	Compression string `json:"compression"` // of tables: snappy or none
	// Restore is download, which has all state on the worker before the job goes on, or lazy; "": download.
	Restore string `json:"restore,omitempty"`
}

// Restores are the values of LSM.Restore.
func Restores() []string { return []string{RestoreDownload, RestoreLazy} }

// Values of LSM.Restore.
const (
	RestoreDownload = "download"
	RestoreLazy     = "lazy"
)

// Compressions are the values of LSM.Compression.
func Compressions() []string { return []string{"none", "snappy"} }

// Changelog are the options of the changelog around the backend.
type Changelog struct {
	Enabled     bool     `json:"enabled"`
	Materialize Duration `json:"materialize"` // interval between materializations of a subtask
	// MaterializeOff turns materializations off: the log grows as long as the job keeps it.
	MaterializeOff bool `json:"materializeOff,omitempty"`
	// Growth is the size of the log, as a part of its base, beyond which a subtask materializes ahead of its time; 0: none.
	Growth float64 `json:"growth,omitzero"`
	// GrowthFloor is what the log must exceed in any case for Growth to count, in bytes.
	GrowthFloor int64 `json:"growthFloor,omitzero"`
	// ReplayBudget is the time that replaying the log may take before a subtask materializes ahead of its time; 0: any.
	ReplayBudget Duration `json:"replayBudget,omitzero"`
	Concurrent   int      `json:"concurrent,omitzero"` // subtasks of a worker that materialize at a time; 0: all
	// ConcurrentJob is how many subtasks of the job do; 0: all.
	ConcurrentJob int      `json:"concurrentJob,omitzero"`
	Preemptive    int64    `json:"preemptive"` // bytes unsent above which a writer uploads ahead of the checkpoint
	BatchDelay    Duration `json:"batchDelay"`
	BatchSize     int64    `json:"batchSize"`
	InFlight      int64    `json:"inFlight"` // bytes of log a worker may have unsent or under way before its tasks wait
	// Storage is where the log lies, one of LogStorages; empty: LogDFS.
	Storage string `json:"storage,omitempty"`
	Upload  Upload `json:"upload,omitzero"`
}

// Upload says how uploads of the log are tried again, and when by a second attempt; zeros are the defaults of dstl.UploadOptions.
type Upload struct {
	RetryShare       float64 `json:"retryShare,omitzero"`       // retries that a success allows, over all uploads of a worker
	RetriesPerSecond int     `json:"retriesPerSecond,omitzero"` // and that a second does
	// HedgeAfter is how long an upload takes before a second attempt begins beside the first; 0: none.
	HedgeAfter Duration `json:"hedgeAfter,omitzero"`
	HedgeShare float64  `json:"hedgeShare,omitzero"` // part of the uploads that may have one
}

// The storages of a changelog.
const (
	LogDFS    = "dfs"    // the object store
	LogFile   = "file"   // a directory that survives workers
	LogMemory = "memory" // the worker's memory: gone when it crashes
)

// LogStorages are the values of Changelog.Storage.
func LogStorages() []string { return []string{LogDFS, LogFile, LogMemory} }

// LogStorage is where the logs of a run lie, whichever of its arms' changelogs is on.
func (p *Plan) LogStorage() string {
	name := LogDFS
	for _, b := range p.backends() {
		if b.Changelog.Enabled && b.Changelog.Storage != "" {
			name = b.Changelog.Storage
		}
	}
	return name
}

// backends are the one that the run begins with and those that it is switched to.
func (p *Plan) backends() []*Backend {
	all := []*Backend{&p.Backend}
	for _, ph := range p.Phases {
		for _, s := range ph.Steps {
			if s.Start != nil && s.Start.Backend != nil {
				all = append(all, s.Start.Backend)
			}
		}
	}
	return all
}

// Workload is the job to run and its options, as checked JSON that the workload decodes strictly.
type Workload struct {
	Name    string          `json:"name"`
	Options json.RawMessage `json:"options"`
	// Rate is the offered load in records a second of the whole source; 0: as fast as possible.
	Rate float64 `json:"rate"`
}

// Phase is one stretch of the run. Exactly one of For, Records, Until, Steps says when it ends.
type Phase struct {
	Name    string   `json:"name"`
	For     Duration `json:"for,omitempty"`     // a time
	Records int64    `json:"records,omitempty"` // records of the whole source
	Until   string   `json:"until,omitempty"`   // recovered (heal), drained (drain), verified (verify)
	Within  Duration `json:"within,omitempty"`  // limit for Until
	Discard bool     `json:"discard,omitempty"` // not part of statistics
	GCGrace Duration `json:"gcGrace,omitempty"` // drain: time left for deletes of unknown outcome
	Steps   []Step   `json:"steps,omitempty"`
}

// Step is one thing done with the job as a whole; exactly one of its forms is set. The steps of a phase are carried out
// one after the other, and the phase ends with the last, Phase.Within at most.
type Step struct {
	Savepoint string `json:"savepoint,omitempty"` // takes one of this form; the job goes on
	Stop      *Stop  `json:"stop,omitempty"`
	Start     *Start `json:"start,omitempty"`
}

// Stop ends the job: with a savepoint of the given form, behind which the sources emit nothing, or, when that is empty, at
// once, and its retained checkpoints stay.
type Stop struct {
	Savepoint string `json:"savepoint,omitempty"`
}

// Start starts a stopped job again.
type Start struct {
	From        string   `json:"from"`                  // last-savepoint or last-checkpoint
	Mode        string   `json:"mode,omitempty"`        // who owns that; empty: ModeOf
	Parallelism int      `json:"parallelism,omitempty"` // 0: as before
	Arm         string   `json:"arm,omitempty"`         // whose backend it takes; empty: as before
	Backend     *Backend `json:"backend,omitempty"`     // that backend; nil: as before
	Schema      int      `json:"schema,omitempty"`      // in which the workload stores its state from then on; 0: as before, at first 1
}

// The forms of a savepoint: canonical is read by every backend, native is the backend's own and is written and read faster.
const (
	Canonical = "canonical"
	Native    = "native"
)

// What a job is started from.
const (
	FromSavepoint  = "last-savepoint"
	FromCheckpoint = "last-checkpoint"
)

// Who owns what a job is started from: the job, which deletes it when it is not needed any more; the user, and the first checkpoint of the
// job is self-contained; or the user, and later checkpoints may name its objects.
const (
	ModeClaim   = "claim"
	ModeNoClaim = "no-claim"
	ModeLegacy  = "legacy"
)

// IsMode tells whether there is such a mode.
func IsMode(s string) bool { return s == ModeClaim || s == ModeNoClaim || s == ModeLegacy }

// ModeOf is the mode of a start: the one given or, where that is empty, no-claim for a savepoint and claim for a checkpoint.
func ModeOf(from, mode string) string {
	switch {
	case mode != "":
		return mode
	case from == FromSavepoint:
		return ModeNoClaim
	}
	return ModeClaim
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
