package validate

import (
	"statebench.dev/bench/internal/history"
)

// offsets is O1: inside one attempt the positions of a source partition go forward without a gap.
type offsets struct {
	at     map[attemptPartition]int64
	ranges int
	f      findings
}

type attemptPartition struct {
	attempt   uint64
	partition int
}

func (j *offsets) Observe(e *history.Event) {
	at := attemptPartition{e.Attempt, e.Partition}
	switch e.Kind {
	case history.SourceStarted:
		if was, twice := j.at[at]; twice {
			j.f.add(e.N, "attempt %d: partition %d began at %d although it already stood at %d", e.Attempt, e.Partition, e.From, was)
		}
		j.at[at] = e.From
	case history.SourceRange:
		j.ranges++
		was, begun := j.at[at]
		switch {
		case !begun:
			j.f.add(e.N, "attempt %d: partition %d emitted [%d,%d) before it began", e.Attempt, e.Partition, e.From, e.To)
		case e.From != was:
			j.f.add(e.N, "attempt %d: partition %d emitted [%d,%d) although it stood at %d", e.Attempt, e.Partition, e.From, e.To, was)
		case e.To < e.From:
			j.f.add(e.N, "attempt %d: partition %d went back from %d to %d", e.Attempt, e.Partition, e.From, e.To)
		}
		j.at[at] = e.To
	}
}

func (j *offsets) Finish() Verdict {
	if j.ranges == 0 {
		return inconclusive("no source emitted anything")
	}
	return j.f.verdict("%d ranges of %d partitions in their attempts follow each other", j.ranges, len(j.at))
}

// replay is O2: every attempt begins each partition exactly at the position of the checkpoint it restored.
type replay struct {
	restored  map[uint64]uint64  // attempt -> checkpoint
	positions map[uint64][]int64 // checkpoint -> positions
	started   map[uint64]map[int]int64
	events    map[uint64]int64
	triggered map[uint64]uint64 // checkpoint -> attempt
	running   map[uint64]bool   // attempts that completed a checkpoint: all their sources had begun
	f         findings
}

func (j *replay) Observe(e *history.Event) {
	switch e.Kind {
	case history.AttemptStarted:
		j.restored[e.Attempt], j.events[e.Attempt] = e.Checkpoint, e.N
		j.started[e.Attempt] = map[int]int64{}
	case history.CheckpointTriggered, history.SavepointTriggered:
		j.triggered[e.Checkpoint] = e.Attempt
	case history.CheckpointCompleted, history.SavepointCompleted:
		j.positions[e.Checkpoint] = append([]int64(nil), e.Positions...)
		j.running[j.triggered[e.Checkpoint]] = true
	case history.SourceStarted:
		if m := j.started[e.Attempt]; m != nil {
			m[e.Partition] = e.From
		}
		from := int64(0)
		if c := j.restored[e.Attempt]; c > 0 {
			p := j.positions[c]
			if e.Partition >= len(p) {
				j.f.add(e.N, "attempt %d restored checkpoint %d, which has no position of partition %d", e.Attempt, c, e.Partition)
				return
			}
			from = p[e.Partition]
		}
		if e.From != from {
			j.f.add(e.N, "attempt %d: partition %d began at %d, the restored checkpoint %d says %d", e.Attempt, e.Partition, e.From, j.restored[e.Attempt], from)
		}
	}
}

func (j *replay) Finish() Verdict {
	n := 0
	for _, a := range sortedKeys(j.started) {
		p := j.positions[j.restored[a]]
		if !j.running[a] || p == nil {
			continue
		}
		n++
		for i := range p {
			if _, ok := j.started[a][i]; !ok {
				j.f.add(j.events[a], "attempt %d never began partition %d", a, i)
			}
		}
	}
	if len(j.started) == 0 {
		return inconclusive("no attempt was started")
	}
	return j.f.verdict("%d restored attempts of %d began at the positions of their checkpoint", n, len(j.started))
}

// ids is C1: ids of checkpoints and savepoints, which share one sequence, grow and are never used again.
type ids struct {
	last uint64
	n    int
	f    findings
}

func (j *ids) Observe(e *history.Event) {
	if e.Kind != history.CheckpointTriggered && e.Kind != history.SavepointTriggered {
		return
	}
	j.n++
	if e.Checkpoint <= j.last {
		j.f.add(e.N, "checkpoint %d was triggered after %d", e.Checkpoint, j.last)
	}
	j.last = max(j.last, e.Checkpoint)
}

func (j *ids) Finish() Verdict {
	if j.n == 0 {
		return inconclusive("no checkpoint was triggered")
	}
	return j.f.verdict("%d checkpoint ids grow", j.n)
}
