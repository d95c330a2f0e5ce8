package localcopy_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/backend/heap"
	"statebench.dev/bench/backend/localcopy"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

const maxGroups = 16

// rig is one worker with its disk and one subtask, life after life.
type rig struct {
	t       *testing.T
	ctx     context.Context
	w       world.World
	mem     *store.Mem
	bucket  store.Bucket
	gets    map[string]int // of the store, by key
	disk    world.Disk
	limit   int64
	factory backend.Factory
	attempt uint64
	id      uint64
	// of the present attempt
	worker *backendtest.Worker
	in     backend.Backend
	keyed  backend.Keyed
	loop   *backendtest.Loop
	state  backend.StateID
	stats  backend.RestoreStats
}

// with runs f on a rig in a simulated world, with a changelog and without one.
func with(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	nested := heap.New(heap.Options{ObjectBytes: 2 << 10})
	for _, c := range []struct {
		name string
		in   backend.Factory
	}{
		{"changelog", changelog.New(changelog.Options{Nested: nested, NestedName: heap.Name, Materialize: 50 * time.Millisecond})},
		{"snapshots", nested},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := world.NewSim(world.SimOptions{Seed: 1})
			r := &rig{t: t, w: w, mem: store.NewMem(), factory: c.in, disk: world.NewMemDisk(), gets: map[string]int{}}
			r.bucket = store.WithTrace(r.mem, func(q history.Request) {
				if q.Op == history.OpGet {
					r.gets[q.Key]++
				}
			}, w)
			if err := w.Run(func(ctx context.Context) error {
				r.ctx, r.t = ctx, t
				f(t, r)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func (r *rig) ok(err error) {
	if err != nil {
		panic(err)
	}
}

// open begins an attempt of a subtask with the key groups of g, restored from handles.
func (r *rig) open(g keygroup.Range, handles ...backend.StateHandle) {
	r.attempt++
	r.worker = backendtest.NewWorker(r.ctx, r.w, r.bucket, "worker-0", r.attempt)
	r.worker.Env.Disk = r.disk
	if len(handles) > 0 {
		r.worker.Env.Restores = []backend.Restore{{Range: g, Handles: handles, Written: r.attempt - 1}}
	}
	var err error
	r.in, err = localcopy.Around(r.factory, localcopy.Options{Limit: r.limit}).ForWorker(r.worker.Ctx, r.worker.Env)
	r.ok(err)
	r.loop, r.stats = backendtest.NewLoop(r.worker.Ctx, r.w), backend.RestoreStats{}
	clear(r.gets)
	r.keyed, err = r.in.Open(r.worker.Ctx, backend.OpenOptions{Operator: "count", Subtask: "count-0", Range: g, Handles: handles, Loop: r.loop, Restored: &r.stats})
	r.ok(err)
	r.state, err = r.keyed.Register(backend.StateSpec{Name: "count", Type: backend.Value, Access: backend.Point})
	r.ok(err)
}

var all = keygroup.Range{To: maxGroups} // read-only: a value

// put writes n elements that only round makes.
func (r *rig) put(round, n int) {
	for i := range n {
		a := backend.Addr{State: r.state, Group: keygroup.ID(i % maxGroups), Key: fmt.Append(nil, i)}
		r.ok(r.keyed.Put(a, fmt.Appendf(nil, "%d/%d/%s", round, i, strings.Repeat("x", 80))))
	}
}

// has wants the elements of round in the range.
func (r *rig) has(round, n int) {
	r.t.Helper()
	found := 0
	for i := range n {
		a := backend.Addr{State: r.state, Group: keygroup.ID(i % maxGroups), Key: fmt.Append(nil, i)}
		if !r.keyed.Range().Contains(a.Group) {
			continue
		}
		v, ok, err := r.keyed.Get(a)
		r.ok(err)
		if !ok || !strings.HasPrefix(string(v), fmt.Sprintf("%d/%d/", round, i)) {
			r.t.Fatalf("element %d is %.20q, not of round %d", i, v, round)
		}
		found++
	}
	if found == 0 {
		r.t.Fatal("nothing was compared")
	}
}

// persist takes a checkpoint and acknowledges it.
func (r *rig) persist() (uint64, backend.StateHandle, error) {
	r.id++
	s, err := r.keyed.Snapshot(r.worker.Ctx, r.id)
	r.ok(err)
	p, err := s.Persist(store.WithInfo(r.worker.Ctx, store.Info{Checkpoint: r.id}))
	s.Release()
	if err == nil {
		r.in.(backend.Follower).Acknowledged(r.id, p.Handle)
	}
	return r.id, p.Handle, err
}

// checkpoint takes one that completes and is the only one that is retained.
func (r *rig) checkpoint() backend.StateHandle {
	id, h, err := r.persist()
	r.ok(err)
	r.completed(id)
	return h
}

func (r *rig) completed(id uint64) {
	r.in.(backend.Follower).Completed(id, id-1)
	r.ok(r.keyed.Completed(r.worker.Ctx, id, id-1))
	r.ok(r.loop.Sleep(r.worker.Ctx, time.Millisecond))
}

func (r *rig) aborted(id uint64) {
	r.in.(backend.Follower).Aborted(id)
	r.ok(r.keyed.Aborted(r.worker.Ctx, id))
}

// crash kills the worker; what it synced stays.
func (r *rig) crash() {
	r.worker.Domain.Kill()
	r.ok(r.worker.Domain.Await(r.ctx))
	r.disk.Crash()
}

// close ends the attempt in good order.
func (r *rig) close() {
	r.ok(r.keyed.Close(r.worker.Ctx))
	r.ok(r.loop.Close(r.ctx))
	r.ok(r.in.Close(r.ctx))
	r.ok(r.worker.Stop(r.ctx))
}

// copies lists the copies by key.
func (r *rig) copies() []string {
	names, err := r.disk.List("copies/")
	r.ok(err)
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], "copies/")
	}
	return names
}

// keys lists the objects of a handle.
func keys(h backend.StateHandle) []string {
	var all []string
	for _, ref := range slices.Concat(h.Base, h.Delta) {
		all = append(all, ref.Key)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// written is a rig after a crash, and the newest checkpoint: with a base and a log where there is a changelog.
func (r *rig) written() backend.StateHandle {
	r.open(all)
	r.put(1, 400)
	r.checkpoint()
	r.ok(r.loop.Sleep(r.worker.Ctx, 200*time.Millisecond)) // a materialization
	r.put(2, 300)
	h := r.checkpoint()
	if len(h.Base) == 0 || len(h.Delta) == 0 && strings.Contains(r.t.Name(), "changelog") {
		r.t.Fatalf("checkpoint has %d parts of base, %d of log", len(h.Base), len(h.Delta))
	}
	r.crash()
	return h
}

// TestRestoresFromCopies: after a crash that kept the disk nothing is read from the store, and the state is the same.
func TestRestoresFromCopies(t *testing.T) {
	with(t, func(t *testing.T, r *rig) {
		h := r.written()
		r.open(all, h)
		if len(r.gets) != 0 || r.stats.LocalHits == 0 || r.stats.LocalMisses != 0 || r.stats.LocalBytes != r.stats.BaseBytes+r.stats.DeltaBytes {
			t.Errorf("gets %v, figures %+v", r.gets, r.stats)
		}
		r.has(2, 300)
		r.close()
	})
}

// TestB14EachBadCopyFallsBack: a copy that is damaged in any of its parts, cut, missing, or one of another object is not used: that object and
// no other is read from the store, and the state is the same. What is bad is removed.
func TestB14EachBadCopyFallsBack(t *testing.T) {
	for name, harm := range map[string]func(b []byte) []byte{
		"first byte":    func(b []byte) []byte { b[0] ^= 1; return b },
		"middle":        func(b []byte) []byte { b[(len(b)-28)/2] ^= 1; return b },
		"a checksum":    func(b []byte) []byte { b[len(b)-26] ^= 1; return b },
		"length":        func(b []byte) []byte { b[len(b)-24] ^= 1; return b },
		"mark":          func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"cut":           func(b []byte) []byte { return b[:len(b)/2] },
		"empty":         func([]byte) []byte { return nil },
		"longer":        func(b []byte) []byte { return append(b, 0) },
		"missing":       nil,
		"anotherObject": func(b []byte) []byte { return append([]byte(nil), other...) },
	} {
		with(t, func(t *testing.T, r *rig) {
			h := r.written()
			list := keys(h)
			for _, bad := range list {
				file := "copies/" + bad
				good, err := r.disk.ReadFile(file)
				r.ok(err)
				if harm == nil {
					r.ok(r.disk.Remove(file))
				} else {
					r.ok(r.disk.WriteFile(file, harm(append([]byte(nil), good...))))
				}
				r.open(all, h)
				if len(r.gets) != 1 || r.gets[bad] == 0 || r.stats.LocalMisses == 0 {
					t.Errorf("%s of %s: gets %v, figures %+v", name, bad, r.gets, r.stats)
				}
				r.has(2, 300)
				if harm != nil && slices.Contains(r.copies(), bad) {
					t.Errorf("%s of %s: the copy was not removed", name, bad)
				}
				r.crash()
				r.ok(r.disk.WriteFile(file, good))
			}
			if len(list) == 0 {
				t.Error("nothing was damaged")
			}
		})
	}
}

// other is a copy of something else, whole in itself.
var other = func() []byte { // read-only: content
	body := []byte("another object")
	return append(body, localcopy.Trailer(body)...)
}()

// TestRescaleIsCoveredInPart: a subtask that takes over more than its worker wrote reads the rest from the store.
func TestRescaleIsCoveredInPart(t *testing.T) {
	with(t, func(t *testing.T, r *rig) {
		low, high := keygroup.Range{To: 8}, keygroup.Range{From: 8, To: maxGroups}
		var handles []backend.StateHandle
		mine := r.disk
		for i, g := range []keygroup.Range{low, high} {
			if i == 1 {
				r.disk = world.NewMemDisk() // another worker's
			}
			r.open(g)
			for e := range 300 {
				if a := (backend.Addr{State: r.state, Group: keygroup.ID(e % maxGroups), Key: fmt.Append(nil, e)}); g.Contains(a.Group) {
					r.ok(r.keyed.Put(a, fmt.Appendf(nil, "2/%d/", e)))
				}
			}
			handles = append(handles, r.checkpoint())
			r.close()
		}
		r.disk = mine
		r.open(all, handles...)
		for key := range r.gets { // order-free: each for itself
			if !slices.Contains(keys(handles[1]), key) {
				t.Errorf("%s was read from the store", key)
			}
		}
		if len(r.gets) == 0 || r.stats.LocalHits == 0 || r.stats.LocalMisses == 0 {
			t.Errorf("gets %v, figures %+v", r.gets, r.stats)
		}
		r.has(2, 300)
		r.close()
		r.open(keygroup.Range{From: 2, To: 5}, handles...) // less than it wrote: covered
		for key := range r.gets {                          // order-free: each for itself
			if !slices.Contains(keys(handles[1]), key) {
				t.Errorf("%s was read from the store", key)
			}
		}
		r.has(2, 300)
		r.close()
	})
}

// TestB13CopiesFollowTheCheckpoints: a copy stays while a checkpoint that is retained or under way names its object, whatever is aborted
// meanwhile, and goes with the last one.
func TestB13CopiesFollowTheCheckpoints(t *testing.T) {
	with(t, func(t *testing.T, r *rig) {
		r.open(all)
		r.put(1, 300)
		first := r.checkpoint()
		r.put(2, 300)
		id, second, err := r.persist()
		r.ok(err)
		r.aborted(id)
		for _, key := range slices.Concat(keys(first), keys(second)) {
			if !slices.Contains(r.copies(), key) {
				t.Errorf("the copy of %s went with an aborted checkpoint", key)
			}
		}
		r.put(3, 300)
		third := r.checkpoint()
		for _, key := range r.copies() {
			if !slices.Contains(keys(third), key) {
				t.Errorf("the copy of %s is left, which no checkpoint names", key)
			}
		}
		r.crash()
		r.open(all, third)
		if len(r.gets) != 0 {
			t.Errorf("read from the store: %v", r.gets)
		}
		r.has(3, 300)
		r.close()
	})
}

// TestB13CopiesStayBounded: with checkpoints of which none completes the disk holds no more than the limit, and the copies that the
// last completed one needs stay.
func TestB13CopiesStayBounded(t *testing.T) {
	with(t, func(t *testing.T, r *rig) {
		r.limit = 200 << 10
		r.open(all)
		r.put(1, 300)
		h := r.checkpoint()
		for i := range 20 {
			r.put(2+i, 300)
			id, _, err := r.persist()
			r.ok(err)
			r.aborted(id)
			r.ok(r.loop.Sleep(r.worker.Ctx, 10*time.Millisecond))
			if n := r.used(); n > r.limit || n == 0 {
				t.Fatalf("%d bytes of copies after %d aborted checkpoints, %d allowed", n, i+1, r.limit)
			}
		}
		r.crash()
		r.open(all, h)
		if len(r.gets) != 0 {
			t.Errorf("read from the store: %v", r.gets)
		}
		r.has(1, 300)
		for _, key := range r.copies() {
			if !slices.Contains(keys(h), key) {
				t.Errorf("the copy of %s is left, which is not restored", key)
			}
		}
		r.close()
	})
}

// used is the bytes of all copies.
func (r *rig) used() (n int64) {
	for _, key := range r.copies() {
		b, err := r.disk.ReadFile("copies/" + key)
		r.ok(err)
		n += int64(len(b))
	}
	return n
}
