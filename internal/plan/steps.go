package plan

import (
	"cmp"
	"slices"
)

// savepointForm tells whether a savepoint has such a form.
func savepointForm(s string) bool { return s == Canonical || s == Native }

// validateSteps follows the job through its life: a stopped job can only be started, and at the end it runs.
func (p *Plan) validateSteps(e *problems) {
	now := lived{backend: p.Backend.Name}
	for _, ph := range p.Phases {
		e.add(len(ph.Steps) > 0 && ph.Within <= 0, "phase %s has steps and no limit", ph.Name)
		for i, s := range ph.Steps {
			forms := 0
			for _, set := range []bool{s.Savepoint != "", s.Stop != nil, s.Start != nil} {
				if set {
					forms++
				}
			}
			e.add(forms != 1, "phase %s: step %d needs exactly one of savepoint, stop, start", ph.Name, i+1)
			switch {
			case s.Savepoint != "":
				e.add(!savepointForm(s.Savepoint), "phase %s: step %d: no savepoint is %q", ph.Name, i+1, s.Savepoint)
				e.add(now.stopped, "phase %s: step %d takes a savepoint of a stopped job", ph.Name, i+1)
				now.savepoint = true
			case s.Stop != nil:
				e.add(s.Stop.Savepoint != "" && !savepointForm(s.Stop.Savepoint), "phase %s: step %d: no savepoint is %q", ph.Name, i+1, s.Stop.Savepoint)
				e.add(now.stopped, "phase %s: step %d stops a stopped job", ph.Name, i+1)
				now.stopped, now.savepoint, now.form = true, now.savepoint || s.Stop.Savepoint != "", s.Stop.Savepoint
			case s.Start != nil:
				e.add(!now.stopped, "phase %s: step %d starts a job that runs", ph.Name, i+1)
				now.start(e, ph.Name, i+1, s.Start)
				p.validateStart(e, ph.Name, i+1, s.Start)
				now.stopped, now.form = false, ""
			}
		}
		e.add(now.stopped, "phase %s leaves the job stopped: start it in the same phase", ph.Name)
	}
}

func (p *Plan) validateStart(e *problems, phase string, step int, s *Start) {
	most := min(p.Job.MaxParallelism, p.Workers.Count*p.Workers.Slots)
	e.add(s.Parallelism < 0 || s.Parallelism > most, "phase %s: step %d: parallelism must be 1 to %d, is %d", phase, step, most, s.Parallelism)
	e.add((s.Arm == "") != (s.Backend == nil), "phase %s: step %d names an arm without its backend, or a backend without an arm", phase, step)
	if s.Backend != nil {
		s.Backend.validate(e, "phase "+phase+": ")
	}
}

// validateStorage: a run has one storage for logs, so that each checkpoint can be restored from it.
func (p *Plan) validateStorage(e *problems) {
	first := ""
	for _, b := range p.backends() {
		if !b.Changelog.Enabled {
			continue
		}
		name := cmp.Or(b.Changelog.Storage, LogDFS)
		e.add(first != "" && name != first, "changelog.storage is %s and, in an arm that the job is started in, %s: checkpoints of one would need the other", first, name)
		first = name
	}
}

func (b *Backend) validate(e *problems, where string) {
	e.add(b.Name == "", "%sbackend has no name", where)
	e.add(b.LSM.Compression != "" && !slices.Contains(Compressions(), b.LSM.Compression), "%slsm.compression %q does not exist", where, b.LSM.Compression)
	e.add(b.LSM.Restore != "" && !slices.Contains(Restores(), b.LSM.Restore), "%slsm.restore %q does not exist", where, b.LSM.Restore)
	e.add(b.LocalCopies < 0, "%slocalCopies is negative", where)
	e.add(min(b.LSM.Cache, b.LSM.Memtable, b.LSM.Rows, b.LSM.Files) < 0, "%slsm has a negative size", where)
	if c := b.Changelog; c.Enabled {
		e.add(c.Materialize <= 0, "%schangelog.materialize must be positive", where)
		e.add(!(c.Growth >= 0), "%schangelog.growth is negative", where)
		e.add(c.GrowthFloor < 0, "%schangelog.growthFloor is negative", where)
		e.add(c.ReplayBudget < 0, "%schangelog.replayBudget is negative", where)
		e.add(c.Concurrent < 0, "%schangelog.concurrent is negative", where)
		e.add(c.ConcurrentJob < 0, "%schangelog.concurrentJob is negative", where)
		e.add(c.Preemptive <= 0, "%schangelog.preemptive must be positive", where)
		e.add(c.BatchDelay < 0, "%schangelog.batchDelay is negative", where)
		e.add(c.BatchSize <= 0, "%schangelog.batchSize must be positive", where)
		e.add(c.InFlight < c.Preemptive, "%schangelog.inFlight must not be less than preemptive", where)
		c.Upload.validate(e, where)
		e.add(c.Storage != "" && !slices.Contains(LogStorages(), c.Storage), "%schangelog.storage %q does not exist", where, c.Storage)
	}
}

func (u *Upload) validate(e *problems, where string) {
	e.add(!(u.RetryShare >= 0 && u.RetryShare <= 1), "%schangelog.upload.retryShare must be 0 to 1, is %v", where, u.RetryShare)
	e.add(u.RetriesPerSecond < 0 || u.RetriesPerSecond > MaxRetries, "%schangelog.upload.retriesPerSecond must be 0 to %d, is %d", where, MaxRetries, u.RetriesPerSecond)
	e.add(u.HedgeAfter < 0, "%schangelog.upload.hedgeAfter is negative", where)
	e.add(!(u.HedgeShare >= 0 && u.HedgeShare <= 1), "%schangelog.upload.hedgeShare must be 0 to 1, is %v", where, u.HedgeShare)
}

func (r *Restart) validate(e *problems) {
	switch r.Strategy {
	case "", RestartFixed, RestartNone:
	case RestartExponential:
		e.add(r.MaxDelay <= 0, "restart.maxDelay must be positive")
		e.add(!(r.Multiplier >= 1 && r.Multiplier <= MaxMultiplier), "restart.multiplier must be 1 to %d, is %v", MaxMultiplier, r.Multiplier)
		e.add(r.Jitter < 0 || r.Jitter > 1, "restart.jitter must be 0 to 1, is %v", r.Jitter)
		e.add(r.ResetAfter <= 0, "restart.resetAfter must be positive")
	case RestartRate:
		e.add(r.Failures < 1 || r.Within <= 0, "restart: failure-rate needs failures of at least 1 within a positive time")
	default:
		e.add(true, "restart.strategy %q does not exist", r.Strategy)
	}
	e.add(r.Attempts < 0 || r.Attempts > MaxFailures, "restart.attempts must be 0 to %d, is %d", MaxFailures, r.Attempts)
	e.add(r.Failures < 0 || r.Failures > MaxFailures, "restart.failures must be 0 to %d, is %d", MaxFailures, r.Failures)
}

func (p *Plan) validateExpect(e *problems, phases map[string]Phase) {
	for i, x := range p.Expect {
		_, ok := phases[x.Phase]
		e.add(!ok, "expectation %d: phase %q does not exist", i+1, x.Phase)
		e.add(x.Metric == "", "expectation %d has no metric", i+1)
		e.add(!slices.Contains([]string{"<", "<=", ">", ">=", "=="}, x.Op), "expectation %d: operator %q does not exist", i+1, x.Op)
	}
	e.add(p.MaxResults < 0, "maxResults is negative")
	l := p.Store.Limits
	e.add(l.CPUs < 0 || l.CPUs > MaxCPUs, "store.limits.cpus must be 0 to %d, is %v", MaxCPUs, l.CPUs)
	e.add(l.Memory != 0 && l.Memory < MinMemory, "store.limits.memory must be at least %d, is %d", MinMemory, l.Memory)
}
