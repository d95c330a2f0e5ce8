package checkpoint

import (
	"fmt"
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/keygroup"
)

// The job that costs are taken of: its subtasks, and the segments that the log of each grows by between two checkpoints.
const (
	costSubtasks = 100
	costGrowth   = 2
)

// growing is the leader's view of such a job. The log of each subtask is cut to length segments, so a checkpoint names
// length × costSubtasks segments; retain checkpoints are kept.
type growing struct {
	registry *Registry
	done     *CompletedStore
	length   int
	id       uint64
	bytes    int // of the newest metadata
}

func newGrowing(length, retain int) *growing {
	return &growing{registry: NewRegistry(), done: NewCompletedStore(retain), length: length}
}

// metadata is the checkpoint id. Each subtask's segments are its own, which is the worst case: no two share an entry.
func (g *growing) metadata(id uint64) *Metadata {
	m := &Metadata{ID: id, Term: 1, Attempt: 1, Parallelism: costSubtasks, MaxParallelism: 32768, Subtasks: make([]SubtaskState, 0, costSubtasks)}
	last := int(id) * costGrowth
	for i := range costSubtasks {
		r := keygroup.RangeOf(i, costSubtasks, 32768)
		h := &backend.StateHandle{Backend: "lsm", Operator: "count", Range: r, Checkpoint: id, Materialization: 1, Delta: make([]backend.ObjectRef, 0, g.length)}
		log := fmt.Sprintf("1/count-%d", i)
		for s := max(0, last-g.length); s < last; s++ {
			h.Delta = append(h.Delta, backend.ObjectRef{Key: fmt.Sprintf("log/1/worker-%d/%d.seg", i, s), Bytes: 1 << 20, CRC32C: uint32(i * s),
				Offset: 64, Length: 1 << 16, Groups: r, Log: log, From: uint64(s), To: uint64(s + 1)})
		}
		m.Subtasks = append(m.Subtasks, SubtaskState{Operator: "count", Index: i, Keyed: h})
	}
	return m
}

// checkpoint does the leader's part of one: register each handle, encode the metadata, complete, drop the subsumed.
func (g *growing) checkpoint(m *Metadata) {
	for i := range m.Subtasks {
		g.registry.Register(m.Subtasks[i].Keyed, m.ID)
	}
	encoded := Encode(m)
	g.bytes = len(encoded)
	g.registry.Complete(m, ObjectUse{})
	if len(g.done.Add(&Completed{Metadata: m})) > 0 {
		g.registry.UnregisterUnused(g.done.Lowest())
	}
	g.id = m.ID
}

// fill takes checkpoints until no more segments become registered.
func (g *growing) fill() {
	for n := -1; n != g.registry.Len(); {
		n = g.registry.Len()
		g.checkpoint(g.metadata(g.id + 1))
	}
	g.checkpoint(g.metadata(g.id + 1))
}

// TestCostBesideRegistered asserts that what the leader does for a checkpoint depends on what the checkpoint names and on what
// changes, not on how much is registered: with 100 times the segments it looks at as many entries and writes as many bytes.
func TestCostBesideRegistered(t *testing.T) {
	per := map[int]int64{}
	var bytes []int
	for _, retain := range []int{1, 496} {
		g := newGrowing(10, retain)
		g.fill()
		before := g.registry.Touched()
		for range 3 {
			g.checkpoint(g.metadata(g.id + 1))
		}
		per[g.registry.Len()] = (g.registry.Touched() - before) / 3
		bytes = append(bytes, g.bytes)
	}
	if few, many := per[1_000], per[100_000]; few == 0 || few != many {
		t.Errorf("entries looked at for a checkpoint, by segments registered: %v", per)
	}
	if d := bytes[1] - bytes[0]; d < 0 || d > bytes[0]/5 {
		t.Errorf("metadata is of %d bytes, and of %d with 100 times the segments registered", bytes[0], bytes[1])
	}
}

// BenchmarkCheckpointCost is the leader's work for one checkpoint of a hundred subtasks: by the number of segments registered, of
// which the checkpoint names 1,000 (the rest are those of older checkpoints that are retained); and by the number that it names.
func BenchmarkCheckpointCost(b *testing.B) {
	for _, c := range []struct {
		name           string
		length, retain int
	}{
		{"registered=1000", 10, 1}, {"registered=100000", 10, 496},
		{"named=1000", 10, 1}, {"named=10000", 100, 1}, {"named=100000", 1000, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			g := newGrowing(c.length, c.retain)
			g.fill()
			before, n := g.registry.Touched(), 0
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				m := g.metadata(g.id + 1)
				b.StartTimer()
				g.checkpoint(m)
				n++
			}
			b.ReportMetric(float64(g.registry.Touched()-before)/float64(n), "entries/op")
			b.ReportMetric(float64(g.bytes), "metadata-B/op")
			b.ReportMetric(float64(g.registry.Len()), "registered")
		})
	}
}
