package validate

import (
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/results"
)

// numbersOf judges two completed checkpoints of 100 log bytes each. The second one, triggered at, counts more bytes, that the first
// one names already.
func numbersOf(at time.Duration, more int64) Verdict {
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
	for _, k := range []cp{{1, 0, 100}, {2, at, 100 + more}} {
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
	j.Observe(ended(2, 4, at+10*time.Millisecond, 100+more))
	return j.Finish()
}

// Of checkpoints at a time the one that a subtask acknowledges first counts the bytes that both name: references, which follow the
// order of completion, say something about their sum only.
func TestConcurrentCheckpointsShareWhatTheyCount(t *testing.T) {
	if v := numbersOf(5*time.Millisecond, 40); v.Verdict != results.Pass || !strings.Contains(v.Summary, "objects added for 2 and") {
		t.Errorf("two at a time: %+v", v)
	}
	for at, want := range map[time.Duration]string{5: "checkpoint 1, 2 reports 241 log bytes first referenced", 20: "checkpoint 2 reports 141 log bytes first referenced"} {
		if v := numbersOf(at*time.Millisecond, 41); !strings.Contains(strings.Join(v.Evidence, "\n"), want) {
			t.Errorf("%d bytes too many, the second triggered at %d ms: %+v", 41, at, v)
		}
	}
}

func TestNumbersOfNoCheckpointSayNothing(t *testing.T) {
	if v := newNumbers(&Case{}).Finish(); v.Verdict != results.Inconclusive {
		t.Errorf("%+v", v)
	}
}

// What a checkpoint shared with another, which was aborted, counts for the next, but no more than that; the one after it is judged
// exactly.
func TestWhatAnAbortedCheckpointCountedIsCountedAgain(t *testing.T) {
	for third, want := range map[int64]string{7: "", 8: "checkpoint 3 reports 8 bytes checkpointed"} {
		c, zero := &Case{}, results.Opt{Set: true}
		c.Refs = []checkpoint.RefsChange{{Checkpoint: 2, Added: []checkpoint.ObjectUse{{Key: "base/1", Bytes: 7}}}}
		for id, status := range map[string]string{"1": "aborted", "2": "completed", "3": "completed", "4": "completed"} { // order-free: rows by id
			c.checkpoints = append(c.checkpoints, results.CheckpointRow{ID: id, Status: status, StartDelay: zero, Align: zero, Sync: zero, Async: zero})
		}
		j := newNumbers(c)
		for n, e := range []history.Event{
			{Kind: history.CheckpointTriggered, Checkpoint: 1}, {Kind: history.CheckpointTriggered, Checkpoint: 2},
			{Kind: history.CheckpointCompleted, Checkpoint: 2, Sizes: &history.Sizes{}}, {Kind: history.CheckpointAborted, Checkpoint: 1},
			{Kind: history.CheckpointTriggered, Checkpoint: 3}, {Kind: history.CheckpointCompleted, Checkpoint: 3, Sizes: &history.Sizes{Checkpointed: third}},
			{Kind: history.CheckpointTriggered, Checkpoint: 4}, {Kind: history.CheckpointCompleted, Checkpoint: 4, Sizes: &history.Sizes{Checkpointed: 9}},
		} {
			e.N = int64(n + 1)
			j.Observe(&e)
		}
		evidence := strings.Join(j.Finish().Evidence, "\n")
		if strings.Contains(evidence, "checkpoint 3 reports") != (want != "") || !strings.Contains(evidence, want) || !strings.Contains(evidence, "checkpoint 4 reports 9 bytes checkpointed") {
			t.Errorf("evidence, of a third one with %d bytes:\n%s", third, evidence)
		}
	}
}
