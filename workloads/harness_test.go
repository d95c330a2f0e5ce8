package workloads

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/heap"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/sinks"
	"statebench.dev/bench/internal/world"
)

// plainKeyed is the least backend that serves typed state: a Go map for each state and key group.
type plainKeyed struct {
	backend.Keyed // what the tests do not use
	groups        keygroup.Range
	specs         []backend.StateSpec
	data          map[backend.StateID]map[keygroup.ID]map[string][]byte
	positions     uint64
}

func (k *plainKeyed) Register(spec backend.StateSpec) (backend.StateID, error) {
	for i, s := range k.specs {
		if s.Name == spec.Name {
			if s != spec {
				return 0, fmt.Errorf("state %v is %v already", spec, s)
			}
			return backend.StateID(i), nil
		}
	}
	k.specs = append(k.specs, spec)
	return backend.StateID(len(k.specs) - 1), nil
}

func (k *plainKeyed) Range() keygroup.Range { return k.groups }

func (k *plainKeyed) States() []backend.StateSpec { return k.specs }

func (k *plainKeyed) at(a backend.Addr) map[string][]byte {
	if k.data == nil {
		k.data = map[backend.StateID]map[keygroup.ID]map[string][]byte{}
	}
	if k.data[a.State] == nil {
		k.data[a.State] = map[keygroup.ID]map[string][]byte{}
	}
	if k.data[a.State][a.Group] == nil {
		k.data[a.State][a.Group] = map[string][]byte{}
	}
	return k.data[a.State][a.Group]
}

func (k *plainKeyed) Get(a backend.Addr) ([]byte, bool, error) {
	v, ok := k.at(a)[string(a.Key)]
	return v, ok, nil
}

// Put overwrites in place, so that operators which keep borrowed bytes over a write are caught.
func (k *plainKeyed) Put(a backend.Addr, value []byte) error {
	m := k.at(a)
	if old := m[string(a.Key)]; len(old) == len(value) && old != nil {
		copy(old, value)
		return nil
	}
	m[string(a.Key)] = append([]byte{}, value...)
	return nil
}

func (k *plainKeyed) Delete(a backend.Addr) error {
	delete(k.at(a), string(a.Key))
	return nil
}

func (k *plainKeyed) DeletePrefix(a backend.Addr) error {
	for key := range k.at(a) { // order-free: each is judged alone
		if bytes.HasPrefix([]byte(key), a.Key) {
			delete(k.at(a), key)
		}
	}
	return nil
}

func (k *plainKeyed) Append(a backend.Addr, value []byte) (uint64, error) {
	k.positions++
	a.Key = binary.BigEndian.AppendUint64(append([]byte{}, a.Key...), k.positions)
	return k.positions, k.Put(a, value)
}

func (k *plainKeyed) Scan(s backend.StateID, g keygroup.ID, prefix []byte, f func(key, value []byte) bool) error {
	m := k.at(backend.Addr{State: s, Group: g})
	var keys []string
	for key := range m { // order-free: sorted below
		if bytes.HasPrefix([]byte(key), prefix) {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	for _, key := range keys {
		if !f([]byte(key), m[key]) {
			return nil
		}
	}
	return nil
}

// subtask is one instance of an operator.
type subtask struct {
	h         *harness
	node      int
	index     int
	op        graph.Operator
	keyed     backend.Keyed
	context   *backend.Context
	timers    *backend.TimerState
	watermark int64
	groups    keygroup.Range

	processing *backend.TimerState // nil: it has no such timers
	backlog    []graph.Record      // broadcast records that are under way to it
}

func (s *subtask) State() *backend.Context { return s.context }
func (s *subtask) Watermark() int64        { return s.watermark }
func (s *subtask) Subtask() int            { return s.index }
func (s *subtask) Parallelism() int        { return len(s.h.stages[s.node]) }
func (s *subtask) MaxParallelism() int     { return s.h.max }
func (s *subtask) KeyGroup() keygroup.ID   { return s.context.Group() }
func (s *subtask) DeleteTimer(at int64) error {
	return s.timers.Delete(at)
}

func (s *subtask) RegisterProcessingTimer(at time.Duration) error {
	if s.processing == nil {
		return errors.New("the operator has no timers of processing time")
	}
	_, err := s.processing.Register(int64(at))
	return err
}

func (s *subtask) DeleteProcessingTimer(at time.Duration) error {
	return s.processing.Delete(int64(at))
}
func (s *subtask) ProcessingTime() time.Duration { return s.h.clock }

func (s *subtask) RegisterTimer(at int64) error {
	if at <= s.watermark {
		return fmt.Errorf("timer at %d is not after the watermark %d", at, s.watermark)
	}
	_, err := s.timers.Register(at)
	return err
}

// Collect takes the output of the subtask to the next stages.
func (s *subtask) Collect(r *graph.Record) error { return s.h.send(s.node, s.index, r) }

// fire lets the watermark reach at.
func (s *subtask) fire(ctx context.Context, at int64) error {
	if at <= s.watermark {
		return nil
	}
	s.watermark = at
	list, err := s.due(s.timers, at)
	if err != nil {
		return err
	}
	for _, d := range list {
		if err := s.context.Expire(d.at); err != nil {
			return err
		}
		s.context.SetKey(d.group, []byte(d.key))
		if err := s.timers.Delete(d.at); err != nil {
			return err
		}
		if err := s.op.OnTimer(ctx, d.at, s.context.Key(), s); err != nil {
			return err
		}
	}
	return s.context.Expire(at)
}

// due is a timer whose time has come.
type due struct {
	at    int64
	key   string
	group keygroup.ID
}

// due lists the timers up to a time, in order of (time, key).
func (s *subtask) due(timers *backend.TimerState, now int64) (list []due, err error) {
	for g := s.groups.From; g < s.groups.To && err == nil; g++ {
		err = timers.Scan(g, func(t int64, key []byte) bool {
			if t <= now {
				list = append(list, due{t, string(key), g})
			}
			return t <= now
		})
	}
	sort.Slice(list, func(i, j int) bool {
		return list[i].at < list[j].at || list[i].at == list[j].at && list[i].key < list[j].key
	})
	return list, err
}

// tick fires the timers of processing time that are due.
func (s *subtask) tick(ctx context.Context) error {
	if s.processing == nil {
		return nil
	}
	list, err := s.due(s.processing, int64(s.h.clock))
	for _, d := range list {
		s.context.SetKey(d.group, []byte(d.key))
		if err == nil {
			err = s.processing.Delete(d.at)
		}
		if err == nil {
			err = s.op.(graph.ProcessingTimed).OnProcessingTimer(ctx, time.Duration(d.at), s.context.Key(), s)
		}
	}
	return err
}

// catchUp takes the broadcast records that are under way.
func (s *subtask) catchUp(ctx context.Context) error {
	for len(s.backlog) > 0 {
		r := s.backlog[0]
		s.backlog = s.backlog[1:]
		s.context.ClearKey()
		if err := s.op.(graph.TwoInput).ProcessSecond(ctx, &r, s); err != nil {
			return err
		}
	}
	return nil
}

// harness runs the operators of a job in one process.
type harness struct {
	t         testing.TB
	job       *graph.Job
	source    graph.Source
	max       int
	stages    [][]*subtask // by node; nil for source and sink
	timed     int          // the first keyed node, the only one whose watermark matters
	clock     time.Duration
	positions []int64
	announced []int64 // watermark of each partition
	collect   *sinks.Collect
	writer    *sinks.Writer
	records   int
	record    graph.Record // as the engine does, its memory is used again
}

// plain opens a plainKeyed.
func plain(_ testing.TB, r keygroup.Range) backend.Keyed { return &plainKeyed{groups: r} }

// inHeap opens the heap backend.
func inHeap(t testing.TB, r keygroup.Range) backend.Keyed {
	t.Helper()
	b, err := heap.New(heap.Options{}).ForWorker(t.Context(), backend.WorkerEnv{World: world.NewReal(1), Emit: func(context.Context, history.Event) {}})
	if err != nil {
		t.Fatal(err)
	}
	k, err := b.Open(t.Context(), backend.OpenOptions{Range: r})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newHarness(t testing.TB, w Workload, max int, parallelism func() int, open func(testing.TB, keygroup.Range) backend.Keyed) *harness {
	t.Helper()
	h := &harness{t: t, job: w.Job(), max: max}
	if err := h.job.Validate(); err != nil {
		t.Fatal(err)
	}
	h.source = h.job.Nodes[0].Source
	n := h.source.Partitions()
	h.positions, h.announced = make([]int64, n), make([]int64, n)
	for p := range h.announced {
		h.announced[p] = math.MinInt64
	}
	h.collect = sinks.NewCollect(sinks.Options{Partitions: n, MaxParallelism: max, RecordIDs: true})
	h.writer = h.collect.Writer("sink-0", 1)
	h.stages = make([][]*subtask, len(h.job.Nodes))
	for i, node := range h.job.Nodes {
		if node.Operator == nil {
			continue
		}
		if h.timed == 0 && node.Keyed {
			h.timed = i
		}
		p := parallelism()
		for k := range p {
			s := &subtask{h: h, node: i, index: k, op: node.Operator(), watermark: math.MinInt64, groups: keygroup.RangeOf(k, p, max)}
			s.keyed = open(t, s.groups)
			s.context = backend.NewContext(s.keyed)
			var err error
			if s.timers, err = backend.NewTimers(s.context, "timers"); err == nil {
				if _, ok := s.op.(graph.ProcessingTimed); ok {
					s.processing, err = backend.NewTimers(s.context, "processing-timers")
				}
			}
			if err == nil {
				err = s.op.Open(t.Context(), s)
			}
			if err != nil {
				t.Fatal(err)
			}
			h.stages[i] = append(h.stages[i], s)
		}
	}
	return h
}

// send takes a record over the edges that lead away from a subtask of a node; of the source, from the one of its partition.
// Broadcast records arrive late.
func (h *harness) send(node, index int, r *graph.Record) error {
	for _, e := range h.job.Edges {
		if e.From != h.job.Nodes[node].ID {
			continue
		}
		to := slices.IndexFunc(h.job.Nodes, func(n graph.Node) bool { return n.ID == e.To })
		stage := h.stages[to]
		switch {
		case h.job.Nodes[to].Sink:
			h.writer.Add(r, keygroup.Of(r.Hash, h.max))
		case e.Exchange == graph.Broadcast:
			for _, s := range stage {
				late := *r
				late.Key, late.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
				s.backlog = append(s.backlog, late)
			}
		case e.Exchange == graph.Hash:
			if err := h.process(stage[keygroup.SubtaskOf(keygroup.Of(r.Hash, h.max), len(stage), h.max)], r); err != nil {
				return err
			}
		default:
			if err := h.process(stage[index%len(stage)], r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *harness) process(s *subtask, r *graph.Record) error {
	s.context.SetKey(keygroup.Of(r.Hash, h.max), r.Key)
	return s.op.Process(h.t.Context(), r, s)
}

// read takes up to n records of a partition.
func (h *harness) read(partition int, n, total int64) {
	h.t.Helper()
	limit := h.source.Limit(partition, total)
	for ; n > 0 && h.positions[partition] < limit; n-- {
		r := &h.record
		if ok, err := h.source.Read(partition, h.positions[partition], r); !ok || err != nil {
			h.t.Fatalf("read %d of partition %d: %v, %v", h.positions[partition], partition, ok, err)
		}
		if err := h.send(0, partition, r); err != nil {
			h.t.Fatal(err)
		}
		h.positions[partition]++
		h.records++
	}
}

// announce moves the watermarks of a stage's subtasks up to what the partitions have said.
func (h *harness) announce(s *subtask) {
	h.t.Helper()
	least := int64(math.MaxInt64)
	for _, w := range h.announced {
		least = min(least, w)
	}
	err := s.catchUp(h.t.Context())
	if err == nil {
		err = s.fire(h.t.Context(), least)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// run reads the first total records in a random interleaving, with n checkpoints at random places and one at the end.
func (h *harness) run(random *rand.Rand, total int64, n int, check func()) {
	h.t.Helper()
	for h.left(total) > 0 {
		p := random.IntN(len(h.positions))
		h.read(p, 1+random.Int64N(40), total)
		if random.IntN(3) == 0 {
			h.announced[p] = h.source.Watermark(p, h.positions[p])
		}
		if s := h.stages[h.timed][random.IntN(len(h.stages[h.timed]))]; random.IntN(4) == 0 {
			h.announce(s)
		}
		if random.IntN(4) == 0 {
			h.wait(time.Duration(random.IntN(int(100 * time.Millisecond))))
		}
		if n > 0 && random.Int64N(1+h.left(total)/int64(40*n)) == 0 {
			h.barrier()
			check()
			n--
		}
	}
	h.barrier()
	check()
}

// barrier announces every watermark, as sources do before a barrier.
func (h *harness) barrier() {
	h.t.Helper()
	for p := range h.announced {
		h.announced[p] = h.source.Watermark(p, h.positions[p])
	}
	for _, s := range h.stages[h.timed] {
		h.announce(s)
	}
}

// wait lets time of the world pass.
func (h *harness) wait(d time.Duration) {
	h.t.Helper()
	h.clock += d
	for _, s := range h.stages[h.timed] {
		if err := s.tick(h.t.Context()); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *harness) left(total int64) (n int64) {
	for p, at := range h.positions {
		n += h.source.Limit(p, total) - at
	}
	return n
}
