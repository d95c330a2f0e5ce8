package workloads

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/registry"
)

// Enrich is a job that joins keyed events with broadcast rules, both of which one source deals out, in event time.
//
// Some records of the source change a rule: every subtask of the join gets them. The others are events of a key. An event
// waits in keyed state until the watermark has passed it; by then every rule that was in force at its time has come, and it
// leaves with that rule, counted in the order of event times of its key. So the output is a function of the records alone.
// Results are held back and emitted together each time that the world's clock passes a multiple of hold: a timer of
// processing time decides when, never whether or with what.
func Enrich() Kind {
	return Kind{New: newEnrich, Resolve: resolveEnrich, Options: &enrichOptions{}, Inputs: func(o json.RawMessage) ([]string, error) {
		_, err := enrichOptionsOf(o)
		return nil, err
	}}
}

// enrichOptions are the options of the join as they are written.
type enrichOptions struct {
	Partitions int            `json:"partitions" about:"partitions of the source"`
	Keys       keyOptions     `json:"keys"`
	Values     payloadOptions `json:"values"`
	Rules      ruleOptions    `json:"rules"`
	Disorder   span           `json:"disorder" about:"how far the event time of a record lies back at most, and the watermark behind: an event waits about that long for its rule"`
	Hold       span           `json:"hold" about:"results are emitted together when the world's clock passes a multiple of this; 0: at once"`
}

// ruleOptions are the rules as they are written.
type ruleOptions struct {
	Count int   `json:"count" about:"rules; each event is judged by one of them"`
	Share share `json:"share" about:"part of the records that change a rule"`
}

// maxRules bounds the rules, all of which each subtask keeps in memory.
const maxRules = 1 << 16

func enrichOptionsOf(raw json.RawMessage) (enrichOptions, error) {
	o := enrichOptions{Partitions: 4, Keys: keyOptions{Count: 10_000, Pick: pickUniform, S: 0.99},
		Values: payloadOptions{Size: size{100}, Compressible: share{0.5}}, Rules: ruleOptions{Count: 50, Share: share{0.01}},
		Disorder: span{registry.Duration(time.Second)}, Hold: span{registry.Duration(200 * time.Millisecond)}}
	if err := decodeOptions(raw, &o); err != nil {
		return o, fmt.Errorf("workload enrich: %w", err)
	}
	if err := o.check(); err != nil {
		return o, fmt.Errorf("workload enrich: %w", err)
	}
	return o, nil
}

// check reports everything that is wrong.
func (o *enrichOptions) check() error {
	var problems []error
	bad := func(is bool, format string, args ...any) {
		if is {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	o.Keys.check(o.Partitions, bad)
	o.Values.check(bad)
	bad(o.Rules.Count < 1 || o.Rules.Count > maxRules, "rules.count is %d, must be from 1 to %d", o.Rules.Count, maxRules)
	bad(o.Rules.Share.Share >= 1, "rules.share is %v, which leaves no events", o.Rules.Share)
	return errors.Join(problems...)
}

func resolveEnrich(raw json.RawMessage) (json.RawMessage, error) {
	o, err := enrichOptionsOf(raw)
	if err != nil {
		return nil, err
	}
	return json.Marshal(o)
}

// enriching is a configured Enrich.
type enriching struct {
	options enrichOptions
	shape   enrichShape
	in      *enrichInput
	paced   bool
}

// enrichShape is what operators and model need to know of the job, in plain numbers: times in ns.
type enrichShape struct {
	rules          int
	hold           int64
	maxParallelism int
}

func newEnrich(raw json.RawMessage, e Env) (Workload, error) {
	o, err := enrichOptionsOf(raw)
	if err != nil {
		return nil, err
	}
	if e.MaxParallelism < 1 || e.MaxParallelism > keygroup.MaxParallelism || e.Rate < 0 {
		return nil, fmt.Errorf("workload enrich: max parallelism %d or rate %v cannot be", e.MaxParallelism, e.Rate)
	}
	in := &enrichInput{disordered: disordered{generator: newGenerator(generated(e, o.Partitions, o.Keys, o.Values)),
		disorder: int64(o.Disorder.Duration), lag: int64(o.Disorder.Duration)},
		rules: uint64(o.Rules.Count), changes: uint64(float64(o.Rules.Share.Share) * (1 << 32))}
	return &enriching{options: o, in: in, paced: e.Rate > 0,
		shape: enrichShape{rules: o.Rules.Count, hold: int64(o.Hold.Duration), maxParallelism: e.MaxParallelism}}, nil
}

// Job implements Workload. The source splits into a hashed and a broadcast way, which meet again in the join.
func (w *enriching) Job() *graph.Job {
	s := w.shape
	states := []backend.StateSpec{backend.Spec("pending", backend.List), backend.Spec("totals", backend.Value), backend.Spec("timers", backend.Timers)}
	if s.hold > 0 {
		states = append(states, backend.Spec("held", backend.List), backend.Spec("processing-timers", backend.Timers))
	}
	join := func() graph.Operator { return newEnrichOperator(s) }
	if s.hold > 0 {
		join = func() graph.Operator { return &holdingOperator{enrichOperator: newEnrichOperator(s)} }
	}
	return &graph.Job{
		Nodes: []graph.Node{
			{ID: "source", Source: &enrichSource{in: w.in, paced: w.paced}, Cost: costRead},
			{ID: "events", Operator: func() graph.Operator { return &splitOperator{kind: enrichEvent} }, Cost: costSplit},
			{ID: "rules", Operator: func() graph.Operator { return &splitOperator{kind: enrichRule} }, Cost: costSplit},
			{ID: "enrich", Keyed: true, States: states, Cost: costKeyed, Operator: join},
			{ID: "sink", Sink: true},
		},
		Edges: []graph.Edge{
			{From: "source", To: "events", Exchange: graph.Forward},
			{From: "source", To: "rules", Exchange: graph.Forward},
			{From: "events", To: "enrich", Exchange: graph.Hash},
			{From: "rules", To: "enrich", Exchange: graph.Broadcast, Input: graph.Second},
			{From: "enrich", To: "sink", Exchange: graph.Forward},
		},
	}
}

// Model implements Workload.
func (w *enriching) Model() Model { return newEnrichModel(w.in, w.shape) }

// Describe implements Workload.
func (w *enriching) Describe() string {
	o := w.options
	return fmt.Sprintf("enrich: %d keys (%s) in %d partitions, payloads of %v (%v compressible), joined in event time with %d broadcast rules that %v of the records change",
		o.Keys.Count, o.Keys.Pick, o.Partitions, o.Values.Size, o.Values.Compressible.Share, o.Rules.Count, o.Rules.Share.Share)
}
