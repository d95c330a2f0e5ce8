package run

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"statebench.dev/bench/backend/store/provision"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/registry"
)

// Machine is what a run may use, as far as it is known.
type Machine struct {
	// Memory are the bytes that programs can still get; 0: not known.
	Memory int64
	// Disk tells about the file system that a path lies on, or will. It must not create anything.
	Disk func(path string) (d Disk, known bool)
	// Results and Temporary are the folders for results, and for the local files of backends.
	Results, Temporary string
}

// Disk is one file system.
type Disk struct {
	Device uint64 // tells file systems apart
	Free   int64  // bytes that we may still write
}

// What estimates count with, in bytes. A run is refused only where the estimate is more than slack times what there is,
// since an estimate that errs by half must not keep anybody from running what would fit.
const (
	slack        = 1.5
	program      = 128 << 20 // without any state
	elementExtra = 40        // key and bookkeeping of an element of state
	logExtra     = 24        // and of a logged change
	lsmCache     = 64 << 20  // block cache of a worker, where the plan does not say
	lsmRows      = 64 << 20  // current values of a subtask
	lsmMemtable  = 16 << 20  // a memtable, of which a subtask has two
	runResults   = 64 << 20  // the files of a run
)

// Estimate is what one run takes. It is on the low side.
type Estimate struct {
	State  int64 // the working state at its largest
	Stored int64 // objects in the store at their most
	Memory int64 // of this machine: the program and a store that keeps objects in memory
	Local  int64 // local files of the backend
	Log    int64 // the log, where it lies beside the store: in files of the results, or in memory
}

// Preflight refuses plans that cannot fit into the machine. The error is a *SetupError that names the estimate, what there
// is, and what to do.
func Preflight(plans []plan.Plan, m Machine) error {
	type need struct {
		what, path string
		bytes      int64
	}
	results := int64(0)
	for i := range plans {
		p := &plans[i]
		e := EstimateOf(p)
		if m.Memory > 0 && float64(e.Memory) > slack*float64(m.Memory) {
			return &SetupError{fmt.Errorf("%s cannot fit into memory: about %s (state %s%s), and %s is available; choose fewer keys or smaller values%s",
				Name(p), about(e.Memory), about(e.State), inMemory(p, e), about(m.Memory), other(p))}
		}
		results += runResults
		needs := []need{{"its results", m.Results, results}}
		if logOnDisk(p) { // for as long as the run goes on: the next one finds that room again
			needs = append(needs, need{"the files of its log", m.Results, e.Log})
		}
		if path, ok := strings.CutPrefix(p.Store.Kind, provision.KindDir+":"); ok {
			needs = append(needs, need{"its objects", path, e.Stored})
		}
		if e.Local > 0 {
			needs = append(needs, need{"the local files of its backend", m.Temporary, e.Local})
		}
		byDevice := map[uint64]int64{}
		for _, n := range needs {
			d, known := m.Disk(n.path)
			if !known {
				continue
			}
			byDevice[d.Device] += n.bytes
			if total := byDevice[d.Device]; float64(total) > slack*float64(d.Free) {
				return &SetupError{fmt.Errorf("%s cannot fit on the disk: about %s with %s (state %s), and %s is free at %s; make room there, choose fewer keys, or put it elsewhere (--out, TMPDIR, --store dir:PATH)",
					Name(p), about(total), n.what, about(e.State), about(d.Free), n.path)}
			}
		}
	}
	return nil
}

// about is a size in whole mebibytes, or in a larger unit where ten of it are in it.
func about(n int64) string {
	for _, shift := range []int{40, 30} {
		if n >= 10<<shift {
			return fmt.Sprintf("%d%s", n>>shift, map[int]string{40: "TiB", 30: "GiB"}[shift])
		}
	}
	return fmt.Sprintf("%dMiB", max(1, n>>20))
}

func inMemory(p *plan.Plan, e Estimate) string {
	if !memoryStore(p) {
		return ""
	}
	return fmt.Sprintf(", objects in store %s %s", p.Store.Kind, about(e.Stored))
}

func other(p *plan.Plan) string {
	var more []string
	if memoryStore(p) && !p.Simulated() {
		more = append(more, "a store that keeps its objects elsewhere (--store dir:PATH)")
	}
	if p.Backend.Name == heapBackend {
		more = append(more, "the backend lsm")
	}
	if len(more) == 0 {
		return ""
	}
	return ", or " + strings.Join(more, ", or ")
}

const heapBackend = "heap"

func memoryStore(p *plan.Plan) bool {
	return p.Simulated() || p.Store.Kind == provision.KindMem || p.Store.Kind == provision.KindEmbedded
}

// logOnDisk tells whether the log lies in files of this machine.
func logOnDisk(p *plan.Plan) bool { return p.LogStorage() == plan.LogFile && !p.Simulated() }

// EstimateOf says what a plan takes. docs/limits.md has the formula. A workload that it does not know has no state.
func EstimateOf(p *plan.Plan) (e Estimate) {
	w := shapeOf(p)
	e.State = w.state
	packed := float64(w.state) * (1 - w.compressible)
	log := 0.0 // of two materialization intervals: the older part is cut when the next one is confirmed
	copies := float64(p.Job.Checkpoint.Retain + 1)
	if p.Backend.Changelog.Enabled {
		copies = 2
		log = p.Workload.Rate * 2 * time.Duration(p.Backend.Changelog.Materialize).Seconds() * float64(w.change) * (1 - w.compressible)
	} else if p.Backend.Name != heapBackend {
		copies = 2 // checkpoints share what did not change
	}
	if logged := min(log, float64(w.records*w.change)); p.LogStorage() == plan.LogDFS {
		e.Stored = int64(packed*copies + logged)
	} else {
		e.Stored, e.Log = int64(packed*copies), int64(logged)
	}
	engine := 2 * w.state // live and what the collector has not found yet
	if p.Backend.Name != heapBackend {
		if !p.Simulated() {
			l := p.Backend.LSM
			caches := int64(p.Workers.Count) * cmp.Or(l.Cache, lsmCache)
			subtasks := int64(p.Job.Parallelism) * (cmp.Or(l.Rows, lsmRows) + 2*cmp.Or(l.Memtable, lsmMemtable))
			engine = min(engine, caches+subtasks)
			e.Local = int64(1.5 * packed)
		} else {
			engine += w.state // its files lie in memory
		}
	}
	if c := p.Backend.Changelog; c.Enabled {
		engine += min(int64(p.Workers.Count)*c.InFlight, w.state)
	}
	e.Memory = program + max(engine, 2*w.state) // the judges hold a model of the state when the engine has gone
	if memoryStore(p) {
		e.Memory += e.Stored
	}
	if !logOnDisk(p) {
		e.Memory += e.Log
	}
	return e
}

// shape is what counts of a workload.
type shape struct {
	state, change, records int64 // bytes at most, bytes that a record changes, records in all
	compressible           float64
}

// shapeOf reads what the options of all generated workloads have in common.
func shapeOf(p *plan.Plan) (s shape) {
	var o struct {
		Keys   struct{ Count int64 }
		Values struct {
			Size         registry.Bytes
			Compressible registry.Share
		}
		Second                string
		ListCap               int64
		Panes, Keep           string
		Size, Slide, Lateness registry.Duration
	}
	s.records = records(p)
	if err := json.Unmarshal(p.Workload.Options, &o); err != nil || o.Keys.Count <= 0 {
		return s
	}
	s.compressible = float64(o.Values.Compressible)
	keys, value := min(o.Keys.Count, s.records), int64(o.Values.Size)
	s.change = value + logExtra
	if o.Size <= 0 || o.Slide <= 0 { // one value a key
		s.state = keys * (value + elementExtra)
		if o.Second == "map" || o.Second == "list" {
			s.state += keys * min(o.ListCap, s.records/max(1, keys)) * logExtra
		}
		return s
	}
	copies := int64(1)
	if o.Panes == "unshared" {
		copies = int64(o.Size / o.Slide)
		s.change *= copies
	}
	live := s.records // records in windows that have not ended
	if p.Workload.Rate > 0 {
		live = min(live, int64(p.Workload.Rate*time.Duration(o.Size+o.Lateness).Seconds()))
	}
	panes := min(keys*int64(o.Size/o.Slide), live*copies)
	switch o.Keep {
	case "all":
		s.state = panes*elementExtra + live*copies*value
	case "last":
		s.state = panes * (elementExtra + value)
	default:
		s.state = panes * elementExtra
	}
	return s
}

// records is how many source records there are, phases measured in time at the plan's rate.
func records(p *plan.Plan) int64 {
	n := p.TotalRecords()
	for _, ph := range p.Phases {
		rate := p.Workload.Rate
		if ph.For > 0 && rate <= 0 {
			return 1 << 50 // nobody knows
		}
		n += int64(time.Duration(ph.For).Seconds() * rate)
	}
	return n
}
