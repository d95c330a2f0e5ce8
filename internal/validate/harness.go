package validate

import (
	"fmt"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
)

// planned is H1: every planned fault had an effect and was healed, every planned rescale was done, and there was traffic to
// disturb. A violation makes the run inconclusive: nothing is known about a disturbance that did not happen.
type planned struct {
	c         *Case
	hit       map[string]int64
	healed    map[string]int64
	missed    map[string]string
	rescales  int
	completed int
	emitted   int64
	ended     map[string]bool
}

func (j *planned) Observe(e *history.Event) {
	switch e.Kind {
	case history.FaultHit:
		j.hit[e.Fault] = e.N
	case history.FaultHealed:
		j.healed[e.Fault] = e.N
	case history.FaultMissed:
		j.missed[e.Fault] = e.Text
	case history.RescaleDone:
		j.rescales++
	case history.CheckpointCompleted:
		j.completed++
	case history.PhaseEnd:
		j.ended[e.Phase] = true
		j.emitted = e.Records
	}
}

func (j *planned) Finish() Verdict {
	var f findings
	for _, x := range j.c.Plan.Faults {
		switch {
		case j.hit[x.ID] == 0:
			f.add(0, "fault %s (%s) had no effect: %s", x.ID, x.Kind, j.missed[x.ID])
		case j.healed[x.ID] == 0:
			f.add(j.hit[x.ID], "fault %s (%s) was not healed: %s", x.ID, x.Kind, j.missed[x.ID])
		}
	}
	if n := len(j.c.Plan.Rescales); j.rescales < n {
		f.add(0, "%d of %d planned rescales were done", j.rescales, n)
	}
	for _, p := range j.c.Plan.Phases {
		if p.Until != plan.UntilVerified && !j.ended[p.Name] {
			f.add(0, "phase %s was not carried through", p.Name)
		}
	}
	if j.completed == 0 {
		f.add(0, "no checkpoint completed")
	}
	if want := j.c.Plan.TotalRecords(); j.emitted < want || j.emitted == 0 {
		f.add(0, "%d source records were emitted, want %d", j.emitted, want)
	}
	v := f.verdict("%d faults hit and healed, %d rescales done, %d records, %d checkpoints", len(j.c.Plan.Faults), j.rescales, j.emitted, j.completed)
	return unproven(v)
}

// unproven turns a fail into inconclusive.
func unproven(v Verdict) Verdict {
	if v.Verdict == results.Fail {
		v.Verdict = results.Inconclusive
	}
	return v
}

// complete is H2: the history has no gap, its clock never goes back, it begins and ends as a run does, and so does the
// object trace.
type complete struct {
	c       *Case
	n       int64
	at      time.Duration
	ended   bool
	errors  string
	rows    int
	asked   int64 // how many requests there were, as the end of the history says; 0: it does not
	highest uint64
	f       findings
}

func (j *complete) Observe(e *history.Event) {
	j.n++
	switch {
	case e.N != j.n:
		j.f.add(e.N, "event %d follows event %d", e.N, j.n-1)
		j.n = e.N
	case e.N == 1 && e.Kind != history.RunBegin:
		j.f.add(1, "the history begins with %s", e.Kind)
	}
	if e.At < j.at {
		j.f.add(e.N, "event %d is at %v, the one before at %v", e.N, e.At, j.at)
	}
	j.at = e.At
	if e.Kind == history.RunEnd {
		j.ended, j.errors, j.asked = true, e.Error, e.Count
		if e.Reason != "" {
			j.errors = e.Reason
		}
	}
}

func (j *complete) Request(q *history.Request) {
	j.rows++
	j.highest = max(j.highest, q.Seq)
}

func (j *complete) Finish() Verdict {
	if !j.ended {
		j.f.add(0, "the history has no end")
	} else if j.errors != "" {
		j.f.add(j.n, "the run ended with: %s", j.errors)
	}
	if uint64(j.rows) != j.highest {
		j.f.add(0, "the object trace has %d rows, the highest sequence number is %d", j.rows, j.highest)
	}
	if j.asked > 0 && int64(j.rows) != j.asked {
		j.f.add(j.n, "the object trace has %d rows, the run made %d requests", j.rows, j.asked)
	}
	if !j.c.Complete {
		j.f.add(0, "the evidence of the verify phase is missing")
	}
	return unproven(j.f.verdict("%s", fmt.Sprintf("%d events and %d requests without a gap, the clock never goes back", j.n, j.rows)))
}
