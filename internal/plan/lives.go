package plan

// Lives are the backends that the job runs on, one after the other: the first one is the plan's, each start step begins
// another life, with its own backend or the one before.
func (p *Plan) Lives() []Backend {
	all := []Backend{p.Backend}
	for _, ph := range p.Phases {
		for _, s := range ph.Steps {
			if s.Start == nil {
				continue
			}
			b := all[len(all)-1]
			if s.Start.Backend != nil {
				b = *s.Start.Backend
			}
			all = append(all, b)
		}
	}
	return all
}

// Schemas are those that the workload stores its state in, by life of the job.
func (p *Plan) Schemas() []int {
	all := []int{1}
	for _, ph := range p.Phases {
		for _, s := range ph.Steps {
			if s.Start != nil {
				all = append(all, max(all[len(all)-1], s.Start.Schema))
			}
		}
	}
	return all
}

// lived is what the steps so far have made of the job.
type lived struct {
	stopped   bool
	savepoint bool   // one was taken
	form      string // of the savepoint that it was stopped with; empty: it was cancelled
	backend   string // its name
	schema    int    // of the workload's state
}

// start checks that the stopped job can be started so: output that was committed behind a savepoint would be committed
// again, a stop with a savepoint retains no checkpoint, and only the canonical form can be read by another backend.
func (l *lived) start(e *problems, phase string, step int, s *Start) {
	e.add(s.Mode != "" && !IsMode(s.Mode), "phase %s: step %d: mode %q does not exist", phase, step, s.Mode)
	e.add(s.From != FromSavepoint && s.From != FromCheckpoint, "phase %s: step %d: from %q does not exist", phase, step, s.From)
	e.add(s.From == FromSavepoint && !l.savepoint, "phase %s: step %d starts from a savepoint and none was taken", phase, step)
	e.add(s.From == FromSavepoint && l.savepoint && l.stopped && l.form == "",
		"phase %s: step %d starts from a savepoint that the job was not stopped with, so what was committed after it would be committed again: stop with {savepoint: ...}, or start from %s",
		phase, step, FromCheckpoint)
	e.add(s.From == FromCheckpoint && l.form != "", "phase %s: step %d starts from a checkpoint, but a stop with a savepoint retains none: start from %s", phase, step, FromSavepoint)
	e.add(s.Schema < 0 || s.Schema > MaxSchema, "phase %s: step %d: schema must be 1 to %d, is %d", phase, step, MaxSchema, s.Schema)
	e.add(s.Schema > 0 && s.Schema < l.schema, "phase %s: step %d: schema %d is older than %d, which the state is stored in", phase, step, s.Schema, l.schema)
	l.schema = max(l.schema, s.Schema)
	if s.Backend == nil {
		return
	}
	e.add(s.Backend.Name != l.backend && l.form != Canonical, "phase %s: step %d opens state of backend %s with %s: only a savepoint of form %s can be opened by another backend",
		phase, step, l.backend, s.Backend.Name, Canonical)
	l.backend = s.Backend.Name
}
