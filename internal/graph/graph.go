// Package graph is a streaming job as code: sources, operators, edges, one sink. A workload builds it, a target runs it.
//
// Everything an operator does must be a function of the records it gets and its state, never of the attempt, the wall
// clock or the order in which channels meet (docs/architecture.md says why): only then is there one right answer that the reference
// model can know.
package graph

import (
	"context"
	"fmt"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/keygroup"
)

// Exchange is how records travel over an edge.
type Exchange uint8

const (
	// Forward connects subtask i to subtask i; both ends have the same parallelism.
	Forward Exchange = iota + 1
	// Hash sends each record to the subtask that owns its key's group.
	Hash
	// Broadcast sends each record to every subtask. Nothing is chained behind it.
	Broadcast
)

// The inputs of a node.
const (
	First  = 0
	Second = 1 // of a TwoInput operator only
)

// Record is one element of a stream. Its byte slices are borrowed from the buffer it travels in: an operator that
// keeps them copies them.
type Record struct {
	Key       []byte        // encoded key of the next keyed operator
	Hash      int32         // Java hash code of the key (keygroup.HashInt64, ...), set by whoever sets Key
	Value     []byte        // payload
	EventTime int64         // nanoseconds
	Due       time.Duration // when the source should have sent it, since the run began
	Partition int32         // source partition and index of the record this one stems from: its identity in the output
	Index     int64
	Tag       uint8 // tells apart several outputs that stem from one source record
}

// Collector takes an operator's output records; it copies them.
type Collector interface {
	Collect(r *Record) error
}

// Job is the graph of a job. Nodes are in topological order; exactly one is a source and exactly one a sink.
type Job struct {
	Nodes []Node
	Edges []Edge
}

// Edge leads from one node to another, by id. Several edges may lead into one input and several out of one node, each of
// which gets every record; two edges of the same ends and input are the same one twice.
type Edge struct {
	From, To string
	Exchange Exchange
	// Input is which input of the node To the edge feeds: First or Second.
	Input int
}

// Node is an operator of the job. Exactly one of Source, Operator, Sink is set.
type Node struct {
	ID string // kebab-case, unique in the job, names state and subtasks
	// Source makes the node a source.
	Source Source
	// Operator makes a new instance for one subtask.
	Operator func() Operator
	// Sink makes the node the sink; the target provides it.
	Sink bool
	// Keyed operators have keyed state and are reached over Hash edges only, but for Broadcast ones into a second input.
	Keyed bool
	// States lists the keyed states the operator registers, so that an audit can decode them without running it.
	States []backend.StateSpec
	// Cost is the declared CPU cost of one record in the simulated world.
	Cost time.Duration
}

// Source is a pure function of partition and index. All methods may be called concurrently, from any attempt.
type Source interface {
	// Partitions is the number of partitions; it does not change with parallelism.
	Partitions() int
	// Limit is how many records of the partition are among the first total records of the whole source: the records
	// a run of total records reads from it.
	Limit(partition int, total int64) int64
	// Read fills r with record index of the partition, 0 <= index, appending to r.Key[:0] and r.Value[:0], and sets Hash, EventTime,
	// Partition and Index. ok is false past the end of a finite source. Due is set by Due, not by Read.
	Read(partition int, index int64, r *Record) (ok bool, err error)
	// Due is when the record is to be sent, since the source began; it grows with index. Negative: at any time.
	Due(partition int, index int64) time.Duration
	// Watermark is an event time that no record of the partition from index on is before, but those that are late. Which
	// ones are late must follow from the record alone. It grows with index.
	Watermark(partition int, index int64) int64
}

// OperatorContext is what an operator gets from its subtask.
type OperatorContext interface {
	// State is where typed state is made; nil when the node is not Keyed. Its current key is that of the record
	// or timer being processed.
	State() *backend.Context
	// RegisterTimer asks for OnTimer with the current key once the watermark reaches at (ns of event time). The same key and time twice is one timer.
	RegisterTimer(at int64) error
	// DeleteTimer takes it back.
	DeleteTimer(at int64) error
	// RegisterProcessingTimer asks for OnProcessingTimer with the current key once the time is at: time of the world, since the run
	// began. The same key and time twice is one timer. Timers outlive a restore; those that are overdue then fire after it. The
	// operator must be a ProcessingTimed.
	RegisterProcessingTimer(at time.Duration) error
	// DeleteProcessingTimer takes it back.
	DeleteProcessingTimer(at time.Duration) error
	// ProcessingTime is the time of the world, as of the batch of records being processed or the timer being fired.
	ProcessingTime() time.Duration
	// Watermark is the operator's current event time; math.MinInt64 before the first.
	Watermark() int64
	// Subtask, Parallelism and MaxParallelism say where it runs.
	Subtask() int
	Parallelism() int
	MaxParallelism() int
	// KeyGroup is that of the current key.
	KeyGroup() keygroup.ID
}

// Operator is one parallel instance of a node. It is used by one process at a time.
type Operator interface {
	// Open is called once, before any record; the operator may keep o.
	Open(ctx context.Context, o OperatorContext) error
	// Process handles one record, which it must not keep, and hands what follows from it to out.
	Process(ctx context.Context, r *Record, out Collector) error
	// OnTimer is called for a due timer, in order of (time, key); at is its time and key the encoded key.
	OnTimer(ctx context.Context, at int64, key []byte, out Collector) error
}

// TwoInput is an operator that tells the records of its second input from those of its first, which Process gets. Barriers are
// aligned over both inputs, and the watermark is the lesser of theirs. Which input a record comes from says nothing of when:
// between the inputs there is no order.
type TwoInput interface {
	Operator
	// ProcessSecond is Process for the second input. Over a Broadcast edge no key is current: there are no keyed state and no timers.
	ProcessSecond(ctx context.Context, r *Record, out Collector) error
}

// ProcessingTimed is an operator with timers of processing time. What they do may change when a record comes out, never whether or with what.
type ProcessingTimed interface {
	Operator
	// OnProcessingTimer is called for a due timer, in order of (time, key) among those that are due together.
	OnProcessingTimer(ctx context.Context, at time.Duration, key []byte, out Collector) error
}

// Stateful is an optional ability of an operator: state that is not keyed. Redistribution says how the parts are dealt out on a rescale.
type Stateful interface {
	// SnapshotOperatorState returns the parts as of the barrier; the operator does not change them afterwards.
	SnapshotOperatorState(ctx context.Context) ([][]byte, error)
	// RestoreOperatorState takes the parts dealt to this instance; it is called before Open.
	RestoreOperatorState(ctx context.Context, parts [][]byte) error
	Redistribution() Redistribution
}

// Redistribution of operator state parts on restore.
type Redistribution uint8

const (
	// Split deals the parts of all subtasks out round-robin.
	Split Redistribution = iota + 1
	// Union gives every subtask all parts.
	Union
	// Whole is for broadcast state, of which every subtask holds the whole: each gets the parts of one of them. They are the same
	// bytes at every subtask, or the job fails on restore, since subtasks that went apart would give output that depends on where a
	// key lies.
	Whole
)

// Validate reports the first thing that is wrong with the graph.
func (j *Job) Validate() error {
	at := map[string]int{}
	sources, sinks := 0, 0
	for i, n := range j.Nodes {
		if _, twice := at[n.ID]; twice || n.ID == "" {
			return fmt.Errorf("node id %q is empty or used twice", n.ID)
		}
		at[n.ID] = i
		kinds := 0
		if n.Source != nil {
			kinds, sources = kinds+1, sources+1
		}
		if n.Operator != nil {
			kinds++
		}
		if n.Sink {
			kinds, sinks = kinds+1, sinks+1
		}
		if kinds != 1 {
			return fmt.Errorf("node %q must be exactly one of source, operator, sink", n.ID)
		}
	}
	if sources != 1 || sinks != 1 {
		return fmt.Errorf("job has %d sources and %d sinks, need one of each", sources, sinks)
	}
	for i, e := range j.Edges {
		from, okFrom := at[e.From]
		to, okTo := at[e.To]
		if !okFrom || !okTo || from >= to {
			return fmt.Errorf("edge %s -> %s does not lead from a node to a later one", e.From, e.To)
		}
		if err := j.edge(i, &j.Nodes[to]); err != nil {
			return err
		}
	}
	return j.inputs()
}

// edge checks edge number i, which leads to node to.
func (j *Job) edge(i int, to *Node) error {
	e := j.Edges[i]
	if e.Exchange < Forward || e.Exchange > Broadcast || e.Input < First || e.Input > Second {
		return fmt.Errorf("edge %s -> %s has no exchange or no input that there is", e.From, e.To)
	}
	for _, other := range j.Edges[:i] {
		if other.From == e.From && other.To == e.To && other.Input == e.Input {
			return fmt.Errorf("edge %s -> %s is there twice", e.From, e.To)
		}
	}
	if to.Keyed && e.Exchange != Hash && (e.Exchange != Broadcast || e.Input != Second) {
		return fmt.Errorf("keyed node %q is reached over an edge that is not hash", e.To)
	}
	return nil
}

// inputs checks that each node has edges into the inputs that it has, and into no others.
func (j *Job) inputs() error {
	for _, n := range j.Nodes {
		var fed [2]bool
		for _, e := range j.Edges {
			if e.To == n.ID {
				fed[e.Input] = true
			}
		}
		var need [2]bool
		if need[First] = n.Source == nil; n.Operator != nil {
			_, need[Second] = n.Operator().(TwoInput)
		}
		if fed != need {
			return fmt.Errorf("node %q: an edge leads to its first input: %t, to its second: %t; needed: %t, %t", n.ID, fed[First], fed[Second],
				need[First], need[Second])
		}
	}
	return nil
}
