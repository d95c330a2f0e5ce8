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
