package lsm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

func TestCheckpointsShareFiles(t *testing.T) {
	inSim(t, Options{}, func(r *rig) {
		r.open()
		for i := range 800 {
			r.put(i, 200)
		}
		first := r.persist(1)
		ok(r.k.Completed(r.ctx, 1, 0))
		for i := range 20 {
			r.put(i, 200)
		}
		second := r.persist(2)
		if common(first, second) != len(tables(first)) || len(tables(second)) != len(tables(first))+1 {
			t.Errorf("objects %v, then %v", tables(first), tables(second))
		}
		if second.Checkpointed > first.Checkpointed/10 || second.Objects != 2 {
			t.Errorf("%d bytes in %d objects for 20 of 800 keys, after %d for all", second.Checkpointed, second.Objects, first.Checkpointed)
		}
		ok(r.k.Completed(r.ctx, 2, 1))
		third := r.persist(3)
		if !slices.Equal(tables(third), tables(second)) || third.Objects != 1 {
			t.Errorf("nothing was written, and %d objects put", third.Objects)
		}
		want := content(r.k)
		r.close()
		r.open(third.Handle)
		if got := content(r.k); got != want {
			t.Error("restored state differs")
		}
		r.close()
	})
}

// TestFilesOfUncompletedCheckpointsAreNotShared: nobody keeps their objects.
func TestFilesOfUncompletedCheckpointsAreNotShared(t *testing.T) {
	inSim(t, Options{}, func(r *rig) {
		r.open()
		r.put(1, 100)
		first := r.persist(1)
		ok(r.k.Aborted(r.ctx, 1))
		second := r.persist(2)
		third := r.persist(3) // began before 2 completed
		ok(r.k.Completed(r.ctx, 2, 1))
		fourth := r.persist(4) // 3 may complete, and does not name the objects of 2
		ok(r.k.Completed(r.ctx, 3, 2))
		ok(r.k.Completed(r.ctx, 4, 3))
		fifth := r.persist(5)
		for i, pair := range [][2]backend.Persisted{{first, second}, {second, third}, {second, fourth}, {third, fourth}} {
			if common(pair[0], pair[1]) != 0 {
				t.Errorf("pair %d has objects in common: %v and %v", i, tables(pair[0]), tables(pair[1]))
			}
		}
		if common(fourth, fifth) != 1 {
			t.Errorf("objects %v of a completed checkpoint are not used again: %v", tables(fourth), tables(fifth))
		}
		r.close()
	})
}

// TestRestoredObjectsAreNamedAgain: what was attached need not be uploaded.
func TestRestoredObjectsAreNamedAgain(t *testing.T) {
	inSim(t, Options{}, func(r *rig) {
		r.open()
		for i := range 500 {
			r.put(i, 100)
		}
		before := r.persist(1)
		want := content(r.k)
		r.close()
		r.open(before.Handle)
		after := r.persist(2)
		if after.Objects != 1 || !slices.Equal(tables(before), tables(after)) {
			t.Errorf("%d objects put, tables %v, then %v", after.Objects, tables(before), tables(after))
		}
		low, high := keygroup.Range{To: 5}, keygroup.Range{From: 5, To: testGroups}
		a, b := r.subtask("count-1", low, after.Handle), r.subtask("count-2", high, after.Handle)
		if content(a)+content(b) != want {
			t.Error("two halves differ from the whole")
		}
		ok(errors.Join(a.Close(r.ctx), b.Close(r.ctx)))
		for i := range testGroups {
			r.put(i, 100)
		}
		ok(r.k.flush(r.ctx))
		ok(r.k.db.Compact(r.ctx, groupKey(0), groupKey(testGroups), false))
		last := r.persist(3)
		if common(last, after) != 0 || last.Objects != 2 || len(r.k.bucket.files) != 0 {
			t.Errorf("after a compaction: %d objects put, %v, %d downloads kept", last.Objects, tables(last), len(r.k.bucket.files))
		}
		r.close()
	})
}

// TestRetainedCheckpointsStayRestorable plays the leader: it deletes what the registry says, and each retained checkpoint
// can be restored. Up to three checkpoints overlap, some abort.
func TestRetainedCheckpointsStayRestorable(t *testing.T) {
	inWorlds(t, Options{MemtableBytes: 256 << 10, FileBytes: 32 << 10}, func(r *rig) {
		type taken struct {
			id   uint64
			p    backend.Persisted
			want string
		}
		registry := checkpoint.NewRegistry()
		var under, retained []taken
		r.open()
		shared := 0
		for id := uint64(1); id < 60; id++ {
			for range r.rng.IntN(60) * r.rng.IntN(2) {
				r.put(r.rng.IntN(300), r.rng.IntN(1500))
			}
			c := taken{id, r.persist(id), content(r.k)}
			under = append(under, c)
			for len(under) > 0 && (len(under) == 3 || r.rng.IntN(2) == 0) {
				c, under = under[0], under[1:]
				registry.Register(&c.p.Handle, c.id) // its acknowledgement comes late
				if r.rng.IntN(4) == 0 {
					ok(r.k.Aborted(r.ctx, c.id))
					continue
				}
				retained = append(retained, c)
				retained = retained[max(0, len(retained)-1-r.rng.IntN(2)):]
				for _, dead := range registry.UnregisterUnused(retained[0].id) {
					ok(r.bucket.Delete(r.ctx, []string{dead.Key})[0].Err)
				}
				ok(r.k.Completed(r.ctx, c.id, retained[0].id-1))
				for _, ref := range c.p.Handle.Base {
					if _, err := r.bucket.Stat(r.ctx, ref.Key); err != nil {
						t.Fatalf("checkpoint %d completed: %v", c.id, err)
					}
				}
			}
			if n := len(retained); n > 1 {
				shared += common(retained[n-2].p, retained[n-1].p)
			}
			if len(under) == 0 && len(retained) > 0 && r.rng.IntN(8) == 0 {
				c := retained[r.rng.IntN(len(retained))]
				r.close()
				r.open(c.p.Handle)
				if content(r.k) != c.want {
					t.Errorf("checkpoint %d is restored wrongly", c.id)
				}
				retained = slices.DeleteFunc(retained, func(x taken) bool { return x.id > c.id })
			}
		}
		if shared < 20 {
			t.Errorf("only %d objects were shared", shared)
		}
		r.close()
	})
}

// TestCrashWhileUploading: the attempt dies with some of its objects put; its database is closed, its files are gone, and
// the checkpoint before is whole.
func TestCrashWhileUploading(t *testing.T) {
	before := runtime.NumGoroutine()
	w := world.NewSim(world.SimOptions{Seed: 1})
	slow := store.WithLatencyModel(store.NewMem(), w, store.Latency{Put: store.FirstByte{Median: 50 * time.Millisecond}})
	inWorld(t, w, slow, Options{FileBytes: 8 << 10}, func(r *rig) {
		r.open()
		for i := range 400 {
			r.put(i, 200)
		}
		first, want := r.persist(1), content(r.k)
		ok(r.k.Completed(r.ctx, 1, 0))
		ok(r.k.db.Compact(r.ctx, groupKey(0), groupKey(testGroups), false))
		for i := range 400 {
			r.put(i, 300)
		}
		s, err := r.k.Snapshot(r.worker.Ctx, 2)
		ok(err)
		g := world.NewGroup(w)
		g.Go(r.worker.Ctx, "persist", func(ctx context.Context) error {
			_, err := s.Persist(ctx)
			return err
		})
		ok(w.Sleep(r.ctx, 70*time.Millisecond))
		dead, fs := r.k, r.b.fs
		r.worker.Domain.Kill()
		ok(r.worker.Domain.Await(r.ctx))
		if _, _, err := dead.Get(r.addr(1)); !errors.Is(err, errClosed) {
			t.Errorf("get after the kill: %v", err)
		}
		if names, _ := fs.List("lsm"); len(names) > 0 {
			t.Errorf("files left: %v", names)
		}
		r.open(first.Handle)
		if content(r.k) != want {
			t.Error("restored state differs")
		}
		r.close()
	})
	settled(t, before)
}

// settled waits until as few goroutines are left as before.
func settled(t *testing.T, before int) {
	t.Helper()
	for range 10000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		runtime.Gosched()
		runtime.GC()
	}
	buf := make([]byte, 1<<16)
	t.Errorf("%d goroutines, there were %d:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
}

// TestNothingIsLeft: no goroutine and no file, whether the attempt ends in good order or is killed while it writes.
func TestNothingIsLeft(t *testing.T) {
	for _, how := range []string{"close", "kill", "cancel"} {
		t.Run(how, func(t *testing.T) {
			dir, before := t.TempDir(), runtime.NumGoroutine()
			inWorld(t, world.NewReal(1), store.NewMem(), Options{Folder: dir, MemtableBytes: 256 << 10}, func(r *rig) {
				r.open()
				for i := range 3000 {
					r.put(i, 300)
				}
				if how == "close" {
					r.close()
					return
				}
				started := world.NewLatch(r.w)
				g := world.NewGroup(r.w)
				g.Go(r.worker.Ctx, "write", func(ctx context.Context) error {
					for i := 0; ; i++ {
						if started.Open(); r.k.Put(r.addr(i%4000), make([]byte, 300)) != nil {
							return nil
						}
					}
				})
				ok(started.Wait(r.ctx))
				if how == "cancel" {
					ok(r.worker.Stop(r.ctx))
				} else {
					r.worker.Domain.Kill()
				}
				ok(r.worker.Domain.Await(r.ctx))
				ok(g.Wait(r.ctx))
			})
			settled(t, before)
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("files left: %v, %v", left, err)
			}
		})
	}
}

// TestDamagedTable: a flipped bit or a missing object is an error that names the object, and nothing stays open.
func TestDamagedTable(t *testing.T) {
	inWorlds(t, Options{}, func(r *rig) {
		r.open()
		for i := range 300 {
			r.put(i, 100)
		}
		p := r.persist(1)
		r.close()
		key := tables(p)[0]
		body, err := r.bucket.Get(r.ctx, key)
		ok(err)
		ok(r.bucket.Delete(r.ctx, []string{key})[0].Err)
		for _, kind := range []error{store.ErrNotExist, store.ErrCorrupt} {
			if kind == store.ErrCorrupt {
				body[len(body)/3] ^= 4
				ok(r.bucket.Put(r.ctx, key, body, store.PutOptions{}))
			}
			r.open()
			_, err := r.b.Open(r.worker.Ctx, backend.OpenOptions{Operator: "count", Subtask: "count-1", Range: r.k.rng, Handles: []backend.StateHandle{p.Handle}})
			if !errors.Is(err, kind) || !strings.Contains(fmt.Sprint(err), key) {
				t.Errorf("open says %v, not %v of %s", err, kind, key)
			}
			r.close()
		}
	})
}
