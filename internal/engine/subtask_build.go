package engine

import (
	"fmt"

	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/world"
)

// chains maps each operator to the one that is chained behind it: over a forward edge that is the only way out of the one and the only
// way into the other. Such a pair runs in one loop and passes records by a call; each remains a subtask of its own.
func chains(job *graph.Job) map[string]string {
	out, in := map[string]int{}, map[string]int{}
	for _, e := range job.Edges {
		out[e.From]++
		in[e.To]++
	}
	next := map[string]string{}
	for _, e := range job.Edges {
		if e.Exchange == graph.Forward && out[e.From] == 1 && in[e.To] == 1 {
			next[e.From] = e.To
		}
	}
	return next
}

// newLoops makes the loops of an attempt's subtasks on one worker, in order of their first subtasks, ready to get mail.
func newLoops(a *execution) ([]*loop, error) {
	next, chained := chains(a.w.cfg.Job), map[string]bool{}
	for _, to := range next { // order-free: a set of names
		chained[to] = true
	}
	at := map[place]SubtaskDeployment{}
	for _, d := range a.d.Subtasks {
		at[place{d.Operator, d.Index}] = d
	}
	var loops []*loop
	for _, d := range a.d.Subtasks {
		if chained[d.Operator] {
			continue
		}
		row := []SubtaskDeployment{d}
		for op := next[d.Operator]; op != ""; op = next[op] {
			to, ok := at[place{op, d.Index}]
			if !ok {
				return nil, fmt.Errorf("subtask %s-%d is chained to %s-%d, which is not deployed beside it", d.Operator, d.Index, op, d.Index)
			}
			row = append(row, to)
		}
		l, err := newLoop(a, row)
		if err != nil {
			return nil, err
		}
		loops = append(loops, l)
	}
	return loops, nil
}

// newLoop builds the loop of a chain of subtasks.
func newLoop(a *execution, row []SubtaskDeployment) (*loop, error) {
	cfg := a.w.cfg
	w := cfg.World
	l := &loop{a: a, group: world.NewGroup(w), meter: newMeter(w, len(row)), box: world.NewQueue[any](w, world.Unbounded),
		uploads: map[uint64]*upload{}, simulated: w.Simulated()}
	l.producer = newProducer(w, cfg.Settings.BufferRecords, plan.D(cfg.Settings.FlushEvery), l.meter)
	for _, d := range row {
		node := a.w.node(d.Operator)
		if node == nil {
			return nil, fmt.Errorf("job has no operator %q", d.Operator)
		}
		l.subtasks = append(l.subtasks, &subtask{loop: l, node: node, name: fmt.Sprintf("%s-%d", d.Operator, d.Index), d: d})
	}
	l.roles()
	first := l.subtasks[0]
	var input world.Waitable
	if l.source == nil {
		chans, ready := a.wiring.inputs(first.node.ID, first.d.Index)
		l.gate = newGate(ready, chans)
		l.gate.lax = cfg.Failpoints.Mutant(mutantFirstWatermark)
		l.gate.align.open = cfg.Failpoints.Mutant(mutantUnaligned)
		input = ready.Readable()
	}
	l.wait = world.NewWaitSet(w, l.box.Readable(), input, nil)
	return l, nil
}

// roles makes the roles of the subtasks, the last one first, since each needs to know where its records go.
func (l *loop) roles() {
	var to downstream
	for i := len(l.subtasks) - 1; i >= 0; i-- {
		s := l.subtasks[i]
		if i == len(l.subtasks)-1 && !s.node.Sink {
			l.out = l.fanout(s)
			to = l.out
		}
		var take taker
		switch {
		case s.node.Source != nil:
			l.source = newSource(s, to)
			s.role = l.source
			continue
		case s.node.Sink:
			take = newSink(s)
		default:
			o := newOperator(s, to)
			if take = o; i == 0 && o.timed != nil { // a keyed operator is the first of its loop
				l.clock = o
			}
		}
		s.role = take
		l.takers = append([]taker{take}, l.takers...)
		to = &link{to: s, take: take, max: l.a.w.cfg.Settings.MaxParallelism}
	}
}

// fanout connects the last subtask of a loop to the channels of its edges.
func (l *loop) fanout(s *subtask) *fanout {
	f := &fanout{producer: l.producer, watermark: noWatermark, marked: noWatermark,
		marking: markEvery(l.producer.every, l.a.d.Parallelism)}
	for i, e := range l.a.w.cfg.Job.Edges {
		if e.From == s.node.ID {
			f.outs = append(f.outs, newOutputs(l, e.Exchange, l.a.wiring.outputs(i, s.d.Index))...)
		}
	}
	return f
}
