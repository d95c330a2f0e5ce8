package run_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/run"
)

// sized is a plan of a job with so many keys of so many bytes.
func sized(keys, value string) plan.Plan {
	return plan.Plan{Arm: "changelog-on", Rep: 1, World: "real", Store: plan.Store{Kind: "embedded"}, Workers: plan.Workers{Count: 4},
		Job:      plan.Job{Parallelism: 4, Checkpoint: plan.Checkpoint{Retain: 3}},
		Backend:  plan.Backend{Name: "heap"},
		Workload: plan.Workload{Name: "counter", Rate: 50_000, Options: json.RawMessage(`{"keys":{"count":` + keys + `},"values":{"size":"` + value + `","compressible":"0%"},"second":"none"}`)},
		Phases:   []plan.Phase{{Name: "fill", Records: 1 << 40}}}
}

func machine(memory, free int64) run.Machine {
	return run.Machine{Memory: memory, Results: "/results", Temporary: "/tmp",
		Disk: func(path string) (run.Disk, bool) { return run.Disk{Device: 1, Free: free}, path != "/unknown" }}
}

// onFiles gives the job a log in files, of which the older part is cut a minute after it was written.
func onFiles(p *plan.Plan) {
	p.Store.Kind = "minio"
	p.Backend.Changelog = plan.Changelog{Enabled: true, Storage: plan.LogFile, Materialize: plan.Duration(time.Minute)}
}

func TestPreflightRefusesWhatCannotFit(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(p *plan.Plan)
		machine run.Machine
		says    []string // nil: it may run
	}{
		{"fits", func(*plan.Plan) {}, machine(16<<30, 100<<30), nil},
		{"little more than there is", func(*plan.Plan) {}, machine(5<<30, 100<<30), nil},
		{"memory", func(*plan.Plan) {}, machine(2<<30, 100<<30), []string{"changelog-on-1 cannot fit into memory", "about 6078MiB", "state 991MiB", "store embedded", "2048MiB is available", "fewer keys", "--store dir:PATH", "lsm"}},
		{"nothing is known", func(p *plan.Plan) { p.Store.Kind = "dir:/unknown" }, run.Machine{Results: "/unknown", Temporary: "/unknown", Disk: machine(0, 0).Disk}, nil},
		{"disk of objects", func(p *plan.Plan) { p.Store.Kind = "dir:/objects" }, machine(16<<30, 1<<30), []string{"cannot fit on the disk", "its objects", "1024MiB is free at /objects"}},
		{"disk of results", func(*plan.Plan) {}, machine(16<<30, 1<<20), []string{"its results", "--out"}},
		{"local files", func(p *plan.Plan) { p.Backend.Name, p.Store.Kind = "lsm", "minio" }, machine(16<<30, 512<<20), []string{"local files of its backend", "TMPDIR"}},
		{"files of the log", onFiles, machine(16<<30, 512<<20), []string{"the files of its log", "state 991MiB", "512MiB is free at /results", "--out"}},
		{"files of the log that fit", onFiles, machine(16<<30, 100<<30), nil},
		{"few records fill few keys", func(p *plan.Plan) { p.Phases[0].Records = 1000 }, machine(1<<30, 1<<30), nil},
		{"a phase in time", func(p *plan.Plan) { p.Phases[0] = plan.Phase{Name: "fill", For: plan.Duration(time.Second)} }, machine(1<<30, 1<<30), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := sized("4000000", "220B")
			c.change(&p)
			err := run.Preflight([]plan.Plan{p}, c.machine)
			if c.says == nil {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			var setup *run.SetupError
			if !errors.As(err, &setup) {
				t.Fatalf("not refused: %v", err)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not say %q", err, s)
				}
			}
		})
	}
}

func TestEstimates(t *testing.T) {
	heap := sized("1000000", "960B")
	lsm := heap
	lsm.Backend.Name = "lsm"
	logged := heap
	logged.Backend.Changelog = plan.Changelog{Enabled: true, Materialize: plan.Duration(5 * time.Second), InFlight: 32 << 20}
	h, l, c := run.EstimateOf(&heap), run.EstimateOf(&lsm), run.EstimateOf(&logged)
	if h.State != 1000_000_000 || l.State != h.State || h.Stored <= l.Stored || l.Local == 0 || h.Local != 0 {
		t.Errorf("heap %+v, lsm %+v", h, l)
	}
	if want := h.State*2 + 50_000*10*984; c.Stored != want {
		t.Errorf("with a changelog %d bytes are stored, want %d", c.Stored, want)
	}
	for _, storage := range []string{plan.LogFile, plan.LogMemory} {
		for _, where := range []string{"real", "sim"} {
			beside := logged
			beside.Backend.Changelog.Storage, beside.World, beside.Store.Kind = storage, where, "minio"
			b, log := run.EstimateOf(&beside), int64(50_000*10*984)
			memory := run.EstimateOf(&logged).Memory - c.Stored
			if where == "sim" {
				memory += b.Stored
			}
			if storage == plan.LogMemory || where == "sim" {
				memory += log
			}
			if b.Log != log || b.Stored != c.Stored-log || b.Memory != memory {
				t.Errorf("log in storage %s, %s: %+v, want a log of %d beside the store and %d of memory", storage, where, b, log, memory)
			}
		}
	}
	window := heap
	window.Workload.Options = json.RawMessage(`{"keys":{"count":20000},"values":{"size":"200B","compressible":"25%"},"size":"10s","slide":"2s","panes":"shared","keep":"all","lateness":"0s"}`)
	shared := run.EstimateOf(&window).State
	window.Workload.Options = json.RawMessage(strings.Replace(string(window.Workload.Options), "shared", "unshared", 1))
	if unshared := run.EstimateOf(&window).State; unshared < 4*shared || shared < 100_000_000 {
		t.Errorf("shared %d, unshared %d", shared, unshared)
	}
	unknown := heap
	unknown.Workload = plan.Workload{Name: "trace", Options: json.RawMessage(`{"file":"x.csv"}`)}
	if e := run.EstimateOf(&unknown); e.State != 0 || e.Memory == 0 {
		t.Errorf("%+v", e)
	}
}
