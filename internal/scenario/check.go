package scenario

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/registry"
)

// crossCheck looks at what several blocks say together. The blocks by themselves are right.
func (l *loader) crossCheck(s *Scenario) {
	job, workers := s.Job, s.Workers
	at := l.placeOr("job.parallelism", "job", "phases")
	if job.Parallelism > job.MaxParallelism {
		l.fail(at, "parallelism must be 1 to %d, the maxParallelism, is %d", job.MaxParallelism, job.Parallelism)
	}
	if slots := workers.Count * workers.Slots; job.Parallelism > slots {
		l.fail(at, "parallelism must be at most %d, the slots of %d workers with %d each, is %d", slots, workers.Count, workers.Slots, job.Parallelism)
	}
	l.armsDiffer(s)
	if s.World == "sim" && slices.ContainsFunc(s.Arms, func(a Arm) bool { return a.Backend.Name == "lsm" }) {
		s.Notes = append(s.Notes, "the simulated world runs the database of backend lsm itself, on files in memory; what its work takes comes from a cost model")
	}
	parallelism := job.Parallelism
	for _, p := range s.Phases {
		most := parallelism
		for _, r := range p.Rescales {
			parallelism = r.To
			most = max(most, parallelism)
		}
		for _, step := range p.Steps {
			if step.Start != nil && step.Start.Parallelism > 0 {
				parallelism = step.Start.Parallelism
				most = max(most, parallelism)
			}
		}
		l.spareWorkers(s, p, most)
		l.triggersReached(s, p)
		if len(s.Arms) > 1 {
			l.comparable(p)
		}
	}
}

// placeOr is the place of the first path that stands in the file.
func (l *loader) placeOr(paths ...string) Place {
	for _, p := range paths {
		if at, ok := l.places[p]; ok {
			return at
		}
	}
	return Place{Line: 1, Column: 1}
}

// spareWorkers warns when a crash leaves too few slots for the job.
func (l *loader) spareWorkers(s *Scenario, p Phase, parallelism int) {
	left := (s.Workers.Count - 1) * s.Workers.Slots
	if left >= parallelism {
		return
	}
	for _, f := range p.Faults {
		e, err := s.tables.Faults.Find(f.Kind)
		if err != nil || !e.New.Crash {
			continue
		}
		until := "until it is back"
		if f.For == 0 {
			until = "until phase heal brings it back"
		}
		l.warn(f.place, "fault %s leaves %s on %s for parallelism %d: the job stands still %s",
			f.ID, count(left, "slot"), count(s.Workers.Count-1, "worker"), parallelism, until)
	}
}

// triggersReached warns when a trigger counts in the other measure than its phase and will hardly be reached.
func (l *loader) triggersReached(s *Scenario, p Phase) {
	rate := s.Workload.Rate
	if rate == 0 {
		return
	}
	check := func(at Place, what string, t plan.Trigger) {
		seconds := plan.D(p.For).Seconds()
		switch {
		case t.Record != nil && p.For > 0 && float64(*t.Record) > rate*seconds:
			l.warn(at, "%s comes at record %s, but phase %s has only about %.0f: %s at %s",
				what, grouped(*t.Record), p.Name, rate*seconds, p.For, registry.Rate(rate))
		case t.Time != nil && p.Records > 0 && plan.D(*t.Time).Seconds() > float64(p.Records)/rate:
			l.warn(at, "%s comes after %s, but phase %s lasts only about %.1fs: %s records at %s",
				what, *t.Time, p.Name, float64(p.Records)/rate, grouped(p.Records), registry.Rate(rate))
		}
	}
	for _, f := range p.Faults {
		check(f.place, "fault "+f.ID, f.At)
	}
	for i, r := range p.Rescales {
		check(l.rescalePlace(p, i), r.ID, r.At)
	}
}

func (l *loader) rescalePlace(p Phase, i int) Place {
	return l.placeOr(fmt.Sprintf("%s.rescale[%d]", p.path, i), p.path)
}

// comparable warns when a phase cannot be compared between arms: what happens in it is not at the same place in each.
func (l *loader) comparable(p Phase) {
	if p.Discard || p.Until != "" {
		return
	}
	for _, f := range p.Faults {
		switch {
		case f.Arms != nil:
			l.warn(f.place, "phase %s is reported but not compared: fault %s is for some arms only", p.Name, f.ID)
		case f.At.Event != "" || f.At.Time != nil:
			l.warn(f.place, "phase %s is reported but not compared: fault %s is not placed by a record index or the start of the phase", p.Name, f.ID)
		}
	}
	for i, r := range p.Rescales {
		if r.At.Event != "" || r.At.Time != nil {
			l.warn(l.rescalePlace(p, i), "phase %s is reported but not compared: %s is not placed by a record index or the start of the phase", p.Name, r.ID)
		}
	}
	if p.For > 0 && len(p.Faults)+len(p.Rescales) > 0 {
		l.warn(p.place, "phase %s is measured in time: its arms may see different records, so it is reported but not compared", p.Name)
	}
}

// armsDiffer warns when an arm differs from the baseline in more than one key: then no difference in the results can be put
// down to one of them. In a grid, where other arms differ in each of these keys alone, it can.
func (l *loader) armsDiffer(s *Scenario) {
	base := s.Arms[slices.IndexFunc(s.Arms, func(a Arm) bool { return a.Name == s.Baseline })]
	var alone []string
	for _, a := range s.Arms {
		if d := armDifferences(base, a); len(d) == 1 {
			alone = append(alone, d[0])
		}
	}
	for _, a := range s.Arms {
		d := armDifferences(base, a)
		if len(d) > 1 && slices.ContainsFunc(d, func(key string) bool { return !slices.Contains(alone, key) }) {
			l.warn(a.place, "arm %s differs from %s in %s: no difference in the results can be put down to one of them",
				a.Name, s.Baseline, strings.Join(d, ", "))
		}
	}
}

// armDifferences lists the keys in which two arms differ.
func armDifferences(a, b Arm) []string {
	out := differences(a.Backend, b.Backend)
	names := slices.Concat(a.own, b.own)
	slices.Sort(names)
	x, y := value(a.Options), value(b.Options)
	for _, name := range slices.Compact(names) {
		if !reflect.DeepEqual(at(x, name), at(y, name)) {
			out = append(out, "workload."+name)
		}
	}
	return out
}

// at is the value of a dotted name in a tree of options; nil where there is none.
func at(tree any, name string) any {
	for part := range strings.SplitSeq(name, ".") {
		object, ok := tree.(map[string]any)
		if !ok {
			return nil
		}
		tree = object[part]
	}
	return tree
}

// differences lists the keys in which two arms differ. A changelog that is off counts as one key, whatever its options.
func differences(a, b plan.Backend) []string {
	var out []string
	add := func(differ bool, key string) {
		if differ {
			out = append(out, key)
		}
	}
	add(a.Name != b.Name, "backend")
	add(a.Name == b.Name && a.LSM != b.LSM, "lsm")
	add(a.LocalRecovery != b.LocalRecovery, "localRecovery")
	add(a.LocalRecovery && b.LocalRecovery && a.LocalCopies != b.LocalCopies, "localCopies")
	x, y := a.Changelog, b.Changelog
	if !x.Enabled || !y.Enabled {
		add(x.Enabled != y.Enabled, "changelog")
		return out
	}
	add(x.MaterializeOff != y.MaterializeOff, "changelog.materialize.enabled")
	add(x.Materialize != y.Materialize, "changelog.materialize.every")
	add(x.Growth != y.Growth, "changelog.materialize.growth")
	add(x.GrowthFloor != y.GrowthFloor, "changelog.materialize.growthFloor")
	add(x.ReplayBudget != y.ReplayBudget, "changelog.materialize.replayBudget")
	add(x.Concurrent != y.Concurrent, "changelog.materialize.concurrent")
	add(x.ConcurrentJob != y.ConcurrentJob, "changelog.materialize.concurrentJob")
	add(x.Preemptive != y.Preemptive, "changelog.preemptive")
	add(x.BatchDelay != y.BatchDelay, "changelog.batch.delay")
	add(x.BatchSize != y.BatchSize, "changelog.batch.size")
	add(x.InFlight != y.InFlight, "changelog.inFlight")
	add(x.Storage != y.Storage, "changelog.storage")
	add(x.Upload.RetryShare != y.Upload.RetryShare, "changelog.upload.retryShare")
	add(x.Upload.RetriesPerSecond != y.Upload.RetriesPerSecond, "changelog.upload.retriesPerSecond")
	add(x.Upload.HedgeAfter != y.Upload.HedgeAfter, "changelog.upload.hedgeAfter")
	add(x.Upload.HedgeShare != y.Upload.HedgeShare, "changelog.upload.hedgeShare")
	return out
}

// planCheck makes the plans and reports what is wrong with them as a whole.
func (l *loader) planCheck(s *Scenario) {
	for i := range s.Arms {
		arm := &s.Arms[i]
		arm.effective = arm.Options
		if s.World == "sim" {
			options, err := s.simulated(arm.Options)
			if err != nil {
				l.optionProblems(err, "sim", l.placeOr("sim"))
				return
			}
			arm.effective = options
		}
	}
	plans, err := Plans(s)
	if err != nil {
		l.optionProblems(err, "", Place{Line: 1, Column: 1})
		return
	}
	full := *s
	full.World = "real" // the measures of the file, before sim scales them
	for _, arm := range s.Arms {
		p := full.plan(arm, 1)
		l.enoughSamples(s, &p)
	}
	l.passedOver(s, plans)
	if check := s.Workload.info.Check; check != nil {
		for i := range plans[:len(s.Selected)] { // the arms of the first repetition
			if err := check(&plans[i]); err != nil {
				l.optionProblems(err, "workload", s.Workload.place)
			}
		}
	}
}
