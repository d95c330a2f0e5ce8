package scenario

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"statebench.dev/bench/internal/plan"
)

// stepsWithin is the limit of a phase of steps that gives none.
const stepsWithin = plan.Duration(2 * time.Minute)

// life is what has become of the job by a step: a stopped one can only be started, and only from what there is.
type life struct {
	stopped, savepoint bool
	form               string   // of the savepoint that it was stopped with; empty: it was cancelled, or runs
	backends           []string // by arm: the name of what it runs on
	schema             int      // in which its state is stored
}

// lifeBefore is the job at the end of the phases read so far. Each of them leaves the job running.
func lifeBefore(s *Scenario) life {
	now := life{schema: 1}
	for _, a := range s.Arms {
		now.backends = append(now.backends, a.Backend.Name)
	}
	for _, p := range s.Phases {
		for _, step := range p.Steps {
			now.switched(step.Start)
			now.savepoint = now.savepoint || step.Savepoint != "" || step.Stop != nil && step.Stop.Savepoint != ""
		}
	}
	return now
}

// switched notes the backend of an arm that a start names, with which all arms go on, and the schema.
func (n *life) switched(s *plan.Start) {
	if s != nil {
		n.schema = max(n.schema, s.Schema)
	}
	if s != nil && s.Backend != nil {
		for i := range n.backends {
			n.backends[i] = s.Backend.Name
		}
	}
}

// steps reads the steps of phase p, which is not yet among s.Phases.
func (l *loader) steps(f field, p *Phase, s *Scenario) {
	items, ok := l.items(f, "steps")
	if !ok {
		return
	}
	if len(items) == 0 {
		l.fail(f.where, "steps is empty; a phase of steps needs at least one, such as {savepoint: canonical}")
		return
	}
	before, now := len(l.problems), lifeBefore(s)
	for _, item := range items {
		l.step(item, p, s, &now)
	}
	if now.stopped && len(l.problems) == before {
		l.fail(f.where, "phase %s leaves the job stopped; end it with {start: {from: last-savepoint}} or {start: {from: last-checkpoint}}", p.Name)
	}
}

// step reads one step and carries the job's life on.
func (l *loader) step(item field, p *Phase, s *Scenario, now *life) {
	o, ok := l.object(item.value, item.path, "phases.steps", "step")
	if !ok {
		return
	}
	if len(o.fields) != 1 {
		if len(o.fields) > 1 || !l.attempted(item.path, "savepoint", "stop", "start") {
			l.fail(item.where, "a step must have exactly one of savepoint, stop, start; has %s", orNone(strings.Join(o.keys(), " and ")))
		}
		return
	}
	var step plan.Step
	at := o.fields[0].at
	switch key := o.fields[0].key; {
	case key != "start" && now.stopped:
		l.fail(at, "%s comes when the job is stopped; start it first", key)
	case key == "start" && !now.stopped:
		l.fail(at, "start comes when the job runs; stop it first")
	}
	switch o.fields[0].key {
	case "savepoint":
		read(o, "savepoint", &step.Savepoint, word)
		now.savepoint = true
	case "stop":
		step.Stop = l.stop(o.fields[0])
		now.stopped, now.form = true, step.Stop.Savepoint
		if l.tried(o.path + ".stop.savepoint") {
			now.savepoint = true
			if now.form == "" { // it is reported, and nothing that follows from it
				now.form = plan.Canonical
			}
		}
	case "start":
		step.Start = l.start(o.fields[0], s, now)
		now.stopped, now.form = false, ""
		now.switched(step.Start)
	}
	l.origin(item.path, item.where)
	p.Steps = append(p.Steps, step)
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func (l *loader) stop(f field) *plan.Stop {
	stop := &plan.Stop{}
	if o, ok := l.object(f.value, f.path, "phases.steps.stop", "stop"); ok {
		read(o, "savepoint", &stop.Savepoint, word)
	}
	return stop
}

// start reads how a stopped job is started again. An arm named there gives its backend, as the file has it.
func (l *loader) start(f field, s *Scenario, now *life) *plan.Start {
	start := &plan.Start{}
	o, ok := l.object(f.value, f.path, "phases.steps.start", "start")
	if !ok {
		return start
	}
	if read(o, "from", &start.From, word) && now.stopped {
		l.startFrom(l.places[f.path+".from"], start.From, now)
	}
	read(o, "mode", &start.Mode, word)
	if read(o, "parallelism", &start.Parallelism, whole(1, s.Job.MaxParallelism)) && start.Parallelism > s.Workers.Count*s.Workers.Slots {
		l.fail(l.places[f.path+".parallelism"], "parallelism must be at most %d, the slots of %d workers with %d each, is %d",
			s.Workers.Count*s.Workers.Slots, s.Workers.Count, s.Workers.Slots, start.Parallelism)
	}
	if read(o, "schema", &start.Schema, whole(1, plan.MaxSchema)) {
		l.startSchema(l.places[f.path+".schema"], start.Schema, s, now)
	}
	if read(o, "arm", &start.Arm, known("arm", s.armNames())) {
		i := slices.IndexFunc(s.Arms, func(a Arm) bool { return a.Name == start.Arm })
		b := s.Arms[i].Backend
		start.Backend = &b
		for j, name := range now.backends {
			if now.stopped && name != b.Name && name != "" && b.Name != "" && now.form != plan.Canonical {
				l.fail(l.places[f.path+".arm"], "arm %s has backend %s, and the job of arm %s runs on %s: only a canonical savepoint can be opened by another backend; stop with {savepoint: canonical}",
					start.Arm, b.Name, s.Arms[j].Name, name)
				break
			}
		}
	}
	return start
}

// startSchema checks that the workload has the schema, and that it is no older than the one before.
func (l *loader) startSchema(at Place, schema int, s *Scenario, now *life) {
	switch most := max(1, s.Workload.info.Schemas); {
	case s.Workload.Name != "" && schema > most:
		l.fail(at, "schema must be at most %d, the newest in which workload %s stores its state, is %d", most, s.Workload.Name, schema)
	case schema < now.schema:
		l.fail(at, "schema %d is older than %d, in which the state is stored by then; only later ones can be gone on with", schema, now.schema)
	}
	now.schema = max(now.schema, schema)
}

// startFrom checks that the stopped job has what it is to be started from.
func (l *loader) startFrom(at Place, from string, now *life) {
	switch {
	case from == plan.FromSavepoint && !now.savepoint:
		l.fail(at, "from last-savepoint, but no step before this takes a savepoint; take one by {savepoint: canonical} or {stop: {savepoint: canonical}}")
	case from == plan.FromSavepoint && now.form == "":
		l.fail(at, "from last-savepoint, but the job was not stopped with it: what was committed after it would be committed again; stop with {savepoint: canonical}, or start from last-checkpoint")
	case from == plan.FromCheckpoint && now.form != "":
		l.fail(at, "from last-checkpoint, but the job was stopped with a savepoint, which retains none; start from last-savepoint, or stop by {stop: {}}")
	}
}

// backendsOf lists the backends that an arm may run on in phase p, which is not yet among s.Phases: the one it enters the
// phase with, and those that steps of the phase switch to.
func (s *Scenario) backendsOf(a Arm, p *Phase) []plan.Backend {
	now := a.Backend
	for _, ph := range s.Phases {
		for _, step := range ph.Steps {
			if step.Start != nil && step.Start.Backend != nil {
				now = *step.Start.Backend
			}
		}
	}
	out := []plan.Backend{now}
	for _, step := range p.Steps {
		if step.Start != nil && step.Start.Backend != nil {
			out = append(out, *step.Start.Backend)
		}
	}
	return out
}

// cloneSteps copies steps, so that plans share nothing.
func cloneSteps(steps []plan.Step) []plan.Step {
	out := slices.Clone(steps)
	for i := range out {
		if s := out[i].Stop; s != nil {
			c := *s
			out[i].Stop = &c
		}
		if s := out[i].Start; s != nil {
			c := *s
			if s.Backend != nil {
				b := *s.Backend
				c.Backend = &b
			}
			out[i].Start = &c
		}
	}
	return out
}

// stepText is a step as the file has it.
func stepText(s plan.Step) string {
	switch {
	case s.Savepoint != "":
		return "{savepoint: " + s.Savepoint + "}"
	case s.Stop != nil && s.Stop.Savepoint != "":
		return "{stop: {savepoint: " + s.Stop.Savepoint + "}}"
	case s.Stop != nil:
		return "{stop: {}}"
	}
	return "{start: {" + strings.Join(startText(s.Start), ", ") + "}}"
}

func startText(s *plan.Start) []string {
	out := []string{"from: " + s.From}
	if s.Mode != "" {
		out = append(out, "mode: "+s.Mode)
	}
	if s.Parallelism > 0 {
		out = append(out, "parallelism: "+strconv.Itoa(s.Parallelism))
	}
	if s.Arm != "" {
		out = append(out, "arm: "+quoted(s.Arm))
	}
	if s.Schema > 0 {
		out = append(out, "schema: "+strconv.Itoa(s.Schema))
	}
	return out
}

// stepWords says what a step does, for people.
func stepWords(s plan.Step) string {
	switch {
	case s.Savepoint != "":
		return "take a " + s.Savepoint + " savepoint, the job goes on"
	case s.Stop != nil && s.Stop.Savepoint != "":
		return "stop the job with a " + s.Stop.Savepoint + " savepoint"
	case s.Stop != nil:
		return "cancel the job at once, its retained checkpoints stay"
	}
	text := "start it from the " + strings.ReplaceAll(s.Start.From, "-", " ")
	if s.Start.Mode != "" {
		text += " in mode " + s.Start.Mode
	}
	if s.Start.Parallelism > 0 {
		text += " at parallelism " + grouped(int64(s.Start.Parallelism))
	}
	if s.Start.Arm != "" {
		text += " on the backend of arm " + s.Start.Arm
	}
	if s.Start.Schema > 0 {
		text += " with state of schema " + strconv.Itoa(s.Start.Schema)
	}
	return text
}
