// Package workloads holds the jobs that a run can execute, with their inputs and their reference models.
//
// A workload is an operator graph over a source that is a pure function of partition and index, and a model that knows
// what state and output must be at any positions of the source. For there to be one right answer, every key belongs to
// one source partition, operators that several channels feed for one key are commutative, and what a timer does depends
// only on records before its time, all of which have arrived once the watermark has passed it.
//
// Steps of use: Kind.Resolve completes the options when a plan is made, Kind.Inputs lists the files to open, Kind.New
// makes the workload of a run, Job goes to the target and Model to the judges.
package workloads

import (
	"encoding/json"
	"io"

	"statebench.dev/bench/internal/graph"
)

// Workload is a job with its input and its reference model.
type Workload interface {
	// Job is the operator graph. Its source and operators may be used by any number of attempts.
	Job() *graph.Job
	// Model makes a model at the beginning of the source. Models are independent of one another.
	Model() Model
	// Describe says in one line what the job does and how large it is.
	Describe() string
}

// Warner is an optional ability of a Workload: it tells what the user should know about the input, one line each.
type Warner interface{ Warnings() []string }

// Evolving is an optional ability of a Workload: it has later programs too, which store their state in other schemas and convert
// what earlier ones stored.
type Evolving interface {
	// Evolve makes all operators that are made from now on those of the program that stores its state in the given schema, from
	// 1, the first, to Kind.Schemas. It may be called by any process.
	Evolve(schema int) error
}

// Versioned is an optional ability of a Model of such a workload.
type Versioned interface {
	// Stored makes the elements that the model gives from now on those of the program with that schema.
	Stored(schema int)
}

// Env is what a run gives its workload.
type Env struct {
	// Seed is the run's; all random choices follow from it.
	Seed uint64
	// Rate is the offered load in records a second of the whole source; 0: as fast as possible.
	Rate float64
	// MaxParallelism is the number of key groups.
	MaxParallelism int
	// Total is how many records the sources emit together; 0 or math.MaxInt64: not known.
	Total int64
	// Open opens an input file by its path in the options.
	Open func(path string) (io.ReadCloser, error)
	// Simulated tells that the run is in the simulated world.
	Simulated bool
}

// Constructor makes a workload from its options, a JSON object in which unknown keys are errors and absent ones have
// their default. The error lists everything that is wrong.
type Constructor func(options json.RawMessage, e Env) (Workload, error)

// Kind is one kind of workload. Resolve checks options and returns them with every default filled in; resolving twice
// changes nothing. Inputs lists the paths of the files that New will open.
// Options points to a struct of the form that options have, with json and about tags, for listing them.
type Kind struct {
	New     Constructor
	Options any
	Resolve func(options json.RawMessage) (json.RawMessage, error)
	Inputs  func(options json.RawMessage) ([]string, error)
	// Schemas is in how many schemas the workload can store its state (Evolving); 0 is 1.
	Schemas int
}

// Costs declared for the simulated world, by what a record of a node does.
const (
	costRead    = 300  // ns: generate or look up a source record
	costSplit   = 100  // ns: look at a record and pass it on
	costKeyed   = 2000 // ns: a few state reads and writes
	costCombine = 800  // ns: one state read and write
)
