package faults

import (
	"context"
	"errors"
	"fmt"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/target"
	"statebench.dev/bench/internal/world"
)

// workerCrash kills a worker without a trace and revives it when healed.
type workerCrash struct {
	id, where string
	lose      bool
}

// NewWorkerCrash makes the fault worker-crash. Where: worker/<number> or worker/any. Option disk: keep (what was synced
// survives) or lose; the default is keep.
func NewWorkerCrash(s Spec) (Fault, error) {
	o := struct {
		Disk string `json:"disk"`
	}{Disk: "keep"}
	if err := decode(s.With, &o, "disk"); err != nil {
		return nil, err
	}
	if o.Disk != "keep" && o.Disk != "lose" {
		return nil, fmt.Errorf("disk %q is not keep or lose", o.Disk)
	}
	worker, err := place(s.Where, "worker")
	if err == nil {
		err = number(worker)
	}
	if err != nil {
		return nil, err
	}
	return &workerCrash{id: s.ID, where: worker, lose: o.Disk == "lose"}, nil
}

// Available needs a target that can kill a worker.
func (f *workerCrash) Available(c target.Capabilities) error {
	if !c.KillWorker {
		return errors.New("the target cannot kill a worker")
	}
	return nil
}

// Inject kills the worker. The proof is that the coordinator declared the attempt failed because of it, or, where it hosted
// nothing, that it is gone from the cluster.
func (f *workerCrash) Inject(ctx context.Context, e Env) error {
	killer := e.Cluster.(target.Killer)
	var up []string
	for _, w := range killer.Workers() {
		if killer.WorkerUp(w) {
			up = append(up, w)
		}
	}
	name, err := pick(e.World, f.id, f.where, "worker-", up)
	if err != nil {
		return fmt.Errorf("worker to crash: %w", err)
	}
	a := &crashed{killer: killer, worker: name, back: world.NewLatch(e.World)}
	e.Watch(func(ctx context.Context, ev *history.Event) bool {
		if ev.Kind == history.WorkerDown && ev.Actor == name {
			e.Prove(ctx, fmt.Sprintf("event %d: the coordinator lost %s", ev.N, name))
			return false
		}
		return true
	})
	e.Watch(func(_ context.Context, ev *history.Event) bool {
		if ev.Kind == history.WorkerUp && ev.Actor == name {
			a.upEvent = ev.N
			a.back.Open()
			return false
		}
		return true
	})
	e.InForce(a)
	return killer.KillWorker(ctx, name, f.lose)
}

type crashed struct {
	killer  target.Killer
	worker  string
	back    *world.Latch
	upEvent int64
	revived bool
}

// Heal revives the worker and waits until the coordinator has it again.
func (a *crashed) Heal(ctx context.Context) (string, error) {
	if !a.revived {
		if err := a.killer.ReviveWorker(ctx, a.worker); err != nil {
			return "", fmt.Errorf("revive %s: %w", a.worker, err)
		}
		a.revived = true
	}
	if err := a.back.Wait(ctx); err != nil {
		return "", fmt.Errorf("%s has not registered again: %w", a.worker, err)
	}
	return fmt.Sprintf("event %d: %s registered again", a.upEvent, a.worker), nil
}
