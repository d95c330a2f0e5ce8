package store_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// TestMeasureFindsTheModelAgain: what is measured of a store with a known cost model is that model.
func TestMeasureFindsTheModelAgain(t *testing.T) {
	inSim(t, 1, func(ctx context.Context, w world.World) {
		f := func(ms float64) store.FirstByte {
			return store.FirstByte{Median: time.Duration(ms * float64(time.Millisecond)), Sigma: 0.6}
		}
		want := store.Latency{Put: f(40), Get: f(20), Stat: f(15), List: f(30), Delete: f(35), PerByte: 1.0 / 90e6, WorkerBandwidth: 100e6}
		mem := store.NewMem()
		m, err := store.Measure(ctx, w, store.WithLatencyModel(mem, w, want), 400)
		if err != nil {
			t.Error(err)
		}
		got := m.Latency()
		for _, x := range []struct {
			name      string
			got, want store.FirstByte
		}{{"put", got.Put, want.Put}, {"get", got.Get, want.Get}, {"stat", got.Stat, want.Stat}, {"list", got.List, want.List}, {"delete", got.Delete, want.Delete}} {
			if off(x.got.Median.Seconds(), x.want.Median.Seconds()) > 0.12 || off(x.got.Sigma, x.want.Sigma) > 0.15 {
				t.Errorf("%s: %+v, want about %+v", x.name, x.got, x.want)
			}
		}
		if off(got.PerByte, want.PerByte) > 0.3 || off(got.WorkerBandwidth, want.WorkerBandwidth) > 0.2 {
			t.Errorf("%g s a byte and %g bytes/s, want about %g and %g", got.PerByte, got.WorkerBandwidth, want.PerByte, want.WorkerBandwidth)
		}
		for a := range mem.List(ctx, "", "") {
			t.Errorf("left %s", a.Key)
		}
		if m.Requests < 2000 || m.Requests > 2100 {
			t.Errorf("%d requests", m.Requests)
		}
	})
}

func off(got, want float64) float64 { return math.Abs(got/want - 1) }

func TestMeasureReportsWhatFails(t *testing.T) {
	inSim(t, 1, func(ctx context.Context, w world.World) {
		inj := store.NewInjector(w)
		inj.Add(store.Rule{Ops: []string{"get"}, Status: 403})
		mem := store.NewMem()
		if _, err := store.Measure(ctx, w, store.WithFaults(mem, inj, w), 10); !errors.Is(err, store.ErrDenied) {
			t.Errorf("error %v", err)
		}
		for a := range mem.List(ctx, "", "") {
			t.Errorf("left %s", a.Key)
		}
		if _, err := store.Measure(ctx, w, mem, 9); err == nil {
			t.Error("9 requests are enough")
		}
	})
}
