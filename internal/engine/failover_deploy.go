package engine

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sort"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/history"
)

// assign gives each of p subtask indices a worker: the one it had before, if that lives and has a slot, else the one
// with the most free slots. It returns nil when there are too few slots.
func assign(p int, alive []*remote, before []string) []string {
	free := map[string]int{}
	total := 0
	for _, r := range alive {
		free[r.name] = r.slots
		total += r.slots
	}
	if total < p {
		return nil
	}
	where := make([]string, p)
	for i := range min(p, len(before)) {
		if free[before[i]] > 0 {
			where[i] = before[i]
			free[before[i]]--
		}
	}
	for i := range where {
		if where[i] != "" {
			continue
		}
		best := ""
		for _, r := range alive {
			if free[r.name] > 0 && (best == "" || free[r.name] > free[best]) {
				best = r.name
			}
		}
		where[i] = best
		free[best]--
	}
	return where
}

// deploy starts the next attempt from the chosen checkpoint, or stays waiting while there are too few slots.
func (c *coordinator) deploy(ctx context.Context) {
	p, alive := c.job.parallelism, c.workers.alive()
	var before []string
	if c.attempt != nil {
		before = c.attempt.where
	} else if len(alive) < c.cfg.Workers.Count && c.world.Now() < c.until {
		return // the first attempt is to be spread over all workers
	}
	where := assign(p, alive, before)
	if where == nil {
		return
	}
	c.attempts++
	a := &attempt{
		id: c.attempts, parallelism: p, where: where, lives: map[string]uint64{},
		running: make([]bool, len(c.job.operators)*p), left: len(c.job.operators) * p,
	}
	var from *checkpoint.Metadata
	if c.choice != nil {
		from = c.choice.Metadata
		a.restored = from.ID
	}
	for _, w := range where {
		if _, ok := a.lives[w]; !ok {
			a.lives[w] = c.workers.of[w].life
			a.hosts = append(a.hosts, w)
		}
	}
	sort.Strings(a.hosts)
	borrowed := c.origin != nil && c.origin.Metadata.ID == a.restored && c.mode == checkpoint.NoClaim
	shares := c.shares(from, p)
	err := shares.alike()
	if err == nil {
		err = c.restoreSink(ctx, a.id, from)
	}
	if err != nil {
		c.attempts--
		c.failJob(ctx, err)
		return
	}
	c.attempt, c.choice, c.phase = a, nil, phaseDeploying
	c.network.Progress().restart()
	c.record(ctx, history.Event{Kind: history.AttemptStarted, Actor: c.name, Attempt: a.id, Count: int64(p), Checkpoint: a.restored, Text: c.cause})
	for _, h := range a.hosts {
		d := Deploy{Parallelism: p, Restored: a.restored, Borrowed: borrowed, Digests: c.cfg.Digests, Backend: c.backend}
		if from != nil {
			d.Written = from.Attempt
		}
		for _, op := range c.job.operators {
			for i, w := range where {
				if w == h {
					d.Subtasks = append(d.Subtasks, shares.of(op, i))
				}
			}
		}
		c.end.Send(ctx, h, a.id, d)
	}
	c.view.deployed.Open()
}

// restoreSink tells the output, which lives outside of the job, what the restored checkpoint committed and that older
// attempts are over.
func (c *coordinator) restoreSink(ctx context.Context, attempt uint64, from *checkpoint.Metadata) error {
	if c.cfg.Collect == nil {
		return nil
	}
	var keep []string
	if from != nil && !c.mutant(mutantDropCommits) {
		for i := range from.Subtasks {
			keep = append(keep, from.Subtasks[i].Transactions...)
		}
	}
	if err := c.cfg.Collect.Restore(ctx, attempt, keep); err != nil {
		return fmt.Errorf("restore the sink for attempt %d: %w", attempt, err)
	}
	return nil
}

// shares are the parts of a checkpoint that the subtasks of an attempt restore.
type shares struct {
	c           *coordinator
	from        *checkpoint.Metadata // nil: nothing is restored
	parallelism int
	positions   []int64             // by partition
	commit      []string            // transactions, in order of the subtasks that wrote them
	parts       map[string][][]byte // by operator, in order of the subtasks
	own         map[place][][]byte  // by subtask, where the parallelism stays the same
	handles     map[string][]*backend.StateHandle
}

func (c *coordinator) shares(from *checkpoint.Metadata, p int) *shares {
	s := &shares{c: c, from: from, parallelism: p, positions: make([]int64, c.job.partitions), parts: map[string][][]byte{},
		own: map[place][][]byte{}, handles: map[string][]*backend.StateHandle{}}
	if from == nil {
		return s
	}
	for i := range from.Subtasks {
		t := &from.Subtasks[i]
		for _, at := range t.Positions {
			if at.Partition >= 0 && at.Partition < len(s.positions) {
				s.positions[at.Partition] = at.Next
			}
		}
		s.commit = append(s.commit, t.Transactions...)
		s.parts[t.Operator] = append(s.parts[t.Operator], t.Parts...)
		s.own[place{t.Operator, t.Index}] = t.Parts
		if t.Keyed != nil {
			s.handles[t.Operator] = append(s.handles[t.Operator], t.Keyed)
		}
	}
	return s
}

// of is what subtask index of an operator gets.
func (s *shares) of(operator string, index int) SubtaskDeployment {
	job := &s.c.job
	d := SubtaskDeployment{Operator: operator, Index: index, Parts: s.operatorState(operator, index)}
	if job.keyed[operator] {
		r := job.keyRange(index, s.parallelism)
		for _, h := range s.handles[operator] {
			if n, ok := h.Narrow(r); ok && !(len(d.Handles) > 0 && s.c.mutant(mutantFirstHandle)) {
				d.Handles, d.Whole = append(d.Handles, n), append(d.Whole, *h)
			}
		}
	}
	if operator == job.source {
		for p := index; p < len(s.positions); p += s.parallelism {
			at := p
			if s.from != nil && s.from.Parallelism != s.parallelism && s.c.mutant(mutantSwapPositions) {
				at = (p + 1) % len(s.positions)
			}
			d.Positions = append(d.Positions, checkpoint.Position{Partition: p, Next: s.positions[at]})
		}
	}
	if operator == job.sink && !s.c.mutant(mutantDropCommits) {
		for i := index; i < len(s.commit); i += s.parallelism {
			d.Commit = append(d.Commit, s.commit[i])
		}
	}
	return d
}

// alike checks that all subtasks of an operator have the same broadcast state.
func (s *shares) alike() error {
	for _, op := range s.c.job.operators {
		if s.from == nil || s.c.job.redistribute[op] != graph.Whole {
			continue
		}
		first := s.own[place{op, 0}]
		for i := 1; i < s.from.Parallelism; i++ {
			if !slices.EqualFunc(first, s.own[place{op, i}], bytes.Equal) {
				return fmt.Errorf("checkpoint %d: the broadcast state of %s is not that of %s", s.from.ID, subtaskName(op, i), subtaskName(op, 0))
			}
		}
	}
	return nil
}

// operatorState deals out state that is not keyed. A subtask keeps its own parts as long as the parallelism stays.
func (s *shares) operatorState(operator string, index int) [][]byte {
	all := s.parts[operator]
	switch {
	case len(all) == 0, s.from.Parallelism != s.parallelism && s.c.mutant(mutantForgetState):
		return nil
	case s.c.job.redistribute[operator] == graph.Union:
		return slices.Clone(all)
	case s.c.job.redistribute[operator] == graph.Whole:
		return s.own[place{operator, 0}]
	case s.from.Parallelism == s.parallelism:
		return s.own[place{operator, index}]
	}
	var mine [][]byte
	for i := index; i < len(all); i += s.parallelism {
		mine = append(mine, all[i])
	}
	return mine
}
