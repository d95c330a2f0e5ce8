package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

func TestLatencyIsSplitAroundTheEffect(t *testing.T) {
	inSim(t, 1, func(ctx context.Context, w world.World) {
		m := store.NewMem()
		b := store.WithLatencyModel(m, w, store.Latency{
			Put: store.FirstByte{Median: 10 * ms}, Get: store.FirstByte{Median: 4 * ms}, Stat: store.FirstByte{Median: 2 * ms}, List: store.FirstByte{Median: 6 * ms}, Delete: store.FirstByte{Median: 8 * ms}, PerByte: 1e-6,
		})
		took := func(what string, want time.Duration, f func()) {
			t.Helper()
			from := w.Now()
			f()
			if got := w.Now() - from; got != want {
				t.Errorf("%s took %v, want %v", what, got, want)
			}
		}
		g := world.NewGroup(w)
		g.Go(ctx, "observer", func(ctx context.Context) error { // the effect comes at 5 ms + 1 ms
			w.Sleep(ctx, 6*ms-1)
			if _, err := m.Stat(ctx, "k"); !errors.Is(err, store.ErrNotExist) {
				t.Errorf("before the effect: %v", err)
			}
			w.Sleep(ctx, 2)
			if _, err := m.Stat(ctx, "k"); err != nil {
				t.Errorf("after the effect: %v", err)
			}
			return nil
		})
		took("put", 11*ms, func() { b.Put(ctx, "k", make([]byte, 1000), store.PutOptions{}) })
		g.Wait(ctx)
		took("get", 5*ms, func() { b.Get(ctx, "k") })
		took("range", 4*ms+100*time.Microsecond, func() { b.GetRange(ctx, "k", 0, 100) })
		took("stat", 2*ms, func() { b.Stat(ctx, "k") })
		took("list", 6*ms, func() {
			for range b.List(ctx, "", "") {
			}
		})
		took("uploads", 6*ms, func() { b.Uploads(ctx, "") })
		took("delete", 8*ms, func() { b.Delete(ctx, []string{"k", "l"}) })
		ctx = store.AtNoCost(ctx)
		took("everything at no cost", 0, func() {
			b.Put(ctx, "k", nil, store.PutOptions{})
			b.Get(ctx, "k")
			b.GetRange(ctx, "k", 0, 1)
			b.Stat(ctx, "k")
			for range b.List(ctx, "", "") {
			}
			b.Uploads(ctx, "")
			b.Delete(ctx, []string{"k"})
		})
	})
}

func TestLatencyOfBulkDeletes(t *testing.T) {
	inSim(t, 1, func(ctx context.Context, w world.World) {
		b := store.WithLatencyModel(store.NewMem(), w, store.Latency{Delete: store.FirstByte{Median: 8 * ms}})
		took := func(what string, want time.Duration, f func()) {
			t.Helper()
			from := w.Now()
			if f(); w.Now()-from != want {
				t.Errorf("%s took %v, want %v", what, w.Now()-from, want)
			}
		}
		took("bulk delete", 24*ms, func() { b.Delete(ctx, make([]string, 2001)) })
	})
}

func TestZeroLatencyModelAddsNothing(t *testing.T) {
	m := store.NewMem()
	if got := store.WithLatencyModel(m, world.NewReal(1), store.Latency{}); got != store.Bucket(m) {
		t.Errorf("got %T", got)
	}
}

func TestLatencyBandwidthIsShared(t *testing.T) {
	inSim(t, 1, func(ctx context.Context, w world.World) {
		b := store.WithLatencyModel(store.NewMem(), w, store.Latency{Bandwidth: 1e6})
		var ends []time.Duration
		g := world.NewGroup(w)
		for i := range 3 {
			g.Go(ctx, fmt.Sprint("put", i), func(ctx context.Context) error {
				err := b.Put(ctx, fmt.Sprint(i), make([]byte, 1_000_000), store.PutOptions{})
				ends = append(ends, w.Now())
				return err
			})
		}
		if err := g.Wait(ctx); err != nil {
			t.Error(err)
		}
		if want := []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}; !slices.Equal(ends, want) {
			t.Errorf("puts ended at %v, want %v", ends, want)
		}
	})
}

func TestLatencyRateThrottles(t *testing.T) {
	inSim(t, 1, func(ctx context.Context, w world.World) {
		b := store.WithLatencyModel(store.NewMem(), w, store.Latency{WriteRate: 10})
		throttled := 0
		put := func(i int) {
			if err := b.Put(ctx, fmt.Sprint(i), nil, store.PutOptions{}); errors.Is(err, store.ErrThrottled) {
				throttled++
			} else if err != nil {
				t.Error(err)
			}
		}
		for i := range 25 {
			put(i)
		}
		if throttled != 15 {
			t.Errorf("%d of 25 puts at once were throttled, want 15", throttled)
		}
		w.Sleep(ctx, 500*ms)
		for i := range 25 {
			put(i)
		}
		if throttled != 35 {
			t.Errorf("%d puts were throttled, want 35: half a second later 5 more fit", throttled)
		}
		if _, err := b.Stat(ctx, "0"); err != nil {
			t.Errorf("reads have no limit here: %v", err)
		}
	})
}

func TestLatencyRatesAreThoseOfAPrefix(t *testing.T) {
	inSim(t, 1, func(ctx context.Context, w world.World) {
		b := store.WithLatencyModel(store.NewMem(), w, store.Latency{WriteRate: 10, ReadRate: 5})
		throttled := map[string]int{}
		for i := range 20 {
			for _, prefix := range []string{"log", "base"} {
				if err := b.Put(ctx, fmt.Sprintf("%s/%d", prefix, i), nil, store.PutOptions{}); errors.Is(err, store.ErrThrottled) {
					throttled["put "+prefix]++
				}
			}
			if _, err := b.Get(ctx, "log/0"); errors.Is(err, store.ErrThrottled) {
				throttled["get log"]++
			}
		}
		if want := map[string]int{"put log": 10, "put base": 10, "get log": 15}; !maps.Equal(throttled, want) {
			t.Errorf("throttled %v, want %v", throttled, want)
		}
	})
}

func TestLatencyBandwidthOfEachWorker(t *testing.T) {
	inSim(t, 1, func(ctx context.Context, w world.World) {
		b := store.WithLatencyModel(store.NewMem(), w, store.Latency{WorkerBandwidth: 1e6, PerByte: 1.0 / 4e6})
		ends := map[string]time.Duration{}
		g := world.NewGroup(w)
		for i, who := range []string{"a", "a", "b"} {
			g.Go(ctx, fmt.Sprint("put", i), func(ctx context.Context) error {
				err := b.Put(ctx, fmt.Sprint(i), make([]byte, 1_000_000), store.PutOptions{Info: store.Info{Who: who}})
				ends[who] = max(ends[who], w.Now())
				return err
			})
		}
		if err := g.Wait(ctx); err != nil {
			t.Error(err)
		}
		if want := map[string]time.Duration{"a": 2 * time.Second, "b": time.Second}; !maps.Equal(ends, want) {
			t.Errorf("puts ended at %v, want %v", ends, want)
		}
	})
}

func TestLatencyTailIsLogNormal(t *testing.T) {
	inSim(t, 5, func(ctx context.Context, w world.World) {
		b := store.WithLatencyModel(store.NewMem(), w, store.Latency{Stat: store.FirstByte{Median: 20 * ms, Sigma: 0.5}})
		var took []time.Duration
		for range 4000 {
			from := w.Now()
			b.Stat(ctx, "k")
			took = append(took, w.Now()-from)
		}
		slices.Sort(took)
		median, p99 := took[2000].Seconds(), took[3960].Seconds()
		if math.Abs(median/0.020-1) > 0.05 || math.Abs(p99/(0.020*math.Exp(0.5*2.326))-1) > 0.15 {
			t.Errorf("median %.4f s, p99 %.4f s", median, p99)
		}
	})
}
