package scenario

import "statebench.dev/bench/internal/history"

// triggerEvents lists the events that a trigger may name.
func triggerEvents() []string {
	kinds := history.Kinds()
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
