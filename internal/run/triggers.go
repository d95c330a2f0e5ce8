package run

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/world"
)

// triggers decides when planned things happen. Event and record triggers fire in the process that emits the event or the
// record, holding no lock, since a watcher that reacts later is too late.
type triggers struct {
	world world.World
	group *world.Group
	mu    sync.Mutex
	armed []*trigger
	phase string
	base  int64 // records emitted when the phase began
	// next is the lowest record any armed trigger waits for, so that the check after each batch is one load.
	next atomic.Int64
}

// trigger is one planned thing that waits.
type trigger struct {
	id     string
	phase  string
	at     plan.Trigger
	act    func(ctx context.Context)
	record int64 // absolute; 0: not a record trigger, or its phase has not begun
	count  int
	open   bool // counts events now
	ripe   bool // its count was reached before its phase began
	fired  bool
}

const noRecord = int64(1<<63 - 1)

func newTriggers(w world.World, g *world.Group) *triggers {
	t := &triggers{world: w, group: g}
	t.next.Store(noRecord)
	return t
}

// add arms a thing of the given phase; all are added before the first phase begins.
func (t *triggers) add(id, phase string, at plan.Trigger, act func(ctx context.Context)) {
	t.armed = append(t.armed, &trigger{id: id, phase: phase, at: at, act: act, open: at.Event != "" && at.Since == "run"})
}

// begin opens the triggers of a phase and fires those that are due at its start.
func (t *triggers) begin(ctx context.Context, phase string, emitted int64) {
	var due []*trigger
	t.mu.Lock()
	t.phase, t.base = phase, emitted
	for _, x := range t.armed {
		if x.phase != phase || x.fired {
			continue
		}
		switch {
		case x.at.Phase != "" || x.ripe:
			due = append(due, x)
		case x.at.Time != nil:
			t.group.Go(ctx, "trigger-"+x.id, func(ctx context.Context) error { return t.after(ctx, x, time.Duration(*x.at.Time)) })
		case x.at.Record != nil:
			x.record = emitted + *x.at.Record
		case x.at.Since == "" || x.at.Since == "phase":
			x.open, x.count = true, 0
		}
	}
	t.refresh()
	t.mu.Unlock()
	t.fire(ctx, due)
	t.reached(ctx, emitted)
}

func (t *triggers) after(ctx context.Context, x *trigger, d time.Duration) error {
	if err := t.world.Sleep(ctx, d); err != nil {
		return nil // the run ends: the trigger is reported as missed
	}
	t.fire(ctx, []*trigger{x})
	return nil
}

// refresh recomputes next; t.mu is held.
func (t *triggers) refresh() {
	next := noRecord
	for _, x := range t.armed {
		if x.record > 0 && !x.fired {
			next = min(next, x.record)
		}
	}
	t.next.Store(next)
}

// reached is called by sources after each batch.
func (t *triggers) reached(ctx context.Context, emitted int64) {
	if emitted < t.next.Load() {
		return
	}
	var due []*trigger
	t.mu.Lock()
	for _, x := range t.armed {
		if x.record > 0 && !x.fired && x.record <= emitted {
			due = append(due, x)
		}
	}
	t.mu.Unlock()
	t.fire(ctx, due)
}

// observe counts events.
func (t *triggers) observe(ctx context.Context, e *history.Event) {
	var due []*trigger
	t.mu.Lock()
	for _, x := range t.armed {
		if x.fired || x.at.Event == "" {
			continue
		}
		if e.Kind == history.FaultHit && x.at.Since == e.Fault {
			x.open, x.count = true, 0
			continue
		}
		if !x.open || string(e.Kind) != x.at.Event {
			continue
		}
		if x.count++; x.count >= max(1, x.at.Count) {
			if x.phase == t.phase {
				due = append(due, x)
			} else {
				x.ripe, x.open = true, false
			}
		}
	}
	t.mu.Unlock()
	t.fire(ctx, due)
}

// fire runs the things that are due, each once.
func (t *triggers) fire(ctx context.Context, due []*trigger) {
	for _, x := range due {
		t.mu.Lock()
		first := !x.fired
		x.fired = true
		t.refresh()
		t.mu.Unlock()
		if first {
			x.act(ctx)
		}
	}
}

// missed lists the ids that never fired.
func (t *triggers) missed() (ids []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.armed {
		if !x.fired {
			ids = append(ids, x.id)
		}
	}
	return ids
}

// close makes sure that nothing fires any more.
func (t *triggers) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.armed {
		x.fired = true
	}
	t.next.Store(noRecord)
}
