package workloads

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/registry"
)

// Counter is a synthetic job of up to two keyed stages that uses every type of state.
//
// Stage count keeps, for each 64-bit key, how many records came since the last removal and the last payload; entries of
// a bounded map, or a bounded list; and for each bucket of event time a window with a timer that counts, emits one
// record and clears the window. Stage total adds up the output of a coarser group of keys, in any order. Each source
// record leads to one output record, which carries what the record before it had left in the state.
func Counter() Kind {
	return Kind{New: newCounter, Resolve: resolveCounter, Options: &counterOptions{}, Schemas: counterSchemas, Inputs: func(o json.RawMessage) ([]string, error) {
		_, err := counterOptionsOf(o)
		return nil, err
	}}
}

// counterOptions are the options of the counter as they are written.
type counterOptions struct {
	Partitions int            `json:"partitions" about:"partitions of the source"`
	Stages     int            `json:"stages" about:"1 (count) or 2 (count, total)"`
	Keys       keyOptions     `json:"keys"`
	Values     payloadOptions `json:"values"`
	Second     string         `json:"second" about:"state beside the value: map, list or none"`
	ListCap    int64          `json:"listCap" about:"entries of the map or list of a key at most"`
	TimerEvery span           `json:"timerEvery" about:"length of a bucket of event time; 0: no windows and no timers"`
	Totals     int64          `json:"totals" about:"keys of stage total"`
	Ops        counterOps     `json:"ops"`
}

type counterOps struct {
	Delete share `json:"delete" about:"part of the records that remove the state of their key"`
}

// The values of Second.
const (
	secondMap  = "map"
	secondList = "list"
	secondNone = "none"
)

func counterOptionsOf(raw json.RawMessage) (counterOptions, error) {
	o := counterOptions{Partitions: 4, Stages: 2, Keys: keyOptions{Count: 10_000, Pick: pickUniform, S: 0.99},
		Values: payloadOptions{Size: size{100}, Compressible: share{0.5}}, Second: secondMap, ListCap: 8,
		TimerEvery: span{registry.Duration(time.Second)}, Totals: 64}
	if err := decodeOptions(raw, &o); err != nil {
		return o, fmt.Errorf("workload counter: %w", err)
	}
	if err := o.check(); err != nil {
		return o, fmt.Errorf("workload counter: %w", err)
	}
	return o, nil
}

// check reports everything that is wrong.
func (o *counterOptions) check() error {
	var problems []error
	bad := func(is bool, format string, args ...any) {
		if is {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	bad(o.Stages != 1 && o.Stages != 2, "stages is %d, must be 1 or 2", o.Stages)
	o.Keys.check(o.Partitions, bad)
	o.Values.check(bad)
	bad(o.Second != secondMap && o.Second != secondList && o.Second != secondNone, "second is %q, must be map, list or none", o.Second)
	bad(o.ListCap < 1 || o.ListCap > 1<<20, "listCap is %d, must be from 1 to %d", o.ListCap, 1<<20)
	bad(o.Totals < 1 || o.Totals > 1<<24, "totals is %d, must be from 1 to %d", o.Totals, 1<<24)
	return errors.Join(problems...)
}

func resolveCounter(raw json.RawMessage) (json.RawMessage, error) {
	o, err := counterOptionsOf(raw)
	if err != nil {
		return nil, err
	}
	return json.Marshal(o)
}

// counter is a configured Counter.
type counter struct {
	options counterOptions
	shape   counterShape
	source  *counterSource
	schema  atomic.Int32 // of the operators that are made; 0 is 1
}

// Evolve implements Evolving.
func (w *counter) Evolve(schema int) error {
	if schema < 1 || schema > counterSchemas {
		return fmt.Errorf("workload counter stores state in schema 1 to %d, not %d", counterSchemas, schema)
	}
	w.schema.Store(int32(schema))
	return nil
}

// counterShape is what operators and model need to know of the job, in plain numbers.
type counterShape struct {
	stages         int
	maps, lists    bool
	listCap        int64
	every          int64 // ns of a bucket; 0: no windows
	totals         uint64
	maxParallelism int
}

func newCounter(raw json.RawMessage, e Env) (Workload, error) {
	o, err := counterOptionsOf(raw)
	if err != nil {
		return nil, err
	}
	if e.MaxParallelism < 1 || e.MaxParallelism > keygroup.MaxParallelism || e.Rate < 0 {
		return nil, fmt.Errorf("workload counter: max parallelism %d or rate %v cannot be", e.MaxParallelism, e.Rate)
	}
	g := generated(e, o.Partitions, o.Keys, o.Values)
	g.remove = float64(o.Ops.Delete.Share)
	return &counter{options: o, source: &counterSource{g: newGenerator(g), paced: e.Rate > 0}, shape: counterShape{stages: o.Stages,
		maps: o.Second == secondMap, lists: o.Second == secondList, listCap: o.ListCap, every: int64(o.TimerEvery.Duration),
		totals: uint64(o.Totals), maxParallelism: e.MaxParallelism}}, nil
}

// Job implements Workload.
func (w *counter) Job() *graph.Job {
	s := w.shape
	states := []backend.StateSpec{backend.Spec("value", backend.Value)}
	if s.maps {
		states = append(states, backend.Spec("map", backend.Map))
	}
	if s.lists {
		states = append(states, backend.Spec("list", backend.List))
	}
	if s.every > 0 {
		states = append(states, backend.Spec("window", backend.Value), backend.Spec("fired", backend.Reducing), backend.Spec("timers", backend.Timers))
	}
	j := &graph.Job{
		Nodes: []graph.Node{
			{ID: "source", Source: w.source, Cost: costRead},
			{ID: "count", Keyed: true, States: states, Cost: costKeyed, Operator: func() graph.Operator { return &countOperator{shape: s, schema: int(w.schema.Load())} }},
		},
		Edges: []graph.Edge{{From: "source", To: "count", Exchange: graph.Hash}},
	}
	last := "count"
	if s.stages == 2 {
		j.Nodes = append(j.Nodes, graph.Node{ID: "total", Keyed: true, Cost: costCombine,
			States: []backend.StateSpec{backend.Spec("total", backend.Aggregating)}, Operator: func() graph.Operator { return &totalOperator{} }})
		j.Edges = append(j.Edges, graph.Edge{From: last, To: "total", Exchange: graph.Hash})
		last = "total"
	}
	j.Nodes = append(j.Nodes, graph.Node{ID: "sink", Sink: true})
	j.Edges = append(j.Edges, graph.Edge{From: last, To: "sink", Exchange: graph.Forward})
	return j
}

// Model implements Workload.
func (w *counter) Model() Model { return newCounterModel(w.source.g, w.shape) }

// Describe implements Workload.
func (w *counter) Describe() string {
	o := w.options
	text := fmt.Sprintf("counter: %d keys (%s) in %d partitions, payloads of %v (%v compressible), %d stages", o.Keys.Count, o.Keys.Pick,
		o.Partitions, o.Values.Size, o.Values.Compressible.Share, o.Stages)
	if o.Second != secondNone {
		text += fmt.Sprintf(", a %s of at most %d a key", o.Second, o.ListCap)
	}
	if o.TimerEvery.Duration > 0 {
		text += fmt.Sprintf(", timers every %v", o.TimerEvery)
	}
	return text
}

// counterSource turns the generator into a graph.Source.
type counterSource struct {
	g     *generator
	paced bool
}

// Partitions implements graph.Source.
func (s *counterSource) Partitions() int { return len(s.g.partitions) }

// Limit implements graph.Source: records are dealt out to the partitions in turn.
func (s *counterSource) Limit(partition int, total int64) int64 {
	return limitOf(partition, len(s.g.partitions), total)
}

// Read implements graph.Source. A record that removes its key has an empty value.
func (s *counterSource) Read(partition int, index int64, r *graph.Record) (bool, error) {
	draw := s.g.draw(partition, index)
	key := s.g.key(partition, s.g.local(partition, index, draw))
	r.Key = binary.BigEndian.AppendUint64(r.Key[:0], key)
	r.Hash = keygroup.HashInt64(int64(key))
	r.Value = r.Value[:0]
	if !s.g.removes(draw) {
		if cap(r.Value) < s.g.size {
			r.Value = make([]byte, s.g.size)
		}
		r.Value = r.Value[:s.g.size]
		s.g.payload(r.Value, draw)
	}
	r.EventTime, r.Partition, r.Index, r.Tag = s.g.eventTime(partition, index), int32(partition), index, 0
	return true, nil
}

// Due implements graph.Source.
func (s *counterSource) Due(partition int, index int64) time.Duration {
	if !s.paced {
		return anyTime
	}
	return time.Duration(s.g.eventTime(partition, index))
}

// Watermark implements graph.Source.
func (s *counterSource) Watermark(partition int, index int64) int64 {
	return s.g.watermark(partition, index)
}
