package scenario

import (
	"slices"

	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/history"
)

// Events lists the events that a trigger may name, the points of checkpoint stages and of the log included. The copy for
// local recovery is left out: its points are passed only where that is on, so a trigger there would rarely fire.
func Events() []string {
	kinds := history.Kinds()
	out := make([]string, len(kinds))
	for i, k := range kinds {
		out[i] = string(k)
	}
	for _, p := range slices.Concat(failpoint.Points(), failpoint.StoragePoints()) {
		if !slices.Contains(out, p) && p != failpoint.CheckpointLocalCopyBegin && p != failpoint.CheckpointLocalCopyEnd {
			out = append(out, p)
		}
	}
	return out
}

// logOnly tells whether an event happens only in arms whose changelog is enabled.
func logOnly(event string) bool {
	switch history.Kind(event) {
	case history.LogFlushBegin, history.LogFlushEnd, history.LogHedged, history.LogTruncated,
		history.MaterializationBegin, history.MaterializationUploadBegin, history.MaterializationUploadEnd,
		history.MaterializationUsed, history.MaterializationConfirmed, history.MaterializationSkipped, history.MaterializationFailed:
		return true
	}
	return false
}
