package lsm

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

const testGroups = 16

// rig is a worker with an LSM backend and one subtask of all key groups, attempt after attempt.
type rig struct {
	ctx     context.Context
	w       world.World
	o       Options
	bucket  store.Bucket
	attempt uint64
	worker  *backendtest.Worker
	b       *Backend
	k       *keyed
	state   backend.StateID
	rng     *rand.Rand
	loop    *backendtest.Loop
}

// inWorlds runs f in both worlds; nothing may be left of the backends in the end.
func inWorlds(t *testing.T, o Options, f func(r *rig)) {
	t.Helper()
	for name, w := range map[string]world.World{"Sim": world.NewSim(world.SimOptions{Seed: 1}), "Real": world.NewReal(1)} {
		t.Run(name, func(t *testing.T) { inWorld(t, w, store.NewMem(), o, f) })
	}
}

// inSim runs f in the simulated world, where no compaction comes in between.
func inSim(t *testing.T, o Options, f func(r *rig)) {
	t.Helper()
	inWorld(t, world.NewSim(world.SimOptions{Seed: 1}), store.NewMem(), o, f)
}

func inWorld(tb testing.TB, w world.World, bucket store.Bucket, o Options, f func(r *rig)) {
	tb.Helper()
	if o.Folder == "" {
		o.Folder = tb.TempDir()
	}
	err := w.Run(func(ctx context.Context) error {
		r := &rig{ctx: ctx, w: w, o: o, bucket: bucket, rng: rand.New(rand.NewPCG(1, 2))}
		f(r)
		return nil
	})
	if err != nil {
		tb.Error(err)
	}
}

func ok(err error) {
	if err != nil {
		panic(err)
	}
}

// open begins an attempt from handles.
func (r *rig) open(handles ...backend.StateHandle) {
	r.attempt++
	r.worker = backendtest.NewWorker(r.ctx, r.w, r.bucket, "worker-0", r.attempt)
	b, err := New(r.o).ForWorker(r.worker.Ctx, r.worker.Env)
	ok(err)
	r.b = b.(*Backend)
	r.k = r.subtask("count-0", keygroup.Range{To: testGroups}, handles...)
	r.state, err = r.k.Register(backend.Spec("v", backend.Value))
	ok(err)
}

func (r *rig) subtask(name string, rng keygroup.Range, handles ...backend.StateHandle) *keyed {
	r.loop = backendtest.NewLoop(r.worker.Ctx, r.w)
	k, err := r.b.Open(r.worker.Ctx, backend.OpenOptions{Operator: "count", Subtask: name, Range: rng, Handles: handles, Loop: r.loop})
	ok(err)
	return k.(*keyed)
}

// close ends the attempt in good order.
func (r *rig) close() {
	ok(r.k.Close(r.ctx))
	ok(r.b.Close(r.ctx))
	ok(r.worker.Stop(r.ctx))
}

// put writes key i with n random bytes.
func (r *rig) put(i, n int) {
	value := make([]byte, 0, n+8)
	for len(value) < n {
		value = binary.LittleEndian.AppendUint64(value, r.rng.Uint64())
	}
	ok(r.k.Put(r.addr(i), value[:n]))
}

func (r *rig) addr(i int) backend.Addr {
	return backend.Addr{State: r.state, Group: keygroup.ID(i % testGroups), Key: fmt.Appendf(nil, "key-%06d", i)}
}

// persist takes checkpoint id up to its acknowledgement.
func (r *rig) persist(id uint64) backend.Persisted {
	s, err := r.k.Snapshot(r.worker.Ctx, id)
	ok(err)
	p, err := s.Persist(r.worker.Ctx)
	ok(err)
	s.Release()
	return p
}

// tables are the keys of the table objects of a handle.
func tables(p backend.Persisted) (keys []string) {
	for _, ref := range p.Handle.Base {
		if strings.HasSuffix(ref.Key, tableExt) {
			keys = append(keys, ref.Key)
		}
	}
	return keys
}

// common counts the table objects that both handles name.
func common(a, b backend.Persisted) (n int) {
	for _, key := range tables(b) {
		if slices.Contains(tables(a), key) {
			n++
		}
	}
	return n
}

// content is all that a keyed holds, as text; elements of point states are sorted too.
func content(k backend.Keyed) string {
	var b strings.Builder
	r := k.Range()
	for id, spec := range k.States() {
		for g := r.From; g < r.To; g++ {
			var all []string
			ok(k.Scan(backend.StateID(id), g, nil, func(key, value []byte) bool {
				all = append(all, fmt.Sprintf("%s %d %q %x\n", spec.Name, g, key, value))
				return true
			}))
			if spec.Access == backend.Point {
				slices.Sort(all)
			}
			b.WriteString(strings.Join(all, ""))
		}
	}
	return b.String()
}
