package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// overload makes 100 puts at a time against a store that throttles everything for 20 s, and tells how many requests it refused.
func overload(t *testing.T, budget func(w world.World) *store.RetryBudget) (refused int64) {
	t.Helper()
	p := store.RetryPolicy{Attempts: 500, Throttled: 500, Base: 100 * ms, Cap: time.Second, Timeout: time.Second}
	retried(t, p, nil, func(ctx context.Context, w world.World, b *store.Retrying, m *store.Mem, inj *store.Injector) {
		heal := inj.Add(rule(t, "name=full op=put status=503"))
		g := world.NewGroup(w)
		shared := budget(w)
		for i := range 100 {
			g.Go(ctx, "put", func(ctx context.Context) error {
				if shared != nil {
					ctx = store.WithBudget(ctx, shared)
				}
				return b.Put(ctx, fmt.Sprint(i), []byte("x"), store.PutOptions{})
			})
		}
		w.Sleep(ctx, 20*time.Second)
		heal()
		if err := g.Wait(ctx); err != nil {
			t.Error(err)
		}
		refused = inj.Hits("full")
		if n := b.Counts(); n.GivenUp != 0 || n.Attempts != refused+100 {
			t.Errorf("%+v, %d refused", n, refused)
		}
		if shared != nil {
			if n := shared.Counts(); n.Successes != 100 || n.Retries != refused || n.Deferred == 0 {
				t.Errorf("%+v, %d refused", n, refused)
			}
		}
	})
	return refused
}

// TestBudgetBoundsOverload: retries multiply what an overloaded store is asked, unless they have a budget together. None fails for want
// of it.
func TestBudgetBoundsOverload(t *testing.T) {
	free := overload(t, func(world.World) *store.RetryBudget { return nil })
	tight := overload(t, func(w world.World) *store.RetryBudget { return store.NewRetryBudget(w, 0.2, 5) })
	if tight > 100+10+5*20 {
		t.Errorf("%d requests were refused, 210 at most may be", tight)
	}
	if free < 10*tight {
		t.Errorf("%d refused without a budget, %d with one: too few to tell", free, tight)
	}
}

// TestBudgetGrowsWithSuccess: what succeeds pays for what is to be made again. Time alone would take minutes.
func TestBudgetGrowsWithSuccess(t *testing.T) {
	for _, c := range []struct {
		share    float64
		deferred bool
	}{{1, false}, {0.01, true}} {
		retried(t, five, []string{"op=put share=0.4 status=503"}, func(ctx context.Context, w world.World, b *store.Retrying, _ *store.Mem, _ *store.Injector) {
			budget := store.NewRetryBudget(w, c.share, 0.1)
			for i := range 100 {
				if err := b.Put(store.WithBudget(ctx, budget), fmt.Sprint(i), []byte("x"), store.PutOptions{}); err != nil && !errors.Is(err, store.ErrThrottled) {
					t.Error(err)
				}
			}
			n := budget.Counts()
			if n.Retries < 30 || (n.Deferred > 0) != c.deferred || (w.Now() > time.Minute) != c.deferred {
				t.Errorf("share %v: %+v after %v", c.share, n, w.Now())
			}
		})
	}
}

// TestAskedWaitHasABound: a store that asks for two hours is asked again before.
func TestAskedWaitHasABound(t *testing.T) {
	p := five
	p.MostAsked = store.DefaultRetryPolicy().MostAsked
	retried(t, p, []string{"op=put request=1 status=503 retry-after=2h"}, func(ctx context.Context, w world.World, b *store.Retrying, _ *store.Mem, _ *store.Injector) {
		if err := b.Put(ctx, "k", []byte("x"), store.PutOptions{}); err != nil || w.Now() != 30*time.Second {
			t.Errorf("after %v: %v", w.Now(), err)
		}
	})
}
