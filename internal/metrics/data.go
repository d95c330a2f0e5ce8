package metrics

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/stats"
)

// Statuses of rows of checkpoints.csv.
const (
	completed = "completed"
	aborted   = "aborted"
	skipped   = "skipped"
)

// Data is what the metrics of a run are taken from. It is only read by them and then safe for concurrent use.
type Data struct {
	// Plan is what was carried out.
	Plan *plan.Plan
	// The tables, as written. Latencies may be absent in old results.
	Checkpoints []results.CheckpointRow
	Recoveries  []results.RecoveryRow
	Series      []results.SeriesRow
	Latencies   []results.LatencyRow
	// Phases are those that began, in order.
	Phases []Phase
	// Traffic is what was asked of the store in each phase, nil where the trace was not read.
	Traffic map[string]*Traffic
}

// Phase is one as it went. Times are seconds since the run began.
type Phase struct {
	Name     string
	From, To float64
	// Records were emitted in it for the first time.
	Records int64
	// Materializations were confirmed in it.
	Materializations int
	// Ended tells whether it was carried through; else To is when the history ends.
	Ended bool
}

// Traffic is what writing checkpoints asked of the store in a phase. Requests for restores, of the audit and of the run
// itself are left out, but not what they leave in the store.
type Traffic struct {
	Requests, Written    int64
	StoredMax, StoredEnd int64 // bytes of all objects, at most and at the end
	// Log are the bytes of the changelog's segments, wherever they lie.
	Log LogTraffic
	// Meta are those of these requests that were for metadata objects and the coordinator log.
	Meta MetaTraffic
	// Usage is what a store would bill for the phase: restores are in it, the audit and the run's own requests are not.
	Usage plan.Usage
}

// MetaTraffic are requests for metadata objects and the coordinator log, and the bytes that they put.
type MetaTraffic struct{ Requests, Written int64 }

// Read takes the data of a run from its files. Errors wrap results.ErrDamaged.
func Read(dir results.RunDir) (*Data, error) {
	p, _, err := results.ReadPlan(dir.Path(results.PlanFile))
	if err != nil {
		return nil, err
	}
	d := &Data{Plan: &p}
	if d.Checkpoints, err = results.ReadCSV[results.CheckpointRow](dir.Path(results.CheckpointsFile)); err != nil {
		return nil, err
	}
	if d.Recoveries, err = results.ReadCSV[results.RecoveryRow](dir.Path(results.RecoveriesFile)); err != nil {
		return nil, err
	}
	if d.Series, err = results.ReadCSV[results.SeriesRow](dir.Path(results.SeriesFile)); err != nil {
		return nil, err
	}
	d.Latencies, err = results.ReadCSV[results.LatencyRow](dir.Path(results.LatenciesFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // results of before have none
		return nil, err
	}
	var phases PhaseReader
	for e, err := range results.ReadLines[history.Event](dir.Path(results.HistoryFile)) {
		if err != nil {
			return nil, err
		}
		phases.See(&e)
	}
	d.Phases = phases.Phases()
	traffic := NewTrafficReader(d.Phases)
	for q, err := range results.ReadLines[history.Request](dir.Path(results.ObjectsFile)) {
		if err != nil {
			return nil, err
		}
		traffic.See(&q)
	}
	d.Traffic = traffic.Traffic()
	return d, nil
}

// PhaseReader finds the phases in a history. The zero value is ready.
type PhaseReader struct {
	phases  []Phase
	emitted int64
	end     float64
}

// See takes the next event.
func (r *PhaseReader) See(e *history.Event) {
	at := e.At.Seconds()
	r.end = max(r.end, at)
	n := len(r.phases)
	switch {
	case e.Kind == history.PhaseBegin:
		r.phases = append(r.phases, Phase{Name: e.Phase, From: at})
	case n == 0:
	case e.Kind == history.PhaseEnd && r.phases[n-1].Name == e.Phase:
		p := &r.phases[n-1]
		p.To, p.Ended, p.Records = at, true, e.Records-r.emitted
		r.emitted = e.Records
	case e.Kind == history.MaterializationConfirmed:
		r.phases[n-1].Materializations++
	}
}

// Phases are those seen so far; one that has not ended lasts until the newest event.
func (r *PhaseReader) Phases() []Phase {
	phases := slices.Clone(r.phases)
	for i := range phases {
		if !phases[i].Ended {
			phases[i].To = r.end
		}
	}
	return phases
}

// TrafficReader sums the object trace up by phase.
type TrafficReader struct {
	phases  []Phase
	byPhase map[string]*Traffic
	sizes   map[string]int64 // of the objects in the store
	logs    map[string]int64 // of the segments that were put, 0 without effect
	stored  int64
	at      int     // the phase of the newest effect
	since   float64 // what is stored was billed up to then, in seconds
}

// NewTrafficReader starts with an empty store. The phases are those of the run, in order.
func NewTrafficReader(phases []Phase) *TrafficReader {
	r := &TrafficReader{phases: phases, byPhase: map[string]*Traffic{}, sizes: map[string]int64{}, logs: map[string]int64{}}
	for _, p := range phases {
		r.byPhase[p.Name] = &Traffic{}
	}
	return r
}

// Causes of requests that have no part in writing checkpoints.
const (
	causeAudit   = "audit"
	causeRestore = "restore"
	causeRun     = "run"
)

// Causes of requests for metadata.
const (
	causeMeta  = "meta"
	causeCoord = "coord"
)

// See takes the next request of the trace.
func (r *TrafficReader) See(q *history.Request) {
	r.segment(q)
	if q.Log {
		return // not the object store's
	}
	r.settle(q)
	i := phaseAt(r.phases, q.Start.Seconds())
	if i < 0 || q.Cause == causeAudit || q.Cause == causeRun {
		return
	}
	t := r.byPhase[r.phases[i].Name]
	bill(&t.Usage, q)
	if q.Cause == causeRestore {
		return
	}
	meta := q.Cause == causeMeta || q.Cause == causeCoord
	if !q.Same {
		t.Requests++
		if meta {
			t.Meta.Requests++
		}
	}
	if q.Op == history.OpPut {
		t.Written += q.Bytes
		if meta {
			t.Meta.Written += q.Bytes
		}
	}
}

// settle follows what is in the store: a put whose effect is not known is taken to be there. Lines come as requests end.
func (r *TrafficReader) settle(q *history.Request) {
	end := (q.Start + q.Duration).Seconds()
	for ; r.at < len(r.phases) && end > r.phases[r.at].To; r.at++ {
		r.leave()
	}
	r.lie(end)
	r.note() // what a phase begins with
	switch {
	case q.Applied == history.AppliedNo:
	case q.Op == history.OpPut:
		r.stored += q.Bytes - r.sizes[q.Key]
		r.sizes[q.Key] = q.Bytes
	case q.Op == history.OpDelete && q.Applied == history.AppliedYes:
		r.stored -= r.sizes[q.Key]
		delete(r.sizes, q.Key)
	}
	r.note()
}

// listPage is how many entries a request for a listing brings at most.
const listPage = 1000

// bill counts a request as a store does: what failed and what has an unknown outcome is billed too. A listing is a request a page. A put
// is one, though the client sends a large one in parts: the trace is of what was asked for.
func bill(u *plan.Usage, q *history.Request) {
	switch q.Op {
	case history.OpPut:
		u.Sent += q.Bytes
	case history.OpGet:
		u.Received += q.Bytes
	}
	if q.Same {
		return
	}
	switch q.Op {
	case history.OpPut:
		u.Writes++
	case history.OpList, history.OpUploads:
		u.Writes += max(1, (q.Count+listPage-1)/listPage)
	case history.OpGet, history.OpStat:
		u.Reads++
	case history.OpDelete, history.OpAbort:
		u.Deletes++
	}
}

// lie bills what is stored up to a moment of the phase that the newest effect is in.
func (r *TrafficReader) lie(to float64) {
	if r.at >= len(r.phases) {
		return
	}
	p := r.phases[r.at]
	if from := max(r.since, p.From); to > from {
		r.byPhase[p.Name].Usage.ByteSeconds += float64(r.stored) * (to - from)
	}
	r.since = max(r.since, to)
}

// leave ends a phase.
func (r *TrafficReader) leave() {
	r.lie(r.phases[r.at].To)
	r.note()
	r.byPhase[r.phases[r.at].Name].StoredEnd = r.stored
}

func (r *TrafficReader) note() {
	if r.at < len(r.phases) {
		t := r.byPhase[r.phases[r.at].Name]
		t.StoredMax = max(t.StoredMax, r.stored)
	}
}

// Traffic is the sum by phase.
func (r *TrafficReader) Traffic() map[string]*Traffic {
	for ; r.at < len(r.phases); r.at++ {
		r.leave()
	}
	return r.byPhase
}

// phaseAt is the index of the phase at a time, -1 outside of all.
func phaseAt(phases []Phase, at float64) int {
	for i := len(phases) - 1; i >= 0; i-- {
		if at >= phases[i].From {
			if at > phases[i].To {
				return -1
			}
			return i
		}
	}
	return -1
}

// Phase finds a phase that began.
func (d *Data) Phase(name string) (Phase, bool) {
	for _, p := range d.Phases {
		if p.Name == name {
			return p, true
		}
	}
	return Phase{}, false
}

// Ages are the stretches of the recovery-point age in milliseconds in a phase: how old the trigger of the newest completed
// checkpoint was. Before the first one it is the age of the run.
func (d *Data) Ages(phase string) (spans []stats.Span) {
	p, ok := d.Phase(phase)
	if !ok {
		return nil
	}
	points := Newest(d.Checkpoints)
	for i, from := range points {
		to := p.To
		if i+1 < len(points) {
			to = min(to, points[i+1].At)
		}
		if low := max(p.From, from.At); low < to {
			spans = append(spans, stats.Span{Low: (low - from.Trigger) * 1000, High: (to - from.Trigger) * 1000})
		}
	}
	return spans
}

// Point is a moment from which on the newest completed checkpoint is the one triggered at Trigger. Both are seconds since
// the run began.
type Point struct{ At, Trigger float64 }

// Newest lists those moments, the beginning of the run first, by time. Triggers never fall.
func Newest(rows []results.CheckpointRow) []Point {
	points := []Point{{}}
	for _, c := range rows {
		if c.Status == completed && c.Trigger.Set && c.Duration.Set {
			points = append(points, Point{c.Trigger.Value + c.Duration.Value/1000, c.Trigger.Value})
		}
	}
	slices.SortStableFunc(points, func(a, b Point) int { return cmp.Compare(a.At, b.At) })
	newest := 0.0
	for i := range points {
		newest = max(newest, points[i].Trigger)
		points[i].Trigger = newest
	}
	return points
}
