package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"statebench.dev/bench/backend"
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

// numbers is a source whose record i of partition p has the key p‖i%keys and is due every gap.
type numbers struct {
	parts int
	keys  int64
	total int64 // of a partition
	value int   // bytes
	gap   time.Duration
}

func (n *numbers) Partitions() int                    { return n.parts }
func (n *numbers) Limit(_ int, total int64) int64     { return min(n.total, total) }
func (n *numbers) Watermark(_ int, index int64) int64 { return index }

func (n *numbers) Due(_ int, index int64) time.Duration {
	if n.gap == 0 {
		return Unscheduled
	}
	return time.Duration(index) * n.gap
}

func (n *numbers) key(p int, index int64) int64 { return int64(p)<<32 | index*2654435761%n.keys }

func (n *numbers) Read(p int, index int64, r *graph.Record) (bool, error) {
	k := n.key(p, index)
	r.Key = binary.BigEndian.AppendUint64(r.Key[:0], uint64(k))
	r.Hash = keygroup.HashInt64(k)
	if cap(r.Value) < n.value {
		r.Value = make([]byte, n.value)
	}
	r.Value = r.Value[:n.value]
	r.EventTime, r.Partition, r.Index, r.Tag = index, int32(p), index, 0
	return true, nil
}

// counter emits, for each record, how often its key has been seen. With timers it emits that number at a time after the record instead.
type counter struct {
	o      graph.OperatorContext
	state  *backend.ValueState[int64]
	out    graph.Record
	after  int64 // 0: no timers
	panics int64 // index of the record at which it panics; 0: none
}

func (c *counter) Open(_ context.Context, o graph.OperatorContext) (err error) {
	c.o = o
	c.state, err = backend.NewValue(o.State(), "count", backend.Int64{})
	return err
}

func (c *counter) Process(_ context.Context, r *graph.Record, out graph.Collector) error {
	n, _, err := c.state.Get()
	if err != nil {
		return err
	}
	if c.panics != 0 && r.Index == c.panics {
		panic("user code")
	}
	n++
	if err := c.state.Set(n); err != nil {
		return err
	}
	if c.after > 0 {
		return c.o.RegisterTimer(r.EventTime + c.after)
	}
	c.out.Key, c.out.Hash = r.Key, r.Hash
	c.out.Value = backend.AppendInt64(c.out.Value[:0], n)
	c.out.Due, c.out.Partition, c.out.Index = r.Due, r.Partition, r.Index
	return out.Collect(&c.out)
}

func (c *counter) OnTimer(_ context.Context, at int64, key []byte, out graph.Collector) error {
	c.out.Key, c.out.Hash = key, keygroup.HashInt64(int64(binary.BigEndian.Uint64(key)))
	c.out.Value = backend.AppendInt64(c.out.Value[:0], at)
	c.out.Partition, c.out.Index = int32(binary.BigEndian.Uint32(key)), at-c.after
	return out.Collect(&c.out)
}

func countJob(src *numbers, make func() graph.Operator) *graph.Job {
	return &graph.Job{
		Nodes: []graph.Node{
			{ID: "numbers", Source: src, Cost: 100},
			{ID: "count", Operator: make, Keyed: true, Cost: 500},
			{ID: "out", Sink: true, Cost: 50},
		},
		Edges: []graph.Edge{{From: "numbers", To: "count", Exchange: graph.Hash}, {From: "count", To: "out", Exchange: graph.Forward}},
	}
}

// rig drives workers by hand-written messages, as their leader.
type rig struct {
	t       testing.TB
	w       world.World
	cfg     *Config
	tr      *Transport
	net     *Network
	lead    *Endpoint
	domains map[string]*world.Domain
	workers map[string]*worker
	lives   uint64
	p       int

	mu     sync.Mutex // in the real world events come from everywhere
	events []history.Event
	watch  func(ctx context.Context, e *history.Event)

	attempt uint64
	hosts   []string
	running int
	ended   map[string]bool
	failed  []SubtaskFailed
	acks    map[uint64][]Acknowledge
	decline map[uint64][]Decline
	up      map[string]uint64
	done    *checkpoint.Metadata // newest completed
	nextID  uint64
}

func newRig(t testing.TB, w world.World, src *numbers, op func() graph.Operator, parallelism int) *rig {
	r := &rig{t: t, w: w, domains: map[string]*world.Domain{}, workers: map[string]*worker{}, p: parallelism, ended: map[string]bool{},
		acks: map[uint64][]Acknowledge{}, decline: map[uint64][]Decline{}, up: map[string]uint64{}}
	const maxParallelism = 32
	r.cfg = &Config{
		World: w, Job: countJob(src, op),
		Settings: plan.Job{Parallelism: parallelism, MaxParallelism: maxParallelism, BufferRecords: 256, Credits: 8, FlushEvery: plan.Duration(5 * time.Millisecond)},
		Workers:  plan.Workers{Count: parallelism, Slots: 1, Cores: 1, HeartbeatEvery: plan.Duration(100 * time.Millisecond)},
		Total:    math.MaxInt64, Backend: heap.New(heap.Options{}), Bucket: store.NewMem(), Failpoints: failpoint.New(),
		Digests: true,
	}
	r.cfg.Record = func(ctx context.Context, e history.Event) {
		e.At = w.Now()
		r.mu.Lock()
		r.events = append(r.events, e)
		watch := r.watch
		r.mu.Unlock()
		if watch != nil {
			watch(ctx, &e)
		}
		world.CheckAlive(ctx)
	}
	r.cfg.Collect = sinks.NewCollect(sinks.Options{World: w, Partitions: src.parts, MaxParallelism: maxParallelism, RecordIDs: true, Record: r.cfg.Record})
	r.tr = NewTransport(w, r.cfg.Record, nil)
	r.net = newNetwork(r.cfg)
	r.lead = r.tr.Attach("coordinator-0", nil, 1)
	r.lead.Fence(1, 0)
	return r
}

// start brings up a worker, a new life of it if there was one.
func (r *rig) start(ctx context.Context, name string) {
	r.lives++
	life := r.lives
	d := r.w.NewDomain(fmt.Sprintf("%s-life-%d", name, life), world.DomainOptions{})
	r.domains[name] = d
	wk := newWorker(r.cfg, r.tr, r.net, name, life)
	r.workers[name] = wk
	r.w.Go(d.Enter(ctx), name, wk.run)
	r.until(ctx, func() bool { return r.up[name] == life })
}

// until handles messages until ok.
func (r *rig) until(ctx context.Context, ok func() bool) {
	for !ok() {
		m, err := r.lead.Take(ctx)
		if err != nil {
			r.t.Fatalf("leader: %v", err)
		}
		r.take(ctx, m)
	}
}

func (r *rig) take(ctx context.Context, m Message) {
	switch b := m.Body.(type) {
	case Register:
		r.up[b.Worker] = b.Life
		r.lead.Send(ctx, b.Worker, 0, Heartbeat{Sent: r.w.Now(), Life: b.Life})
	case SubtaskRunning:
		if m.Attempt == r.attempt {
			r.running++
		}
	case SubtaskFailed:
		r.failed = append(r.failed, b)
	case AttemptEnded:
		if m.Attempt == r.attempt {
			r.ended[b.Worker] = true
		}
	case Acknowledge:
		if m.Attempt == r.attempt {
			r.acks[b.Checkpoint] = append(r.acks[b.Checkpoint], b)
		}
	case Decline:
		r.decline[b.Checkpoint] = append(r.decline[b.Checkpoint], b)
	}
}

// deploy starts the next attempt at parallelism p on the workers, from the newest completed checkpoint.
func (r *rig) deploy(ctx context.Context, p int, hosts ...string) {
	r.attempt++
	r.p, r.hosts, r.running, r.ended, r.failed = p, hosts, 0, map[string]bool{}, nil
	var restored uint64
	var keep []string
	handles := map[string][]backend.StateHandle{}
	positions := map[int]int64{}
	operator := map[string][][]byte{}
	if r.done != nil {
		restored = r.done.ID
		for _, s := range r.done.Subtasks {
			keep = append(keep, s.Transactions...)
			operator[s.Operator] = append(operator[s.Operator], s.Parts...)
			if s.Keyed != nil {
				handles[s.Operator] = append(handles[s.Operator], *s.Keyed)
			}
			for _, at := range s.Positions {
				positions[at.Partition] = at.Next
			}
		}
	}
	if err := r.cfg.Collect.Restore(ctx, r.attempt, keep); err != nil {
		r.t.Fatal(err)
	}
	parts := r.net.progress.Positions()
	for h, host := range hosts {
		d := Deploy{Parallelism: p, Restored: restored, Digests: true}
		for i := h; i < p; i += len(hosts) {
			for _, n := range r.cfg.Job.Nodes {
				s := SubtaskDeployment{Operator: n.ID, Index: i}
				for _, x := range handles[n.ID] {
					if !x.Range.Intersect(keygroup.RangeOf(i, p, r.cfg.Settings.MaxParallelism)).Empty() {
						s.Handles = append(s.Handles, x)
					}
				}
				for j := i; j < len(operator[n.ID]); j += p {
					s.Parts = append(s.Parts, operator[n.ID][j])
				}
				if n.Source != nil {
					for j := i; j < len(parts); j += p {
						s.Positions = append(s.Positions, checkpoint.Position{Partition: j, Next: positions[j]})
					}
				}
				d.Subtasks = append(d.Subtasks, s)
			}
		}
		r.lead.Send(ctx, host, r.attempt, d)
	}
}

func (r *rig) all(ctx context.Context, body any) {
	for _, h := range r.hosts {
		r.lead.Send(ctx, h, r.attempt, body)
	}
}

// launch deploys and starts the sources once everything runs.
func (r *rig) launch(ctx context.Context, p int, hosts ...string) {
	r.deploy(ctx, p, hosts...)
	r.until(ctx, func() bool { return r.running == p*len(r.cfg.Job.Nodes) || len(r.failed) > 0 })
	r.all(ctx, StartSources{})
}

// trigger starts a checkpoint and returns its id.
func (r *rig) trigger(ctx context.Context) uint64 {
	r.nextID++
	r.all(ctx, TriggerCheckpoint{ID: r.nextID, At: r.w.Now()})
	return r.nextID
}

// complete waits for the acknowledgements of a checkpoint and completes it; false when the attempt failed instead.
func (r *rig) complete(ctx context.Context, id uint64) bool {
	need := r.p * len(r.cfg.Job.Nodes)
	r.until(ctx, func() bool { return len(r.acks[id]) == need || len(r.failed) > 0 || len(r.decline[id]) > 0 || r.lost() })
	if len(r.acks[id]) < need {
		return false
	}
	m := &checkpoint.Metadata{ID: id}
	for _, a := range r.acks[id] {
		m.Subtasks = append(m.Subtasks, a.State)
	}
	r.done = m
	r.all(ctx, CheckpointCompleted{ID: id, Subsumed: id - 1})
	return true
}

// lost tells whether a host has died.
func (r *rig) lost() bool {
	return slices.ContainsFunc(r.hosts, func(h string) bool { return r.domains[h].Dead() })
}

// cancel ends the attempt and waits for that.
func (r *rig) cancel(ctx context.Context) {
	r.all(ctx, CancelAttempt{})
	for _, h := range r.hosts {
		if d := r.domains[h]; d.Dead() {
			d.Kill()
			if err := d.Await(ctx); err != nil {
				r.t.Fatal(err)
			}
			r.ended[h] = true
		}
	}
	r.until(ctx, func() bool {
		return !slices.ContainsFunc(r.hosts, func(h string) bool { return !r.ended[h] })
	})
	r.net.Release(r.attempt)
}

// setWatch makes f see every event in the process that emits it.
func (r *rig) setWatch(f func(ctx context.Context, e *history.Event)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watch = f
}

// crashAt kills a domain when an event of that kind has come n times more, whoever emits it.
func (r *rig) crashAt(k history.Kind, d *world.Domain, n int) {
	left := int64(n)
	r.setWatch(func(_ context.Context, e *history.Event) {
		if e.Kind == k && atomic.AddInt64(&left, -1) == 0 {
			d.MarkDead()
		}
	})
}

func (r *rig) kinds(k history.Kind) (found []history.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == k {
			found = append(found, e)
		}
	}
	return found
}

// finish waits until the sources have read everything, then takes a last checkpoint.
func (r *rig) finish(ctx context.Context) {
	for !r.net.progress.Finished() {
		if err := r.w.Sleep(ctx, time.Millisecond); err != nil {
			r.t.Fatal(err)
		}
		for {
			m, ok := r.lead.TryTake(ctx)
			if !ok {
				break
			}
			r.take(ctx, m)
		}
		if len(r.failed) > 0 {
			r.t.Fatalf("attempt %d failed: %v", r.attempt, r.failed)
		}
	}
	if !r.complete(ctx, r.trigger(ctx)) {
		r.t.Fatalf("the last checkpoint did not complete: %v %v", r.failed, r.decline)
	}
	r.cancel(ctx)
	if err := r.cfg.Collect.Restore(ctx, r.attempt+1, txns(r.done)); err != nil {
		r.t.Fatal(err)
	}
}

func txns(m *checkpoint.Metadata) (all []string) {
	for _, s := range m.Subtasks {
		all = append(all, s.Transactions...)
	}
	return all
}

// check compares the committed output with what a map and a loop make of the same records. after is the operator's.
func (r *rig) check(src *numbers, after int64) {
	r.t.Helper()
	want := map[[2]int]canon.Digest{}
	each := src.total // output records of a partition
	if after > 0 {
		each -= after - 1 // the watermark ends at total
	}
	for p := range src.parts {
		seen := map[int64]int64{}
		for i := range each {
			k := src.key(p, i)
			seen[k]++
			value := seen[k]
			if after > 0 {
				value = i + after
			}
			at := [2]int{p, int(keygroup.Of(keygroup.HashInt64(k), r.cfg.Settings.MaxParallelism))}
			d := want[at]
			d.Add(canon.Output(nil, int32(p), i, 0, binary.BigEndian.AppendUint64(nil, uint64(k)), backend.AppendInt64(nil, value)))
			want[at] = d
		}
	}
	got := r.cfg.Collect.Result()
	if got.Records != int64(src.parts)*each || got.DuplicateCount != 0 || got.Strays != 0 || got.Pending != 0 {
		r.t.Errorf("committed %d records, %d duplicates, %d strays, %d transactions pending; want %d and none", got.Records, got.DuplicateCount,
			got.Strays, got.Pending, int64(src.parts)*each)
	}
	if len(got.Groups) != len(want) {
		r.t.Errorf("output of %d key groups, want %d", len(got.Groups), len(want))
	}
	for _, g := range got.Groups {
		if d := want[[2]int{g.Partition, int(g.Group)}]; d.String() != g.Digest {
			r.t.Errorf("partition %d key group %d: digest %s of %d records, want %s of %d", g.Partition, g.Group, g.Digest, g.Count, d, d.Count)
		}
	}
}

// simulate runs f as the main process of a simulated world.
func simulate(t testing.TB, seed uint64, f func(ctx context.Context, w world.World)) {
	t.Helper()
	w := world.NewSim(world.SimOptions{Seed: seed})
	if err := w.Run(func(ctx context.Context) error { f(ctx, w); return nil }); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
}

func plainCounter() graph.Operator { return &counter{} }
