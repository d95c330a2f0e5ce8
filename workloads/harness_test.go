package workloads

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/heap"
	"statebench.dev/bench/internal/canon"
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

func (s *subtask) RegisterProcessingTimer(time.Duration) error { return errors.New("no such timers") }
func (s *subtask) DeleteProcessingTimer(time.Duration) error   { return errors.New("no such timers") }
func (s *subtask) ProcessingTime() time.Duration               { return 0 }

func (s *subtask) RegisterTimer(at int64) error {
	if at <= s.watermark {
		return fmt.Errorf("timer at %d is not after the watermark %d", at, s.watermark)
	}
	_, err := s.timers.Register(at)
	return err
}

// Collect takes the output of the subtask to the next stage.
func (s *subtask) Collect(r *graph.Record) error { return s.h.deliver(s.node+1, r) }

// fire lets the watermark reach at.
func (s *subtask) fire(ctx context.Context, at int64) error {
	if at <= s.watermark {
		return nil
	}
	s.watermark = at
	type due struct {
		at    int64
		key   string
		group keygroup.ID
	}
	var list []due
	for g := s.groups.From; g < s.groups.To; g++ {
		err := s.timers.Scan(g, func(t int64, key []byte) bool {
			if t <= at {
				list = append(list, due{t, string(key), g})
			}
			return t <= at
		})
		if err != nil {
			return err
		}
	}
	sort.Slice(list, func(i, j int) bool {
		return list[i].at < list[j].at || list[i].at == list[j].at && list[i].key < list[j].key
	})
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

// harness runs the operators of a linear job in one process.
type harness struct {
	t         testing.TB
	job       *graph.Job
	source    graph.Source
	max       int
	stages    [][]*subtask // by node; nil for source and sink
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
		p := parallelism()
		for k := range p {
			s := &subtask{h: h, node: i, index: k, op: node.Operator(), watermark: math.MinInt64, groups: keygroup.RangeOf(k, p, max)}
			s.keyed = open(t, s.groups)
			s.context = backend.NewContext(s.keyed)
			var err error
			if s.timers, err = backend.NewTimers(s.context, "timers"); err == nil {
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

func (h *harness) deliver(node int, r *graph.Record) error {
	group := keygroup.Of(r.Hash, h.max)
	if h.job.Nodes[node].Sink {
		h.writer.Add(r, group)
		return nil
	}
	s := h.stages[node][keygroup.SubtaskOf(group, len(h.stages[node]), h.max)]
	s.context.SetKey(group, r.Key)
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
		if err := h.deliver(1, r); err != nil {
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
	if err := s.fire(h.t.Context(), least); err != nil {
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
		if s := h.stages[1][random.IntN(len(h.stages[1]))]; random.IntN(4) == 0 {
			h.announce(s)
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
	for _, s := range h.stages[1] {
		h.announce(s)
	}
}

func (h *harness) left(total int64) (n int64) {
	for p, at := range h.positions {
		n += h.source.Limit(p, total) - at
	}
	return n
}

// digests are those of the operators' state, in the model's terms. It also checks that the job declares its states.
func (h *harness) digests() map[string]canon.Digest {
	h.t.Helper()
	all := map[string]canon.Digest{}
	for i, stage := range h.stages {
		for _, s := range stage {
			for _, spec := range s.keyed.States() {
				declared := false
				for _, d := range h.job.Nodes[i].States {
					declared = declared || d == spec
				}
				for g := s.groups.From; g < s.groups.To; g++ {
					d, err := backend.DigestGroup(s.keyed, spec, g)
					if err != nil {
						h.t.Fatal(err)
					}
					if d.Count > 0 {
						all[fmt.Sprintf("%s/%s/%d", h.job.Nodes[i].ID, spec.Name, g)] = d
						if !declared {
							h.t.Fatalf("node %s does not declare state %v", h.job.Nodes[i].ID, spec)
						}
					}
				}
			}
		}
	}
	return all
}

// mustMatch compares state and output with the model at the same positions.
func (h *harness) mustMatch(m Model, checkpoint uint64) {
	h.t.Helper()
	if err := m.Advance(h.positions); err != nil {
		h.t.Fatal(err)
	}
	got, want := h.digests(), map[string]canon.Digest{}
	m.Groups(func(operator, state string, group keygroup.ID, d canon.Digest) {
		want[fmt.Sprintf("%s/%s/%d", operator, state, group)] = d
		var again canon.Digest
		m.Elements(operator, state, group, again.Add)
		if again != d {
			h.t.Fatalf("elements of %s/%s/%d have digest %v, its group %v", operator, state, group, again, d)
		}
	})
	compareDigests(h.t, fmt.Sprintf("state at %v", h.positions), got, want)
	txn, err := h.writer.Precommit(h.t.Context(), checkpoint)
	if err == nil {
		err = h.collect.Commit(h.t.Context(), txn)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	result := h.collect.Result()
	got, want = map[string]canon.Digest{}, map[string]canon.Digest{}
	hex := map[string]string{}
	for _, g := range result.Groups {
		name := fmt.Sprintf("%d/%d", g.Partition, g.Group)
		got[name], hex[name] = canon.Digest{Count: g.Count}, g.Digest
	}
	m.Output(func(partition int, group keygroup.ID, d canon.Digest) {
		name := fmt.Sprintf("%d/%d", partition, group)
		if want[name] = (canon.Digest{Count: d.Count}); hex[name] != d.String() {
			want[name] = d
		}
	})
	compareDigests(h.t, fmt.Sprintf("output at %v", h.positions), got, want)
	if d := result.Compare(m, h.positions, m.OutputTags(), 5); d.LostCount+d.UnexpectedCount+result.DuplicateCount+result.Strays != 0 {
		h.t.Fatalf("output at %v: %+v, %d duplicates", h.positions, d, result.DuplicateCount)
	}
}

func compareDigests(t testing.TB, what string, got, want map[string]canon.Digest) {
	t.Helper()
	for name := range want { // order-free: the first failure will do
		if got[name] != want[name] {
			t.Fatalf("%s: %s is %v (%d elements), the model has %v (%d)", what, name, got[name], got[name].Count, want[name], want[name].Count)
		}
	}
	for name := range got { // order-free: the first failure will do
		if _, known := want[name]; !known {
			t.Fatalf("%s: the model does not have %s", what, name)
		}
	}
}

// mustMatchAnyInterleaving runs a workload in some random ways and compares it with its model at each checkpoint.
func mustMatchAnyInterleaving(t *testing.T, make func() Workload, max int, total int64, tries int) {
	t.Helper()
	opens := [2]func(testing.TB, keygroup.Range) backend.Keyed{plain, inHeap}
	for try := range uint64(tries) {
		random := rand.New(rand.NewPCG(try, 7))
		w := make()
		h := newHarness(t, w, max, func() int { return 1 + random.IntN(min(4, max)) }, opens[try%2])
		m, checkpoint := w.Model(), uint64(0)
		h.run(random, total, 3, func() {
			checkpoint++
			h.mustMatch(m, checkpoint)
		})
		if h.records == 0 || h.left(total) != 0 {
			t.Fatalf("try %d read %d records", try, h.records)
		}
		whole := w.Model()
		if err := whole.Advance(h.positions); err != nil {
			t.Fatal(err)
		}
		h.mustMatch(whole, checkpoint+1)
	}
}
