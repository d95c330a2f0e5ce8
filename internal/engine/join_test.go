package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/world"
)

// The join of these tests: records go to it by key, even and odd ones over different nodes, and one of eight of partition 0 is also a
// rule that every subtask gets. A record is buffered until the watermark has passed it and then leaves with the number of the key's
// records and the newest rule that is not after it. Behind the join results are held until the next 70 ms are full.
func joinJob(src *numbers, edit func(*graph.Job)) *graph.Job {
	pick := func(want func(r *graph.Record) bool) func() graph.Operator {
		return func() graph.Operator { return &picker{want: want} }
	}
	j := &graph.Job{
		Nodes: []graph.Node{
			{ID: "numbers", Source: src, Cost: 100},
			{ID: "even", Operator: pick(func(r *graph.Record) bool { return r.Index%2 == 0 }), Cost: 50},
			{ID: "odd", Operator: pick(func(r *graph.Record) bool { return r.Index%2 == 1 }), Cost: 50},
			{ID: "rules", Operator: pick(isRule), Cost: 50},
			{ID: "join", Operator: func() graph.Operator { return &joiner{} }, Keyed: true, Cost: 500},
			{ID: "hold", Operator: func() graph.Operator { return &holder{} }, Keyed: true, Cost: 200},
			{ID: "out", Sink: true, Cost: 50},
		},
		Edges: []graph.Edge{
			{From: "numbers", To: "even", Exchange: graph.Forward}, {From: "numbers", To: "odd", Exchange: graph.Hash},
			{From: "numbers", To: "rules", Exchange: graph.Forward}, {From: "even", To: "join", Exchange: graph.Hash},
			{From: "odd", To: "join", Exchange: graph.Hash}, {From: "rules", To: "join", Exchange: graph.Broadcast, Input: graph.Second},
			{From: "join", To: "hold", Exchange: graph.Hash}, {From: "hold", To: "out", Exchange: graph.Forward},
		},
	}
	if edit != nil {
		edit(j)
	}
	return j
}

func isRule(r *graph.Record) bool { return r.Partition == 0 && r.Index%8 == 0 }

// newJoinSite is a site whose job is that, and whose output is checked against it.
func newJoinSite(t testing.TB, w world.World, change ...func(*Config)) *site {
	src := &numbers{parts: 3, keys: 200, total: 1200, value: 8, gap: time.Millisecond}
	s := newSite(t, w, append([]func(*Config){func(c *Config) { c.Job = joinJob(src, nil) }}, change...)...)
	s.src = src
	s.value = func(_ int, i, seen int64) []byte { return appendResult(nil, seen, i/8*8) }
	return s
}

func appendResult(dst []byte, seen, rule int64) []byte {
	return backend.AppendInt64(backend.AppendInt64(dst, seen), rule)
}

// picker passes some records on. Not keyed.
type picker struct{ want func(*graph.Record) bool }

func (p *picker) Open(context.Context, graph.OperatorContext) error { return nil }

func (p *picker) Process(_ context.Context, r *graph.Record, out graph.Collector) error {
	if !p.want(r) {
		return nil
	}
	return out.Collect(r)
}

func (p *picker) OnTimer(context.Context, int64, []byte, graph.Collector) error { return nil }

// joiner is the two-input operator. Its broadcast state is the list of rules, in order.
type joiner struct {
	o       graph.OperatorContext
	seen    *backend.ValueState[int64]
	waiting *backend.MapState[int64, int64] // event time -> partition
	rules   []int64
	out     graph.Record
}

var (
	_ graph.TwoInput = (*joiner)(nil)
	_ graph.Stateful = (*joiner)(nil)
)

func (j *joiner) Open(_ context.Context, o graph.OperatorContext) (err error) {
	j.o = o
	if j.seen, err = backend.NewValue(o.State(), "seen", backend.Int64{}); err == nil {
		j.waiting, err = backend.NewMap(o.State(), "waiting", backend.Int64{}, backend.Int64{})
	}
	return err
}

func (j *joiner) Process(_ context.Context, r *graph.Record, _ graph.Collector) error {
	if err := j.waiting.Put(r.EventTime, int64(r.Partition)); err != nil {
		return err
	}
	return j.o.RegisterTimer(r.EventTime + 1)
}

func (j *joiner) ProcessSecond(_ context.Context, r *graph.Record, _ graph.Collector) error {
	if _, _, err := j.seen.Get(); err == nil {
		return fmt.Errorf("a broadcast record has a key")
	}
	if err := j.o.RegisterTimer(1 << 60); err == nil {
		return fmt.Errorf("a broadcast record gets a timer")
	}
	at, there := slices.BinarySearch(j.rules, r.EventTime)
	if there {
		return fmt.Errorf("rule %d came twice", r.EventTime)
	}
	j.rules = slices.Insert(j.rules, at, r.EventTime)
	return nil
}

func (j *joiner) OnTimer(_ context.Context, at int64, key []byte, out graph.Collector) error {
	p, ok, err := j.waiting.Get(at - 1)
	if err == nil && !ok {
		err = fmt.Errorf("nothing waits for %d", at)
	}
	if err == nil {
		err = j.waiting.Remove(at - 1)
	}
	if err != nil {
		return err
	}
	n, _, err := j.seen.Get()
	if err == nil {
		err = j.seen.Set(n + 1)
	}
	if err != nil {
		return err
	}
	rule := int64(-1)
	if i, there := slices.BinarySearch(j.rules, at-1); there {
		rule = j.rules[i]
	} else if i > 0 {
		rule = j.rules[i-1]
	}
	j.out.Key, j.out.Hash = key, keygroup.HashInt64(int64(binary.BigEndian.Uint64(key)))
	j.out.Value = appendResult(j.out.Value[:0], n+1, rule)
	j.out.Partition, j.out.Index, j.out.EventTime = int32(p), at-1, at-1
	return out.Collect(&j.out)
}

func (j *joiner) SnapshotOperatorState(context.Context) ([][]byte, error) {
	// What no record can need any more goes, so that the copies depend on the watermark alone.
	if i, _ := slices.BinarySearch(j.rules, j.o.Watermark()); i > 1 {
		j.rules = slices.Delete(j.rules, 0, i-1)
	}
	var b []byte
	for _, r := range j.rules {
		b = backend.AppendInt64(b, r)
	}
	return [][]byte{b}, nil
}

func (j *joiner) RestoreOperatorState(_ context.Context, parts [][]byte) error {
	for _, b := range parts {
		for ; len(b) > 0; b = b[8:] {
			j.rules = append(j.rules, int64(binary.BigEndian.Uint64(b)))
		}
	}
	return nil
}

func (j *joiner) Redistribution() graph.Redistribution { return graph.Whole }

// holder holds results until a time of the world.
type holder struct {
	o    graph.OperatorContext
	held *backend.ListState[[]byte]
	out  graph.Record
}

var _ graph.ProcessingTimed = (*holder)(nil)

func (h *holder) Open(_ context.Context, o graph.OperatorContext) (err error) {
	h.o = o
	h.held, err = backend.NewList(o.State(), "held", backend.Bytes{})
	return err
}

const holdFor = 70 * time.Millisecond

func (h *holder) Process(_ context.Context, r *graph.Record, _ graph.Collector) error {
	b := backend.AppendInt64(backend.AppendInt64(nil, int64(r.Partition)), r.Index)
	if err := h.held.Add(append(b, r.Value...)); err != nil {
		return err
	}
	// A second one, later, is taken back when the first fires.
	at := (h.o.ProcessingTime()/holdFor + 1) * holdFor
	if err := h.o.RegisterProcessingTimer(at + 1); err != nil {
		return err
	}
	return h.o.RegisterProcessingTimer(at)
}

func (h *holder) OnTimer(context.Context, int64, []byte, graph.Collector) error { return nil }

func (h *holder) OnProcessingTimer(_ context.Context, at time.Duration, key []byte, out graph.Collector) error {
	if at%holdFor != 0 || h.o.ProcessingTime() < at {
		return fmt.Errorf("timer of %v fired at %v", at, h.o.ProcessingTime())
	}
	if err := h.o.DeleteProcessingTimer(at + 1); err != nil {
		return err
	}
	h.out.Key, h.out.Hash = append(h.out.Key[:0], key...), keygroup.HashInt64(int64(binary.BigEndian.Uint64(key)))
	var bad error
	err := h.held.Get(func(b []byte) bool {
		h.out.Partition, h.out.Index = int32(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))
		h.out.Value = append(h.out.Value[:0], b[16:]...)
		bad = out.Collect(&h.out)
		return bad == nil
	})
	if err != nil || bad != nil {
		return fmt.Errorf("%w, %w", err, bad)
	}
	return h.held.Clear()
}

// disturb kills a worker, changes the parallelism up and down, and makes a subtask fail.
func disturb(ctx context.Context, s *site) {
	s.t.Helper()
	pause := func() {
		if err := s.w.Sleep(ctx, 150*time.Millisecond); err != nil {
			s.t.Fatal(err)
		}
	}
	must := func(err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
		pause()
	}
	s.running(ctx)
	pause()
	must(s.e.Rescale(ctx, 3, "latest"))
	must(s.e.KillWorker(ctx, "worker-1", true))
	must(s.e.ReviveWorker(ctx, "worker-1"))
	s.running(ctx)
	must(s.e.Rescale(ctx, 1, RescalePrevious))
	must(s.e.FailTask(ctx, "join-0", "planned"))
	s.running(ctx)
	must(s.e.Rescale(ctx, 5, "latest"))
}

// TestJoinSurvivesEverything: two inputs, broadcast state and both kinds of timers, through kills and rescales, in any schedule.
func TestJoinSurvivesEverything(t *testing.T) {
	for name, change := range map[string]func(*Config){"heap": func(*Config) {}, "changelog": withChangelog} {
		t.Run(name, func(t *testing.T) {
			simulateSeeds(t, 6, func(ctx context.Context, w world.World, t testing.TB) {
				s := newJoinSite(t, w, change)
				s.submit(ctx)
				disturb(ctx, s)
				s.finish(ctx)
				if n := len(s.kinds(history.AttemptFailed)); n < 5 {
					t.Errorf("%d attempts ended early", n)
				}
			})
		})
	}
}

// TestJoinInTheRealWorld runs it with threads.
func TestJoinInTheRealWorld(t *testing.T) {
	w := world.NewReal(1)
	err := w.Run(func(ctx context.Context) error {
		s := newJoinSite(t, w, withChangelog)
		s.submit(ctx)
		s.running(ctx)
		if err := s.e.Rescale(ctx, 4, "latest"); err != nil {
			t.Error(err)
		}
		if err := s.e.FailTask(ctx, "rules-0", "planned"); err != nil {
			t.Error(err)
		}
		s.finish(ctx)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestJoinIsDeterministic: the same seed gives the same run, timers of processing time included.
func TestJoinIsDeterministic(t *testing.T) {
	digest := func() uint64 {
		w := world.NewSim(world.SimOptions{Seed: 11})
		if err := w.Run(func(ctx context.Context) error {
			s := newJoinSite(t, w)
			s.submit(ctx)
			disturb(ctx, s)
			s.finish(ctx)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return w.(*world.Sim).Digest()
	}
	if a, b := digest(), digest(); a != b {
		t.Errorf("digests %x and %x", a, b)
	}
}

// TestEveryCopyOfBroadcastStateIsTheSame: at each checkpoint, and one that is not makes the job fail when it is restored.
func TestEveryCopyOfBroadcastStateIsTheSame(t *testing.T) {
	simulate(t, 2, func(ctx context.Context, w world.World) {
		s := newJoinSite(t, w, func(c *Config) { c.Settings.Parallelism = 4 })
		looked := 0
		s.on(history.CheckpointCompleted, 3, func(_ context.Context, _ *history.Event) { looked = 1 })
		s.submit(ctx)
		s.until(ctx, "a checkpoint", func() bool { return looked > 0 })
		done := s.e.mu.coordinator.checkpoints.completed.Newest().Metadata
		var first [][]byte
		for i := range done.Subtasks {
			if st := &done.Subtasks[i]; st.Operator == "join" {
				if first == nil {
					first = st.Parts
				}
				if looked++; len(st.Parts) != 1 || len(st.Parts[0]) == 0 || !slices.EqualFunc(first, st.Parts, bytes.Equal) {
					t.Errorf("%s-%d has %x, the first %x", st.Operator, st.Index, st.Parts, first)
				}
			}
		}
		if looked != 5 {
			t.Errorf("%d copies", looked-1)
		}
		shares := &shares{c: s.e.mu.coordinator, from: &checkpoint.Metadata{ID: 9, Parallelism: 2},
			own: map[place][][]byte{{"join", 0}: {{1}}, {"join", 1}: {{2}}}}
		if err := shares.alike(); err == nil || !strings.Contains(err.Error(), "join-1 is not that of join-0") {
			t.Errorf("different copies: %v", err)
		}
		s.finish(ctx)
	})
}

// TestOverdueProcessingTimersFireAfterRestore: a worker is down for longer than anything is held.
func TestOverdueProcessingTimersFireAfterRestore(t *testing.T) {
	simulateSeeds(t, 3, func(ctx context.Context, w world.World, t testing.TB) {
		s := newJoinSite(t, w, withChangelog, func(c *Config) { c.Settings.RestartDelay = plan.Duration(500 * time.Millisecond) })
		s.src.total = 300 // the input is read, the results are held
		fails := false
		s.on(history.CheckpointCompleted, 2, func(ctx context.Context, _ *history.Event) {
			fails = true
			if err := s.e.FailTask(ctx, "hold-0", "planned"); err != nil {
				t.Error(err)
			}
		})
		s.submit(ctx)
		s.until(ctx, "the failure", func() bool { return fails && s.e.Status().Attempt == 2 })
		s.finish(ctx)
	})
}

// TestNothingIsHeldBackWhenTheInputHasEnded: the last checkpoint comes after the timers, however long they take.
func TestNothingIsHeldBackWhenTheInputHasEnded(t *testing.T) {
	simulate(t, 5, func(ctx context.Context, w world.World) {
		s := newJoinSite(t, w, func(c *Config) { c.Settings.Checkpoint.Interval = 0 })
		s.src.total = 64
		s.submit(ctx)
		s.finish(ctx)
		if n := len(s.kinds(history.CheckpointCompleted)); n < 2 || n > 4 {
			t.Errorf("it took %d checkpoints", n)
		}
	})
}

// TestChainsEndAtInputsAndBroadcasts: only the forward edge that is the one way out and the one way in is a call.
func TestChainsEndAtInputsAndBroadcasts(t *testing.T) {
	src := &numbers{parts: 3, keys: 8, total: 8}
	if got := fmt.Sprint(chains(joinJob(src, nil))); got != "map[hold:out]" {
		t.Errorf("chained: %s", got)
	}
	alone := joinJob(src, func(j *graph.Job) {
		j.Nodes = []graph.Node{j.Nodes[0], j.Nodes[1], j.Nodes[2], j.Nodes[6]}
		j.Edges = []graph.Edge{{From: "numbers", To: "even", Exchange: graph.Forward}, {From: "even", To: "odd", Exchange: graph.Broadcast},
			{From: "odd", To: "out", Exchange: graph.Forward}}
	})
	if got := fmt.Sprint(chains(alone)); got != "map[numbers:even odd:out]" {
		t.Errorf("chained: %s", got)
	}
}

// TestBroadcastReachesEverySubtask: each of five counts every record, and the watermark of a consumer waits for both of its inputs.
func TestBroadcastReachesEverySubtask(t *testing.T) {
	simulate(t, 3, func(ctx context.Context, w world.World) {
		s := newJoinSite(t, w, func(c *Config) { c.Settings.Parallelism = 5 })
		s.submit(ctx)
		s.until(ctx, "the end of the input", func() bool { return s.e.Progress().Finished() })
		rules := (s.src.total + 7) / 8
		// The join gets all even and odd records once and the rules five times.
		want := 3*s.src.total + 5*rules
		count := func() (n int64) {
			for _, m := range s.e.Metrics().Subtasks {
				if m.Operator == "join" {
					n += m.In
				}
			}
			return n
		}
		s.until(ctx, "all of it", func() bool { return count() >= want })
		if n := count(); n != want {
			t.Errorf("the join took %d records, want %d", n, want)
		}
		s.finish(ctx)
	})
}
