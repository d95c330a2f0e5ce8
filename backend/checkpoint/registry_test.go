package checkpoint

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/keygroup"
)

// writer is a subtask that adds objects, needs each for a while, and names in every checkpoint all it needs.
type writer struct {
	live []string
	made int
	name string
}

func (w *writer) step(rnd *rand.Rand, attempt int, shared string) {
	for range rnd.IntN(3) {
		w.made++
		w.live = append(w.live, fmt.Sprintf("log/%d/%s/%d", attempt, w.name, w.made))
	}
	if rnd.IntN(4) == 0 {
		w.live = append(w.live, shared)
	}
	if rnd.IntN(5) == 0 { // a materialization: what was before is not needed any more
		w.made++
		w.live = []string{fmt.Sprintf("base/%d/%s/%d", attempt, w.name, w.made)}
	}
}

func (w *writer) handle() *backend.StateHandle {
	h := &backend.StateHandle{Operator: w.name}
	for i, key := range slices.Compact(slices.Sorted(slices.Values(w.live))) {
		ref := backend.ObjectRef{Key: key, Bytes: int64(len(key)), CRC32C: uint32(len(key)), Groups: keygroup.Range{To: 1}}
		if i%2 == 0 {
			h.Base = append(h.Base, ref)
		} else {
			h.Delta = append(h.Delta, ref)
		}
	}
	return h
}

// model is the registry as a scan over everything: an object is in use as long as a retained checkpoint names it or a live writer needs it.
type model struct {
	t       *testing.T
	stored  map[string]bool // objects put and not deleted
	deleted map[string]bool
	done    *CompletedStore
	reg     *Registry
	live    map[string]bool // as the changes of references say
}

func (m *model) complete(md *Metadata) {
	c := m.reg.Complete(md, ObjectUse{Key: MetadataKey(md.ID, 1)})
	for _, o := range c.Added {
		if m.live[o.Key] {
			m.t.Fatalf("checkpoint %d adds %s again", md.ID, o.Key)
		}
		m.live[o.Key] = true
	}
	for _, key := range c.Dropped {
		if !m.live[key] {
			m.t.Fatalf("checkpoint %d drops %s, which is not there", md.ID, key)
		}
		delete(m.live, key)
	}
	want := map[string]bool{}
	for _, o := range md.Objects() {
		want[o.Key] = true
	}
	if !maps.Equal(want, m.live) {
		m.t.Fatalf("checkpoint %d names %d objects, the changes give %d", md.ID, len(want), len(m.live))
	}
	m.done.Add(&Completed{Metadata: md})
	m.remove(m.reg.UnregisterUnused(m.done.Lowest()))
}

func (m *model) remove(dead []ObjectUse) {
	used := map[string]bool{}
	for _, d := range m.done.List() {
		for _, o := range d.Metadata.Objects() {
			used[o.Key] = true
		}
	}
	for _, o := range dead {
		switch {
		case used[o.Key]:
			m.t.Fatalf("%s is in use and was handed out for deletion", o.Key)
		case m.deleted[o.Key]:
			m.t.Fatalf("%s was handed out twice", o.Key)
		}
		m.deleted[o.Key] = true
		delete(m.stored, o.Key)
	}
}

func TestRegistryNeverLosesAndNeverLeaks(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		m := &model{t: t, stored: map[string]bool{}, deleted: map[string]bool{}, live: map[string]bool{}, reg: NewRegistry(), done: NewCompletedStore(1 + rnd.IntN(3))}
		writers := []*writer{{name: "a"}, {name: "b"}, {name: "c"}}
		attempt := 1
		for id := uint64(1); id < 60; id++ {
			md := &Metadata{ID: id, Term: 1}
			acked := 0
			for i, w := range writers {
				w.step(rnd, attempt, fmt.Sprintf("log/%d/shared/%d", attempt, id))
				h := w.handle()
				for _, key := range w.live {
					m.stored[key] = true
				}
				md.Subtasks = append(md.Subtasks, SubtaskState{Operator: "count", Index: i, Keyed: h})
				if rnd.IntN(8) > 0 { // else its acknowledgement never comes
					acked++
					m.reg.Register(h, id)
					if rnd.IntN(10) == 0 {
						m.reg.Register(h, id) // a duplicate
					}
				}
			}
			if acked == len(writers) {
				m.complete(md)
				continue
			}
			// Aborted. What no acknowledgement named is not the registry's business unless a later one names it.
			for _, s := range md.Subtasks {
				for _, o := range (&Metadata{Subtasks: []SubtaskState{s}}).Objects() {
					if !m.reg.Known(o.Key) && !m.deleted[o.Key] {
						delete(m.stored, o.Key)
					}
				}
			}
			if n := m.done.Newest(); n != nil && rnd.IntN(4) == 0 { // a failover: all begin anew from the newest
				attempt++
				for i, w := range writers {
					w.live = nil
					for _, o := range (&Metadata{Subtasks: n.Metadata.Subtasks[i : i+1]}).Objects() {
						w.live = append(w.live, o.Key)
					}
				}
				if rnd.IntN(2) == 0 { // of the leader too: the registry is built from what is retained
					m.reg, m.live = NewRegistry(), map[string]bool{}
					for _, d := range m.done.List() {
						for _, o := range m.reg.Complete(d.Metadata, ObjectUse{}).Added {
							m.live[o.Key] = true
						}
					}
					m.live = map[string]bool{}
					for _, o := range n.Metadata.Objects() {
						m.live[o.Key] = true
					}
					for key := range m.stored {
						if !m.reg.Known(key) {
							delete(m.stored, key) // found by listing
						}
					}
				}
			}
		}
		// A last checkpoint that names nothing ends the life of everything but what is retained.
		for id := uint64(100); id < 104; id++ {
			m.complete(&Metadata{ID: id, Term: 1})
		}
		if m.reg.Len() != 0 || len(m.stored) != 0 {
			t.Fatalf("seed %d: %d objects known, %d stored at the end: %v", seed, m.reg.Len(), len(m.stored), m.stored)
		}
	}
}

// TestA16OneSharedSegmentDiesOnce: the changes of several subtasks lie in one object.
func TestA16OneSharedSegmentDiesOnce(t *testing.T) {
	r := NewRegistry()
	h := &backend.StateHandle{Delta: []backend.ObjectRef{{Key: "log/1/w/1.seg", Offset: 0, Length: 5}, {Key: "log/1/w/1.seg", Offset: 5, Length: 5}}}
	for range 4 {
		r.Register(h, 1)
	}
	if dead := r.UnregisterUnused(1); len(dead) != 0 {
		t.Errorf("in use by checkpoint 1, and %v is to be deleted", dead)
	}
	if dead := r.UnregisterUnused(2); len(dead) != 1 || r.Len() != 0 {
		t.Errorf("to be deleted: %v, want the object once", dead)
	}
	if dead := r.UnregisterUnused(3); len(dead) != 0 {
		t.Errorf("deleted again: %v", dead)
	}
}

// TestLateAcknowledgementDies: what a checkpoint named that was aborted long ago dies with the next completion, unless a later one named it too.
func TestLateAcknowledgementDies(t *testing.T) {
	r := NewRegistry()
	use := func(id uint64, keys ...string) {
		h := &backend.StateHandle{}
		for _, k := range keys {
			h.Delta = append(h.Delta, backend.ObjectRef{Key: k})
		}
		r.Register(h, id)
	}
	use(7, "kept")
	use(5, "kept", "gone") // late
	dead := r.UnregisterUnused(7)
	if len(dead) != 1 || dead[0].Key != "gone" || !r.Known("kept") {
		t.Errorf("dead: %v", dead)
	}
}

// BenchmarkRegistryCheckpoint is the registry's work for one checkpoint of 1,000 subtasks beside objects nobody touches.
func BenchmarkRegistryCheckpoint(b *testing.B) {
	for _, others := range []int{0, 1_000_000} {
		b.Run(fmt.Sprintf("others-%d", others), func(b *testing.B) {
			r := NewRegistry()
			for i := range others {
				r.Register(&backend.StateHandle{Base: []backend.ObjectRef{{Key: fmt.Sprintf("base/0/%d", i)}}}, 1<<60)
			}
			m := large(1000, 50, 20)
			b.ReportAllocs()
			for b.Loop() {
				m.ID++
				for i := range m.Subtasks {
					r.Register(m.Subtasks[i].Keyed, m.ID)
				}
				r.Complete(m, ObjectUse{})
				r.UnregisterUnused(m.ID)
			}
		})
	}
}
