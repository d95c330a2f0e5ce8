package validate

import (
	"fmt"
	"sort"

	"statebench.dev/bench/internal/canon"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/workloads"
)

// truth is what the reference model says about the checkpoints that the evidence names: one pass over the input, in
// order of their positions.
type truth struct {
	model     workloads.Model
	positions map[uint64][]int64 // of completed checkpoints
	wanted    map[uint64]bool
	states    map[uint64]map[stateID]canon.Digest
	output    map[outputID]canon.Digest // at the final positions
	final     []int64
	err       error
}

type stateID struct {
	operator, state string
	group           keygroup.ID
}

type outputID struct {
	partition int
	group     keygroup.ID
}

func (t *truth) observe(e *history.Event) {
	if e.Kind == history.CheckpointCompleted {
		t.positions[e.Checkpoint] = append([]int64(nil), e.Positions...)
	}
	if e.Kind == history.RestoreDone && len(e.Digests) > 0 && e.Checkpoint > 0 {
		t.want(e.Checkpoint)
	}
}

func (t *truth) want(id uint64) {
	if t.wanted == nil {
		t.wanted = map[uint64]bool{}
	}
	t.wanted[id] = true
}

// compute runs the model. Positions that go back between checkpoints make the rest of the truth unknown, which the
// checks that need it report; a model that fails is an error of the harness.
func (t *truth) compute(c *Case) error {
	for _, r := range c.Restores {
		t.want(r.Checkpoint)
		if _, known := t.positions[r.Checkpoint]; !known && len(r.Positions) > 0 {
			t.positions[r.Checkpoint] = r.Positions
		}
	}
	var ids []uint64
	for id := range t.wanted { // order-free: sorted below
		if t.positions[id] != nil {
			ids = append(ids, id)
		}
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] })
	t.states = map[uint64]map[stateID]canon.Digest{}
	for _, id := range ids {
		if err := t.advance(t.positions[id]); err != nil {
			t.err = fmt.Errorf("model at checkpoint %d: %w", id, err)
			return nil
		}
		digests := map[stateID]canon.Digest{}
		t.model.Groups(func(operator, state string, group keygroup.ID, d canon.Digest) {
			if d.Count > 0 {
				digests[stateID{operator, state, group}] = d
			}
		})
		t.states[id] = digests
	}
	if len(c.Restores) > 0 {
		t.output = map[outputID]canon.Digest{}
		t.model.Output(func(partition int, group keygroup.ID, d canon.Digest) {
			if d.Count > 0 {
				t.output[outputID{partition, group}] = d
			}
		})
	}
	return nil
}

func (t *truth) advance(to []int64) error {
	for i, p := range t.final {
		if i < len(to) && to[i] < p {
			return fmt.Errorf("source partition %d goes back from %d to %d", i, p, to[i])
		}
	}
	t.final = to
	return t.model.Advance(to)
}

// compare lists how the digests of one checkpoint's groups differ from the model. got holds the groups that were looked at.
func (t *truth) compare(id uint64, got []history.GroupDigest, complete bool, f *findings, event int64) (groups int) {
	want := t.states[id]
	seen := map[stateID]bool{}
	for _, g := range got {
		at := stateID{g.Operator, g.State, g.Group}
		seen[at] = true
		w := want[at]
		groups++
		if g.Count != w.Count || (g.Count > 0 && g.Digest != w.String()) {
			f.add(event, "checkpoint %d, %s/%s, key group %d: %d elements with digest %s, the model has %d with %s",
				id, g.Operator, g.State, g.Group, g.Count, g.Digest, w.Count, w.String())
		}
	}
	if !complete {
		return groups
	}
	var missing []stateID
	for at := range want { // order-free: sorted below
		if !seen[at] {
			missing = append(missing, at)
		}
	}
	sort.Slice(missing, func(i, j int) bool {
		a, b := missing[i], missing[j]
		if a.operator != b.operator {
			return a.operator < b.operator
		}
		if a.state != b.state {
			return a.state < b.state
		}
		return a.group < b.group
	})
	for _, at := range missing {
		f.add(event, "checkpoint %d, %s/%s, key group %d: nothing was restored, the model has %d elements",
			id, at.operator, at.state, at.group, want[at].Count)
	}
	return groups
}
