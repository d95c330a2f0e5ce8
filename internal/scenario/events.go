package scenario

import "statebench.dev/bench/internal/history"

// triggerEvents lists the events that a trigger may name, in the order of package history. Missing are those that no
// trigger can use: the begin and end of the run, which lie outside all phases, and what is recorded for the reader only.
func triggerEvents() []string {
	kinds := []history.Kind{
		history.PhaseBegin, history.PhaseEnd,
		history.SourceRange, history.OutputFirst, history.CaughtUp,
		history.SinkPrecommitted, history.SinkCommitted, history.SinkAborted,
		history.AttemptStarted, history.AttemptRunning, history.AttemptFailed, history.AttemptFenced,
		history.CheckpointTriggered, history.CheckpointSkipped, history.CheckpointAligned, history.CheckpointSynced,
		history.CheckpointAcked, history.CheckpointAckTaken, history.CheckpointCompleted, history.CheckpointAborted,
		history.CheckpointSubsumed,
		history.LogFlushBegin, history.LogFlushEnd, history.LogTruncated,
		history.MaterializationBegin, history.MaterializationUploadBegin, history.MaterializationUploadEnd,
		history.MaterializationConfirmed, history.MaterializationFailed,
		history.StorePutBegin, history.StorePutEnd, history.StoreGetBegin, history.StoreGetEnd,
		history.StoreDeleteBegin, history.StoreDeleteEnd, history.StoreMultipartBegin, history.StoreMultipartEnd,
		history.RestoreBegin, history.RestoreLoaded, history.RestoreReplayed, history.RestoreDone, history.SourceStarted,
		history.RescaleBegin, history.RescaleDone,
		history.WorkerUp, history.WorkerDown,
		history.CoordinatorUp, history.CoordinatorDown, history.CoordinatorTakeover,
		history.FaultArmed, history.FaultHit, history.FaultHealed,
		history.MessageDropped, history.CleanUp,
	}
	out := make([]string, len(kinds))
	for i, k := range kinds {
		out[i] = string(k)
	}
	return out
}

// logOnly tells whether an event happens only in arms whose changelog is enabled.
func logOnly(event string) bool {
	switch history.Kind(event) {
	case history.LogFlushBegin, history.LogFlushEnd, history.LogTruncated,
		history.MaterializationBegin, history.MaterializationUploadBegin, history.MaterializationUploadEnd,
		history.MaterializationConfirmed, history.MaterializationFailed:
		return true
	}
	return false
}
