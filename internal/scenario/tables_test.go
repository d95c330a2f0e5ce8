package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/registry"
)

// The tables of the tests stand for the real ones, so that a change of a workload's defaults changes no golden file here.

type counterOptions struct {
	Partitions int `json:"partitions"`
	Stages     int `json:"stages" about:"1 or 2"`
	Keys       struct {
		Count int64   `json:"count"`
		Pick  string  `json:"pick"`
		S     float64 `json:"s"`
	} `json:"keys"`
	Values struct {
		Size         registry.Bytes `json:"size"`
		Compressible registry.Share `json:"compressible"`
	} `json:"values"`
	Second     string            `json:"second"`
	TimerEvery registry.Duration `json:"timerEvery"`
	Ops        struct {
		Delete registry.Share `json:"delete"`
	} `json:"ops"`
}

func resolveCounter(in json.RawMessage) (json.RawMessage, error) {
	o := counterOptions{Partitions: 4, Stages: 2, Second: "map"}
	o.Keys.Count, o.Keys.Pick, o.Keys.S, o.Values.Size = 10_000, "uniform", 0.99, 100
	if err := json.Unmarshal(in, &o); err != nil {
		return nil, err
	}
	var problems []error
	if o.Partitions < 1 {
		problems = append(problems, fmt.Errorf("partitions is %d, must be at least 1", o.Partitions))
	}
	if o.Stages != 1 && o.Stages != 2 {
		problems = append(problems, optionError("stages"))
	}
	if o.Keys.Count < 8 {
		problems = append(problems, fmt.Errorf("keys.count is %d, must be at least 8", o.Keys.Count))
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("workload counter: %w", errors.Join(problems...))
	}
	return json.Marshal(o)
}

// optionError names its option by a method.
type optionError string

func (e optionError) Error() string  { return "there are 1 or 2 stages" }
func (e optionError) Option() string { return string(e) }

func traceInfo() WorkloadInfo {
	type options struct {
		File  string            `json:"file"`
		Speed float64           `json:"speed"`
		Span  registry.Duration `json:"span"`
	}
	return WorkloadInfo{
		Scheduled: true,
		Sim:       map[string]string{"speed": "speed", "duration": "span"},
		Resolve: func(in json.RawMessage) (json.RawMessage, error) {
			o := options{Speed: 1, Span: registry.Duration(40e9)}
			if err := json.Unmarshal(in, &o); err != nil {
				return nil, err
			}
			return json.Marshal(o)
		},
		Inputs: func(in json.RawMessage) ([]string, error) {
			var o options
			err := json.Unmarshal(in, &o)
			return []string{o.File}, err
		},
		Check: func(p *plan.Plan) error {
			if n := p.TotalRecords(); n > p.Inputs[0].Bytes/2 {
				return fmt.Errorf("file has %d records, the phases need %d", p.Inputs[0].Bytes/2, n)
			}
			return nil
		},
	}
}

func testTables() Tables {
	crash := FaultInfo{Crash: true, Options: []Option{{Name: "disk", Kind: "text"}}, Check: func(where string, with json.RawMessage) error {
		if !strings.HasPrefix(where, "worker/") {
			return fmt.Errorf("where %q is not a worker", where)
		}
		if strings.Contains(string(with), "burn") {
			return errors.New(`disk "burn" is not keep or lose`)
		}
		return nil
	}}
	store := FaultInfo{Options: []Option{{Name: "op", Kind: "text"}, {Name: "share", Kind: "share"}, {Name: "status", Kind: "int"}, {Name: "delay", Kind: "duration"}},
		Check: func(_ string, with json.RawMessage) error {
			if strings.Contains(string(with), `"0%"`) {
				return errors.New("share is 0: the fault would touch nothing")
			}
			return nil
		}}
	return Tables{
		Workloads: registry.NewTable("workload",
			registry.Entry[WorkloadInfo]{Name: "counter", New: WorkloadInfo{Schemas: 2, Options: OptionsOf(counterOptions{}), Resolve: resolveCounter,
				Sim: map[string]string{"keys": "keys.count", "sizes": "values.size"}}},
			registry.Entry[WorkloadInfo]{Name: "trace", New: traceInfo()}),
		Faults: registry.NewTable("fault",
			registry.Entry[FaultInfo]{Name: "worker-crash", New: crash},
			registry.Entry[FaultInfo]{Name: "task-error"},
			registry.Entry[FaultInfo]{Name: "store-errors", New: store},
			registry.Entry[FaultInfo]{Name: "store-latency", New: store}),
		Metrics: registry.NewTable("metric",
			metric("checkpoint.late.p90", boundDuration, "completed checkpoints", 100, everyInterval),
			metric("checkpoint.late.p50", boundDuration, "completed checkpoints", 2, everyInterval),
			metric("checkpoints.aborted", boundNumber, "the whole phase", 0, nil),
			metric("recovery.max", boundDuration, "recoveries", 0, nil),
			registry.Entry[MetricInfo]{Name: "cpuPerRecord", New: MetricInfo{Bound: boundDuration, Measured: true}}),
		Backends: []string{"heap"},
		Checks:   []string{"S1", "S2", "C3"},
		Charts:   []string{"checkpoint-duration", "size-sawtooth", "recovery-split"},
	}
}

// The metrics of the tests.

func metric(name string, bound func(string) (string, float64, error), samples string, need int, capacity func(*plan.Plan, string) (int64, bool)) registry.Entry[MetricInfo] {
	return registry.Entry[MetricInfo]{Name: name, New: MetricInfo{Bound: bound, Samples: samples, Need: need, Capacity: capacity}}
}

func operator(text string) (op, rest string, err error) {
	for _, o := range []string{"<=", ">=", "==", "<", ">"} {
		if r, ok := strings.CutPrefix(text, o); ok {
			return o, strings.TrimSpace(r), nil
		}
	}
	return "", "", fmt.Errorf("%q does not begin with an operator", text)
}

func boundDuration(text string) (string, float64, error) {
	op, rest, err := operator(text)
	if err != nil {
		return "", 0, err
	}
	d, err := registry.ParseDuration(rest)
	return op, float64(d) / 1e6, err
}

func boundNumber(text string) (string, float64, error) {
	op, rest, err := operator(text)
	if err != nil {
		return "", 0, err
	}
	v, err := strconv.ParseFloat(rest, 64)
	if err != nil {
		return "", 0, fmt.Errorf("%q is no plain number", rest)
	}
	return op, v, nil
}

// everyInterval counts the checkpoints of a phase.
func everyInterval(p *plan.Plan, phase string) (int64, bool) {
	for _, ph := range p.Phases {
		switch {
		case ph.Name != phase:
		case ph.For > 0:
			return int64(ph.For / p.Job.Checkpoint.Interval), true
		case ph.Records > 0 && p.Workload.Rate > 0:
			return int64(float64(ph.Records) / p.Workload.Rate / plan.D(p.Job.Checkpoint.Interval).Seconds()), true
		}
	}
	return 0, false
}

// openWorkload is a table with a workload that takes anything.
func openWorkload() registry.Table[WorkloadInfo] {
	same := func(in json.RawMessage) (json.RawMessage, error) { return in, nil }
	return registry.NewTable("workload", registry.Entry[WorkloadInfo]{Name: "open", New: WorkloadInfo{Resolve: same}})
}
