package dstl_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// TestUploadsShareTheirRetries: twelve uploads of a worker are under way while the store throttles everything for 20 s. Together they try
// again as often as their budget allows, and no upload is lost.
func TestUploadsShareTheirRetries(t *testing.T) {
	const uploads, outage = 12, 20 * time.Second
	for seed := range uint64(3) {
		sim := world.NewSim(world.SimOptions{Seed: seed})
		err := sim.Run(func(ctx context.Context) error {
			inj := store.NewInjector(sim)
			heal := inj.Add(store.Rule{Name: "full", Ops: []string{"put"}, Status: 503})
			mem := store.NewMem()
			patient := store.RetryPolicy{Attempts: 1000, Throttled: 1000, Base: time.Millisecond, Cap: 100 * time.Millisecond}
			k := backendtest.NewWorker(ctx, sim, store.WithRetry(store.WithFaults(mem, inj, sim), patient, sim), "worker-0", 1)
			log, err := dstl.New(k.Env, dstl.Options{Preemptive: 100, Upload: dstl.UploadOptions{RetryShare: 0.5, RetriesPerSecond: 2}})
			if err != nil {
				return err
			}
			w, err := log.Writer(dstl.WriterOptions{Subtask: "count-0", Range: keygroup.Range{To: 8}})
			if err != nil {
				return err
			}
			w.Define(dstl.State{ID: 1, Spec: backend.StateSpec{Name: "count", Type: backend.Value, Access: backend.Point}})
			for i := range uploads {
				if err := w.Append(dstl.OpPut, backend.Addr{State: 1, Key: fmt.Append(nil, i)}, 0, make([]byte, 200)); err != nil {
					return err
				}
				if err := sim.Sleep(ctx, 10*time.Millisecond); err != nil { // an upload of its own each
					return err
				}
			}
			if err := sim.Sleep(ctx, outage); err != nil {
				return err
			}
			heal()
			if err := sim.Sleep(ctx, outage); err != nil {
				return err
			}
			if n := inj.Hits("full"); n < uploads+20 || n > uploads+10+2*21 {
				t.Errorf("seed %d: %d requests were refused", seed, n)
			}
			if n := w.Unsent(); n != 0 {
				t.Errorf("seed %d: %d bytes are not durable", seed, n)
			}
			return errors.Join(w.Close(), log.Close(ctx), k.Stop(ctx))
		})
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// TestUploadOptions: what cannot be is refused.
func TestUploadOptions(t *testing.T) {
	for _, o := range []dstl.UploadOptions{{RetryShare: -0.1}, {RetryShare: 1.1}, {RetriesPerSecond: -1}} {
		if (dstl.Options{Upload: o}).Validate() == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
	if err := (dstl.Options{}).Validate(); err != nil {
		t.Error(err)
	}
}
