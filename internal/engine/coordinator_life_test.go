package engine

import (
	"context"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/world"
)

// lateSavepoint brings the job to where the log is about to decide on the savepoint that it is being stopped with, does what is
// to happen then, and lets the savepoint complete.
func lateSavepoint(ctx context.Context, s *site, then func(ctx context.Context) error) {
	s.submit(ctx)
	s.running(ctx)
	if _, err := s.e.Checkpoint(ctx); err != nil {
		s.t.Fatal(err)
	}
	armed := s.arm(failpoint.CheckpointMetadataBegin, 1, func(ctx context.Context, _ failpoint.Hit) error {
		if err := then(ctx); err != nil {
			return err
		}
		return s.w.Sleep(ctx, 500*time.Millisecond)
	})
	if _, err := s.e.StopJob(ctx, backend.Canonical); err == nil {
		s.t.Error("the job was stopped")
	}
	s.until(ctx, "the savepoint", func() bool { return len(s.kinds(history.SavepointCompleted)) == 1 })
	s.sleep(ctx, 100*time.Millisecond)
	if armed.Triggered() != 1 || len(s.kinds(history.JobStopped)) != 0 {
		s.t.Errorf("triggered %d times, the job stopped\n%s", armed.Triggered(), s.tail(20))
	}
}

// TestJobThatFailedIsNotStopped: the savepoint completes, and what the job retained stays.
func TestJobThatFailedIsNotStopped(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		s := newSite(t, w, withChangelog, func(c *Config) {
			c.Settings.Restart = plan.Restart{Strategy: plan.RestartNone}
			c.Settings.Checkpoint.Interval = plan.Duration(10 * time.Second)
		})
		lateSavepoint(ctx, s, func(ctx context.Context) error { return s.e.FailTask(ctx, s.cfg.Job.Nodes[1].ID+"-0", "planned") })
		if st := s.e.Status(); st.State != "failed" || !strings.Contains(st.Error, "allows no restart") {
			t.Errorf("status %+v", st)
		}
		log, err := checkpoint.OpenLog(ctx, w, s.mem, "test")
		if err != nil {
			t.Fatal(err)
		}
		if n := len(log.State().Retained); n != 1 {
			t.Errorf("%d checkpoints are retained", n)
		}
		s.stop(ctx)
	})
}

// without lets a job run without checkpoints but those that are asked for.
func without(c *Config) { c.Settings.Checkpoint.Interval = 0 }

// TestStartFromWhatTheJobWasStoppedWith: a job that was started from a savepoint and has no checkpoint yet is stopped again, with
// another one or, after another one, without. It goes on from what it committed, and from nothing else.
func TestStartFromWhatTheJobWasStoppedWith(t *testing.T) {
	for _, c := range []struct {
		name  string
		again func(ctx context.Context, s *site, first uint64) uint64 // stops it and returns what it is to be started from
		from  string
		wrong string // from which it cannot be started, and why
		why   string
	}{
		{"with another", func(ctx context.Context, s *site, _ uint64) uint64 { return s.stopJob(ctx, backend.Canonical) },
			plan.FromSavepoint, plan.FromCheckpoint, "no checkpoint"},
		{"without", func(ctx context.Context, s *site, first uint64) uint64 {
			if _, err := s.e.Savepoint(ctx, backend.Canonical); err != nil {
				s.t.Fatal(err)
			}
			s.stopJob(ctx, "")
			return first
		}, plan.FromCheckpoint, plan.FromSavepoint, "aborted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			simulate(t, 1, func(ctx context.Context, w world.World) {
				s := newSite(t, w, withChangelog, without)
				s.submit(ctx)
				s.sleep(ctx, 300*time.Millisecond)
				first := s.stopJob(ctx, backend.Canonical)
				s.startJob(ctx, plan.FromSavepoint, 0, nil)
				s.sleep(ctx, 300*time.Millisecond)
				id := c.again(ctx, s, first)
				if _, err := s.e.StartJob(ctx, StartOptions{From: c.wrong}); err == nil || !strings.Contains(err.Error(), c.why) {
					t.Errorf("started from %s: %v", c.wrong, err)
				}
				if got := s.startJob(ctx, c.from, 0, nil); got != id {
					t.Errorf("started from %d, want %d", got, id)
				}
				s.finish(ctx)
			})
		})
	}
}

// TestSavepointThatCommittedNothingStartsNoJob: what it commits was aborted by the stop without one.
func TestSavepointThatCommittedNothingStartsNoJob(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		s := newSite(t, w, withChangelog, without)
		s.submit(ctx)
		s.sleep(ctx, 300*time.Millisecond)
		if _, err := s.e.Savepoint(ctx, backend.Canonical); err != nil {
			t.Fatal(err)
		}
		s.stopJob(ctx, "")
		if _, err := s.e.StartJob(ctx, StartOptions{From: plan.FromSavepoint}); err == nil || !strings.Contains(err.Error(), "aborted") {
			t.Errorf("started: %v", err)
		}
		s.stop(ctx)
	})
}

// TestStartBeginsToCountAnew: failures of attempts and of checkpoints before a start count for the life before.
func TestStartBeginsToCountAnew(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		tolerate := 1
		s := newSite(t, w, withChangelog, without, func(c *Config) {
			c.Settings.Restart = plan.Restart{Strategy: plan.RestartFixed, Attempts: 1}
			c.Settings.Checkpoint.TolerableFailures = &tolerate
		})
		s.submit(ctx)
		s.running(ctx)
		failing := func() {
			s.arm(failpoint.CheckpointUploadBegin, 1, func(context.Context, failpoint.Hit) error { return errPlanned })
			if _, err := s.e.Checkpoint(ctx); err == nil {
				t.Error("a checkpoint completed whose upload failed")
			}
		}
		for life := range 3 {
			if life > 0 {
				s.stopJob(ctx, "")
				s.startJob(ctx, plan.FromCheckpoint, 0, nil)
				failing()
			}
			failed := len(s.kinds(history.AttemptFailed))
			if _, err := s.e.Checkpoint(ctx); err != nil {
				t.Fatal(err)
			}
			if err := s.e.FailTask(ctx, s.cfg.Job.Nodes[1].ID+"-0", "planned"); err != nil {
				t.Fatal(err)
			}
			s.until(ctx, "the failure", func() bool { return len(s.kinds(history.AttemptFailed)) == failed+1 })
			s.running(ctx)
			failing()
		}
		if causes := s.kinds(history.AttemptFailed); len(causes) != 3 || causes[2].Text != "subtask-failed" {
			t.Errorf("attempts failed: %+v", causes)
		}
		s.finish(ctx)
	})
}
