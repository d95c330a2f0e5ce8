package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
)

// restarts decides when a failed job is started again and when it is given up, as Flink's restart strategies do. It belongs to
// one leader and one life of the job: the next one begins anew.
type restarts struct {
	settings plan.Restart
	first    time.Duration // the delay, of exponential-delay the first one
	random   *rand.Rand    // for jitter

	count  int             // restarts so far; of exponential-delay since the delay was last reset
	delay  float64         // ns before the next restart, exponential-delay
	resume time.Duration   // when the job was to run again after the last failure, exponential-delay
	recent []time.Duration // the last failures, failure-rate; oldest first
}

func newRestarts(cfg *Config) *restarts {
	return &restarts{settings: cfg.Settings.Restart, first: plan.D(cfg.Settings.RestartDelay), random: cfg.World.Rand("engine/restart")}
}

// reset begins anew, but for the draws.
func (r *restarts) reset() { *r = restarts{settings: r.settings, first: r.first, random: r.random} }

// failed takes a failure at now, and says how long to wait before the job is started again. An error, which names the strategy, says
// that it is not.
func (r *restarts) failed(now time.Duration) (time.Duration, error) {
	switch s := &r.settings; s.Strategy {
	case plan.RestartNone:
		return 0, fmt.Errorf("restart strategy %s allows no restart", plan.RestartNone)
	case plan.RestartRate:
		return r.rated(now)
	case plan.RestartExponential:
		return r.exponential(now)
	default:
		if r.count++; s.Attempts > 0 && r.count > s.Attempts {
			return 0, fmt.Errorf("restart strategy %s has used up its restarts (%d)", plan.RestartFixed, s.Attempts)
		}
		return r.first, nil
	}
}

// rated allows so many failures in each stretch of time.
func (r *restarts) rated(now time.Duration) (time.Duration, error) {
	s := &r.settings
	within := plan.D(s.Within)
	for len(r.recent) > 0 && now-r.recent[0] > within {
		r.recent = r.recent[1:]
	}
	if r.recent = append(r.recent, now); len(r.recent) > s.Failures {
		return 0, fmt.Errorf("restart strategy %s: this is one failure more than are allowed (%d within %v)", plan.RestartRate, s.Failures, within)
	}
	return r.first, nil
}

// exponential waits longer from one restart to the next, until the job has run for a while without a failure. The jitter varies one wait,
// not those after it.
func (r *restarts) exponential(now time.Duration) (time.Duration, error) {
	s := &r.settings
	most := float64(plan.D(s.MaxDelay))
	if reset := plan.D(s.ResetAfter); r.delay == 0 || reset > 0 && now-r.resume >= reset {
		r.delay, r.count = float64(r.first), 0
	}
	if r.count++; s.Attempts > 0 && r.count > s.Attempts {
		return 0, fmt.Errorf("restart strategy %s has used up its restarts (%d until the job has run for %v without a failure)",
			plan.RestartExponential, s.Attempts, plan.D(s.ResetAfter))
	}
	wait := r.delay
	if s.Jitter > 0 {
		wait += wait * s.Jitter * (2*r.random.Float64() - 1)
	}
	r.delay *= max(s.Multiplier, 1)
	if most > 0 {
		wait, r.delay = min(wait, most), min(r.delay, most)
	}
	r.resume = now + time.Duration(wait)
	return time.Duration(wait), nil
}

// judgeFailure counts the failure of an attempt and decides what comes after it. A change of parallelism is none.
func (c *coordinator) judgeFailure(f failure) {
	c.verdict.delay, c.verdict.final = 0, nil
	if f.cause == causeRescale {
		return
	}
	var err error
	if c.verdict.delay, err = c.restarts.failed(c.world.Now()); err != nil {
		c.verdict.final = fmt.Errorf("%s: %s; %w", f.cause, f.err, err)
	}
}

// verdict is what comes after an attempt that failed.
type verdict struct {
	delay time.Duration
	final error // not nil: the job is given up
}

// tolerance counts the checkpoints that failed one after the other, as Flink's CheckpointFailureManager does.
type tolerance struct {
	most   *int // nil: any number
	failed int
	last   string // why the last one did
	newest uint64 // newest completed checkpoint: an older one that completes later resets nothing
	over   bool   // more than are tolerated have failed; the job is to fail
}

// note counts a checkpoint that was aborted. One that a newer one overtook, and one that ended with the attempt or the job, says
// nothing of how checkpoints are.
func (t *tolerance) note(reason, why string) {
	switch reason {
	case ReasonDeclined, ReasonAsyncFailure, ReasonExpired:
	default:
		return
	}
	t.failed++
	if t.last = reason; why != "" {
		t.last += ": " + why
	}
	t.over = t.over || t.most != nil && t.failed > *t.most
}

// completed begins the count anew.
func (t *tolerance) completed(id uint64) {
	if id > t.newest {
		t.newest = id
		t.reset()
	}
}

// reset begins the count anew.
func (t *tolerance) reset() { t.failed, t.over = 0, false }

// enforceTolerance fails the attempt when more checkpoints in a row have failed than are tolerated. Then the count begins anew.
func (c *coordinator) enforceTolerance(ctx context.Context) {
	t := &c.checkpoints.tolerance
	if !t.over {
		return
	}
	n := t.failed
	t.reset()
	c.fail(ctx, failure{cause: history.CauseCheckpoints, actor: c.name, err: fmt.Sprintf(
		"%d checkpoints failed one after the other, %d may; the last one: %s", n, *t.most, t.last)})
}
