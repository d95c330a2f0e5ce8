package workloads

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/canon"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/keygroup"
)

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

// mustMatch compares state and output with the model at the same positions, once nothing is held back.
func (h *harness) mustMatch(m Model, checkpoint uint64) {
	h.t.Helper()
	h.wait(time.Hour)
	h.mustAgree()
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

// mustAgree compares the copies of broadcast state.
func (h *harness) mustAgree() {
	h.t.Helper()
	for node, stage := range h.stages {
		var first [][]byte
		for _, s := range stage {
			f, ok := s.op.(graph.Stateful)
			if !ok || f.Redistribution() != graph.Whole {
				continue
			}
			parts, err := f.SnapshotOperatorState(h.t.Context())
			if err != nil {
				h.t.Fatal(err)
			}
			if first == nil {
				first = parts
			}
			if !slices.EqualFunc(first, parts, bytes.Equal) {
				h.t.Fatalf("subtask %d of %s has broadcast state %x, the first %x", s.index, h.job.Nodes[node].ID, parts, first)
			}
		}
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
