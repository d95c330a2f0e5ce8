// Package catalog is the one list of every workload, fault, backend and check. A new one is a line here.
package catalog

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/backend/dstl/file"
	"statebench.dev/bench/backend/dstl/memory"
	"statebench.dev/bench/backend/heap"
	"statebench.dev/bench/backend/localcopy"
	"statebench.dev/bench/backend/lsm"
	"statebench.dev/bench/faults"
	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/registry"
	"statebench.dev/bench/internal/run"
	"statebench.dev/bench/internal/scenario"
	"statebench.dev/bench/internal/validate"
	"statebench.dev/bench/report"
	"statebench.dev/bench/workloads"
)

// Workloads are the jobs that a scenario can name.
func Workloads() registry.Table[workloads.Kind] {
	return registry.NewTable("workload",
		registry.Entry[workloads.Kind]{Name: "counter", About: "two keyed stages over generated keys: counts, a map or list, a timer a key; totals by group", New: workloads.Counter()},
		registry.Entry[workloads.Kind]{Name: "enrich", About: "keyed events joined in event time with broadcast rules; results held back until a time of the world", New: workloads.Enrich()},
		registry.Entry[workloads.Kind]{Name: "trace", About: "timed keyed events from a CSV file: statistics by key, totals by a second key", New: workloads.Trace()},
		registry.Entry[workloads.Kind]{Name: "window", About: "event-time windows, tumbling or sliding, over generated keys out of order; panes shared or not", New: workloads.Window()},
	)
}

// Faults are the disturbances that a scenario can name.
func Faults() registry.Table[faults.Constructor] {
	return registry.NewTable("fault",
		registry.Entry[faults.Constructor]{Name: "container-kill", About: "the server in the store's container dies as in a crash", New: faults.NewContainerKill},
		registry.Entry[faults.Constructor]{Name: "container-pause", About: "the server in the store's container freezes: requests hang", New: faults.NewContainerPause},
		registry.Entry[faults.Constructor]{Name: "container-restart", About: "the server in the store's container ends and is started again", New: faults.NewContainerRestart},
		registry.Entry[faults.Constructor]{Name: "container-stop", About: "the server in the store's container ends in good order", New: faults.NewContainerStop},
		registry.Entry[faults.Constructor]{Name: "cut-body", About: "the connection breaks in the middle of a body or a listing", New: faults.NewCutBody},
		registry.Entry[faults.Constructor]{Name: "flipped-byte", About: "a get brings a body with one byte changed, without an error", New: faults.NewFlippedByte},
		registry.Entry[faults.Constructor]{Name: "lost-ack", About: "a put or delete has its effect and its answer gets lost", New: faults.NewLostAck},
		registry.Entry[faults.Constructor]{Name: "store-outage", About: "no store request succeeds", New: faults.NewStoreOutage},
		registry.Entry[faults.Constructor]{Name: "store-errors", About: "store requests fail with a status", New: faults.NewStoreErrors},
		registry.Entry[faults.Constructor]{Name: "store-latency", About: "store requests take longer", New: faults.NewStoreLatency},
		registry.Entry[faults.Constructor]{Name: "task-error", About: "a subtask fails as user code does", New: faults.NewTaskError},
		registry.Entry[faults.Constructor]{Name: "worker-crash", About: "a worker dies without a trace, its disk kept or lost", New: faults.NewWorkerCrash},
	)
}

// Backends are the state backends that an arm can name; the changelog is put around each by the arm's own options.
func Backends() registry.Table[run.BackendConstructor] {
	return registry.NewTable("backend",
		registry.Entry[run.BackendConstructor]{Name: "heap", About: "working state in memory, full snapshots", New: func(b plan.Backend, seed uint64) (backend.Factory, error) {
			return around(b, heap.New(heap.Options{}))
		}},
		registry.Entry[run.BackendConstructor]{Name: "lsm", About: "working state in a log-structured merge tree on local disk, incremental snapshots", New: func(b plan.Backend, _ uint64) (backend.Factory, error) {
			c := b.LSM
			return around(b, lsm.New(lsm.Options{CacheBytes: c.Cache, MemtableBytes: c.Memtable, RowBytes: c.Rows, FileBytes: c.Files, Uncompressed: c.Compression == "none", Lazy: c.Restore == plan.RestoreLazy}))
		}},
	)
}

// around puts the changelog and local copies around a backend where the arm asks for them.
func around(b plan.Backend, nested backend.Factory) (backend.Factory, error) {
	made, err := logged(b, nested)
	if err != nil || !b.LocalRecovery {
		return made, err
	}
	o := localcopy.Options{Limit: b.LocalCopies}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return localcopy.Around(made, o), nil
}

// logged puts the changelog around a backend.
func logged(b plan.Backend, nested backend.Factory) (backend.Factory, error) {
	c := b.Changelog
	if !c.Enabled {
		return changelog.Off(nested), nil
	}
	o := changelog.Options{Nested: nested, NestedName: b.Name, Materialize: time.Duration(c.Materialize), MaterializeOff: c.MaterializeOff,
		Growth: c.Growth, GrowthOff: c.Growth == 0, GrowthFloor: max(1, c.GrowthFloor), // a plan leaves nothing to defaults: 0 is 0
		ReplayBudget: time.Duration(c.ReplayBudget), ReplayBudgetOff: c.ReplayBudget == 0,
		Concurrent: c.Concurrent, ConcurrentJob: c.ConcurrentJob, Preemptive: c.Preemptive,
		BatchDelay: time.Duration(c.BatchDelay), BatchSize: c.BatchSize, InFlight: c.InFlight,
		Upload: dstl.UploadOptions{RetryShare: c.Upload.RetryShare, RetriesPerSecond: c.Upload.RetriesPerSecond,
			HedgeAfter: time.Duration(c.Upload.HedgeAfter), HedgeShare: c.Upload.HedgeShare}}
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("changelog around %s: %w", b.Name, err)
	}
	return changelog.New(o), nil
}

// LogStorages are where changelogs can lie.
func LogStorages() registry.Table[dstl.StorageOpener] {
	return registry.NewTable("changelog storage",
		registry.Entry[dstl.StorageOpener]{Name: plan.LogDFS, About: "in the object store; the default", New: dstl.OpenDFS},
		registry.Entry[dstl.StorageOpener]{Name: plan.LogFile, About: "in files that survive workers, many segments an fsync", New: file.OpenStorage},
		registry.Entry[dstl.StorageOpener]{Name: plan.LogMemory, About: "in the worker's memory, gone when it crashes: for tests", New: memory.Open},
	)
}

// Checks are the invariants that every run is judged by.
func Checks() []validate.Check { return validate.All() }

// Charts are the pictures of a report, in order.
func Charts() []string { return report.Charts() }

// Events are the kinds of events that a trigger can name.
func Events() []string { return scenario.Events() }

// Stores are the forms in which a store can be named.
func Stores() registry.Table[string] {
	return registry.NewTable("store",
		registry.Entry[string]{Name: "dir", About: "a folder: dir:PATH", New: "dir:PATH"},
		registry.Entry[string]{Name: "embedded", About: "an S3 server as a child process on a unix socket; the default", New: "embedded"},
		registry.Entry[string]{Name: "mem", About: "strict, in memory; what simulated runs use", New: "mem"},
		registry.Entry[string]{Name: "minio", About: "MinIO in a container that is started for each run", New: "minio"},
		registry.Entry[string]{Name: "s3", About: "a bucket of any S3 server, credentials in the environment: s3://BUCKET/PREFIX?endpoint=URL", New: "s3://BUCKET/PREFIX?endpoint=URL"},
	)
}

// Scenario returns what the loader of scenario files has to know of all of them.
func Scenario() scenario.Tables {
	t := scenario.Tables{Backends: Backends().Names(), Charts: Charts()}
	for _, c := range Checks() {
		t.Checks = append(t.Checks, c.ID)
	}
	var kinds []registry.Entry[scenario.WorkloadInfo]
	for _, e := range Workloads().Entries() {
		kinds = append(kinds, registry.Entry[scenario.WorkloadInfo]{Name: e.Name, About: e.About, New: workloadInfo(e)})
	}
	t.Workloads = registry.NewTable("workload", kinds...)
	var known []registry.Entry[scenario.FaultInfo]
	for _, e := range Faults().Entries() {
		known = append(known, registry.Entry[scenario.FaultInfo]{Name: e.Name, About: e.About, New: faultInfo(e)})
	}
	t.Faults = registry.NewTable("fault", known...)
	var figures []registry.Entry[scenario.MetricInfo]
	for _, m := range metrics.All() {
		figures = append(figures, registry.Entry[scenario.MetricInfo]{Name: m.Name, About: m.About, New: metricInfo(m)})
	}
	t.Metrics = registry.NewTable("metric", figures...)
	return t
}

func metricInfo(m metrics.Metric) scenario.MetricInfo {
	return scenario.MetricInfo{
		Bound: m.Bound, Samples: string(m.Samples), Need: m.Need, Measured: m.Measured, Capacity: m.Capacity,
	}
}

func workloadInfo(e registry.Entry[workloads.Kind]) scenario.WorkloadInfo {
	info := scenario.WorkloadInfo{Options: scenario.OptionsOf(e.New.Options), Resolve: e.New.Resolve, Inputs: e.New.Inputs, Schemas: e.New.Schemas}
	switch e.Name {
	case "counter", "enrich", "window":
		info.Sim = map[string]string{"keys": "keys.count", "sizes": "values.size"}
	case "trace":
		info.Sim, info.Scheduled = map[string]string{"speed": "speed", "duration": "duration"}, true
	}
	return info
}

func faultInfo(e registry.Entry[faults.Constructor]) scenario.FaultInfo {
	var options []scenario.Option
	for _, o := range faults.Options(e.Name) {
		options = append(options, scenario.Option{Name: o.Name, Kind: o.Kind, About: o.About})
	}
	return scenario.FaultInfo{Options: options, Crash: e.Name == "worker-crash", Container: strings.HasPrefix(e.Name, "container-"), Check: func(where string, with json.RawMessage) error {
		_, err := e.New(faults.Spec{ID: "check", Where: where, With: with})
		return err
	}}
}
