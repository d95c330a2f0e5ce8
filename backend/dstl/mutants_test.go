//go:build mutants

package dstl_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// mutated persists one change and confirms it, with a planted bug, and returns what the store says of the object right
// after Persist and some time after Confirm.
func mutated(t *testing.T, mutant string) (acked, confirmed error) {
	w := world.NewSim(world.SimOptions{Seed: 1})
	err := w.Run(func(ctx context.Context) error {
		mem, inj := store.NewMem(), store.NewInjector(w)
		inj.Add(store.Rule{Ops: []string{"put"}, Delay: time.Second})
		worker := backendtest.NewWorker(ctx, w, store.WithFaults(mem, inj, w), "worker-0", 1)
		if err := worker.Env.Failpoints.ArmMutant(mutant); err != nil {
			return err
		}
		log, err := dstl.New(worker.Env, dstl.Options{})
		if err != nil {
			return err
		}
		wr, err := log.Writer(dstl.WriterOptions{Subtask: "count-0", Range: keygroup.Range{To: 4}})
		if err != nil {
			return err
		}
		wr.Define(dstl.State{Spec: backend.StateSpec{Name: "n", Type: backend.Value, Access: backend.Point}})
		if err := wr.Append(dstl.OpPut, backend.Addr{Key: []byte("k")}, 0, []byte("v")); err != nil {
			return err
		}
		p, err := wr.Persist(worker.Ctx, 0, 1)
		if err != nil {
			return err
		}
		_, acked = mem.Stat(ctx, p.Refs[0].Key)
		if err := w.Sleep(ctx, 5*time.Second); err != nil {
			return err
		}
		if err := wr.Confirm(worker.Ctx, 1, 0); err != nil {
			return err
		}
		if err := w.Sleep(ctx, 5*time.Second); err != nil {
			return err
		}
		_, confirmed = mem.Stat(ctx, p.Refs[0].Key)
		return errors.Join(wr.Close(), log.Close(worker.Ctx), worker.Stop(ctx))
	})
	if err != nil {
		t.Fatal(err)
	}
	return acked, confirmed
}

func TestMutants(t *testing.T) {
	if acked, confirmed := mutated(t, "none"); acked != nil || confirmed != nil {
		t.Errorf("without a planted bug: %v, %v", acked, confirmed)
	}
	if acked, _ := mutated(t, "ack-before-durable"); !errors.Is(acked, store.ErrNotExist) {
		t.Errorf("ack-before-durable: object is there: %v", acked)
	}
	if _, confirmed := mutated(t, "truncate-early"); !errors.Is(confirmed, store.ErrNotExist) {
		t.Errorf("truncate-early: object is there: %v", confirmed)
	}
}
