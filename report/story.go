package report

import (
	"fmt"
	"slices"
	"strings"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/results"
)

// story is what the reports need of a run's history. Times are seconds since the run began.
type story struct {
	phases []phaseSpan
	bands  []band
	faults []faultState
	// materialized are the moments at which a materialization was confirmed, those within 50 ms of one another once.
	materialized []float64
	// materializations counts the confirmed ones, failed those that failed.
	materializations, failed int
	// acks is the number of subtasks' parts of checkpoints that held state; taken over all checkpoints.
	acks int
	// ackedIn is the number of checkpoints that acks came from.
	ackedIn   int
	lastAcked uint64
	notes     []string
	// savepoints are those that were asked for, as they ended.
	savepoints []savepoint
	// starts are the job's later ones, each from what it left when it was stopped.
	starts   []start
	end      float64
	events   int64
	timeline timeline
}

// phaseSpan is a phase as it went.
type phaseSpan struct {
	name     string
	from, to float64
	records  int64 // emitted in it
	ended    bool
}

// savepoint is one that completed or was aborted.
type savepoint struct {
	form      string
	completed bool
	millis    float64
	bytes     int64
}

// start is one of a job that was stopped, from a savepoint or a checkpoint.
type start struct {
	from, mode  string // as in the plan
	checkpoint  uint64
	parallelism int64
}

// stopped is the id of the bands in which there was no job.
const stopped = "stopped"

// band is a stretch of time in which a fault or a rescale was in force, or the job was stopped.
type band struct {
	id       string
	rescale  bool // or a stop
	from, to float64
	ended    bool
}

// faultState is what was proven about a planned fault.
type faultState struct {
	id, kind, where string
	hit, healed     bool
	missed          string
}

// maxNotes bounds the notes of a history that are shown.
const maxNotes = 20

func (r *Run) loadHistory(path string) error {
	s := &r.story
	s.timeline = newTimeline(r.Verdicts)
	var phases metrics.PhaseReader
	err := eachLine(path, func(e *history.Event) {
		phases.See(e)
		s.events++
		at := e.At.Seconds()
		s.end = max(s.end, at)
		s.timeline.observe(e)
		switch e.Kind {
		case history.Note:
			if len(s.notes) < maxNotes {
				s.notes = append(s.notes, fmt.Sprintf("%.1f s: %s", at, e.Text))
			}
		case history.CheckpointAcked:
			if e.Sizes != nil && e.Sizes.Full > 0 {
				s.acks++
				if e.Checkpoint != s.lastAcked {
					s.ackedIn, s.lastAcked = s.ackedIn+1, e.Checkpoint
				}
			}
		case history.MaterializationConfirmed:
			s.materializations++
			if n := len(s.materialized); n == 0 || at-s.materialized[n-1] > 0.05 {
				s.materialized = append(s.materialized, at)
			}
		case history.MaterializationFailed:
			s.failed++
		default:
			s.disturb(e, at)
		}
	})
	r.data.Phases = phases.Phases()
	for _, p := range r.data.Phases {
		s.phases = append(s.phases, phaseSpan{name: p.Name, from: p.From, to: p.To, records: p.Records, ended: p.Ended})
	}
	for i := range s.bands {
		if !s.bands[i].ended {
			s.bands[i].to = s.end
		}
	}
	r.nameRescales()
	return err
}

// disturb follows faults and rescales.
func (s *story) disturb(e *history.Event, at float64) {
	switch e.Kind {
	case history.FaultPlanned:
		s.faults = append(s.faults, faultState{id: e.Fault, kind: e.Text, where: e.Actor})
	case history.FaultArmed:
		s.bands = append(s.bands, band{id: e.Fault, from: at})
	case history.FaultHit:
		s.fault(e.Fault, func(f *faultState) { f.hit = true })
	case history.FaultMissed:
		s.fault(e.Fault, func(f *faultState) { f.missed = e.Text })
	case history.FaultHealed:
		s.fault(e.Fault, func(f *faultState) { f.healed = true })
		s.endBand(e.Fault, false, at)
	case history.RescaleBegin:
		s.bands = append(s.bands, band{id: fmt.Sprintf("%d to %d", e.From, e.Count), rescale: true, from: at})
	case history.JobStopped:
		s.bands = append(s.bands, band{id: stopped, rescale: true, from: at})
	case history.JobStarted:
		s.endBand(stopped, true, at)
		s.starts = append(s.starts, start{from: e.Text, mode: e.Reason, checkpoint: e.Checkpoint, parallelism: e.Count})
	case history.SavepointCompleted, history.SavepointAborted:
		p := savepoint{form: e.Text, completed: e.Kind == history.SavepointCompleted, millis: float64(e.Dur) / 1e6}
		if e.Sizes != nil {
			p.bytes = e.Sizes.Full
		}
		s.savepoints = append(s.savepoints, p)
	case history.RescaleDone:
		s.endBand(fmt.Sprintf("%d to %d", e.From, e.Count), true, at)
	}
}

func (s *story) fault(id string, change func(f *faultState)) {
	for i := range s.faults {
		if s.faults[i].id == id {
			change(&s.faults[i])
		}
	}
}

func (s *story) endBand(id string, rescale bool, at float64) {
	for i := range s.bands {
		if b := &s.bands[i]; b.id == id && b.rescale == rescale && !b.ended {
			b.to, b.ended = at, true
			return
		}
	}
}

// nameRescales gives rescales the ids of the plan: the history knows them by their parallelism.
func (r *Run) nameRescales() {
	rest := slices.Clone(r.Plan.Rescales)
	for i := range r.story.bands {
		b := &r.story.bands[i]
		if !b.rescale {
			continue
		}
		for k, p := range rest {
			if strings.HasSuffix(b.id, fmt.Sprintf(" to %d", p.To)) {
				b.id = fmt.Sprintf("%s (%s)", p.ID, b.id)
				rest = slices.Delete(rest, k, k+1)
				break
			}
		}
	}
}

// phase is the last stretch of that name; false when the run did not come to it.
func (s *story) phase(name string) (phaseSpan, bool) {
	for i := len(s.phases) - 1; i >= 0; i-- {
		if s.phases[i].name == name {
			return s.phases[i], true
		}
	}
	return phaseSpan{}, false
}

// timeline keeps the events that verdicts point to, with what happened around them.
type timeline struct {
	wanted map[int64]bool
	recent []history.Event // the last notable ones
	follow int             // notable ones still to be kept
	events []history.Event // kept, in order
}

// How much of a history is kept around an event, how many events of a verdict are looked at, and how many lines one shows.
const (
	around       = 3
	maxPointers  = 6
	maxTimeline  = 14
	maxEventText = 110
)

func newTimeline(verdicts []results.Verdict) timeline {
	t := timeline{wanted: map[int64]bool{}}
	for _, v := range verdicts {
		if v.Verdict == results.Pass {
			continue
		}
		for i, n := range v.Events {
			if i < maxPointers {
				t.wanted[n] = true
			}
		}
	}
	return t
}

func (t *timeline) observe(e *history.Event) {
	if len(t.wanted) == 0 {
		return
	}
	switch {
	case t.wanted[e.N]:
		t.events = append(t.events, t.recent...)
		t.events = append(t.events, *e)
		t.recent, t.follow = t.recent[:0], around
	case !notable(e.Kind):
	case t.follow > 0:
		t.follow--
		t.events = append(t.events, *e)
	default:
		if len(t.recent) == around {
			t.recent = append(t.recent[:0], t.recent[1:]...)
		}
		t.recent = append(t.recent, *e)
	}
}

// cut is the part of the timeline around the events of one verdict, in order.
func (t *timeline) cut(v results.Verdict) (lines []string) {
	show := map[int]bool{}
	for i, e := range t.events {
		if slices.Contains(v.Events[:min(len(v.Events), maxPointers)], e.N) {
			for k := max(0, i-around); k <= min(len(t.events)-1, i+around); k++ {
				show[k] = true
			}
		}
	}
	for i, e := range t.events {
		if !show[i] {
			continue
		}
		if len(lines) == maxTimeline {
			return append(lines, "…")
		}
		mark := " "
		if slices.Contains(v.Events, e.N) {
			mark = "→"
		}
		lines = append(lines, fmt.Sprintf("%s %9.3f s  %s  (event %d)", mark, e.At.Seconds(), describe(&e), e.N))
	}
	return lines
}

// notable tells whether events of the kind help a reader to find his way; the others come many at a time.
func notable(k history.Kind) bool {
	switch k {
	case history.PhaseBegin, history.CaughtUp, history.AttemptStarted, history.AttemptFailed, history.AttemptRunning,
		history.CheckpointTriggered, history.CheckpointCompleted, history.CheckpointAborted, history.CheckpointSubsumed,
		history.RescaleBegin, history.RescaleDone, history.JobStopped, history.JobStarted, history.WorkerDown, history.CoordinatorDown, history.CoordinatorTakeover,
		history.FaultHit, history.FaultHealed, history.FaultMissed, history.CleanUp, history.RunEnd:
		return true
	}
	return false
}

// describe says in one line what an event tells.
func describe(e *history.Event) string {
	parts := []string{string(e.Kind)}
	add := func(ok bool, format string, args ...any) {
		if ok {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(e.Phase != "", "%s", e.Phase)
	add(e.Fault != "", "%s", e.Fault)
	add(e.Checkpoint != 0, "%d", e.Checkpoint)
	add(e.Actor != "" && e.Actor != "run", "%s", e.Actor)
	add(e.Attempt != 0, "attempt %d", e.Attempt)
	add(e.Reason != "", "%s", e.Reason)
	add(e.Text != "", "(%s)", e.Text)
	add(e.Error != "", "error: %s", e.Error)
	add(e.Injected, "[injected]")
	return clip(oneLine(strings.Join(parts, " ")), maxEventText)
}
