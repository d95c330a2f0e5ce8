package dstltest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// Traits say what differs between storages.
type Traits struct {
	// Forgets: segments are gone once the worker that put them has crashed.
	Forgets bool
	// OnDisk: the storage keeps segments in StorageEnv.Disk, which is made to fail.
	OnDisk bool
}

// RunStorage tries a storage: by itself, with its disk failing, with workers that crash at every failpoint of the log, and under
// all that Run does.
func RunStorage(t *testing.T, open dstl.StorageOpener, traits Traits) {
	for _, c := range []struct {
		name string
		on   bool
		f    func(s *storageHarness)
	}{
		{"Contract", true, contract},
		{"Listing", true, listing},
		{"CancelledPutIsWholeOrNothing", true, cancelledPut},
		{"KilledPutIsWholeOrNothing", true, killedPut},
		{"OutlivesItsWriter", !traits.Forgets, outlives},
		{"DiesWithItsWriter", traits.Forgets, diesWithWriter},
		{"OpensAgain", traits.OnDisk, opensAgain},
		{"MachineStopsAnywhere", traits.OnDisk, machineStops},
		{"FailedSync", traits.OnDisk, failedSync},
		{"CutWrite", traits.OnDisk, cutWrite},
		{"ShortRead", traits.OnDisk, shortRead},
	} {
		if !c.on {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(3) {
				runStorage(t, open, world.NewSim(world.SimOptions{Seed: seed}), c.f)
			}
			runStorage(t, open, world.NewReal(1), c.f)
		})
	}
	t.Run("WorkerCrashesAtEveryFailpoint", func(t *testing.T) { crashes(t, open, traits) })
	t.Run("Log", func(t *testing.T) { runOn(t, dstl.New, open) })
}

// storageHarness is what a test of a storage works with.
type storageHarness struct {
	harness
	open    dstl.StorageOpener
	env     dstl.StorageEnv
	disk    *brokenDisk
	storage dstl.Storage
	plain   world.Disk
}

func runStorage(t *testing.T, open dstl.StorageOpener, w world.World, f func(s *storageHarness)) {
	t.Helper()
	err := w.Run(func(ctx context.Context) error {
		plain := diskFor(t, w)
		s := &storageHarness{harness: harness{w: w, ctx: ctx, rng: w.Rand("dstltest")}, open: open, plain: plain}
		s.disk = newBrokenDisk(plain)
		s.env = dstl.StorageEnv{World: w, Store: store.NewMem(), Disk: s.disk}
		s.reopen()
		f(s)
		return s.storage.Close(ctx)
	})
	if err != nil {
		t.Errorf("simulated %v: %v", w.Simulated(), err)
	}
}

// reopen opens the storage on a disk without faults, as a machine that was started again does.
func (s *storageHarness) reopen() {
	s.disk = newBrokenDisk(s.plain)
	s.env.Disk = s.disk
	var err error
	s.storage, err = s.open(s.ctx, s.env)
	s.ok(err)
}

// body is the content of the segment key.
func segmentBody(key string, n int) []byte {
	return bytes.Repeat([]byte(key+"|"), n/(len(key)+1)+1)[:n]
}

func (s *storageHarness) put(key string, n int) error {
	return s.storage.Put(s.ctx, key, segmentBody(key, n))
}

// has wants the segment there, whole, with one of its sizes.
func (s *storageHarness) has(key string, n int) {
	a, err := s.storage.Stat(s.ctx, key)
	s.ok(err)
	s.want(a.Key == key && a.Size == int64(n), "segment is %q of %d bytes, want %q of %d", a.Key, a.Size, key, n)
	b, err := s.storage.GetRange(s.ctx, key, 0, a.Size)
	s.ok(err)
	s.want(bytes.Equal(b, segmentBody(key, n)), "segment %s has other content", key)
}

func (s *storageHarness) lacks(key string) {
	_, err := s.storage.Stat(s.ctx, key)
	s.is(err, store.ErrNotExist)
	_, err = s.storage.GetRange(s.ctx, key, 0, 1)
	s.is(err, store.ErrNotExist)
	s.want(!slices.Contains(s.list("log/"), key), "segment %s is listed", key)
}

func (s *storageHarness) list(prefix string) (keys []string) {
	for a, err := range s.storage.List(s.ctx, prefix, "") {
		s.ok(err)
		keys = append(keys, a.Key)
	}
	return keys
}

func (s *storageHarness) del(keys ...string) {
	out := s.storage.Delete(s.ctx, keys)
	s.want(len(out) == len(keys), "%d answers for %d keys", len(out), len(keys))
	for i, d := range out {
		s.ok(d.Err)
		s.want(d.Key == keys[i], "answer %d is about %q, want %q", i, d.Key, keys[i])
	}
}

// contract is what the comments of dstl.Storage say.
func contract(s *storageHarness) {
	const key = "log/1/worker-0/00000000.seg"
	s.lacks(key)
	body := segmentBody(key, 5000)
	s.ok(s.storage.Put(s.ctx, key, body))
	body[0] ^= 1 // it is the caller's again
	s.has(key, 5000)
	s.ok(s.put(key, 5000))
	s.is(s.put(key, 5001), store.ErrOverwrite)
	s.is(s.put("", 1), store.ErrKey)
	for _, r := range [][3]int64{{0, 1, 1}, {4990, 100, 10}, {5000, 10, 0}, {6000, 10, 0}, {17, 0, 0}} {
		b, err := s.storage.GetRange(s.ctx, key, r[0], r[1])
		s.ok(err)
		s.want(int64(len(b)) == r[2], "range [%d,+%d) has %d bytes, want %d", r[0], r[1], len(b), r[2])
		s.want(bytes.Equal(b, segmentBody(key, 5000)[min(r[0], 5000):][:r[2]]), "range [%d,+%d) has other bytes", r[0], r[1])
	}
	s.ok(s.put("log/1/worker-0/empty", 0))
	s.has("log/1/worker-0/empty", 0)
	s.del(key, "log/never/was", key)
	s.lacks(key)
	s.del(key)
	s.has("log/1/worker-0/empty", 0)
}

// listing is in byte order, over more than one page.
func listing(s *storageHarness) {
	var want []string
	g := world.NewGroup(s.w)
	for i := range 2100 {
		key := fmt.Sprintf("log/%d/worker-0/%08d.seg", 1+i%2, i)
		want = append(want, key)
		g.Go(s.ctx, "put", func(context.Context) error { return s.put(key, 10) })
	}
	s.ok(g.Wait(s.ctx))
	slices.Sort(want)
	s.want(slices.Equal(s.list("log/"), want), "listing has %d keys, want %d", len(s.list("log/")), len(want))
	s.want(len(s.list("log/1/")) == 1050 && len(s.list("log/1/worker-1")) == 0, "listings of parts are wrong")
	n := 0
	for a, err := range s.storage.List(s.ctx, "log/", want[100]) {
		s.ok(err)
		s.want(a.Key == want[101+n] && a.Size == 10, "key %d behind %s is %s of %d bytes", n, want[100], a.Key, a.Size)
		if n++; n == 5 {
			break
		}
	}
	both := dstl.Over(s.env.Store, s.storage)
	for _, key := range []string{"base/1", "log", "logs/1", "meta/1"} {
		s.ok(both.Put(s.ctx, key, nil, store.PutOptions{IfNotExist: true}))
	}
	var keys []string
	for a, err := range both.List(s.ctx, "", "base/0") {
		s.ok(err)
		keys = append(keys, a.Key)
	}
	s.want(slices.IsSorted(keys) && len(keys) == len(want)+4, "with the object store %d keys, sorted: %v", len(keys), slices.IsSorted(keys))
	for _, d := range both.Delete(s.ctx, keys) {
		s.ok(d.Err)
	}
	s.want(len(s.list("log/")) == 0, "keys are left")
}

// cancelledPut: the segment is there as a whole or not at all, and can be deleted for good.
func cancelledPut(s *storageHarness) {
	for i := range 20 {
		key := fmt.Sprintf("log/1/worker-0/%08d.seg", i)
		ctx, cancel := s.w.WithTimeout(s.ctx, time.Duration(s.rng.IntN(2000))*time.Microsecond)
		err := s.storage.Put(ctx, key, segmentBody(key, 3000))
		cancel()
		if err == nil {
			s.has(key, 3000)
		}
		if i%2 == 0 {
			s.del(key)
			s.lacks(key)
		}
	}
	s.ok(s.w.Sleep(s.ctx, 20*time.Millisecond))
	for _, key := range s.list("log/") {
		s.has(key, 3000)
		var n int
		_, err := fmt.Sscanf(key, "log/1/worker-0/%d.seg", &n)
		s.ok(err)
		s.want(n%2 == 1, "deleted segment %s is there", key)
	}
}

// killedPut is cancelledPut with a worker that dies.
func killedPut(s *storageHarness) {
	for i := range uint64(10) {
		w := backendtest.NewWorker(s.ctx, s.w, s.env.Store, "worker-0", i+1)
		key := fmt.Sprintf("log/%d/worker-0/00000000.seg", i+1)
		w.Env.Spawn("put", func(ctx context.Context) error { return s.storage.Put(ctx, key, segmentBody(key, 3000)) })
		s.ok(s.w.Sleep(s.ctx, time.Duration(s.rng.IntN(2000))*time.Microsecond))
		w.Domain.Kill()
		s.ok(w.Domain.Await(s.ctx))
	}
	s.ok(s.w.Sleep(s.ctx, 20*time.Millisecond))
	for _, key := range s.list("log/") {
		s.has(key, 3000)
		s.del(key)
	}
	s.want(len(s.list("log/")) == 0, "%v is left", s.list("log/"))
}

// byWorker puts a segment as a worker that crashes then.
func (s *storageHarness) byWorker(key string) {
	w := backendtest.NewWorker(s.ctx, s.w, s.env.Store, "worker-0", 1)
	s.ok(s.storage.Put(w.Ctx, key, segmentBody(key, 3000)))
	s.has(key, 3000)
	w.Domain.Kill()
	s.ok(w.Domain.Await(s.ctx))
}

func outlives(s *storageHarness) {
	s.byWorker("log/1/worker-0/00000000.seg")
	s.has("log/1/worker-0/00000000.seg", 3000)
}

func diesWithWriter(s *storageHarness) {
	s.byWorker("log/1/worker-0/00000000.seg")
	s.lacks("log/1/worker-0/00000000.seg")
}

// opensAgain: whoever comes next finds what was put and not what was deleted, as often as it is tried.
func opensAgain(s *storageHarness) {
	for i := range 6 {
		for j := range 4 {
			s.ok(s.put(fmt.Sprintf("log/1/worker-0/%d-%d.seg", i, j), 1000*(j+1)))
		}
		s.del(fmt.Sprintf("log/1/worker-0/%d-0.seg", i))
		if i > 0 {
			s.del(fmt.Sprintf("log/1/worker-0/%d-1.seg", i-1))
		}
		s.ok(s.storage.Close(s.ctx))
		s.reopen()
		for k := range i + 1 {
			s.lacks(fmt.Sprintf("log/1/worker-0/%d-0.seg", k))
			s.has(fmt.Sprintf("log/1/worker-0/%d-2.seg", k), 3000)
		}
		if i > 0 {
			s.lacks(fmt.Sprintf("log/1/worker-0/%d-1.seg", i-1))
		}
	}
	s.del(s.list("log/")...)
	s.ok(s.storage.Close(s.ctx))
	left, err := s.plain.List("")
	s.ok(err)
	s.want(len(left) == 0, "files %v are left of an empty storage", left)
	s.reopen()
}

// machineStops before each step on the disk: what was acknowledged is there afterwards, what was deleted is not, everything
// else is whole or absent.
func machineStops(s *storageHarness) {
	s.ok(s.storage.Close(s.ctx))
	for stop := 1; ; stop++ {
		s.plain.Wipe()
		s.reopen()
		s.disk.stopBefore(stop)
		acked, deleted := map[string]bool{}, map[string]bool{}
		var keys []string
		for i := range 8 {
			key := fmt.Sprintf("log/1/worker-0/%08d.seg", i)
			keys = append(keys, key)
			acked[key] = s.put(key, 2000) == nil
			if i%3 == 2 {
				gone := keys[i-2]
				deleted[gone] = s.storage.Delete(s.ctx, []string{gone})[0].Err == nil
				acked[gone] = false
			}
		}
		stopped := s.disk.stopped()
		_ = s.storage.Close(s.ctx) // on a disk that has stopped
		s.plain.Crash()
		s.reopen()
		for _, key := range keys {
			_, err := s.storage.Stat(s.ctx, key)
			switch {
			case deleted[key]:
				s.lacks(key)
			case acked[key], err == nil:
				s.has(key, 2000)
			}
		}
		s.ok(s.put("log/2/worker-0/00000000.seg", 100))
		s.ok(s.storage.Close(s.ctx))
		if !stopped {
			break
		}
	}
	s.reopen()
}

// failedSync: nobody is told that a segment is durable, later ones are, and the doubtful one can be deleted for good.
func failedSync(s *storageHarness) {
	s.ok(s.put("log/1/worker-0/a", 1000))
	s.disk.failSync = true
	s.is(s.put("log/1/worker-0/b", 1000), store.ErrAmbiguous)
	s.is(s.put("log/1/worker-0/c", 1000), store.ErrAmbiguous)
	s.want(s.storage.Delete(s.ctx, []string{"log/1/worker-0/a"})[0].Err != nil, "a delete that is not durable succeeds")
	s.disk.failSync = false
	s.lacks("log/1/worker-0/b")
	s.ok(s.put("log/1/worker-0/d", 1000))
	s.ok(s.put("log/1/worker-0/c", 1000))
	s.del("log/1/worker-0/a", "log/1/worker-0/b")
	s.ok(s.storage.Close(s.ctx))
	s.plain.Crash()
	s.reopen()
	s.has("log/1/worker-0/d", 1000)
	s.has("log/1/worker-0/c", 1000)
	s.lacks("log/1/worker-0/a")
	s.lacks("log/1/worker-0/b")
}

// cutWrite: a disk that is full leaves nothing that looks like a segment, and harms nothing.
func cutWrite(s *storageHarness) {
	s.ok(s.put("log/1/worker-0/a", 1000))
	s.disk.cutWrite = true
	for range 5 {
		s.is(s.put("log/1/worker-0/b", 1000), store.ErrUnavailable)
	}
	s.disk.cutWrite = false
	s.ok(s.put("log/1/worker-0/c", 1000))
	s.lacks("log/1/worker-0/b")
	s.ok(s.put("log/1/worker-0/b", 1000))
	s.ok(s.storage.Close(s.ctx))
	s.reopen()
	for _, key := range []string{"a", "b", "c"} {
		s.has("log/1/worker-0/"+key, 1000)
	}
}

// shortRead is reported, and passes.
func shortRead(s *storageHarness) {
	s.ok(s.put("log/1/worker-0/a", 1000))
	s.disk.shortRead = true
	_, err := s.storage.GetRange(s.ctx, "log/1/worker-0/a", 10, 100)
	s.is(err, store.ErrCorrupt)
	s.disk.shortRead = false
	s.has("log/1/worker-0/a", 1000)
}
