package validate

import (
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/results"
)

// numbersOf judges two completed checkpoints of 100 log bytes each. The second one, triggered at, counts an object of 40 bytes more
// that the first one names already.
func numbersOf(at time.Duration) Verdict {
	opt := func(v float64) results.Opt { return results.Opt{Value: v, Set: true} }
	c := &Case{Refs: []checkpoint.RefsChange{
		{Checkpoint: 1, Added: []checkpoint.ObjectUse{{Key: "log/1", Bytes: 140}}},
		{Checkpoint: 2, Added: []checkpoint.ObjectUse{{Key: "log/2", Bytes: 100}}},
	}}
	c.Plan.Backend.Changelog.Enabled = true
	type cp struct {
		id    uint64
		at    time.Duration
		bytes int64
	}
	for _, k := range []cp{{1, 0, 100}, {2, at, 140}} {
		c.checkpoints = append(c.checkpoints, results.CheckpointRow{ID: string(rune('0' + k.id)), Status: "completed",
			Trigger: opt(k.at.Seconds()), Duration: opt(10), Checkpointed: opt(float64(k.bytes)), Full: opt(100), Delta: opt(100),
			StartDelay: opt(0), Align: opt(0), Sync: opt(0), Async: opt(0)})
	}
	j := newNumbers(c)
	ended := func(id uint64, n int64, at time.Duration, bytes int64) *history.Event {
		return &history.Event{N: n, At: at, Kind: history.CheckpointCompleted, Checkpoint: id, Dur: 10 * time.Millisecond,
			Sizes: &history.Sizes{Checkpointed: bytes, Full: 100, Delta: 100}}
	}
	second := &history.Event{N: 2, At: at, Kind: history.CheckpointTriggered, Checkpoint: 2}
	j.Observe(&history.Event{N: 1, Kind: history.CheckpointTriggered, Checkpoint: 1})
	if at < 10*time.Millisecond {
		j.Observe(second)
		j.Observe(ended(1, 3, 10*time.Millisecond, 100))
	} else {
		j.Observe(ended(1, 2, 10*time.Millisecond, 100))
		second.N = 3
		j.Observe(second)
	}
	j.Observe(ended(2, 4, at+10*time.Millisecond, 140))
	return j.Finish()
}

// Of checkpoints at a time the one that a subtask acknowledges first counts the bytes that both name: references, which follow the
// order of completion, say something only about a checkpoint that was alone.
func TestConcurrentCheckpointsShareWhatTheyCount(t *testing.T) {
	if v := numbersOf(5 * time.Millisecond); v.Verdict != results.Pass {
		t.Errorf("two at a time: %+v", v)
	}
	if v := numbersOf(20 * time.Millisecond); !strings.Contains(strings.Join(v.Evidence, "\n"), "140 log bytes first referenced") {
		t.Errorf("one after the other: %+v", v)
	}
}

// A checkpoint is judged by the references only if the one before it was alone too: what that one shared with another, which was
// aborted, counts for the next.
func TestWhatAnAbortedCheckpointCountedIsCountedAgain(t *testing.T) {
	c, zero := &Case{}, results.Opt{Set: true}
	for id, status := range map[string]string{"1": "aborted", "2": "completed", "3": "completed", "4": "completed"} { // order-free: rows by id
		c.checkpoints = append(c.checkpoints, results.CheckpointRow{ID: id, Status: status, StartDelay: zero, Align: zero, Sync: zero, Async: zero})
	}
	j := newNumbers(c)
	for n, e := range []history.Event{
		{Kind: history.CheckpointTriggered, Checkpoint: 1}, {Kind: history.CheckpointTriggered, Checkpoint: 2},
		{Kind: history.CheckpointCompleted, Checkpoint: 2, Sizes: &history.Sizes{}}, {Kind: history.CheckpointAborted, Checkpoint: 1},
		{Kind: history.CheckpointTriggered, Checkpoint: 3}, {Kind: history.CheckpointCompleted, Checkpoint: 3, Sizes: &history.Sizes{Checkpointed: 7}},
		{Kind: history.CheckpointTriggered, Checkpoint: 4}, {Kind: history.CheckpointCompleted, Checkpoint: 4, Sizes: &history.Sizes{Checkpointed: 9}},
	} {
		e.N = int64(n + 1)
		j.Observe(&e)
	}
	evidence := strings.Join(j.Finish().Evidence, "\n")
	if strings.Contains(evidence, "reports 7 bytes") || !strings.Contains(evidence, "checkpoint 4 reports 9 bytes checkpointed") {
		t.Errorf("evidence:\n%s", evidence)
	}
}
