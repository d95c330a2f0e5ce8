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
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// The tests of this file are named after the cases of docs/known-faults.md.

// written runs f in a simulated world with one writer of a log over a bucket with faults.
func written(t *testing.T, seed uint64, o dstl.Options, rule store.Rule, f func(k *backendtest.Worker, w dstl.Writer, put func(n int))) {
	t.Helper()
	sim := world.NewSim(world.SimOptions{Seed: seed})
	err := sim.Run(func(ctx context.Context) error {
		inj := store.NewInjector(sim)
		heal := inj.Add(rule)
		k := backendtest.NewWorker(ctx, sim, store.WithFaults(store.NewMem(), inj, sim), "worker-0", 1)
		log, err := dstl.New(k.Env, o)
		if err != nil {
			return err
		}
		w, err := log.Writer(dstl.WriterOptions{Subtask: "count-0", Range: keygroup.Range{To: 8}})
		if err != nil {
			return err
		}
		w.Define(dstl.State{ID: 1, Spec: backend.StateSpec{Name: "count", Type: backend.Value, Access: backend.Point}})
		n := 0
		f(k, w, func(size int) {
			n++
			value := make([]byte, size)
			for i := range value {
				value[i] = byte(i * n)
			}
			if err := w.Append(dstl.OpPut, backend.Addr{State: 1, Key: fmt.Append(nil, n)}, 0, value); err != nil {
				t.Error(err)
			}
		})
		heal()
		return errors.Join(w.Close(), log.Close(ctx), k.Stop(ctx))
	})
	if err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
}

// TestD15NoUploadIsForgotten: changes beyond the threshold come at every moment around the end of an upload, the last ones of their
// writer. Each time they are uploaded within the batch delay and what a put takes.
func TestD15NoUploadIsForgotten(t *testing.T) {
	const delay, took, threshold = 10 * time.Millisecond, 7 * time.Millisecond, 2000
	seeds := uint64(2000)
	if testing.Short() {
		seeds = 200
	}
	late := 0 // second batches that came while the first was under way
	for seed := range seeds {
		written(t, seed, dstl.Options{Preemptive: threshold, BatchDelay: delay}, store.Rule{Ops: []string{history.OpPut}, Delay: took},
			func(k *backendtest.Worker, w dstl.Writer, put func(n int)) {
				rng := k.Env.World.Rand("test")
				put(threshold + 100)
				_ = k.Env.World.Sleep(k.Ctx, time.Duration(rng.Int64N(int64(2*(delay+took)))))
				if len(uploaded(k)) == 0 {
					late++
				}
				put(threshold + 100 + rng.IntN(1000))
				_ = k.Env.World.Sleep(k.Ctx, 2*(delay+took)+time.Millisecond) // it may have to wait for the one before
				if n := w.Unsent(); n != 0 {
					t.Errorf("seed %d: %d bytes are unsent after %v, uploads %+v", seed, n, 2*(delay+took), uploaded(k))
				}
			})
	}
	if late < int(seeds)/10 || late > int(seeds)*9/10 {
		t.Errorf("in %d of %d cases the second batch came while the first was under way", late, seeds)
	}
}

// uploaded are the ends of uploads so far.
func uploaded(k *backendtest.Worker) (all []history.Event) {
	for _, e := range k.Events() {
		if e.Kind == history.LogFlushEnd {
			all = append(all, e)
		}
	}
	return all
}

// TestD16BlockedWriterCanBeLeft: the store takes nothing. The writer blocks near the limit, and who waits for it is gone at once when its
// context ends.
func TestD16BlockedWriterCanBeLeft(t *testing.T) {
	const limit = 1 << 20
	written(t, 1, dstl.Options{InFlight: limit, Preemptive: limit / 8}, store.Rule{Ops: []string{history.OpPut}, Timeout: true},
		func(k *backendtest.Worker, w dstl.Writer, put func(n int)) {
			total := 0
			for ; total < 5*limit && !w.Blocked(); total += 10_000 {
				put(10_000)
			}
			if !w.Blocked() || total > limit*5/4 || w.Unsent() > limit*5/4 {
				t.Errorf("blocked %t after %d bytes, %d unsent", w.Blocked(), total, w.Unsent())
			}
			sim := k.Env.World
			began := sim.Now()
			ctx, cancel := sim.WithTimeout(k.Ctx, time.Second)
			defer cancel()
			_, err := world.Wait(ctx, sim, world.Never, w.Unblocked())
			if waited := sim.Now() - began; !errors.Is(err, context.DeadlineExceeded) || waited != time.Second {
				t.Errorf("waited %v: %v", waited, err)
			}
		})
}
