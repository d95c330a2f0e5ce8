package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/heap"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/canon"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/sinks"
	"statebench.dev/bench/internal/world"
)

// site is a whole job with real workers on a store in memory whose requests take a while.
type site struct {
	t   testing.TB
	w   world.World
	cfg Config
	e   *Engine
	mem *store.Mem
	inj *store.Injector
	src *numbers
	// value is what the output carries of record i of partition p, whose key has been seen that often; nil: that number.
	value func(p int, i, seen int64) []byte

	mu     sync.Mutex
	events []history.Event
	refs   []checkpoint.RefsChange
	watch  []func(ctx context.Context, e *history.Event)
}

const storeDelay = 5 * time.Millisecond

func newSite(t testing.TB, w world.World, change ...func(*Config)) *site {
	s := &site{t: t, w: w, mem: store.NewMem(), inj: store.NewInjector(w), src: &numbers{parts: 3, keys: 200, total: 3000, value: 8, gap: time.Millisecond}}
	slow := store.WithHooks(store.WithFaults(s.mem, s.inj, w), store.Hooks{Begin: func(ctx context.Context, _ store.Call) { _ = w.Sleep(ctx, storeDelay) }})
	s.cfg = Config{
		World: w, Job: countJob(s.src, func() graph.Operator { return &counter{} }),
		Settings: plan.Job{Parallelism: 2, MaxParallelism: 32, BufferRecords: 64, Credits: 4, FlushEvery: plan.Duration(5 * time.Millisecond),
			RestartDelay: plan.Duration(50 * time.Millisecond),
			Checkpoint:   plan.Checkpoint{Interval: plan.Duration(200 * time.Millisecond), Timeout: plan.Duration(10 * time.Second), Retain: 2, MaxConcurrent: 1}},
		Workers: plan.Workers{Count: 3, Slots: 2, Cores: 2, HeartbeatEvery: plan.Duration(100 * time.Millisecond), HeartbeatTimeout: plan.Duration(time.Second)},
		Total:   math.MaxInt64, Backend: heap.New(heap.Options{}), Failpoints: failpoint.New(),
		Bucket: store.WithRetry(slow, store.DefaultRetryPolicy(), w),
		OnCompleted: func(c checkpoint.RefsChange) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.refs = append(s.refs, c)
		},
	}
	s.cfg.Record = s.record
	for _, f := range change {
		f(&s.cfg)
	}
	s.cfg.Collect = sinks.NewCollect(sinks.Options{World: w, Partitions: s.src.parts, MaxParallelism: 32, RecordIDs: true, Record: s.cfg.Record})
	var err error
	if s.e, err = New(s.cfg); err != nil {
		t.Fatal(err)
	}
	return s
}

func withChangelog(c *Config) {
	c.Backend = changelog.New(changelog.Options{Nested: heap.New(heap.Options{}), NestedName: "heap", Materialize: 300 * time.Millisecond, Preemptive: 4 << 10,
		BatchDelay: 2 * time.Millisecond, BatchSize: 1 << 16, InFlight: 1 << 20})
}

func (s *site) record(ctx context.Context, e history.Event) {
	e.At = s.w.Now()
	s.mu.Lock()
	e.N = int64(len(s.events) + 1)
	s.events = append(s.events, e)
	watch := slices.Clone(s.watch)
	s.mu.Unlock()
	for _, f := range watch {
		f(ctx, &e)
	}
	world.CheckAlive(ctx)
}

// on calls f for the n-th event of a kind that matches, in the process that emits it.
func (s *site) on(kind history.Kind, n int, f func(ctx context.Context, e *history.Event)) {
	s.watch = append(s.watch, func(ctx context.Context, e *history.Event) {
		if e.Kind != kind {
			return
		}
		s.mu.Lock()
		n--
		hit := n == 0
		s.mu.Unlock()
		if hit {
			f(ctx, e)
		}
	})
}

func (s *site) kinds(k history.Kind) (found []history.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.Kind == k {
			found = append(found, e)
		}
	}
	return found
}

func (s *site) submit(ctx context.Context) {
	s.t.Helper()
	if err := s.e.Submit(ctx); err != nil {
		s.t.Fatal(err)
	}
}

// until waits for ok, at most a minute.
func (s *site) until(ctx context.Context, what string, ok func() bool) {
	s.t.Helper()
	for end := s.w.Now() + time.Minute; !ok(); {
		if s.w.Now() > end {
			s.t.Fatalf("%s did not come about; status %+v\n%s", what, s.e.Status(), s.tail(40))
		}
		if err := s.w.Sleep(ctx, 5*time.Millisecond); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *site) tail(n int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, e := range s.events[max(0, len(s.events)-n):] {
		fmt.Fprintf(&b, "%v %s %s attempt %d checkpoint %d %s %s %s\n", e.At, e.Kind, e.Actor, e.Attempt, e.Checkpoint, e.Reason, e.Text, e.Error)
	}
	return b.String()
}

func (s *site) running(ctx context.Context) {
	s.t.Helper()
	s.until(ctx, "running", func() bool { return s.e.Status().State == "running" })
}

// finish lets the sources read to their end, takes a last checkpoint, stops, and checks everything that must hold.
func (s *site) finish(ctx context.Context) {
	s.t.Helper()
	s.until(ctx, "the end of the input", func() bool { return s.e.Progress().Finished() && s.e.Status().State == "running" })
	if err := s.e.StopSources(ctx); err != nil {
		s.t.Fatal(err)
	}
	for {
		_, err := s.e.Checkpoint(ctx)
		if err == nil {
			break
		}
		s.running(ctx)
	}
	if err := s.e.CleanUp(ctx); err != nil {
		s.t.Errorf("clean-up: %v", err)
	}
	s.stop(ctx)
	s.checkOutput()
	s.checkStore(ctx)
}

func (s *site) stop(ctx context.Context) {
	s.t.Helper()
	if err := s.e.Stop(ctx); err != nil {
		s.t.Fatalf("stop: %v", err)
	}
	s.checkHistory()
}

func (s *site) checkOutput() {
	s.t.Helper()
	for _, what := range s.wrongOutput() {
		s.t.Errorf("%s\n%s", what, s.tail(60))
	}
}

// wrongOutput lists how the committed output differs from what must be there.
func (s *site) wrongOutput() (wrong []string) {
	want := map[[2]int]canon.Digest{}
	for p := range s.src.parts {
		seen := map[int64]int64{}
		for i := range s.src.total {
			k := s.src.key(p, i)
			seen[k]++
			at := [2]int{p, int(keygroup.Of(keygroup.HashInt64(k), 32))}
			d := want[at]
			value := backend.AppendInt64(nil, seen[k])
			if s.value != nil {
				value = s.value(p, i, seen[k])
			}
			d.Add(canon.Output(nil, int32(p), i, 0, binary.BigEndian.AppendUint64(nil, uint64(k)), value))
			want[at] = d
		}
	}
	got := s.cfg.Collect.Result()
	if got.Records != int64(s.src.parts)*s.src.total || got.DuplicateCount != 0 || got.Pending != 0 {
		wrong = append(wrong, fmt.Sprintf("committed %d records, %d duplicates, %d pending; want %d", got.Records, got.DuplicateCount, got.Pending,
			int64(s.src.parts)*s.src.total))
	}
	for _, g := range got.Groups {
		if d := want[[2]int{g.Partition, int(g.Group)}]; d.String() != g.Digest {
			wrong = append(wrong, fmt.Sprintf("partition %d key group %d: wrong output", g.Partition, g.Group))
		}
	}
	return wrong
}

// checkHistory: each triggered id ends once and ids grow (C1, C2).
func (s *site) checkHistory() {
	s.t.Helper()
	ends, last := map[uint64]int{}, uint64(0)
	for _, e := range s.events {
		switch e.Kind {
		case history.CheckpointTriggered:
			if e.Checkpoint <= last {
				s.t.Errorf("checkpoint %d was triggered after %d", e.Checkpoint, last)
			}
			last = e.Checkpoint
			ends[last] = 0
		case history.CheckpointCompleted, history.CheckpointAborted:
			ends[e.Checkpoint]++
		}
	}
	for id, n := range ends {
		if n != 1 {
			s.t.Errorf("checkpoint %d ended %d times\n%s", id, n, s.tail(60))
		}
	}
}

// checkStore: what is left is exactly what the retained checkpoints name, all of it is intact, the log and the history agree about
// what completed, and so do the changes of references (C2, F1, F2, F3).
func (s *site) checkStore(ctx context.Context) {
	s.t.Helper()
	state := s.checkLeftovers(ctx)
	completed := s.kinds(history.CheckpointCompleted)
	if len(completed) == 0 || completed[len(completed)-1].Checkpoint != state.Newest || len(completed) != len(s.refs) {
		s.t.Errorf("history has %d completed checkpoints, refs %d, the newest in the log is %d", len(completed), len(s.refs), state.Newest)
	}
	s.checkRefs(ctx, state)
}

// checkLeftovers checks what is in the store against the log.
func (s *site) checkLeftovers(ctx context.Context) checkpoint.State {
	s.t.Helper()
	log, err := checkpoint.OpenLog(ctx, s.w, s.mem, "test")
	if err != nil {
		s.t.Fatal(err)
	}
	state := log.State()
	named := map[string]checkpoint.ObjectUse{}
	for _, r := range slices.Concat(state.Retained, state.Released, state.Savepoints) {
		done, err := checkpoint.Read(ctx, s.mem, r.Metadata)
		if err != nil {
			s.t.Fatal(err)
		}
		named[done.Object.Key] = done.Object
		for _, o := range done.Metadata.Objects() {
			named[o.Key] = o
		}
	}
	for _, prefix := range []string{checkpoint.LogPrefix, checkpoint.BasePrefix, checkpoint.MetadataPrefix, checkpoint.SavepointPrefix} {
		for a, err := range s.mem.List(ctx, prefix, "") {
			if err != nil {
				s.t.Fatal(err)
			}
			o, ok := named[a.Key]
			body, _ := s.mem.Get(ctx, a.Key)
			switch {
			case !ok:
				s.t.Errorf("orphan %s", a.Key)
			case o.Bytes != a.Size || o.CRC32C != store.CRC32C(body):
				s.t.Errorf("%s is not what the checkpoint names", a.Key)
			}
			delete(named, a.Key)
		}
	}
	for key := range named {
		s.t.Errorf("%s is missing", key)
	}
	if n := len(state.Retained); n > max(1, s.cfg.Settings.Checkpoint.Retain) {
		s.t.Errorf("%d checkpoints are retained", n)
	}
	return state
}

// checkRefs replays the changes of references: they add up to what the newest checkpoint names.
func (s *site) checkRefs(ctx context.Context, state checkpoint.State) {
	s.t.Helper()
	live := map[string]bool{}
	for _, c := range s.refs {
		for _, o := range c.Added {
			if live[o.Key] {
				s.t.Errorf("checkpoint %d adds %s again", c.Checkpoint, o.Key)
			}
			live[o.Key] = true
		}
		for _, key := range c.Dropped {
			if !live[key] {
				s.t.Errorf("checkpoint %d drops %s, which was not there", c.Checkpoint, key)
			}
			delete(live, key)
		}
	}
	newest, err := checkpoint.Read(ctx, s.mem, state.Retained[len(state.Retained)-1].Metadata)
	if err != nil {
		s.t.Fatal(err)
	}
	objects := newest.Metadata.Objects()
	for _, o := range objects {
		if !live[o.Key] {
			s.t.Errorf("changes of references miss %s", o.Key)
		}
	}
	if len(objects) != len(live) {
		s.t.Errorf("changes of references give %d objects, the newest checkpoint names %d", len(live), len(objects))
	}
}

// simulateSeeds runs f in simulated worlds of several seeds.
func simulateSeeds(t *testing.T, seeds int, f func(ctx context.Context, w world.World, t testing.TB)) {
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) {
			simulate(t, seed, func(ctx context.Context, w world.World) { f(ctx, w, t) })
		})
	}
}

var errPlanned = errors.New("planned by the test")
