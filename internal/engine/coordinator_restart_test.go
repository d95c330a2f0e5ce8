package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/world"
)

// TestRestartStrategies feeds failures at given times (in ms) to a strategy: what follows each is the delay in ms, or "-" where the job
// is given up.
func TestRestartStrategies(t *testing.T) {
	ms := func(n int64) plan.Duration { return plan.Duration(time.Duration(n) * time.Millisecond) }
	for name, c := range map[string]struct {
		settings plan.Restart
		at       []int64
		want     string
	}{
		"unset is fixed-delay":     {plan.Restart{}, []int64{0, 1, 2, 3}, "100 100 100 100"},
		"fixed-delay":              {plan.Restart{Strategy: plan.RestartFixed, Attempts: 2}, []int64{0, 5000, 90000}, "100 100 -"},
		"none":                     {plan.Restart{Strategy: plan.RestartNone}, []int64{7}, "-"},
		"failure-rate":             {plan.Restart{Strategy: plan.RestartRate, Failures: 2, Within: ms(1000)}, []int64{0, 900, 1001, 1800}, "100 100 100 -"},
		"failure-rate at the edge": {plan.Restart{Strategy: plan.RestartRate, Failures: 1, Within: ms(1000)}, []int64{0, 1001, 2001}, "100 100 -"},
		"exponential-delay": {plan.Restart{Strategy: plan.RestartExponential, Multiplier: 2, MaxDelay: ms(500), ResetAfter: ms(5000)},
			[]int64{0, 200, 500, 1000, 2000, 7499, 12999}, "100 200 400 500 500 500 100"},
		"exponential-delay with attempts": {plan.Restart{Strategy: plan.RestartExponential, Multiplier: 3, MaxDelay: ms(10_000), ResetAfter: ms(1000), Attempts: 2},
			[]int64{0, 200, 1600, 1700, 1800}, "100 300 100 300 -"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRestarts(&Config{World: world.NewSim(world.SimOptions{}), Settings: plan.Job{RestartDelay: ms(100), Restart: c.settings}})
			var got []string
			for _, at := range c.at {
				d, err := r.failed(time.Duration(at) * time.Millisecond)
				if err == nil {
					got = append(got, fmt.Sprint(d.Milliseconds()))
					continue
				}
				if got = append(got, "-"); !strings.Contains(err.Error(), c.settings.Strategy) {
					t.Errorf("%q does not name the strategy", err)
				}
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("delays %s, want %s", s, c.want)
			}
		})
	}
}

// TestJitterVariesDelaysAndFollowsTheSeed: around the delay, within its share, the same for a seed, and not adding up.
func TestJitterVariesDelaysAndFollowsTheSeed(t *testing.T) {
	draw := func(seed uint64) (all []time.Duration) {
		r := newRestarts(&Config{World: world.NewSim(world.SimOptions{Seed: seed}), Settings: plan.Job{RestartDelay: plan.Duration(time.Second),
			Restart: plan.Restart{Strategy: plan.RestartExponential, Multiplier: 2, MaxDelay: plan.Duration(time.Hour), Jitter: 0.1}}})
		for i := range 8 {
			d, err := r.failed(0)
			if off := d - time.Second<<i; err != nil || off == 0 || off.Abs() > time.Second<<i/10 {
				t.Errorf("restart %d waits %v, %v", i, d, err)
			}
			all = append(all, d)
		}
		return all
	}
	if a, b, c := draw(1), draw(1), draw(2); fmt.Sprint(a) != fmt.Sprint(b) || fmt.Sprint(a) == fmt.Sprint(c) {
		t.Errorf("seed 1 gives %v and %v, seed 2 %v", a, b, c)
	}
}

// failing makes subtask 0 of the first operator fail when the n-th checkpoint completes, the one after it, and so on.
func failing(s *site, times int) {
	for n := 1; n <= times; n++ {
		s.on(history.CheckpointCompleted, n, func(ctx context.Context, _ *history.Event) {
			if err := s.e.FailTask(ctx, s.cfg.Job.Nodes[1].ID+"-0", "planned"); err != nil {
				s.t.Error(err)
			}
		})
	}
}

// TestJobIsGivenUpWhenRestartsAreExhausted: a rescale on the way is not counted, and nothing of the job runs afterwards.
func TestJobIsGivenUpWhenRestartsAreExhausted(t *testing.T) {
	simulateSeeds(t, 3, func(ctx context.Context, w world.World, t testing.TB) {
		s := newSite(t, w, withChangelog, func(c *Config) { c.Settings.Restart = plan.Restart{Strategy: plan.RestartFixed, Attempts: 2} })
		failing(s, 9)
		s.submit(ctx)
		s.running(ctx)
		if err := s.e.Rescale(ctx, 3, "latest"); err != nil {
			t.Fatal(err)
		}
		s.until(ctx, "the end of the job", func() bool { return s.e.Status().State == "failed" })
		if why := s.e.Status().Error; !strings.Contains(why, "fixed-delay has used up its restarts (2)") || !strings.Contains(why, "planned") {
			t.Errorf("the job failed: %s", why)
		}
		causes := map[string]int{}
		for _, e := range s.kinds(history.AttemptFailed) {
			causes[e.Text]++
		}
		if causes[causeRescale] != 1 || causes["subtask-failed"] != 3 {
			t.Errorf("attempts ended by %v", causes)
		}
		if _, err := s.e.Checkpoint(ctx); err == nil || !strings.Contains(err.Error(), "the job failed") {
			t.Errorf("a checkpoint of it: %v", err)
		}
		s.stop(ctx)
	})
}

// TestFailureRateLetsSlowFailuresPass: the same number of failures, further apart.
func TestFailureRateLetsSlowFailuresPass(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		s := newSite(t, w, func(c *Config) {
			c.Settings.Restart = plan.Restart{Strategy: plan.RestartRate, Failures: 1, Within: plan.Duration(100 * time.Millisecond)}
		})
		failing(s, 4)
		s.submit(ctx)
		s.finish(ctx)
		if n := len(s.kinds(history.AttemptFailed)); n != 4 {
			t.Errorf("%d attempts failed", n)
		}
	})
}

// TestTolerableCheckpointFailures: uploads fail n times in a row. Up to the tolerated number nothing happens, with one more the job is restarted.
func TestTolerableCheckpointFailures(t *testing.T) {
	for _, c := range []struct {
		failures int64
		tolerate int
		restarts int
	}{{3, 3, 0}, {4, 3, 1}, {1, 0, 1}, {8, 3, 2}} {
		t.Run(fmt.Sprintf("%d-of-%d", c.failures, c.tolerate), func(t *testing.T) {
			simulate(t, 1, func(ctx context.Context, w world.World) {
				s := newSite(t, w, func(f *Config) { f.Settings.Checkpoint.TolerableFailures = &c.tolerate })
				when := failpoint.When{Actor: "count-0", Nth: 3, Times: c.failures}
				if _, err := s.cfg.Failpoints.Arm(failpoint.CheckpointUploadBegin, when, func(context.Context, failpoint.Hit) error { return errPlanned }); err != nil {
					t.Fatal(err)
				}
				s.submit(ctx)
				s.finish(ctx)
				n := 0
				for _, e := range s.kinds(history.AttemptFailed) {
					if n++; e.Text != history.CauseCheckpoints || !strings.Contains(e.Error, fmt.Sprintf("%d may", c.tolerate)) || !strings.Contains(e.Error, ReasonAsyncFailure) {
						t.Errorf("attempt %d: %s, %s", e.Attempt, e.Text, e.Error)
					}
				}
				if n != c.restarts {
					t.Errorf("%d restarts, want %d", n, c.restarts)
				}
			})
		})
	}
}

// TestWhatCountsAsAFailedCheckpoint: reasons, the reset by a completion, and one that completes late.
func TestWhatCountsAsAFailedCheckpoint(t *testing.T) {
	most := 2
	a := tolerance{most: &most}
	for _, r := range []string{ReasonSubsumed, ReasonStopped, ReasonAttemptFailed, ReasonDeclined, ReasonExpired} {
		a.note(r, "")
	}
	if a.failed != 2 || a.over {
		t.Errorf("%d failed, over %t", a.failed, a.over)
	}
	a.completed(7)
	a.note(ReasonAsyncFailure, "x")
	a.completed(6)
	if a.failed != 1 || a.last != "async-failure: x" {
		t.Errorf("%d failed, the last by %s", a.failed, a.last)
	}
	a.note(ReasonExpired, "")
	if a.note(ReasonExpired, ""); !a.over {
		t.Error("three in a row are more than two")
	}
}
