package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/registry"
	"statebench.dev/bench/internal/seed"
)

// Plans expands a scenario into one plan for each selected arm and repetition: repetition by repetition, in each the arms
// in file order, so that arms alternate. The arms of a repetition share their seed; that of the first is the scenario's.
// Every plan has passed plan.Plan.Validate; an error says which did not, and is a mistake of the program.
func Plans(s *Scenario) ([]plan.Plan, error) {
	var out []plan.Plan
	for rep := 1; rep <= s.Reps; rep++ {
		for _, arm := range s.Arms {
			if !slices.Contains(s.Selected, arm.Name) {
				continue
			}
			p := s.plan(arm, rep)
			if err := p.Validate(); err != nil {
				return nil, fmt.Errorf("plan of arm %s, repetition %d: %w", arm.Name, rep, err)
			}
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no arm is selected")
	}
	return out, nil
}

// plan makes the plan of one run. Nothing in it is shared with another plan or the scenario.
func (s *Scenario) plan(arm Arm, rep int) plan.Plan {
	sim := s.World == "sim"
	p := plan.Plan{
		Schema: plan.Version, Scenario: s.Name, About: s.About, Arm: arm.Name, Rep: rep, Baseline: arm.Name == s.Baseline,
		Seed: s.repSeed(rep), World: s.World, Store: s.Store, Workers: s.Workers, Job: s.Job, Backend: arm.Backend,
		Workload: plan.Workload{Name: s.Workload.Name, Options: slices.Clone(arm.effective), Rate: s.Workload.Rate},
		Faults:   []plan.Fault{}, Rescales: []plan.Rescale{},
		Verify: plan.Verify{RestoreDigests: sim, RecordIDs: sim, Checks: append([]string{}, s.Verify.Checks...)},
		Charts: append([]string{}, s.Charts...), MaxResults: s.MaxResults, Inputs: append([]plan.Input{}, arm.inputs...),
	}
	if sim && s.Sim.Rate != nil {
		p.Workload.Rate = *s.Sim.Rate
	}
	if v := s.Verify.RestoreDigests; v != nil {
		p.Verify.RestoreDigests = *v
	}
	if v := s.Verify.RecordIDs; v != nil {
		p.Verify.RecordIDs = *v
	}
	for _, ph := range s.Phases {
		records := s.scale(ph.Records)
		next := ph.Phase
		next.Records, next.Steps = records, cloneSteps(ph.Steps)
		p.Phases = append(p.Phases, next)
		for _, f := range ph.Faults {
			if f.Arms != nil && !slices.Contains(f.Arms, arm.Name) {
				continue
			}
			planned := f.Fault
			planned.With = slices.Clone(f.With)
			planned.At = s.scaleTrigger(f.At, records)
			p.Faults = append(p.Faults, planned)
		}
		for _, r := range ph.Rescales {
			r.At = s.scaleTrigger(r.At, records)
			p.Rescales = append(p.Rescales, r)
		}
	}
	if n := s.Job.Checkpoint.TolerableFailures; n != nil {
		most := *n
		p.Job.Checkpoint.TolerableFailures = &most
	}
	p.Expect, _ = s.expectations(&p)
	return p
}

// repSeed is the seed of a repetition.
func (s *Scenario) repSeed(rep int) uint64 {
	if rep == 1 {
		return s.Seed
	}
	return seed.Hash(s.Seed, "rep/"+strconv.Itoa(rep))
}

// scale is a number of records in the world of the run; 0 stays 0.
func (s *Scenario) scale(n int64) int64 {
	if n == 0 || s.World != "sim" || s.Sim.Records == nil {
		return n
	}
	return scaled(n, *s.Sim.Records)
}

// scaleTrigger copies a trigger; a record index stays inside its phase, which has the given number of records.
func (s *Scenario) scaleTrigger(t plan.Trigger, records int64) plan.Trigger {
	if t.Time != nil {
		d := *t.Time
		t.Time = &d
	}
	if t.Record == nil {
		return t
	}
	n := s.scale(*t.Record)
	if records > 0 {
		n = min(n, records)
	}
	t.Record = &n
	return t
}

// value reads JSON into a tree of maps, slices, texts, truth values and json.Number. What it is given was written by this
// package or by a workload's Resolve: bad JSON is a mistake of the program.
func value(in json.RawMessage) any {
	if len(in) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(in))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		panic("scenario: options are no JSON: " + err.Error())
	}
	return v
}

// rateText writes a rate for people; 0 is none.
func rateText(r float64) string {
	if r == 0 {
		return "as fast as possible"
	}
	return registry.Rate(r).String()
}
