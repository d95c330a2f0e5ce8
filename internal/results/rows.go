package results

import (
	"fmt"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/keygroup"
)

// Verdict is a check's answer about one run.
type Verdict struct {
	Check    string   `json:"check"`              // S1, F5, ...
	Name     string   `json:"name"`               // what must hold, in words
	Verdict  string   `json:"verdict"`            // Pass, Fail, Inconclusive
	Summary  string   `json:"summary"`            // one line: what was looked at, or what is wrong
	Evidence []string `json:"evidence,omitempty"` // the smallest evidence, a line each
	Events   []int64  `json:"events,omitempty"`   // numbers of the events it rests on
}

// The three answers of a check.
const (
	Pass         = "pass"
	Fail         = "fail"
	Inconclusive = "inconclusive"
)

// Expectation is what became of one statement of the plan about a figure of this run.
type Expectation struct {
	Phase  string `json:"phase"`
	Metric string `json:"metric"`
	About  string `json:"about,omitempty"` // what the metric is
	Text   string `json:"text"`            // as the scenario has it: "< 1s"
	Op     string `json:"op"`
	// Bound and Value are in Unit. There is no value where Reason says why.
	Bound     float64 `json:"bound"`
	Value     Opt     `json:"value"`
	Unit      string  `json:"unit,omitempty"`
	N         int     `json:"n"`              // samples that Value comes from
	Need      int     `json:"need,omitempty"` // that it takes
	Outcome   string  `json:"outcome"`        // Met, Missed, Unknown
	Reason    string  `json:"reason,omitempty"`
	Simulated bool    `json:"simulated,omitempty"` // Value comes from the cost model
}

// What can become of an expectation. One is unknown where the run did not come so far, or its world has no such figure.
const (
	Met     = "met"
	Missed  = "missed"
	Unknown = "unknown"
)

// Listed is one line of listing.jsonl: an object or an open upload left in the store in the verify phase.
type Listed struct {
	Key    string `json:"key"`
	Bytes  int64  `json:"bytes"`
	CRC32C uint32 `json:"crc32c"`
	Upload string `json:"upload,omitempty"` // id of an open multipart upload; then it is no object
	Error  string `json:"error,omitempty"`  // the object could not be read
}

// StateLine is a line of states.jsonl: how the restore of a retained checkpoint went, or the digest of one of its groups.
// Exactly one of Restore and Group is set; a restore's line comes before those of its groups.
type StateLine struct {
	Checkpoint uint64       `json:"checkpoint"`
	Restore    *RestoreLine `json:"restore,omitempty"`
	Group      *GroupLine   `json:"group,omitempty"`
}

// RestoreLine says whether one retained checkpoint could be restored, and what its metadata names.
type RestoreLine struct {
	MetaKey     string                 `json:"metaKey"`
	Savepoint   bool                   `json:"savepoint,omitempty"` // it is one, not a checkpoint
	OK          bool                   `json:"ok"`
	Error       string                 `json:"error,omitempty"`
	Parallelism int                    `json:"parallelism"`
	Positions   []int64                `json:"positions"` // per source partition: the next index
	Objects     []checkpoint.ObjectUse `json:"objects"`   // every object the checkpoint names, its metadata included
}

// GroupLine is the digest of one state's elements in one key group of a restored checkpoint.
type GroupLine struct {
	Operator string      `json:"operator"`
	State    string      `json:"state"`
	Group    keygroup.ID `json:"group"`
	Count    int64       `json:"count"`
	Digest   string      `json:"digest"`
	// Differing lists elements that the model and the state do not share, hexadecimal, at most MaxDiffering of each kind.
	Missing []string `json:"missing,omitempty"` // only in the model
	Extra   []string `json:"extra,omitempty"`   // only in the state
}

// LogLine is one entry of the coordinator log, decoded in the verify phase.
type LogLine struct {
	Sequence   uint64 `json:"sequence"`
	Kind       string `json:"kind"` // takeover, reserve, complete, drop, savepoint, start
	Term       uint64 `json:"term"`
	Checkpoint uint64 `json:"checkpoint,omitempty"`
	Meta       string `json:"meta,omitempty"` // complete, savepoint, start: key of the metadata object
	Mode       string `json:"mode,omitempty"` // start: claim, no-claim, legacy
	UpTo       uint64 `json:"upTo,omitempty"` // reserve: last id reserved
}

// MaxDiffering bounds the differing elements written for one group.
const MaxDiffering = 20

// CheckpointRow is a line of checkpoints.csv; results/README.md defines each column.
type CheckpointRow struct {
	ID           string `csv:"id"` // empty for a skipped trigger
	Kind         string `csv:"kind"`
	Status       string `csv:"status"` // completed, aborted, skipped, pending
	Reason       string `csv:"reason"`
	Planned      Opt    `csv:"planned_s"`
	Trigger      Opt    `csv:"trigger_s"`
	Late         Opt    `csv:"late_ms"`
	Duration     Opt    `csv:"duration_ms"`
	StartDelay   Opt    `csv:"start_delay_ms"`
	Align        Opt    `csv:"align_ms"`
	Sync         Opt    `csv:"sync_ms"`
	Async        Opt    `csv:"async_ms"`
	Checkpointed Opt    `csv:"checkpointed_bytes"`
	Full         Opt    `csv:"full_bytes"`
	Base         Opt    `csv:"base_bytes"`
	Delta        Opt    `csv:"delta_bytes"`
	Preemptive   Opt    `csv:"preemptive_bytes"`
	Materialized Opt    `csv:"materialized_bytes"`
	Objects      Opt    `csv:"objects_put"`
	Dead         Opt    `csv:"dead_bytes" added:"later"`
	Metadata     Opt    `csv:"metadata_bytes" added:"later"`
	Encode       Opt    `csv:"metadata_encode_ms" added:"later"` // empty when simulated
	Phase        string `csv:"phase"`
	Discard      bool   `csv:"discard"` // its phase is left out of statistics
	Attempt      uint64 `csv:"attempt"`
	Arm          string `csv:"arm"`
	World        string `csv:"world"`
	Profile      string `csv:"profile"`
}

// RecoveryRow is a line of recoveries.csv: a failure or a rescale, with the segments of its recovery.
type RecoveryRow struct {
	Cause       string `csv:"cause"` // worker-crash, task-error, rescale, ...
	ID          string `csv:"id"`    // of the fault or rescale
	Fault       Opt    `csv:"fault_s"`
	Detect      Opt    `csv:"detect_ms"`
	Restart     Opt    `csv:"restart_ms"`
	RestoreBase Opt    `csv:"restore_base_ms"`
	Replay      Opt    `csv:"replay_ms"`
	FirstOutput Opt    `csv:"first_output_ms"`
	Outage      Opt    `csv:"outage_ms"`
	Recovery    Opt    `csv:"recovery_ms"`
	BaseBytes   Opt    `csv:"base_bytes"`
	DeltaBytes  Opt    `csv:"delta_bytes"`
	Download    Opt    `csv:"download_ms" added:"later"`
	LocalBytes  Opt    `csv:"local_bytes" added:"later"`
	LocalHits   Opt    `csv:"local_hits" added:"later"`
	LocalMisses Opt    `csv:"local_misses" added:"later"`
	Replayed    Opt    `csv:"replayed_records"`
	Reprocessed Opt    `csv:"reprocessed_records"`
	Checkpoint  uint64 `csv:"checkpoint"`
	Attempt     uint64 `csv:"attempt"`
	Parallelism int    `csv:"parallelism"`
	Phase       string `csv:"phase"`
	Arm         string `csv:"arm"`
	World       string `csv:"world"`
	Profile     string `csv:"profile"`
}

// SeriesRow is a line of series.csv: one sample a second.
type SeriesRow struct {
	At          float64 `csv:"at_s"`
	Phase       string  `csv:"phase"`
	Emitted     int64   `csv:"emitted_records"`
	Rate        float64 `csv:"emitted_per_s"`
	Offered     float64 `csv:"offered_per_s"`
	Lag         float64 `csv:"lag_ms"`
	Latency50   Opt     `csv:"latency_p50_ms"`
	Latency99   Opt     `csv:"latency_p99_ms"`
	Live        int64   `csv:"live_state_bytes"`
	Unsent      int64   `csv:"unsent_log_bytes"`
	Log         int64   `csv:"log_bytes"`
	Busy        float64 `csv:"busy_share"`
	Backpress   float64 `csv:"backpressured_share"`
	Idle        float64 `csv:"idle_share"`
	LogBlocked  float64 `csv:"log_blocked_share"`
	LogHard     Opt     `csv:"log_hard_blocked_share" added:"later"`
	InFlight    Opt     `csv:"log_in_flight_bytes" added:"later"`
	LogAge      Opt     `csv:"log_age_ms" added:"later"`
	Deletes     Opt     `csv:"delete_backlog_objects" added:"later"`
	Parallelism int     `csv:"parallelism"`
	State       string  `csv:"job_state"`
	CPU         Opt     `csv:"cpu_s"`       // of the process since it began; empty when simulated
	StoreCPU    Opt     `csv:"store_cpu_s"` // of the store's process
	Heap        Opt     `csv:"heap_bytes"`
	GC          Opt     `csv:"gc_cpu_s"`
	Goroutines  Opt     `csv:"goroutines"`
	Arm         string  `csv:"arm"`
	World       string  `csv:"world"`
	Profile     string  `csv:"profile"`
}

// LatencyRow is a line of latencies.csv: how many records of a phase reached the sink how late.
type LatencyRow struct {
	Phase   string  `csv:"phase"`
	UpTo    float64 `csv:"up_to_us"` // grows from row to row of a phase
	Count   int64   `csv:"count"`
	Arm     string  `csv:"arm"`
	World   string  `csv:"world"`
	Profile string  `csv:"profile"`
}

// RestoreLineOf is the evidence about one retained checkpoint.
type RestoreLineOf struct {
	Checkpoint uint64
	RestoreLine
	Groups []GroupLine
}

// GroupRestores puts the lines of a states file together by checkpoint, in order; a group without its restore's line wraps ErrDamaged.
func GroupRestores(lines []StateLine) (all []RestoreLineOf, err error) {
	for _, l := range lines {
		switch {
		case l.Restore != nil:
			all = append(all, RestoreLineOf{Checkpoint: l.Checkpoint, RestoreLine: *l.Restore})
		case l.Group != nil && len(all) > 0 && all[len(all)-1].Checkpoint == l.Checkpoint:
			r := &all[len(all)-1]
			r.Groups = append(r.Groups, *l.Group)
		default:
			return nil, fmt.Errorf("%w: a line about checkpoint %d stands before its restore", ErrDamaged, l.Checkpoint)
		}
	}
	return all, nil
}
