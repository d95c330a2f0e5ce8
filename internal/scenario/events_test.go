package scenario

import (
	"slices"
	"testing"
)

// What a trigger may name has to happen: a fault at an event that nobody emits makes a run inconclusive for nothing.
func TestEventsThatNeverHappenCannotBeNamed(t *testing.T) {
	events := Events()
	for _, e := range []string{"checkpoint-local-copy-begin", "checkpoint-local-copy-end", "store-multipart-begin", "store-multipart-end"} {
		if slices.Contains(events, e) {
			t.Errorf("%s can be named, and never happens", e)
		}
	}
	for _, e := range []string{"checkpoint-completed", "checkpoint-upload-begin", "log-upload-end", "store-put-begin"} {
		if !slices.Contains(events, e) {
			t.Errorf("%s happens, and cannot be named", e)
		}
	}
}
