package faults

import (
	"context"
	"errors"
	"fmt"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/target"
	"statebench.dev/bench/internal/world"
)

// taskError makes one subtask fail as user code does.
type taskError struct{ id, subtask string }

// NewTaskError makes the fault task-error. Where: subtask/<operator>-<index> or subtask/any. It has no options.
func NewTaskError(s Spec) (Fault, error) {
	var o struct{}
	if err := decode(s.With, &o, "none"); err != nil {
		return nil, err
	}
	subtask, err := place(s.Where, "subtask")
	if err != nil {
		return nil, fmt.Errorf("where %q is not subtask/<operator>-<index> or subtask/any", s.Where)
	}
	return &taskError{id: s.ID, subtask: subtask}, nil
}

// Available needs a target that can make a subtask fail.
func (f *taskError) Available(c target.Capabilities) error {
	if !c.FailTask {
		return errors.New("the target cannot make a subtask fail")
	}
	return nil
}

// Inject makes the subtask fail at its next record boundary. The proof is the failed attempt that names it. A subtask that
// ends before it comes to fail, since the job is just failing for another reason, is asked again in the next attempt.
func (f *taskError) Inject(ctx context.Context, e Env) error {
	failer := e.Cluster.(target.TaskFailer)
	name, err := pick(e.World, f.id, f.subtask, "", failer.Subtasks())
	if err != nil {
		return fmt.Errorf("subtask to fail: %w", err)
	}
	a := &failedTask{running: world.NewLatch(e.World)}
	failed := false
	e.Watch(func(ctx context.Context, ev *history.Event) bool {
		switch {
		case ev.Kind == history.AttemptFailed && ev.Actor == name && ev.Injected:
			failed = true
			e.Prove(ctx, fmt.Sprintf("event %d: attempt %d failed by %s", ev.N, ev.Attempt, name))
		case ev.Kind == history.AttemptRunning && failed:
			a.event, a.attempt = ev.N, ev.Attempt
			a.running.Open()
			return false
		case ev.Kind == history.AttemptRunning:
			if next, err := pick(e.World, f.id, f.subtask, "", failer.Subtasks()); err == nil {
				name = next
				_ = failer.FailTask(ctx, name, "fault "+f.id) // the proof tells whether it came to that
			}
		}
		return true
	})
	e.InForce(a)
	return failer.FailTask(ctx, name, "fault "+f.id)
}

type failedTask struct {
	running *world.Latch
	event   int64
	attempt uint64
}

// Heal waits until a later attempt runs: the error happens once.
func (a *failedTask) Heal(ctx context.Context) (string, error) {
	if err := a.running.Wait(ctx); err != nil {
		return "", fmt.Errorf("no attempt runs since the error: %w", err)
	}
	return fmt.Sprintf("event %d: attempt %d runs", a.event, a.attempt), nil
}
