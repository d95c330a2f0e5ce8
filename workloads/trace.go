package workloads

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/registry"
)

// Trace is a job over timed keyed events from a CSV file, plain or .gz, in order of time.
//
// Stage stats keeps, for each key, count, sum, minimum, maximum and last of numeric columns, a count for each label of
// text columns, and for each bucket of event time a window with a timer that emits its record count and sums. Stage
// total adds up by other columns. Rows go to partitions by a hash of their key. Numbers are decimal with at most six
// places and are kept as millionths, so that sums do not depend on order.
func Trace() Kind {
	return Kind{New: newTrace, Resolve: resolveTrace, Options: &traceOptions{}, Inputs: func(o json.RawMessage) ([]string, error) {
		options, err := traceOptionsOf(o)
		if err != nil {
			return nil, err
		}
		return []string{options.File}, nil
	}}
}

// traceOptions are the options of the trace as they are written.
type traceOptions struct {
	File       string    `json:"file" about:"CSV file with a header, plain or .gz, in order of time"`
	Partitions int       `json:"partitions" about:"partitions of the source"`
	Time       traceTime `json:"time"`
	Key        columns   `json:"key" about:"columns that make the key"`
	Second     columns   `json:"second" about:"columns that make the key of the second stage; none: one stage"`
	Values     columns   `json:"values" about:"numeric columns, at most 4"`
	Labels     columns   `json:"labels" about:"text columns whose values are counted for each key, at most 4"`
	TimerEvery span      `json:"timerEvery" about:"length of a bucket of event time; 0: no windows and no timers"`
	BadRows    int64     `json:"badRows" about:"rows that may be skipped because they cannot be read"`
	Speed      float64   `json:"speed" about:"seconds of event time in a second; 0: not set"`
	Duration   span      `json:"duration" about:"how long the whole file takes, instead of speed; 0: not set; neither: as fast as possible"`
}

type traceTime struct {
	Column string `json:"column" about:"column of the event time"`
	Unit   string `json:"unit" about:"s, ms, us or ns since 1970"`
}

// columns are names of columns, given as one name or a list.
type columns []string

// UnmarshalJSON reads "a" or ["a", "b"].
func (c *columns) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*c = make(columns, 1)
		return json.Unmarshal(b, &(*c)[0])
	}
	*c = columns{}
	return json.Unmarshal(b, (*[]string)(c))
}

// maxColumns bounds numeric and text columns.
const maxColumns = 4

// timePlaces is how many decimal places of a unit make a nanosecond; -1: no such unit.
func timePlaces(unit string) int {
	switch unit {
	case "s":
		return 9
	case "ms":
		return 6
	case "us":
		return 3
	case "ns":
		return 0
	}
	return -1
}

func traceOptionsOf(raw json.RawMessage) (traceOptions, error) {
	o := traceOptions{Partitions: 4, Time: traceTime{Unit: "s"}, Key: columns{}, Second: columns{}, Values: columns{}, Labels: columns{},
		TimerEvery: span{registry.Duration(24 * time.Hour)}}
	if err := decodeOptions(raw, &o); err != nil {
		return o, fmt.Errorf("workload trace: %w", err)
	}
	if err := o.check(); err != nil {
		return o, fmt.Errorf("workload trace: %w", err)
	}
	return o, nil
}

// check reports everything that is wrong.
func (o *traceOptions) check() error {
	var problems []error
	bad := func(is bool, format string, args ...any) {
		if is {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	bad(o.File == "", "file is missing")
	bad(o.Partitions < 1 || o.Partitions > 1<<15, "partitions is %d, must be from 1 to 32768", o.Partitions)
	bad(o.Time.Column == "", "time.column is missing")
	bad(timePlaces(o.Time.Unit) < 0, "time.unit is %q, must be s, ms, us or ns", o.Time.Unit)
	bad(len(o.Key) == 0, "key is missing: it needs at least one column")
	bad(len(o.Values) > maxColumns, "values has %d columns, at most %d can be", len(o.Values), maxColumns)
	bad(len(o.Labels) > maxColumns, "labels has %d columns, at most %d can be", len(o.Labels), maxColumns)
	bad(o.BadRows < 0, "badRows is %d, must not be negative", o.BadRows)
	bad(o.Speed < 0 || math.IsInf(o.Speed, 0), "speed is %v, must be positive", o.Speed)
	bad(o.Speed > 0 && o.Duration.Duration > 0, "duration and speed are both given, and one follows from the other")
	return errors.Join(problems...)
}

func resolveTrace(raw json.RawMessage) (json.RawMessage, error) {
	o, err := traceOptionsOf(raw)
	if err != nil {
		return nil, err
	}
	return json.Marshal(o)
}

// trace is a configured Trace.
type trace struct {
	options traceOptions
	shape   traceShape
	source  *traceSource
	open    func(path string) (io.ReadCloser, error)
	total   int64 // records of the run; MaxInt64: not known

	maxParallelism int
}

// traceShape is what the operators need to know of the job.
type traceShape struct {
	values, labels int   // numbers of columns
	every          int64 // ns of a bucket; 0: no windows
	second         bool
}

func newTrace(raw json.RawMessage, e Env) (Workload, error) {
	o, err := traceOptionsOf(raw)
	if err != nil {
		return nil, err
	}
	switch {
	case e.MaxParallelism < 1 || e.MaxParallelism > keygroup.MaxParallelism || e.Rate < 0:
		return nil, fmt.Errorf("workload trace: max parallelism %d or rate %v cannot be", e.MaxParallelism, e.Rate)
	case e.Open == nil:
		return nil, errors.New("workload trace: there is nothing to open its file with")
	case e.Rate > 0 && (o.Speed > 0 || o.Duration.Duration > 0):
		return nil, errors.New("workload trace: a rate and speed or duration are both given, one will do")
	}
	rows, err := loadTrace(&o, e.Open)
	if err != nil {
		return nil, fmt.Errorf("workload trace: %w", err)
	}
	w := &trace{options: o, open: e.Open, total: math.MaxInt64, maxParallelism: e.MaxParallelism,
		shape: traceShape{values: len(o.Values), labels: len(o.Labels), every: int64(o.TimerEvery.Duration), second: len(o.Second) > 0}}
	if e.Total > 0 && e.Total < math.MaxInt64 {
		w.total = e.Total
		if n := int64(len(rows.at)); n < w.total {
			return nil, fmt.Errorf("workload trace: %s has %d rows, the run needs %d", o.File, n, w.total)
		}
	}
	w.source = newTraceSource(rows, &o, e.Rate, w.total)
	return w, nil
}

// Job implements Workload.
func (w *trace) Job() *graph.Job {
	s := w.shape
	states := []backend.StateSpec{backend.Spec("stats", backend.Aggregating)}
	if s.labels > 0 {
		states = append(states, backend.Spec("labels", backend.Map))
	}
	if s.every > 0 {
		states = append(states, backend.Spec("window", backend.Value), backend.Spec("timers", backend.Timers))
	}
	j := &graph.Job{
		Nodes: []graph.Node{
			{ID: "source", Source: w.source, Cost: costRead},
			{ID: "stats", Keyed: true, States: states, Cost: costKeyed, Operator: func() graph.Operator { return &statsOperator{shape: s} }},
		},
		Edges: []graph.Edge{{From: "source", To: "stats", Exchange: graph.Hash}},
	}
	last := "stats"
	if s.second {
		j.Nodes = append(j.Nodes, graph.Node{ID: "total", Keyed: true, Cost: costCombine,
			States: []backend.StateSpec{backend.Spec("total", backend.Reducing)}, Operator: func() graph.Operator { return &sumOperator{values: s.values} }})
		j.Edges = append(j.Edges, graph.Edge{From: last, To: "total", Exchange: graph.Hash})
		last = "total"
	}
	j.Nodes = append(j.Nodes, graph.Node{ID: "sink", Sink: true})
	j.Edges = append(j.Edges, graph.Edge{From: last, To: "sink", Exchange: graph.Forward})
	return j
}

// Model implements Workload. The model reads the file itself, at its first Advance.
func (w *trace) Model() Model {
	o := w.options
	return newTraceModel(traceInput{file: o.File, open: w.open, timeColumn: o.Time.Column, timePlaces: timePlaces(o.Time.Unit),
		key: o.Key, second: o.Second, values: o.Values, labels: o.Labels, partitions: o.Partitions, total: w.total,
		every: w.shape.every, maxParallelism: w.maxParallelism})
}

// Warnings implements Warner: rows that were skipped.
func (w *trace) Warnings() []string {
	rows := w.source.rows
	if rows.bad.count == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: %v", w.options.File, &rows.bad)}
}

// Describe implements Workload.
func (w *trace) Describe() string {
	rows := w.source.rows
	text := fmt.Sprintf("trace: %d rows of %s over %v of event time, %d keys in %d partitions", len(rows.at), w.options.File,
		time.Duration(rows.at[len(rows.at)-1]-rows.at[0]).Round(time.Second), len(rows.keys.text), w.options.Partitions)
	if w.source.speed > 0 {
		text += fmt.Sprintf(", at %.6g times its speed", w.source.speed)
	}
	if rows.bad.count > 0 {
		text += fmt.Sprintf(", %d rows skipped", rows.bad.count)
	}
	return text
}
