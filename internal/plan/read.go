package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Read reads a stored plan. It is strict: an unknown field, a missing or another schema version, anything behind the
// plan, and whatever Validate finds are errors.
func Read(r io.Reader) (Plan, error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	var p Plan
	if err := d.Decode(&p); err != nil {
		return Plan{}, fmt.Errorf("plan: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Plan{}, errors.New("plan: something stands behind it")
	}
	if err := p.Validate(); err != nil {
		return Plan{}, fmt.Errorf("plan: %w", err)
	}
	return p, nil
}

// Encode writes a plan as Read reads it, indented and with a newline at the end. The same plan gives the same bytes.
func (p *Plan) Encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(p); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return b.Bytes(), nil
}

// problems collects what is wrong with a plan.
type problems []error

func (e *problems) add(bad bool, format string, args ...any) {
	if bad {
		*e = append(*e, fmt.Errorf(format, args...))
	}
}

// Validate reports every problem of a plan, joined, and changes nothing. Names of workloads, backends, faults, checks and
// events are not looked up: the plan does not know the tables.
func (p *Plan) Validate() error {
	var e problems
	e.add(p.Schema != Version, "schema is %d, this program reads %d", p.Schema, Version)
	e.add(p.Scenario == "", "scenario has no name")
	e.add(p.Arm == "", "arm has no name")
	e.add(!folderName(p.Scenario), "scenario %q must be the name of a folder, of 100 characters at most: results lie there", p.Scenario)
	e.add(!folderName(p.Arm), "arm %q must be the name of a folder, of 100 characters at most: results lie there", p.Arm)
	e.add(p.Rep < 1 || p.Rep > MaxReps, "rep must be 1 to %d, is %d", MaxReps, p.Rep)
	e.add(p.World != "real" && p.World != "sim", "world must be real or sim, is %q", p.World)
	e.add(p.Store.Kind == "", "store has no kind")
	e.add(p.World == "sim" && p.Store.Kind != "mem", "the simulated world takes store mem, not %q", p.Store.Kind)
	e.add(p.Store.Spread != 0 && (p.Store.Spread < 2 || p.Store.Spread > MaxSpread), "store.spread must be 2 to %d, is %d", MaxSpread, p.Store.Spread)
	e.add(p.Store.Profile == "", "store has no profile")
	e.add(p.Store.Profile == Local && !p.Store.Model.Zero(), "store profile local adds nothing, but there is a model")
	e.add(p.Store.Profile != Local && p.Store.Profile != "" && p.Store.Model.Zero(), "store profile %q has no model", p.Store.Profile)
	if p.Store.Prices != nil {
		for _, err := range p.Store.Prices.Validate() {
			e.add(true, "store.prices.%w", err)
		}
	}
	for _, err := range p.Store.Model.Validate() {
		e.add(true, "store.model.%w", err)
	}
	p.validateJob(&e)
	p.validateWorkload(&e)
	phases := p.validatePhases(&e)
	p.validateFaults(&e, phases)
	p.validateRescales(&e, phases)
	p.validateSteps(&e)
	p.validateExpect(&e, phases)
	return errors.Join(e...)
}

// folderName tells whether a name that is not empty leads to no other folder and is short enough for a file's.
func folderName(s string) bool {
	return len(s) <= MaxName && !strings.ContainsAny(s, "/\\\x00") && s != "." && s != ".."
}

func (p *Plan) validateJob(e *problems) {
	w, j, c := p.Workers, p.Job, p.Job.Checkpoint
	e.add(w.Count < 1 || w.Count > MaxWorkers, "workers.count must be 1 to %d, is %d", MaxWorkers, w.Count)
	e.add(w.Slots < 1 || w.Slots > MaxWorkers, "workers.slots must be 1 to %d, is %d", MaxWorkers, w.Slots)
	e.add(w.Cores < 1 || w.Cores > MaxWorkers, "workers.cores must be 1 to %d, is %d", MaxWorkers, w.Cores)
	e.add(w.HeartbeatEvery <= 0 || w.HeartbeatTimeout <= w.HeartbeatEvery,
		"heartbeat timeout %s must be longer than every %s, which must be positive", w.HeartbeatTimeout, w.HeartbeatEvery)
	e.add(j.MaxParallelism < 1 || j.MaxParallelism > MaxParallelism, "maxParallelism must be 1 to %d, is %d", MaxParallelism, j.MaxParallelism)
	e.add(j.Parallelism < 1 || j.Parallelism > j.MaxParallelism, "parallelism must be 1 to %d, is %d", j.MaxParallelism, j.Parallelism)
	e.add(j.Parallelism > w.Count*w.Slots, "parallelism %d needs more than the %d slots there are", j.Parallelism, w.Count*w.Slots)
	e.add(j.RestartDelay < 0, "restartDelay is negative")
	e.add(j.BufferRecords < 1 || j.BufferRecords > MaxBuffer, "bufferRecords must be 1 to %d, is %d", MaxBuffer, j.BufferRecords)
	e.add(j.Credits < 1 || j.Credits > MaxCredits, "credits must be 1 to %d, is %d", MaxCredits, j.Credits)
	e.add(j.FlushEvery <= 0, "flushEvery must be positive")
	e.add(c.Interval <= 0, "checkpoint.interval must be positive")
	e.add(c.Timeout <= 0, "checkpoint.timeout must be positive")
	e.add(c.MinPause < 0, "checkpoint.minPause is negative")
	e.add(c.Retain < 1 || c.Retain > MaxRetain, "checkpoint.retain must be 1 to %d, is %d", MaxRetain, c.Retain)
	e.add(c.MaxConcurrent < 1 || c.MaxConcurrent > MaxConcurrent, "checkpoint.maxConcurrent must be 1 to %d, is %d", MaxConcurrent, c.MaxConcurrent)
	e.add(c.MinPause > 0 && c.MaxConcurrent > 1, "checkpoint.maxConcurrent must be 1 when there is a minPause, is %d", c.MaxConcurrent)
	if n := c.TolerableFailures; n != nil {
		e.add(*n < 0 || *n > MaxFailures, "checkpoint.tolerableFailures must be 0 to %d, is %d", MaxFailures, *n)
	}
	e.add(c.DeletesPerSecond < 0 || c.DeletesPerSecond > MaxDeletes, "checkpoint.deletesPerSecond must be 0 to %d, is %d", MaxDeletes, c.DeletesPerSecond)
	j.Restart.validate(e)
	p.Backend.validate(e, "")
	p.validateStorage(e)
}

func (p *Plan) validateWorkload(e *problems) {
	e.add(p.Workload.Name == "", "workload has no name")
	e.add(!isObject(p.Workload.Options), "workload.options must be an object")
	e.add(p.Workload.Rate < 0, "workload.rate is negative")
	for _, in := range p.Inputs {
		e.add(in.Path == "" || len(in.SHA256) != 64 || in.Bytes < 0, "input %q has no path, no sha256 or a negative size", in.Path)
	}
}

func isObject(b json.RawMessage) bool {
	return json.Valid(b) && bytes.HasPrefix(bytes.TrimSpace(b), []byte("{"))
}

// validatePhases returns the phases by name.
func (p *Plan) validatePhases(e *problems) map[string]Phase {
	byName := map[string]Phase{}
	e.add(len(p.Phases) == 0, "there is no phase")
	closed := ""
	for _, ph := range p.Phases {
		_, twice := byName[ph.Name]
		e.add(ph.Name == "" || twice, "phase %q has no name of its own", ph.Name)
		byName[ph.Name] = ph
		ends := 0
		for _, set := range []bool{ph.For != 0, ph.Records != 0, ph.Until != "", len(ph.Steps) > 0} {
			if set {
				ends++
			}
		}
		e.add(ends != 1, "phase %s needs exactly one of for, records, until, steps", ph.Name)
		e.add(ph.Records > MaxRecords, "phase %s must have at most %d records, has %d", ph.Name, int64(MaxRecords), ph.Records)
		e.add(ph.For < 0 || ph.Records < 0 || ph.Within < 0 || ph.GCGrace < 0, "phase %s has a negative measure", ph.Name)
		switch ph.Until {
		case "":
			e.add(closed != "", "phase %s stands after closing phase %s", ph.Name, closed)
		case UntilRecovered, UntilDrained, UntilVerified:
			e.add(ph.Within <= 0, "phase %s has no limit", ph.Name)
			closed = ph.Name
		default:
			e.add(true, "phase %s: until %q does not exist", ph.Name, ph.Until)
		}
	}
	return byName
}

func (p *Plan) validateFaults(e *problems, phases map[string]Phase) {
	var ids []string
	for _, f := range p.Faults {
		e.add(f.ID == "" || slices.Contains(ids, f.ID), "fault %q has no id of its own", f.ID)
		e.add(f.Kind == "", "fault %s has no kind", f.ID)
		e.add(f.Where == "", "fault %s has no place", f.ID)
		e.add(f.For < 0, "fault %s: for is negative", f.ID)
		e.add(len(f.With) > 0 && !isObject(f.With), "fault %s: with must be an object", f.ID)
		f.At.validate(e, "fault "+f.ID, f.Phase, phases, ids)
		ids = append(ids, f.ID)
	}
}

func (p *Plan) validateRescales(e *problems, phases map[string]Phase) {
	var ids, faults []string
	for _, f := range p.Faults {
		faults = append(faults, f.ID)
	}
	for _, r := range p.Rescales {
		e.add(r.ID == "" || slices.Contains(ids, r.ID), "rescale %q has no id of its own", r.ID)
		most := min(p.Job.MaxParallelism, p.Workers.Count*p.Workers.Slots)
		e.add(r.To < 1 || r.To > most, "rescale %s: to must be 1 to %d, is %d", r.ID, most, r.To)
		e.add(r.From != "latest" && r.From != "previous", "rescale %s: from must be latest or previous, is %q", r.ID, r.From)
		r.At.validate(e, "rescale "+r.ID, r.Phase, phases, faults)
		ids = append(ids, r.ID)
	}
}

// validate checks a trigger in its phase; faults are the ids that since may name.
func (t Trigger) validate(e *problems, what, phase string, phases map[string]Phase, faults []string) {
	ph, ok := phases[phase]
	e.add(!ok, "%s: phase %q does not exist", what, phase)
	e.add(ok && ph.Until != "", "%s stands in closing phase %s", what, phase)
	forms := 0
	for _, set := range []bool{t.Time != nil, t.Record != nil, t.Event != "", t.Phase != ""} {
		if set {
			forms++
		}
	}
	e.add(forms != 1, "%s needs exactly one of time, record, event, phase", what)
	e.add(t.Time != nil && *t.Time < 0, "%s: time is negative", what)
	e.add(t.Record != nil && (*t.Record < 1 || ph.Records > 0 && *t.Record > ph.Records), "%s: record is not inside phase %s", what, phase)
	e.add(t.Phase != "" && t.Phase != "start", "%s: phase must be start, is %q", what, t.Phase)
	e.add(t.Event == "" && (t.Count != 0 || t.Since != ""), "%s: count and since go with event only", what)
	if t.Event != "" {
		e.add(t.Count < 1, "%s: count must be at least 1, is %d", what, t.Count)
		e.add(t.Since != "phase" && t.Since != "run" && !slices.Contains(faults, t.Since), "%s: since %q is neither phase, run nor a fault", what, t.Since)
	}
}
