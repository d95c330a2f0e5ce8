package checkpoint

import (
	"time"

	"statebench.dev/bench/backend"
)

// Metadata is what a checkpoint consists of: enough to restore the job from it at any parallelism.
type Metadata struct {
	ID             uint64         `json:"id"`
	Term           uint64         `json:"term"`    // of the leader that wrote it
	Attempt        uint64         `json:"attempt"` // that took it
	TriggeredAt    time.Duration  `json:"triggeredAt"`
	Parallelism    int            `json:"parallelism"`
	MaxParallelism int            `json:"maxParallelism"`
	Subtasks       []SubtaskState `json:"subtasks"` // in order of (operator in topological order, index)
}

// SubtaskState is one subtask's part of a checkpoint.
type SubtaskState struct {
	Operator string `json:"operator"`
	Index    int    `json:"index"`
	// Keyed is nil for a subtask without keyed state.
	Keyed *backend.StateHandle `json:"keyed,omitempty"`
	// Operator state: parts to be redistributed.
	Parts [][]byte `json:"parts,omitempty"`
	// Positions of a source subtask: per partition it read, the index of the next record.
	Positions []Position `json:"positions,omitempty"`
	// Transactions of a sink subtask that the checkpoint's completion commits.
	Transactions []string `json:"transactions,omitempty"`
}

// Position is where a source partition stands.
type Position struct {
	Partition int   `json:"partition"`
	Next      int64 `json:"next"`
}

// ObjectUse is one whole object that a checkpoint names.
type ObjectUse struct {
	Key    string `json:"key"`
	Bytes  int64  `json:"bytes"`
	CRC32C uint32 `json:"crc32c"`
}

// RefsChange is a line of refs.jsonl: a completed checkpoint and how the set of objects it names differs from that of
// the checkpoint completed before it.
type RefsChange struct {
	Checkpoint uint64      `json:"checkpoint"`
	Term       uint64      `json:"term"`
	Attempt    uint64      `json:"attempt"`
	Meta       ObjectUse   `json:"meta"`
	Added      []ObjectUse `json:"added"`
	Dropped    []string    `json:"dropped"`
}
