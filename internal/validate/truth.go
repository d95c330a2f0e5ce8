package validate

import (
	"fmt"
	"math"
	"sort"
	"time"

	"statebench.dev/bench/internal/canon"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/workloads"
)

// truth is what the reference model says about the checkpoints that the evidence names: one pass over the input, in
// order of their positions.
type truth struct {
	model     workloads.Model
	fresh     func() workloads.Model // at the beginning of the source
	savepoint map[uint64]bool        // a restart may have gone back behind one, so each has a model of its own
	limit     int64                  // no run of the plan reads more records
	emitted   []int64                // by partition: how far the sources came
	positions map[uint64][]int64     // of completed checkpoints
	schemas   []int                  // in which the workload stored its state, by life of the job
	life      int                    // as far as it was observed
	schema    map[uint64]int         // of completed checkpoints
	absurd    map[uint64]error       // checkpoints at positions that no source had reached
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

func newTruth(fresh func() workloads.Model, p *plan.Plan) *truth {
	return &truth{model: fresh(), fresh: fresh, savepoint: map[uint64]bool{}, limit: mostRecords(p), schemas: p.Schemas(), schema: map[uint64]int{}, positions: map[uint64][]int64{}, absurd: map[uint64]error{}, wanted: map[uint64]bool{}}
}

// unpaced is more records a second than any source without a schedule gives.
const unpaced = 50_000_000

// mostRecords bounds the input of a run, so that no figure in its files keeps the model busy for ever: what the phases sum up
// to or, where some are measured in time, twice what the schedule gives in that time.
func mostRecords(p *plan.Plan) int64 {
	var timed, patience float64
	for _, ph := range p.Phases {
		timed += time.Duration(ph.For).Seconds()
		patience += time.Duration(ph.Within).Seconds()
	}
	if timed == 0 {
		return p.TotalRecords()
	}
	rate := p.Workload.Rate
	if rate == 0 {
		rate = unpaced
	}
	return int64(min(float64(p.TotalRecords())+2*rate*(timed+patience+60), math.MaxInt64/2))
}

func (t *truth) observe(e *history.Event) {
	switch e.Kind {
	case history.SourceRange:
		t.reach(e)
	case history.CheckpointCompleted:
		t.place(e.Checkpoint, append([]int64(nil), e.Positions...))
	case history.SavepointCompleted:
		t.savepoint[e.Checkpoint] = true
		t.place(e.Checkpoint, append([]int64(nil), e.Positions...))
	case history.JobStarted:
		t.life = min(t.life+1, len(t.schemas)-1)
	case history.RestoreDone:
		if len(e.Digests) > 0 && e.Checkpoint > 0 {
			t.want(e.Checkpoint)
		}
	}
}

// place notes where a checkpoint stands.
func (t *truth) place(id uint64, positions []int64) {
	t.positions[id], t.schema[id] = positions, t.schemas[t.life]
	for i, p := range positions {
		if p > t.reached(i) {
			t.absurd[id] = fmt.Errorf("it stands at record %d of source partition %d, of which %d were emitted by then", p, i, t.reached(i))
		}
	}
}

// maxPartitions is more than any workload has.
const maxPartitions = 1 << 16

// reach takes a range that a source emitted.
func (t *truth) reach(e *history.Event) {
	if e.Partition < 0 || e.Partition >= maxPartitions {
		return
	}
	for len(t.emitted) <= e.Partition {
		t.emitted = append(t.emitted, 0)
	}
	t.emitted[e.Partition] = max(t.emitted[e.Partition], e.To)
}

func (t *truth) reached(partition int) int64 {
	if partition < len(t.emitted) {
		return t.emitted[partition]
	}
	return 0
}

func (t *truth) want(id uint64) { t.wanted[id] = true }

// compute runs the model. Positions that go back between checkpoints, or that no source reached, make the rest of the truth
// unknown, which the checks that need it report.
func (t *truth) compute(c *Case) {
	for _, r := range c.Restores {
		t.want(r.Checkpoint)
		t.savepoint[r.Checkpoint] = t.savepoint[r.Checkpoint] || r.Savepoint
		if _, known := t.positions[r.Checkpoint]; !known && len(r.Positions) > 0 {
			t.place(r.Checkpoint, r.Positions)
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
		model, err := t.model, t.absurd[id]
		switch {
		case err != nil:
		case t.savepoint[id]:
			model = t.fresh()
			if err = t.possible(t.positions[id]); err == nil {
				err = model.Advance(t.positions[id])
			}
		default:
			err = t.advance(t.positions[id])
		}
		if err != nil {
			t.err = fmt.Errorf("the model cannot follow to checkpoint %d: %w", id, err)
			return
		}
		if v, ok := model.(workloads.Versioned); ok {
			v.Stored(t.schema[id])
		}
		digests := map[stateID]canon.Digest{}
		model.Groups(func(operator, state string, group keygroup.ID, d canon.Digest) {
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
}

func (t *truth) advance(to []int64) error {
	for i, p := range t.final {
		if i < len(to) && to[i] < p {
			return fmt.Errorf("source partition %d goes back from %d to %d", i, p, to[i])
		}
	}
	if err := t.possible(to); err != nil {
		return err
	}
	t.final = to
	return t.model.Advance(to)
}

// possible tells whether the run can have come to the positions at all.
func (t *truth) possible(to []int64) error {
	left := t.limit
	for i, p := range to {
		if left -= p; p < 0 || left < 0 {
			return fmt.Errorf("position %d of source partition %d is more than the plan's %d records allow", p, i, t.limit)
		}
	}
	return nil
}

// timely tells whether the model has no such state, since what is in it depends on when things happened.
func (t *truth) timely(operator, state string) bool {
	m, ok := t.model.(workloads.Timely)
	return ok && m.Timely(operator, state)
}

// compare lists how the digests of one checkpoint's groups differ from the model. got holds the groups that were looked at.
func (t *truth) compare(id uint64, got []history.GroupDigest, complete bool, f *findings, event int64) (groups int) {
	want := t.states[id]
	seen := map[stateID]bool{}
	for _, g := range got {
		if t.timely(g.Operator, g.State) {
			continue
		}
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
