package run

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"statebench.dev/bench/internal/engine"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/results"
)

// The grid on which the run is sampled and catching up is found, and how long it must hold.
const (
	grid       = time.Second
	interrupts = 100 * time.Millisecond // how often an interruption is looked for
	steady     = 3                      // samples in a row that count as caught up
	baseline   = 30                     // samples that the lag before a failure is taken from
)

// sampler writes series.csv, finds the moment at which the job has caught up, and looks for interruptions.
type sampler struct {
	r       *run
	last    engine.Metrics
	lastAt  time.Duration
	emitted int64
	phase   atomic.Value    // string
	lags    []time.Duration // of the newest samples while all was well
	limit   time.Duration   // the lag that counts as caught up
	attempt uint64          // that has to catch up; 0: none
	good    int
	goodAt  time.Duration
	process processFigures
	// latencies are of the records of each phase; the second in which one begins counts for it.
	latencies latencies
	caught    atomic.Uint64 // the newest attempt that has caught up
}

func newSampler(r *run) *sampler {
	s := &sampler{r: r, process: newProcessFigures(r)}
	s.phase.Store("")
	r.recorder.Tally(func(e *history.Event) {
		if e.Kind == history.PhaseBegin {
			s.phase.Store(e.Phase)
		}
	})
	return s
}

// run samples until ctx ends; on an interruption, or when results cannot be written, it ends the run with cancel.
func (s *sampler) run(ctx context.Context, cancel context.CancelCauseFunc) error {
	next := grid
	for {
		at := s.r.now()
		if s.r.o.Interrupted() {
			s.r.interrupt = true
			s.r.record(ctx, history.Event{Kind: history.Note, Actor: "run", Text: "interrupted"})
			cancel(errInterrupted)
			return nil
		}
		if err := s.r.writeError(); err != nil {
			cancel(&WriteError{err}) // nothing that comes would be evidence
			return nil
		}
		if at >= next {
			if err := s.r.keep(); err != nil {
				s.r.record(ctx, history.Event{Kind: history.Note, Actor: "run", Text: err.Error()})
				cancel(err)
				return nil
			}
			s.sample(ctx, at)
			next += grid * max(1, (at-next)/grid+1)
		}
		wait := interrupts
		if s.r.plan.Simulated() {
			wait = next - at
		}
		if err := s.r.world.Sleep(ctx, min(wait, max(next-at, time.Millisecond))); err != nil {
			if errors.Is(err, errInterrupted) || ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// sample takes one row.
func (s *sampler) sample(ctx context.Context, at time.Duration) {
	e := s.r.engine
	m, p, status := e.Metrics(), e.Progress(), e.Status()
	emitted, lag := p.Emitted(), p.Lag(at)
	took := (at - s.lastAt).Seconds()
	row := results.SeriesRow{
		At: at.Seconds(), Phase: s.phase.Load().(string), Emitted: emitted, Rate: float64(emitted-s.emitted) / took, Offered: s.r.plan.Workload.Rate,
		Lag: millis(lag), Latency50: quantile(m.Latency, 0.5), Latency99: quantile(m.Latency, 0.99),
		Live: m.Gauges.LiveBytes, Unsent: m.Gauges.UnsentBytes, Log: m.Gauges.LogBytes,
		InFlight: results.Some(float64(m.Gauges.InFlight)), LogAge: results.Some(millis(m.Gauges.LogAge)),
		Deletes: results.Some(status.Deletes), Parallelism: status.Parallelism, State: status.State,
		Arm: s.r.plan.Arm, World: s.r.plan.World, Profile: s.r.plan.Store.Profile,
	}
	shares := m.Shares(s.last)
	row.Busy, row.Backpress, row.Idle, row.LogBlocked = shares.Busy, shares.Backpressured, shares.Idle, shares.Throttled
	row.LogHard = results.Some(shares.Exhausted)
	s.process.fill(&row)
	s.latencies.add(row.Phase, m.Latency)
	_ = s.r.series.Append(row) // the error is kept for Close
	s.last, s.lastAt, s.emitted = m, at, emitted
	s.catchUp(ctx, at, lag, status.State, status.Attempt)
	if s.r.o.Tick != nil {
		t := Tick{At: at, Phase: row.Phase, Emitted: emitted, Lag: lag, Completed: status.LastCompleted, State: status.State}
		if n := total(s.r.plan); n < 1<<62 {
			t.Total = n
		}
		s.r.o.Tick(t)
	}
}

func quantile(l engine.Latencies, q float64) results.Opt {
	ms, ok := l.Quantile(q)
	return results.Opt{Value: ms, Set: ok}
}

// catchUp finds the moment from which the lag stays at its level from before the failure. The first attempt of a run has
// nothing to catch up with.
func (s *sampler) catchUp(ctx context.Context, at, lag time.Duration, state string, attempt uint64) {
	if state != "running" || attempt <= 1 {
		s.good = 0
		if state == "running" {
			s.lags = append(s.lags, lag)
			s.lags = s.lags[max(0, len(s.lags)-baseline):]
		}
		return
	}
	if attempt != s.attempt {
		s.attempt, s.good, s.limit = attempt, 0, s.level()
	}
	if s.good < 0 {
		s.lags = append(s.lags, lag)
		s.lags = s.lags[max(0, len(s.lags)-baseline):]
		return
	}
	if lag > s.limit {
		s.good = 0
		return
	}
	if s.good++; s.good == 1 {
		s.goodAt = at
	}
	if s.good == steady {
		s.good = -1
		s.caught.Store(attempt)
		s.r.record(ctx, history.Event{Kind: history.CaughtUp, Actor: "run", Attempt: attempt, Dur: s.limit, From: int64(s.goodAt)})
	}
}

// level is the 95th percentile of the lag before the failure, and never less than one flush of a buffer.
func (s *sampler) level() time.Duration {
	sorted := slices.Sorted(slices.Values(s.lags))
	limit := 4 * time.Duration(s.r.plan.Job.FlushEvery)
	if n := len(sorted); n > 0 {
		limit = max(limit, sorted[(n*95+99)/100-1])
	}
	return limit
}
