package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"statebench.dev/bench/backend/store/provision"
	"statebench.dev/bench/faults"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/target"
	"statebench.dev/bench/internal/world"
)

// disturbances carries out the faults and rescales of a plan and keeps account of what was proven.
type disturbances struct {
	r     *run
	mu    sync.Mutex
	list  []*disturbance
	move  string           // id of the rescale under way, or of the last one
	moves *world.Group     // rescales under way
	one   *world.Semaphore // admits one rescale at a time, in the order in which they were due
}

// disturbance is one planned fault in its life.
type disturbance struct {
	plan   plan.Fault
	fault  faults.Fault
	active faults.Active
	err    error
	armed  bool
	hit    bool
	healed bool
	healMu *world.Semaphore // one healing at a time
}

// newDisturbances makes the faults of the plan; an error names the fault that the target cannot do.
func newDisturbances(r *run) (*disturbances, error) {
	d := &disturbances{r: r, moves: world.NewGroup(r.world), one: world.NewSemaphore(r.world, 1)}
	for _, f := range r.plan.Faults {
		entry, err := r.deps.Faults.Find(f.Kind)
		if err != nil {
			return nil, err
		}
		fault, err := entry.New(faults.Spec{ID: f.ID, Where: f.Where, With: f.With})
		if err == nil {
			err = fault.Available(Capabilities(r.plan))
		}
		if err != nil {
			return nil, fmt.Errorf("fault %s (%s): %w", f.ID, f.Kind, err)
		}
		d.list = append(d.list, &disturbance{plan: f, fault: fault, healMu: world.NewSemaphore(r.world, 1)})
	}
	return d, nil
}

// Capabilities says what the engine can do under a plan.
func Capabilities(p *plan.Plan) target.Capabilities {
	return target.Capabilities{KillWorker: true, FailTask: true, StoreFaults: true, Rescale: true,
		StoreServer: p.Store.Kind == provision.KindMinIO, Workers: p.Workers.Count}
}

// arm hands all faults and rescales to the triggers.
func (d *disturbances) arm(ctx context.Context) {
	for _, x := range d.list {
		d.r.record(ctx, history.Event{Kind: history.FaultPlanned, Fault: x.plan.ID, Actor: x.plan.Where, Text: x.plan.Kind, Phase: x.plan.Phase})
		d.r.triggers.add(x.plan.ID, x.plan.Phase, x.plan.At, func(at context.Context) { d.inject(ctx, at, x) })
	}
	for _, s := range d.r.plan.Rescales {
		d.r.triggers.add(s.ID, s.Phase, s.At, func(context.Context) { d.rescale(ctx, s) })
	}
}

// inject runs in the process that fired the trigger, under at, and may unwind it; run is the run's own context.
func (d *disturbances) inject(run, at context.Context, x *disturbance) {
	d.mu.Lock()
	x.armed = true
	d.mu.Unlock()
	if x.plan.For > 0 {
		d.r.group.Go(run, "heal-"+x.plan.ID, func(ctx context.Context) error {
			if d.r.world.Sleep(ctx, time.Duration(x.plan.For)) == nil {
				d.heal(ctx, x)
			}
			return nil
		})
	}
	d.r.record(run, history.Event{Kind: history.FaultArmed, Fault: x.plan.ID, Actor: x.plan.Where, Text: x.plan.Kind})
	err := x.fault.Inject(at, faults.Env{
		World: d.r.world, Cluster: d.r.engine, Injector: d.r.injector, Probe: d.r.probe, StoreServer: d.r.store.desc.Server,
		InForce: func(a faults.Active) { d.mu.Lock(); x.active = a; d.mu.Unlock() },
		Prove: func(ctx context.Context, evidence string) {
			d.mu.Lock()
			first := !x.hit
			x.hit = true
			d.mu.Unlock()
			if first {
				d.r.record(ctx, history.Event{Kind: history.FaultHit, Fault: x.plan.ID, Actor: x.plan.Where, Text: evidence})
			}
		},
		Watch: d.r.watchers.Watch,
	})
	if err != nil {
		d.mu.Lock()
		x.err = errors.Join(x.err, err)
		d.mu.Unlock()
	}
}

// heal removes one fault and records the proof; it is idempotent.
func (d *disturbances) heal(ctx context.Context, x *disturbance) {
	if x.healMu.Acquire(ctx, 1) != nil {
		return
	}
	defer x.healMu.Release(1)
	d.mu.Lock()
	active, done := x.active, x.healed
	d.mu.Unlock()
	if active == nil || done {
		return
	}
	evidence, err := active.Heal(ctx)
	d.mu.Lock()
	if err != nil {
		x.err = errors.Join(x.err, fmt.Errorf("heal: %w", err))
	} else {
		x.healed = true
	}
	d.mu.Unlock()
	if err == nil {
		d.r.record(ctx, history.Event{Kind: history.FaultHealed, Fault: x.plan.ID, Actor: x.plan.Where, Text: evidence})
	}
}

// healAll removes every fault in force, in the order of the plan, and waits for rescales under way. What proves one healed
// may fail as long as another one is in force: hence the second time.
func (d *disturbances) healAll(ctx context.Context) {
	for range 2 {
		for _, x := range d.list {
			d.heal(ctx, x)
		}
	}
	if err := d.moves.Wait(ctx); err != nil {
		d.r.problem(ctx, "rescale: "+err.Error())
	}
}

// report records what was not proven; it is called after the heal phase.
func (d *disturbances) report(ctx context.Context) {
	for _, x := range d.list {
		if why := d.missing(x); why != "" {
			d.r.record(ctx, history.Event{Kind: history.FaultMissed, Fault: x.plan.ID, Text: why})
		}
	}
}

// missing says what was not proven of a fault; empty when nothing is. Nothing is recorded under the lock, which an
// observer of the recorder takes.
func (d *disturbances) missing(x *disturbance) (why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !x.armed:
		why = "its trigger never fired"
	case !x.hit:
		why = "it fired, but no effect on the system was seen"
	case !x.healed:
		why = "its removal was not confirmed"
	default:
		return ""
	}
	if x.err != nil {
		why += ": " + x.err.Error()
	}
	return why
}

// rescale changes the parallelism in a process of the run; the trigger's process goes on. One that is due while another
// is under way follows it.
func (d *disturbances) rescale(ctx context.Context, s plan.Rescale) {
	d.moves.Go(ctx, s.ID, func(ctx context.Context) error {
		if d.one.Acquire(ctx, 1) != nil {
			return nil
		}
		defer d.one.Release(1)
		d.mu.Lock()
		d.move = s.ID
		d.mu.Unlock()
		if err := d.r.engine.Rescale(ctx, s.To, s.From); err != nil && ctx.Err() == nil {
			return fmt.Errorf("%s to %d: %w", s.ID, s.To, err)
		}
		return nil
	})
}

func (d *disturbances) moving() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.move
}
