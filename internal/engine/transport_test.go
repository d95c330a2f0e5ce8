package engine

import (
	"context"
	"slices"
	"testing"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// wire is a transport with what it dropped.
func wire(w world.World, zombies func() bool) (*Transport, *[]history.Event) {
	var dropped []history.Event
	return NewTransport(w, func(_ context.Context, e history.Event) { dropped = append(dropped, e) }, zombies), &dropped
}

func bodies(ctx context.Context, e *Endpoint) (all []any) {
	for {
		m, ok := e.TryTake(ctx)
		if !ok {
			return all
		}
		all = append(all, m.Body)
	}
}

func TestTransportKeepsOrderAndFences(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		tr, dropped := wire(w, nil)
		lead, worker := tr.Attach("coordinator-0", nil, 1), tr.Attach("worker-0", nil, 1)
		lead.Watch()
		lead.Fence(3, 0)
		for i := range 5 {
			lead.Send(ctx, "worker-0", uint64(i), i)
		}
		worker.Fence(0, 2)
		if got := bodies(ctx, worker); !slices.Equal(got, []any{0, 2, 3, 4}) {
			t.Errorf("got %v: attempt 1 is fenced, 0 is none", got)
		}
		if worker.Term() != 3 {
			t.Errorf("the worker follows term %d", worker.Term())
		}
		old := tr.Attach("coordinator-1", nil, 1)
		old.Fence(2, 0)
		old.Send(ctx, "worker-0", 9, "stale")
		if got := bodies(ctx, worker); len(got) != 0 {
			t.Errorf("a stale leader got through: %v", got)
		}
		worker.Fence(4, 0)
		worker.Send(ctx, "coordinator-0", 0, "later")
		if m, err := lead.Take(ctx); err != nil || m.Term != 4 || lead.Term() != 3 {
			t.Errorf("the leader got %+v, %v, and speaks for term %d", m, err, lead.Term())
		}
		lead.Send(ctx, "nobody", 0, "x")
		if tr.Dropped() != 3 || len(*dropped) != 3 || (*dropped)[0].Reason != DroppedFenced || (*dropped)[2].Reason != DroppedGone || tr.Longest() != 5 {
			t.Errorf("dropped %d, longest %d: %+v", tr.Dropped(), tr.Longest(), *dropped)
		}
	})
}

func TestNothingOfADeadWorkerArrives(t *testing.T) {
	for _, zombies := range []bool{false, true} {
		simulate(t, 1, func(ctx context.Context, w world.World) {
			tr, _ := wire(w, func() bool { return zombies })
			lead := tr.Attach("coordinator-0", nil, 1)
			lead.Watch()
			d := w.NewDomain("worker-0", world.DomainOptions{})
			worker := tr.Attach("worker-0", d, 1)
			worker.Send(ctx, "coordinator-0", 1, "on its way")
			tr.Disconnect("worker-0", 7) // another life
			tr.Disconnect("worker-0", 1)
			tr.Disconnect("worker-0", 1)
			d.Kill()
			want := []any{ConnectionLost{Worker: "worker-0", Life: 1}}
			if zombies {
				want = []any{"on its way", want[0]}
			}
			if got := bodies(ctx, lead); !slices.Equal(got, want) {
				t.Errorf("zombies %v: got %v, want %v", zombies, got, want)
			}
			lead.Send(ctx, "worker-0", 1, "too late")
			next := tr.Attach("worker-0", nil, 2)
			lead.Send(ctx, "worker-0", 1, "to the next life")
			if got := bodies(ctx, next); len(got) != 1 || !worker.Closed() {
				t.Errorf("the next life got %v; the old mailbox is closed: %v", got, worker.Closed())
			}
		})
	}
}

// A request that was made before the leader had its term, such as to stop, reached the loop after it and was dropped: who
// had asked waited for ever.
func TestWhatAnActorPostsToItselfOutlivesItsTakeover(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		tr, dropped := wire(w, nil)
		lead := tr.Attach("coordinator-0", nil, 1)
		lead.Post(ctx, 0, "stop")
		lead.Fence(1, 0)
		if got := bodies(ctx, lead); !slices.Equal(got, []any{"stop"}) || len(*dropped) > 0 {
			t.Errorf("got %v, dropped %v", got, *dropped)
		}
	})
}
