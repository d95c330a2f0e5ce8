// Package sinks is where a job's output goes.
//
// Collect is the ground truth of the judges: it lives outside workers and coordinators, as a database would, and
// survives the death of both. A sink subtask writes into the open transaction of its Writer, Precommit closes that
// transaction in the synchronous part of a checkpoint, Commit makes it count once the checkpoint has completed, and
// Restore begins a new attempt: it commits what the restored checkpoint names, aborts the rest and fences the attempts
// before. Memory is bounded by the number of key groups, and one bit for each output record where identities are kept.
//
// Steps of use: NewCollect, Restore at the start of each attempt, Writer for each sink subtask, Add and Precommit by the
// subtask, Commit by whoever learns of the completed checkpoint, Result at the end.
package sinks

import "errors"

var (
	// ErrFenced is returned to an attempt that a newer one has taken over from.
	ErrFenced = errors.New("attempt is fenced by a newer one")
	// ErrUnknown is returned for a transaction that was never precommitted, or was aborted.
	ErrUnknown = errors.New("transaction is unknown")
)

// Identity names one output record: the source record it stems from, and the tag that tells apart several outputs of one.
type Identity struct {
	Partition int   `json:"partition"`
	Index     int64 `json:"index"` // in the partition, from 0
	Tag       uint8 `json:"tag"`
}
