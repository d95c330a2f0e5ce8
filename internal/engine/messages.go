package engine

import (
	"fmt"
	"strings"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/checkpoint"
)

// Message is what the transport carries between a coordinator and a worker. Term and Attempt are the fencing token: a
// receiver drops lower ones and counts them. Body is one of the types of this file, treated as read-only by both sides.
type Message struct {
	From, To string // coordinator-0, worker-1, ...
	Term     uint64 // of the leader that sends it, or that the worker follows
	Attempt  uint64 // 0 for messages that belong to no attempt
	Body     any

	sender *Endpoint // stamped by the transport; nil for a message of the transport itself
}

// messageName is how a message's body is called in events.
func messageName(body any) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", body), "engine.")
}

// Register announces a worker; repeated until a leader answers with heartbeats.
type Register struct {
	Worker string
	Slots  int
	Life   uint64 // counts the worker's lives: a crash and revival is a new one
}

// Heartbeat goes both ways.
type Heartbeat struct {
	Sent time.Duration
	Life uint64 // of the worker; a leader that sees a new life treats the old one as lost
}

// ConnectionLost is delivered by the transport to the leader at once when a worker dies, where the failure-detection model says so.
type ConnectionLost struct {
	Worker string
	Life   uint64
}

// Deploy starts the listed subtasks of an attempt on a worker.
type Deploy struct {
	Parallelism int
	Restored    uint64 // checkpoint restored from; 0: none
	Written     uint64 // the attempt that took it; 0: none did
	Borrowed    bool   // its objects are not the job's: no checkpoint may name one
	Subtasks    []SubtaskDeployment
	Digests     bool // record digests of restored state
	Backend     backend.Factory
}

// SubtaskDeployment is one subtask with what it restores.
type SubtaskDeployment struct {
	Operator  string
	Index     int
	Handles   []backend.StateHandle // overlapping the subtask's range, narrowed to it
	Whole     []backend.StateHandle // the same as the checkpoint has them
	Parts     [][]byte
	Positions []checkpoint.Position // source: the partitions it reads and where it starts; complete
	Commit    []string              // sink: transactions of the restored checkpoint, to be committed again
}

// StartSources lets the sources of an attempt begin; it is sent once all subtasks run.
type StartSources struct {
	// Began is the world time from which the sources' schedule counts: when the first attempt of the job started its
	// sources. It is the same in every attempt.
	Began time.Duration
}

// StopSources ends the input: each partition stops at its limit, or where it stands when it is past it. Barriers go on.
type StopSources struct {
	// Limits are the indices at which the partitions stop; nil: each where it stands.
	Limits []int64
}

// CancelAttempt ends all subtasks of Message.Attempt on a worker, which answers with AttemptEnded.
type CancelAttempt struct{}

// AttemptEnded says that no process of the attempt is left on the worker.
type AttemptEnded struct{ Worker string }

// SubtaskRunning says that a subtask has restored its state and processes input.
type SubtaskRunning struct {
	Operator string
	Index    int
	Restore  backend.RestoreStats
}

// SubtaskFailed says that a subtask ended with an error.
type SubtaskFailed struct {
	Operator string
	Index    int
	Error    string
	Injected bool
	// Unreadable says that an object of the restored checkpoint is missing or damaged (store.ErrNotExist, store.ErrCorrupt):
	// restoring it again would fail again, so an older one is tried.
	Unreadable bool
	// Foreign says that the restored state is of another backend (backend.ErrForeign) or schema (backend.ErrSchema): no attempt
	// could restore it.
	Foreign bool
}

// TriggerCheckpoint starts a barrier at each source subtask of the worker.
type TriggerCheckpoint struct {
	ID   uint64
	At   time.Duration
	Form form // of a savepoint; noForm: it is a checkpoint
	Stop bool // the sources emit nothing behind the barrier, unless it is aborted
}

// AskPermit asks the leader for one of Most places of an attempt for a subtask; it is answered by Permit, in its turn.
type AskPermit struct {
	Holder string // the subtask's name
	Most   int
}

// Permit gives a subtask the place that it asked for.
type Permit struct{ Holder string }

// ReturnPermit gives a place, or the wish for one, back.
type ReturnPermit struct{ Holder string }

// Acknowledge carries one subtask's part of a checkpoint.
type Acknowledge struct {
	Checkpoint uint64
	State      checkpoint.SubtaskState
	Persisted  backend.Persisted
	Savepoint  bool
	Timer      time.Duration // the earliest timer of processing time in the cut; 0: there is none
	StartDelay time.Duration // trigger until the first barrier arrived
	Align      time.Duration
	Sync       time.Duration
	Async      time.Duration
}

// Reasons of an aborted checkpoint; a Decline carries one of the first two.
const (
	ReasonDeclined      = "declined"      // a subtask could not take part
	ReasonAsyncFailure  = "async-failure" // a subtask's or the coordinator's asynchronous part failed
	ReasonExpired       = "expired"       // the timeout passed
	ReasonSubsumed      = "subsumed"      // a newer one completed
	ReasonAttemptFailed = "attempt-failed"
	ReasonStopped       = "stopped"
)

// Decline says that a subtask cannot take part in a checkpoint.
type Decline struct {
	Checkpoint uint64
	Operator   string
	Index      int
	Reason     string // ReasonDeclined or ReasonAsyncFailure; anything else counts as declined
	Error      string // what happened
	Injected   bool   // a fault of the plan made the error
	Overtaken  bool   // the barrier of a newer checkpoint came first: no sign that anything is wrong
}

// CheckpointCompleted tells a worker's subtasks that a checkpoint completed, together with the newest one it subsumed.
type CheckpointCompleted struct {
	ID       uint64
	Subsumed uint64 // 0: none
}

// CheckpointAborted tells them that it will not.
type CheckpointAborted struct {
	ID        uint64
	Savepoint bool
}

// FailSubtask makes one subtask fail at its next record boundary; sent by the task-error fault through the worker's mailbox.
type FailSubtask struct {
	Operator string
	Index    int
	Reason   string
}
