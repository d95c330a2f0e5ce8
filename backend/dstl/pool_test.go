package dstl_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
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

// shared is a job of four subtasks with 16 key groups each, whose logs lie in objects that they share, and the requests that
// restoring it makes.
type shared struct {
	t       *testing.T
	ctx     context.Context
	w       world.World
	bucket  store.Bucket
	inj     *store.Injector
	rows    []history.Request
	attempt uint64
	handles []backend.StateHandle
	want    map[string]string // by group and key
}

const subtasks, sharedGroups = 4, 64

// withShared runs f in a simulated world, on a job whose subtasks each logged n values of size bytes before each of three
// checkpoints.
func withShared(t *testing.T, n, size int, f func(s *shared)) {
	t.Helper()
	w := world.NewSim(world.SimOptions{Seed: 1})
	s := &shared{t: t, w: w, inj: store.NewInjector(w), want: map[string]string{}, attempt: 1}
	s.bucket = store.WithTrace(store.WithFaults(store.NewMem(), s.inj, w), func(r history.Request) { s.rows = append(s.rows, r) }, w)
	if err := w.Run(func(ctx context.Context) error {
		s.ctx = ctx
		s.write(n, size)
		f(s)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func (s *shared) ok(err error) {
	if err != nil {
		panic(err)
	}
}

func (s *shared) write(n, size int) {
	k := backendtest.NewWorker(s.ctx, s.w, s.bucket, "worker-0", s.attempt)
	log, err := dstl.New(k.Env, dstl.Options{PreemptiveOff: true, BatchDelay: time.Second, BatchSize: 1 << 30})
	s.ok(err)
	rng := rand.New(rand.NewPCG(1, 2))
	var ws []dstl.Writer
	for i := range subtasks {
		r := keygroup.RangeOf(i, subtasks, sharedGroups)
		w, err := log.Writer(dstl.WriterOptions{Subtask: fmt.Sprintf("count-%d", i), Range: r})
		s.ok(err)
		w.Define(dstl.State{ID: 1, Spec: backend.StateSpec{Name: "count", Type: backend.Value, Access: backend.Point}})
		ws = append(ws, w)
		s.handles = append(s.handles, backend.StateHandle{Operator: "count", Range: r})
	}
	for id := uint64(1); id <= 3; id++ {
		done := world.NewGroup(s.w)
		for i, w := range ws {
			r := s.handles[i].Range
			for j := range n {
				a := backend.Addr{State: 1, Group: r.From + keygroup.ID(j%r.Len()), Key: fmt.Append(nil, j%(n-n/4), "-", id)}
				value := make([]byte, size)
				for b := range value {
					value[b] = byte(rng.IntN(256))
				}
				s.ok(w.Append(dstl.OpPut, a, 0, value))
				s.want[fmt.Sprintf("%d/%s", a.Group, a.Key)] = string(value)
			}
			_, err := w.Cut(0, id)
			s.ok(err)
		}
		for i, w := range ws {
			done.Go(k.Ctx, "persist", func(ctx context.Context) error {
				p, err := w.Persist(ctx, 0, id)
				s.handles[i].Delta = p.Refs
				return err
			})
		}
		s.ok(done.Wait(s.ctx))
		for _, w := range ws {
			s.ok(w.Confirm(s.ctx, id, id-1))
		}
	}
	for _, w := range ws {
		s.ok(w.Close())
	}
	s.ok(log.Close(s.ctx))
	s.ok(k.Stop(s.ctx))
	s.rows = nil
}

// collect is a visitor that remembers what it saw last.
type collect struct {
	got    map[string]string
	before func() error
}

func (c *collect) States([]dstl.State) error { return nil }

func (c *collect) Apply(x *dstl.Change) error {
	c.got[fmt.Sprintf("%d/%s", x.Group, x.Key)] = string(x.Value)
	if c.before != nil {
		return c.before()
	}
	return nil
}

// restored is what one subtask read.
type restored struct {
	collect
	stats dstl.ReadStats
	err   error
}

// restore reads the subtasks of parallelism p that are called here, all on one worker.
func (s *shared) restore(p int, here ...int) []*restored {
	s.attempt++
	k := backendtest.NewWorker(s.ctx, s.w, s.bucket, "worker-0", s.attempt)
	for _, i := range here {
		k.Env.Restores = append(k.Env.Restores, backend.Restore{Range: keygroup.RangeOf(i, p, sharedGroups), Handles: s.handles, Written: 1})
	}
	log, err := dstl.New(k.Env, dstl.Options{})
	s.ok(err)
	s.rows = nil
	all := make([]*restored, len(here))
	group := world.NewGroup(s.w)
	for n, i := range here {
		out := &restored{collect: collect{got: map[string]string{}}}
		all[n] = out
		group.Go(k.Ctx, fmt.Sprint("restore-", i), func(ctx context.Context) error {
			r := keygroup.RangeOf(i, p, sharedGroups)
			var refs []backend.ObjectRef
			for _, h := range s.handles {
				if h, ok := h.Narrow(r); ok {
					refs = append(refs, h.Delta...)
				}
			}
			out.stats, out.err = log.Read(ctx, refs, r, &out.collect)
			return nil
		})
	}
	s.ok(group.Wait(s.ctx))
	if held := dstl.Held(log); held != 0 {
		s.t.Errorf("%d bytes are held after the last reader", held)
	}
	s.ok(log.Close(s.ctx))
	s.ok(k.Stop(s.ctx))
	return all
}

// exact fails the test unless the subtasks read all of their state.
func (s *shared) exact(p int, here []int, all []*restored) {
	s.t.Helper()
	for n, i := range here {
		r, want := keygroup.RangeOf(i, p, sharedGroups), map[string]string{}
		for k, v := range s.want {
			var g int
			_, err := fmt.Sscanf(k, "%d/", &g)
			s.ok(err)
			if r.Contains(keygroup.ID(g)) {
				want[k] = v
			}
		}
		if all[n].err != nil || len(want) == 0 || !maps.Equal(all[n].got, want) {
			s.t.Errorf("subtask %d of %d read %d elements of %d: %v", i, p, len(all[n].got), len(want), all[n].err)
		}
	}
}

// gets counts requests and bytes by object.
func (s *shared) gets() (count map[string]int, bytes int64) {
	count = map[string]int{}
	for _, r := range s.rows {
		if r.Op == history.OpGet && r.Error == "" {
			if !strings.HasPrefix(r.Key, "log/") || r.Cause != "restore" {
				s.t.Errorf("get of %s for %q", r.Key, r.Cause)
			}
			count[r.Key]++
			bytes += r.Bytes
		}
	}
	return count, bytes
}

// needed is the bytes of the parts of the given handles.
func (s *shared) needed(of ...int) (n int64) {
	for _, i := range of {
		n += s.handles[i].DeltaBytes()
	}
	return n
}

// TestB12SharedObjectIsReadOnce: four subtasks of one worker need parts of the same objects, small and large, and each object is one
// request; what the subtasks report as read is what was.
func TestB12SharedObjectIsReadOnce(t *testing.T) {
	for _, size := range []int{20, 2000} {
		withShared(t, 400, size, func(s *shared) {
			here := []int{0, 1, 2, 3}
			all := s.restore(4, here...)
			s.exact(4, here, all)
			count, bytes := s.gets()
			if len(count) != 3 {
				t.Fatalf("objects read: %v, want 3", count)
			}
			for key, n := range count {
				if n != 1 {
					t.Errorf("%d requests for %s", n, key)
				}
			}
			if n := s.needed(0, 1, 2, 3); bytes < n || 10*bytes > 11*n {
				t.Errorf("%d bytes read, %d needed", bytes, n)
			}
			var reported int64
			for _, r := range all {
				reported += r.stats.Bytes
			}
			if reported != bytes {
				t.Errorf("%d bytes reported, %d read", reported, bytes)
			}
		})
	}
}

// TestSharedReadsStayRanges: of objects that hold mostly other workers' key groups no more is read than what is needed and a
// tenth of it, whichever subtasks a worker has, and at any parallelism.
func TestSharedReadsStayRanges(t *testing.T) {
	withShared(t, 400, 4000, func(s *shared) {
		for _, c := range []struct {
			p, most int // most: requests for an object
			here    []int
			needed  int64
		}{
			{4, 1, []int{1}, s.needed(1)},                 // one part
			{4, 2, []int{0, 3}, s.needed(0, 3)},           // the first and the last: two requests, not all
			{4, 2, []int{1, 2}, s.needed(1, 2)},           // two, which need not be neighbours
			{8, 2, []int{2, 3}, s.needed(1)},              // halves that make up a part are one whole
			{8, 2, []int{2}, s.needed(1) / 2},             // half: index and blocks
			{8, 4, []int{2, 5}, s.needed(1, 2) / 2},       // half of two parts
			{2, 2, []int{0}, s.needed(0, 1)},              // scale-in
			{16, 3, []int{4, 5}, s.needed(1) / 2},         // two quarters of a part
			{1, 1, []int{0}, s.needed(0, 1, 2, 3)},        // all by one
			{8, 2, []int{0, 1, 2, 3}, s.needed(0, 1)},     // two parts by four
			{8, 3, []int{1, 2, 3}, s.needed(0, 1, 1) / 2}, // one and a half
		} {
			all := s.restore(c.p, c.here...)
			s.exact(c.p, c.here, all)
			count, bytes := s.gets()
			for key, n := range count {
				if n > c.most {
					t.Errorf("subtasks %v of %d: %d requests for %s, want %d at most", c.here, c.p, n, key, c.most)
				}
			}
			if 10*bytes > 11*c.needed || c.needed == 0 {
				t.Errorf("subtasks %v of %d: %d bytes read, %d needed", c.here, c.p, bytes, c.needed)
			}
		}
	})
}

// TestB12DamagedSharedFetch: a shared fetch that is damaged or fails on the way is made again; one that is damaged for good is not kept, every
// reader reports it, and nothing is held afterwards.
func TestB12DamagedSharedFetch(t *testing.T) {
	withShared(t, 400, 200, func(s *shared) {
		here := []int{0, 1, 2, 3}
		heal := s.inj.Add(store.Rule{Ops: []string{"get"}, Flip: true, Request: 1})
		all := s.restore(4, here...)
		heal()
		s.exact(4, here, all)
		if count, _ := s.gets(); len(count) != 3 || maxOf(count) != 2 {
			t.Errorf("requests after one damaged answer: %v, want one repeated", count)
		}
		heal = s.inj.Add(store.Rule{Ops: []string{"get"}, Status: 500, Request: 1})
		all = s.restore(4, here...)
		heal()
		s.exact(4, here, all) // the bucket has no retries here: each reads its own part
		heal = s.inj.Add(store.Rule{Ops: []string{"get"}, Cut: true, Request: 1})
		all = s.restore(4, here...)
		heal()
		s.exact(4, here, all)
		key := s.handles[0].Delta[1].Key
		s.damage(key)
		for i, r := range s.restore(4, here...) {
			if !errors.Is(r.err, store.ErrCorrupt) || !strings.Contains(fmt.Sprint(r.err), key) {
				t.Errorf("subtask %d read a damaged object: %v", i, r.err)
			}
		}
	})
}

func maxOf(m map[string]int) (n int) {
	for _, v := range m { // order-free: a maximum
		n = max(n, v)
	}
	return n
}

// damage changes a byte of each part of an object.
func (s *shared) damage(key string) {
	body, err := s.bucket.Get(s.ctx, key)
	s.ok(err)
	for _, h := range s.handles {
		for _, r := range h.Delta {
			if r.Key == key {
				body[r.Offset+100] ^= 1
			}
		}
	}
	s.ok(s.bucket.Delete(s.ctx, []string{key})[0].Err)
	s.ok(s.bucket.Put(s.ctx, key, body, store.PutOptions{}))
}

// TestB12ReaderGivesUpEarly: a reader that fails takes nothing from the others, nor does one that reads, and lets go, twice; what the first
// never came to is not kept for it.
func TestB12ReaderGivesUpEarly(t *testing.T) {
	withShared(t, 400, 200, func(s *shared) {
		s.attempt++
		k := backendtest.NewWorker(s.ctx, s.w, s.bucket, "worker-0", s.attempt)
		for i := range 2 {
			k.Env.Restores = append(k.Env.Restores, backend.Restore{Range: s.handles[i].Range, Handles: s.handles, Written: 1})
		}
		log, err := dstl.New(k.Env, dstl.Options{Prefetch: 1})
		s.ok(err)
		stop := errors.New("stop")
		bad := &collect{got: map[string]string{}, before: func() error { return stop }}
		if _, err := log.Read(k.Ctx, s.handles[0].Delta, s.handles[0].Range, bad); !errors.Is(err, stop) {
			t.Errorf("error is %v", err)
		}
		again := &restored{collect: collect{got: map[string]string{}}}
		again.stats, again.err = log.Read(k.Ctx, s.handles[0].Delta, s.handles[0].Range, &again.collect)
		s.exact(4, []int{0}, []*restored{again})
		good := &restored{collect: collect{got: map[string]string{}}}
		good.stats, good.err = log.Read(k.Ctx, s.handles[1].Delta, s.handles[1].Range, &good.collect)
		s.exact(4, []int{1}, []*restored{good})
		if held := dstl.Held(log); held != 0 {
			t.Errorf("%d bytes are held after the last reader", held)
		}
		s.ok(log.Close(s.ctx))
		s.ok(k.Stop(s.ctx))
	})
}
