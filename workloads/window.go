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

// Window is a job of event-time windows over generated keys, tumbling or sliding, whose records come out of order.
//
// Each key has count, sum, minimum, maximum and last of a number in each window that holds a record of it, and optionally
// the payload of the last record or those of all. A window is emitted once, as one record, when the watermark has passed
// its end by the allowed lateness. Panes of the length of a slide are kept once and put together when a window ends
// (shared), or each record is written into every window it belongs to (unshared); the output is the same. A record is late
// when the first of its windows has ended for the watermark of its own partition; it is counted, and emitted aside or
// dropped. With a time to live, what a key has beside its windows is forgotten when it has been quiet for that long.
func Window() Kind {
	return Kind{New: newWindow, Resolve: resolveWindow, Options: &windowOptions{}, Inputs: func(o json.RawMessage) ([]string, error) {
		_, err := windowOptionsOf(o)
		return nil, err
	}}
}

// windowOptions are the options of the windows as they are written.
type windowOptions struct {
	Partitions int            `json:"partitions" about:"partitions of the source"`
	Keys       keyOptions     `json:"keys"`
	Values     payloadOptions `json:"values"`
	Size       span           `json:"size" about:"length of a window, of event time"`
	Slide      span           `json:"slide" about:"from one window's start to the next one's, of which size is a multiple; 0: size, tumbling windows"`
	Panes      string         `json:"panes" about:"shared (a record is written once, panes are put together) or unshared (into each of its windows)"`
	Keep       string         `json:"keep" about:"payloads in a window: none, last or all"`
	Disorder   span           `json:"disorder" about:"how far the event time of a record lies back at most"`
	Watermark  span           `json:"watermark" about:"how far the watermark of a partition stays behind; less than disorder: some records may be late"`
	Lateness   span           `json:"lateness" about:"how long after its end a window takes records, and waits with its result"`
	Late       string         `json:"late" about:"what becomes of late records, which are counted: emit or drop"`
	TTL        span           `json:"ttl" about:"event time after which the count of records of a quiet key begins anew; 0: no such count"`
	TTLOnRead  bool           `json:"ttlOnRead" about:"a late record, which only reads that count, makes it live longer too"`
}

// The values of Panes, Keep and Late.
const (
	panesShared   = "shared"
	panesUnshared = "unshared"
	keepNone      = "none"
	keepLast      = "last"
	keepAll       = "all"
	lateEmit      = "emit"
	lateDrop      = "drop"
)

// maxOverlap is how many windows a record can belong to: each has a tag.
const maxOverlap = 100

func windowOptionsOf(raw json.RawMessage) (windowOptions, error) {
	second := span{registry.Duration(time.Second)}
	o := windowOptions{Partitions: 4, Keys: keyOptions{Count: 10_000, Pick: pickUniform, S: 0.99},
		Values: payloadOptions{Size: size{100}, Compressible: share{0.5}}, Size: span{registry.Duration(10 * time.Second)},
		Panes: panesShared, Keep: keepLast, Disorder: second, Watermark: second, Late: lateEmit}
	if err := decodeOptions(raw, &o); err != nil {
		return o, fmt.Errorf("workload window: %w", err)
	}
	if o.Slide.Duration == 0 {
		o.Slide = o.Size
	}
	if err := o.check(); err != nil {
		return o, fmt.Errorf("workload window: %w", err)
	}
	return o, nil
}

// check reports everything that is wrong.
func (o *windowOptions) check() error {
	var problems []error
	bad := func(is bool, format string, args ...any) {
		if is {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	o.Keys.check(o.Partitions, bad)
	o.Values.check(bad)
	bad(o.Size.Duration <= 0, "size must be positive")
	bad(o.Size.Duration > 0 && (o.Size.Duration%o.Slide.Duration != 0 || o.Size.Duration/o.Slide.Duration > maxOverlap),
		"slide is %v, of which size (%v) must be a multiple, at most %d times as long", o.Slide, o.Size, maxOverlap)
	bad(o.Panes != panesShared && o.Panes != panesUnshared, "panes is %q, must be shared or unshared", o.Panes)
	bad(o.Keep != keepNone && o.Keep != keepLast && o.Keep != keepAll, "keep is %q, must be none, last or all", o.Keep)
	bad(o.Late != lateEmit && o.Late != lateDrop, "late is %q, must be emit or drop", o.Late)
	bad(o.TTLOnRead && o.TTL.Duration == 0, "ttlOnRead needs a ttl")
	return errors.Join(problems...)
}

func resolveWindow(raw json.RawMessage) (json.RawMessage, error) {
	o, err := windowOptionsOf(raw)
	if err != nil {
		return nil, err
	}
	return json.Marshal(o)
}

// windowing is a configured Window.
type windowing struct {
	options windowOptions
	shape   windowShape
	source  *windowSource
}

// windowShape is what operators and model need to know of the job, in plain numbers: times in ns.
type windowShape struct {
	slide, lateness int64
	overlap         int64 // windows that a record belongs to, panes of a window
	shared          bool
	last, all       bool // payloads that are kept
	emitLate        bool
	ttl, grain      int64 // 0: none
	onRead          bool
	maxParallelism  int
}

// ends is when window number w is emitted. Window w begins at w slides, and so does pane w.
func (s *windowShape) ends(w int64) int64 { return (w+s.overlap)*s.slide + s.lateness }

// ttlGrains is how many times a grain goes into the time to live.
const ttlGrains = 16

func newWindow(raw json.RawMessage, e Env) (Workload, error) {
	o, err := windowOptionsOf(raw)
	if err != nil {
		return nil, err
	}
	if e.MaxParallelism < 1 || e.MaxParallelism > keygroup.MaxParallelism || e.Rate < 0 {
		return nil, fmt.Errorf("workload window: max parallelism %d or rate %v cannot be", e.MaxParallelism, e.Rate)
	}
	in := &disordered{generator: newGenerator(generated(e, o.Partitions, o.Keys, o.Values)),
		disorder: int64(o.Disorder.Duration), lag: int64(o.Watermark.Duration)}
	return &windowing{options: o, source: &windowSource{in: in, paced: e.Rate > 0}, shape: windowShape{
		slide: int64(o.Slide.Duration), lateness: int64(o.Lateness.Duration), overlap: int64(o.Size.Duration / o.Slide.Duration),
		shared: o.Panes == panesShared, last: o.Keep == keepLast, all: o.Keep == keepAll, emitLate: o.Late == lateEmit,
		ttl: int64(o.TTL.Duration), grain: int64(o.TTL.Duration / ttlGrains), onRead: o.TTLOnRead, maxParallelism: e.MaxParallelism}}, nil
}

// Job implements Workload.
func (w *windowing) Job() *graph.Job {
	s := w.shape
	states := []backend.StateSpec{backend.Spec(s.gathered(), backend.Value), backend.Spec("late", backend.Reducing), backend.Spec("timers", backend.Timers)}
	if s.all {
		states = append(states, backend.Spec("elements", backend.List))
	}
	if s.ttl > 0 {
		states = append(states, backend.Spec("session", backend.Value), backend.ExpirySpec("session"))
	}
	return &graph.Job{
		Nodes: []graph.Node{
			{ID: "source", Source: w.source, Cost: costRead},
			{ID: "window", Keyed: true, States: states, Cost: costKeyed, Operator: func() graph.Operator { return &windowOperator{shape: s} }},
			{ID: "sink", Sink: true},
		},
		Edges: []graph.Edge{{From: "source", To: "window", Exchange: graph.Hash}, {From: "window", To: "sink", Exchange: graph.Forward}},
	}
}

// gathered is the name of the state that holds what was gathered: by pane or by window.
func (s *windowShape) gathered() string {
	if s.shared {
		return "pane"
	}
	return "window"
}

// Model implements Workload.
func (w *windowing) Model() Model { return newWindowModel(w.source.in, w.shape) }

// Describe implements Workload.
func (w *windowing) Describe() string {
	o := w.options
	text := fmt.Sprintf("window: %d keys (%s) in %d partitions, payloads of %v (%v compressible)", o.Keys.Count, o.Keys.Pick,
		o.Partitions, o.Values.Size, o.Values.Compressible.Share)
	if w.shape.overlap == 1 {
		text += fmt.Sprintf(", tumbling windows of %v", o.Size)
	} else {
		text += fmt.Sprintf(", windows of %v every %v with %s panes", o.Size, o.Slide, o.Panes)
	}
	return text + fmt.Sprintf(", payloads kept: %s", o.Keep)
}
