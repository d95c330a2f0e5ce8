package workloads

import (
	"statebench.dev/bench/internal/canon"
	"statebench.dev/bench/internal/keygroup"
)

// Model is the reference: what state and output must be when each source partition has been read up to a position. It
// shares nothing with operators and backends. Positions hold, for each partition, the index of the next record, as in a
// completed checkpoint, at which the watermark is the least of Source.Watermark(p, positions[p]) over the partitions
// that have records. A Model is used by one process at a time.
type Model interface {
	// Advance moves the model to positions. No position may be less than in the call before, nor beyond the partition's
	// limit; on an error the model is of no further use.
	Advance(positions []int64) error
	// Groups calls f, in any fixed order, for every operator, state and key group with at least one element. The digest
	// is that of the elements as Elements gives them. The timers of an operator are its state "timers".
	Groups(f func(operator, state string, group keygroup.ID, d canon.Digest))
	// Elements calls f for each element (canon.Element) of a state in a key group, in any fixed order. The bytes are
	// borrowed during the call.
	Elements(operator, state string, group keygroup.ID, f func(element []byte))
	// Output calls f, in order, for each partition and key group with output: the records (canon.Output) that stem from
	// the partition and whose own key, at the sink, is of the group.
	Output(f func(partition int, group keygroup.ID, d canon.Digest))
	// OutputHas tells whether the source record has led to an output record with the tag.
	OutputHas(partition int, index int64, tag uint8) bool
	// OutputTags is the number of tags in use: they are 0 to OutputTags()-1.
	OutputTags() int
}

// Timely is an optional ability of a Model. Some state holds what depends on when things happened and not on the records
// alone, such as results that are held back until a time of the world. Groups and Elements leave such states out, and nobody
// compares them. A workload may have one only if all that is in it has left for the output once the input has ended: then what
// is wrong with it shows there.
type Timely interface {
	// Timely tells whether the state of an operator is one of them.
	Timely(operator, state string) bool
}
