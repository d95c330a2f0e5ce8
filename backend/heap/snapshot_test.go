package heap

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// inSim runs f in a simulated world with a worker over b, on which no process may be left.
func inSim(t *testing.T, b store.Bucket, o Options, f func(w *backendtest.Worker, h *Backend) error) {
	t.Helper()
	w := world.NewSim(world.SimOptions{Seed: 1})
	err := w.Run(func(ctx context.Context) error {
		worker := backendtest.NewWorker(ctx, w, b, "worker-0", 1)
		h, err := New(o).ForWorker(worker.Ctx, worker.Env)
		if err != nil {
			return err
		}
		if err := f(worker, h.(*Backend)); err != nil {
			return err
		}
		return worker.Stop(ctx)
	})
	if err != nil {
		t.Error(err)
	}
}

func options(r keygroup.Range, handles ...backend.StateHandle) backend.OpenOptions {
	return backend.OpenOptions{Operator: "count", Subtask: "count-0", Range: r, Handles: handles}
}

// filled opens 16 key groups with n elements of about a thousand bytes in each.
func filled(ctx context.Context, h *Backend, n int) (*keyed, error) {
	opened, err := h.Open(ctx, options(keygroup.Range{To: 16}))
	if err != nil {
		return nil, err
	}
	k := opened.(*keyed)
	id, err := k.Register(backend.Spec("v", backend.Value))
	if err != nil {
		return nil, err
	}
	r := h.e.World.Rand("values")
	value := make([]byte, 1000)
	for i := range 16 * n {
		for at := range value {
			value[at] = byte(r.Uint32())
		}
		if err := k.Put(backend.Addr{State: id, Group: keygroup.ID(i % 16), Key: fmt.Append(nil, i)}, value); err != nil {
			return nil, err
		}
	}
	return k, nil
}

func persist(ctx context.Context, k *keyed) (backend.Persisted, error) {
	s, err := k.Snapshot(ctx, 1)
	if err != nil {
		return backend.Persisted{}, err
	}
	defer s.Release()
	return s.Persist(ctx)
}

func TestObjectsHaveTheirSizeAndOrder(t *testing.T) {
	mem := store.NewMem()
	inSim(t, mem, Options{ObjectBytes: 1 << 20}, func(w *backendtest.Worker, h *Backend) error {
		k, err := filled(w.Ctx, h, 700)
		if err != nil {
			return err
		}
		p, err := persist(w.Ctx, k)
		if err != nil {
			return err
		}
		var total int64
		for i, ref := range p.Handle.Base {
			total += ref.Bytes
			if want := fmt.Sprintf("base/1/count-0/%d", i); ref.Key != want {
				t.Errorf("object %d is %q, want %q", i, ref.Key, want)
			}
			if i < len(p.Handle.Base)-1 && (ref.Bytes < 1<<20 || ref.Bytes > 1<<20+2*(256<<10)) {
				t.Errorf("object %d has %d bytes", i, ref.Bytes)
			}
			if i > 0 && ref.Groups.From < p.Handle.Base[i-1].Groups.To-1 {
				t.Errorf("object %d has key groups %v after %v", i, ref.Groups, p.Handle.Base[i-1].Groups)
			}
		}
		if p.Objects != len(p.Handle.Base) || p.Objects < 9 || p.Checkpointed != total {
			t.Errorf("%d objects with %d bytes, handle has %d with %d", p.Objects, p.Checkpointed, len(p.Handle.Base), total)
		}
		for _, point := range []string{failpoint.CheckpointUploadBegin, failpoint.CheckpointUploadEnd} {
			if n := w.Env.Failpoints.Count(point); n != 1 {
				t.Errorf("failpoint %s was hit %d times", point, n)
			}
		}
		return nil
	})
}

// A subtask that needs a few key groups of large objects reads ranges; damage in what it does not read is not its concern.
func TestNarrowRestoreReadsLess(t *testing.T) {
	mem := store.NewMem()
	inSim(t, mem, Options{}, func(w *backendtest.Worker, h *Backend) error {
		k, err := filled(w.Ctx, h, 400)
		if err != nil {
			return err
		}
		p, err := persist(w.Ctx, k)
		if err != nil {
			return err
		}
		for _, r := range []keygroup.Range{{From: 0, To: 3}, {From: 6, To: 8}, {From: 13, To: 16}, {From: 2, To: 15}} {
			o := options(r, p.Handle)
			o.Restored = &backend.RestoreStats{}
			opened, err := h.Open(w.Ctx, o)
			if err != nil {
				return err
			}
			if got, want := opened.Gauges().Elements, int64(400*r.Len()); got != want {
				t.Errorf("%v: %d elements, want %d", r, got, want)
			}
			share := float64(o.Restored.BaseBytes) / float64(p.Checkpointed)
			if most := float64(r.Len())/16 + 0.03; share > most && r.Len() < 8 {
				t.Errorf("%v: read %.2f of the object, %.2f at most", r, share, most)
			}
		}
		return flipOutside(t, w.Ctx, mem, h, p.Handle)
	})
}

func flipOutside(t *testing.T, ctx context.Context, mem *store.Mem, h *Backend, handle backend.StateHandle) error {
	key := handle.Base[0].Key
	body, err := mem.Get(ctx, key)
	if err != nil {
		return err
	}
	body[len(body)-len(body)/16] ^= 1 // in the last key group
	mem.Delete(ctx, []string{key})
	if err := mem.Put(ctx, key, body, store.PutOptions{}); err != nil {
		return err
	}
	if _, err := h.Open(ctx, options(keygroup.Range{To: 3}, handle)); err != nil {
		t.Errorf("damage in another key group: %v", err)
	}
	_, err = h.Open(ctx, options(keygroup.Range{From: 14, To: 16}, handle))
	if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), key) {
		t.Errorf("damage in a range: %v", err)
	}
	return nil
}

// someFail refuses every put but the first ones.
type someFail struct {
	*store.Mem
	left int
}

func (b *someFail) Put(ctx context.Context, key string, body []byte, o store.PutOptions) error {
	if b.left--; b.left < 0 {
		return fmt.Errorf("put %q: %w", key, store.ErrUnavailable)
	}
	return b.Mem.Put(ctx, key, body, o)
}

func TestFailedPersistDeletesWhatItPut(t *testing.T) {
	b := &someFail{Mem: store.NewMem(), left: 3}
	inSim(t, b, Options{ObjectBytes: 100 << 10}, func(w *backendtest.Worker, h *Backend) error {
		k, err := filled(w.Ctx, h, 100)
		if err != nil {
			return err
		}
		if _, err := persist(w.Ctx, k); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("persist gives %v", err)
		}
		if s := b.Stats(); s.Objects != 0 || s.UnknownDeletes != 0 {
			t.Errorf("left %+v", s)
		}
		b.left = 1000
		_, err = persist(w.Ctx, k)
		return err
	})
}

func TestCancelledPersistEnds(t *testing.T) {
	inSim(t, store.NewMem(), Options{ObjectBytes: 100 << 10}, func(w *backendtest.Worker, h *Backend) error {
		k, err := filled(w.Ctx, h, 100)
		if err != nil {
			return err
		}
		ctx, cancel := h.e.World.WithCancel(w.Ctx)
		cancel(errors.New("checkpoint expired"))
		if _, err := persist(ctx, k); err == nil {
			t.Error("persist under a cancelled context gives no error")
		}
		return nil
	})
}

func TestForeignHandlesAreRefused(t *testing.T) {
	inSim(t, store.NewMem(), Options{}, func(w *backendtest.Worker, h *Backend) error {
		all := keygroup.Range{To: 16}
		ref := backend.ObjectRef{Key: "log/1", Groups: all}
		_, err := h.Open(w.Ctx, options(all, backend.StateHandle{Backend: Name, Range: all, Delta: []backend.ObjectRef{ref}}))
		if err == nil || !strings.Contains(err.Error(), "changelog") {
			t.Errorf("handle with a delta: %v", err)
		}
		_, err = h.Open(w.Ctx, options(all, backend.StateHandle{Backend: "lsm", Range: all, Base: []backend.ObjectRef{ref}}))
		if err == nil || !strings.Contains(err.Error(), "lsm") {
			t.Errorf("handle of another backend: %v", err)
		}
		if _, err := h.Open(w.Ctx, options(all)); err != nil {
			return err
		}
		if err := h.Close(w.Ctx); err == nil {
			t.Error("close with an open subtask gives no error")
		}
		return nil
	})
}
