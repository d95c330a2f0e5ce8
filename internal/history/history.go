// Package history is everything a run observed, on one clock: events of the engine, the backends, the faults and the
// phases, and the trace of store requests.
//
// An event is one flat struct. There is never one event a record: sources record ranges of positions, sinks a count and a
// multiset hash. Triggers and failpoint faults act synchronously in the process that emits an event, before Record returns.
package history

import (
	"time"

	"statebench.dev/bench/internal/keygroup"
)

// Kind is the name of an event, in kebab-case; the constants are all there are.
type Kind string

// The kinds of events. Actor is a subtask ("count-0"), a worker ("worker-1"), a coordinator ("coordinator-0"), a sink, a fault id, or "run".
const (
	PhaseBegin Kind = "phase-begin" // Phase
	PhaseEnd   Kind = "phase-end"   // Phase, Records: source position reached

	RunBegin Kind = "run-begin" // Text: plan hash
	RunEnd   Kind = "run-end"   // Error, Count: requests to the store so far

	SourceRange Kind = "source-range" // Actor subtask, Attempt, Partition, From, To: positions emitted since the last such event
	OutputFirst Kind = "output-first" // first record that reached the sink in an attempt
	CaughtUp    Kind = "caught-up"    // Attempt; From: since when (ns) the lag is back at its level from before, Dur: that level

	SinkPrecommitted Kind = "sink-precommitted" // Checkpoint, Actor subtask, Records, Digest
	SinkCommitted    Kind = "sink-committed"    // one per transaction: Checkpoint, Actor subtask, Records, Digest
	SinkAborted      Kind = "sink-aborted"

	AttemptStarted Kind = "attempt-started" // Attempt, Count: parallelism, Checkpoint: restored from (0: none), Text: cause
	AttemptRunning Kind = "attempt-running" // all subtasks run
	AttemptFailed  Kind = "attempt-failed"  // detected; Error, Text: cause (worker-lost, subtask-failed, rescale, ...), Actor: who
	AttemptFenced  Kind = "attempt-fenced"  // all its processes have ended or are fenced

	CheckpointTriggered Kind = "checkpoint-triggered" // Checkpoint, Planned; Text for one outside the schedule, which has no Planned
	CheckpointSkipped   Kind = "checkpoint-skipped"   // Planned, Reason
	CheckpointAligned   Kind = "checkpoint-aligned"   // per subtask; Dur: alignment, From: start delay in ns
	CheckpointSynced    Kind = "checkpoint-synced"    // per subtask; Dur: synchronous part
	CheckpointAcked     Kind = "checkpoint-acked"     // per subtask, at the subtask; Dur: asynchronous part; Bytes checkpointed; Sizes
	CheckpointAckTaken  Kind = "checkpoint-ack-taken" // per subtask, at the coordinator; Reason when it was dropped: late, duplicate, fenced, unknown
	CheckpointCompleted Kind = "checkpoint-completed" // Dur since the trigger (set by the recorder); Sizes; Positions
	CheckpointAborted   Kind = "checkpoint-aborted"   // Reason: expired, declined, subsumed, async-failure, attempt-failed, stopped
	CheckpointSubsumed  Kind = "checkpoint-subsumed"

	SavepointTriggered Kind = "savepoint-triggered" // Checkpoint: its id, of the same sequence; Text: form; Reason: stop where it ends the job
	SavepointCompleted Kind = "savepoint-completed" // Text: form; Dur since the trigger (set by the recorder); Sizes; Positions
	SavepointAborted   Kind = "savepoint-aborted"   // Text: form; Reason and Error as for a checkpoint

	JobStopped Kind = "job-stopped" // Attempt, Checkpoint: the savepoint it was stopped with (0: cancelled), Count: checkpoints retained
	JobStarted Kind = "job-started" // Checkpoint: what it starts from, Text: last-savepoint or last-checkpoint, Reason: claim, no-claim or legacy, Count: parallelism

	LogFlushBegin Kind = "log-flush-begin" // Actor worker
	LogFlushEnd   Kind = "log-flush-end"   // Bytes, Count: writers in the batch, Text: object key, Error
	LogHedged     Kind = "log-hedged"      // a second attempt at an upload has ended; Actor worker, Bytes, Text: its object key; Reason: won, lost, failed
	LogTruncated  Kind = "log-truncated"   // Actor subtask, To: sequence number

	MaterializationBegin       Kind = "materialization-begin" // Actor subtask, Count: materialization id
	MaterializationUploadBegin Kind = "materialization-upload-begin"
	MaterializationUploadEnd   Kind = "materialization-upload-end" // Bytes
	MaterializationUsed        Kind = "materialization-used"       // the checkpoints that begin from now on have it as their base
	MaterializationConfirmed   Kind = "materialization-confirmed"  // a completed checkpoint contains it
	MaterializationSkipped     Kind = "materialization-skipped"    // one was due and none began; Reason: running, borrowed, unconfirmed, unchanged, crowded
	MaterializationFailed      Kind = "materialization-failed"     // Error

	StorePutBegin    Kind = "store-put-begin" // for triggers only, never stored: their record is the object trace
	StorePutEnd      Kind = "store-put-end"
	StoreGetBegin    Kind = "store-get-begin"
	StoreGetEnd      Kind = "store-get-end"
	StoreDeleteBegin Kind = "store-delete-begin"
	StoreDeleteEnd   Kind = "store-delete-end"

	RestoreBegin    Kind = "restore-begin"    // per subtask; Checkpoint; Ranges: the key groups it will own
	RestoreLoaded   Kind = "restore-loaded"   // per subtask; Dur: base; Bytes
	RestoreReplayed Kind = "restore-replayed" // per subtask; Dur: replay; Bytes; Records: changes
	RestoreLocal    Kind = "restore-local"    // per subtask that began on state in the store: all is on the worker; Dur: since it began to restore; Bytes: since restore-loaded
	RestoreCopied   Kind = "restore-copied"   // per subtask, where local copies are kept; Bytes: of the two above, from copies; Count: requests that copies answered; From: those for which the store was asked instead
	RestoreDone     Kind = "restore-done"     // per subtask; Digests per key group and state when the plan asks for them; Positions for sources
	SourceStarted   Kind = "source-started"   // per source subtask; Attempt; Partition, From: the first position it will emit

	RescaleBegin Kind = "rescale-begin" // Count: parallelism asked for; From: parallelism before
	RescaleDone  Kind = "rescale-done"

	WorkerUp            Kind = "worker-up"
	WorkerDown          Kind = "worker-down"
	CoordinatorUp       Kind = "coordinator-up"
	CoordinatorDown     Kind = "coordinator-down"
	CoordinatorTakeover Kind = "coordinator-takeover" // Term

	FaultPlanned Kind = "fault-planned" // Fault id, Text: kind
	FaultArmed   Kind = "fault-armed"
	FaultHit     Kind = "fault-hit"    // it had an effect on the system; Text: the evidence
	FaultHealed  Kind = "fault-healed" // its removal was confirmed; Text: the evidence
	FaultMissed  Kind = "fault-missed" // never triggered or without effect; Text

	MessageDropped Kind = "message-dropped" // Reason: fenced, gone; Text: message
	CleanUp        Kind = "clean-up"        // objects of a fenced attempt removed; Attempt, Count, Bytes
	Note           Kind = "note"            // Text: something the reader should know
)

// Event is one observation. Which fields a kind fills is said beside the kind; the rest are zero and not written.
type Event struct {
	N          int64            `json:"n"`  // 1, 2, ... without a gap in a run
	At         time.Duration    `json:"at"` // since the run began, in nanoseconds
	Kind       Kind             `json:"kind"`
	Actor      string           `json:"actor,omitempty"`
	Phase      string           `json:"phase,omitempty"`
	Fault      string           `json:"fault,omitempty"`
	Attempt    uint64           `json:"attempt,omitempty"`
	Term       uint64           `json:"term,omitempty"`
	Checkpoint uint64           `json:"checkpoint,omitempty"`
	Planned    time.Duration    `json:"planned,omitempty"`
	Dur        time.Duration    `json:"dur,omitempty"`
	Bytes      int64            `json:"bytes,omitempty"`
	Records    int64            `json:"records,omitempty"`
	Count      int64            `json:"count,omitempty"`
	Partition  int              `json:"partition,omitempty"`
	From       int64            `json:"from,omitempty"`
	To         int64            `json:"to,omitempty"`
	Reason     string           `json:"reason,omitempty"`
	Error      string           `json:"error,omitempty"`
	Text       string           `json:"text,omitempty"`
	Digest     string           `json:"digest,omitempty"`
	Injected   bool             `json:"injected,omitempty"` // the error was put there by a fault
	Sizes      *Sizes           `json:"sizes,omitempty"`
	Positions  []int64          `json:"positions,omitempty"` // per source partition: the next index
	Ranges     []keygroup.Range `json:"ranges,omitempty"`
	Digests    []GroupDigest    `json:"digests,omitempty"`
}

// Sizes are the byte figures of a checkpoint or of one subtask's share of it; results/README.md defines them.
// Base, Delta and their sum Full count every stored part that the handles name once, though several subtasks may name it
// after a rescale: the bytes of distinct parts, all that a restore of this checkpoint has to read at most.
type Sizes struct {
	Checkpointed int64 `json:"checkpointed"`
	Full         int64 `json:"full"`
	Base         int64 `json:"base"`
	Delta        int64 `json:"delta"`
	Preemptive   int64 `json:"preemptive"`
	Materialized int64 `json:"materialized"`
	Objects      int64 `json:"objects"`
	// Held counts every object that the handles name once, whole; Metadata is the size of the checkpoint's own object, in none
	// of the others, and Encode what it took to make. They are of whole checkpoints only.
	Held       int64         `json:"held,omitempty"`
	Metadata   int64         `json:"metadata,omitempty"`
	Encode     time.Duration `json:"encode,omitempty"`
	StartDelay time.Duration `json:"startDelay"`
	Align      time.Duration `json:"align"`
	Sync       time.Duration `json:"sync"`
	Async      time.Duration `json:"async"`
}

// GroupDigest is the digest (canon.Digest) of one state's elements in one key group.
type GroupDigest struct {
	Operator string      `json:"operator"`
	State    string      `json:"state"`
	Group    keygroup.ID `json:"group"`
	Count    int64       `json:"count"`
	Digest   string      `json:"digest"`
}

// Causes of an AttemptFailed or AttemptStarted event.
const (
	CauseSubmitted     = "submitted"
	CauseWorkerLost    = "worker-lost"
	CauseSubtaskFailed = "subtask-failed"
	CauseRescale       = "rescale"
	CauseStart         = "start"         // the job was started after a stop
	CauseDeployFailed  = "deploy-failed" // a subtask failed while it restored
	CauseCheckpoints   = "checkpoints"   // more checkpoints failed in a row than are tolerated
)
