// Package metrics is the list of figures that a run is described by, and takes them from the run's files.
//
// A metric has one name everywhere: in the expectations of a scenario, in bench.txt, in a comparison. Each is taken for one
// run and one phase, from what was stored and nothing else, so that an old result can be judged again. A figure that cannot
// be trusted is the reason why there is none.
package metrics

import (
	"slices"

	"statebench.dev/bench/internal/registry"
	"statebench.dev/bench/internal/stats"
)

// Unit is what the value of a metric is counted in.
type Unit string

// The units.
const (
	Millis  Unit = "ms"
	Micros  Unit = "µs/record"
	Bytes   Unit = "B"
	Rate    Unit = "records/s"
	Count   Unit = "" // a plain number
	Share   Unit = "share"
	PerSec  Unit = "ms/s" // a slope
	Often   Unit = "1/s"
	PerCkpt Unit = "1/checkpoint"
	Dollars Unit = "$"
)

// Better says which way a metric is better.
type Better string

// The directions.
const (
	Lower   Better = "lower"
	Higher  Better = "higher"
	Neither Better = ""
)

// Samples says what a metric is taken over.
type Samples string

// The kinds of samples.
const (
	Checkpoints Samples = "completed checkpoints"
	Recoveries  Samples = "recoveries"
	Rescales    Samples = "rescales"
	Starts      Samples = "starts" // of a job that was stopped
	Records     Samples = "records"
	Seconds     Samples = "seconds"         // rows of series.csv
	Instants    Samples = "instants"        // time-weighted: any number will do
	Whole       Samples = "the whole phase" // one figure
)

// Metric is one figure of a phase of a run.
type Metric struct {
	// Name is lower camel case in dotted parts: checkpoint.duration.p50.
	Name string
	// About says in one line what it is.
	About string
	// Unit is that of its value.
	Unit Unit
	// Better is the direction in which it improves.
	Better Better
	// Samples is what it is taken over.
	Samples Samples
	// Need is how many of these the phase has to hold before the figure is given; 0: one is enough, or none where it is a count.
	Need int
	// Measured: there is none of it in the simulated world, where an expectation of it is passed over.
	Measured bool

	quantile float64 // of a percentile, else 0
	of       func(d *Data, phase string, m *Metric) stats.Figure
}

// Timed tells whether its value in a simulated run comes from the cost model. Counts and bytes are real there too.
func (m Metric) Timed() bool {
	return m.Unit == Millis || m.Unit == Micros || m.Unit == Rate || m.Unit == PerSec || m.Unit == Often || m.Unit == Share
}

// All lists the metrics in the order of the table. The slice is the caller's.
func All() []Metric { return table() }

// Lookup finds a metric. The error of an unknown one is a *registry.UnknownError that knows the nearest name.
func Lookup(name string) (Metric, error) {
	all := table()
	if i := slices.IndexFunc(all, func(m Metric) bool { return m.Name == name }); i >= 0 {
		return all[i], nil
	}
	return Metric{}, &registry.UnknownError{What: "metric", Name: name, Nearest: registry.Nearest(name, Names())}
}

// Names lists the names in the order of the table.
func Names() (names []string) {
	for _, m := range table() {
		names = append(names, m.Name)
	}
	return names
}
