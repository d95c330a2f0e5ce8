package engine

import (
	"context"
	"fmt"
	"time"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/sinks"
)

// sink writes into the run's Collect in two phases: a transaction a checkpoint, closed in the synchronous part and committed once
// the checkpoint, or a later one, has completed.
type sink struct {
	s       *subtask
	writer  *sinks.Writer
	pending []transaction // closed and not known to be committed, in order of checkpoints
	dues    []time.Duration
	latency *latency
	any     bool // a record has come
}

type transaction struct {
	checkpoint uint64
	name       string
}

var _ taker = (*sink)(nil)

func newSink(s *subtask) *sink {
	return &sink{s: s, latency: newLatency(s.loop.a.w.cfg.World)}
}

// open commits again what the restored checkpoint commits. The transactions of others, and those that are to be aborted, are the
// coordinator's business, who knows all of them.
func (k *sink) open(ctx context.Context) error {
	a := k.s.loop.a
	k.writer = a.w.cfg.Collect.Writer(k.s.name, a.id)
	for _, name := range k.s.d.Commit {
		if err := a.w.cfg.Collect.Commit(ctx, name); err != nil {
			return fmt.Errorf("commit again after restore: %w", err)
		}
	}
	return nil
}

func (k *sink) process(r *graph.Record, group keygroup.ID) error {
	k.writer.Add(r, group)
	k.dues = append(k.dues, r.Due)
	return nil
}

func (k *sink) advance(int64) error { return nil }

func (k *sink) retire() {}

// settle measures how late the records of a batch are: at the end of it, with one look at the clock.
func (k *sink) settle(now time.Duration) error {
	if len(k.dues) == 0 {
		return nil
	}
	if !k.any {
		k.any = true
		k.s.record(k.s.loop.ctx, history.Event{Kind: history.OutputFirst})
	}
	k.latency.add(now, k.dues)
	k.dues = k.dues[:0]
	return nil
}

// snapshot closes the open transaction. The checkpoint names those of earlier checkpoints too that nobody committed: they end
// before this barrier, and if their checkpoints were aborted only this one makes them count.
func (k *sink) snapshot(ctx context.Context, id uint64, part *checkpoint.SubtaskState) error {
	name, err := k.writer.Precommit(ctx, id)
	if err != nil {
		return fmt.Errorf("precommit: %w", err)
	}
	a := k.s.loop.a
	if a.w.cfg.Failpoints.Mutant(mutantCommitEarly) {
		if err := a.w.cfg.Collect.Commit(ctx, name); err != nil {
			return fmt.Errorf("commit with checkpoint %d: %w", id, err)
		}
	}
	k.pending = append(k.pending, transaction{checkpoint: id, name: name})
	for _, t := range k.pending {
		part.Transactions = append(part.Transactions, t.name)
	}
	return nil
}

// completed commits the transactions up to the checkpoint.
func (k *sink) completed(ctx context.Context, id uint64) error {
	for len(k.pending) > 0 && k.pending[0].checkpoint <= id {
		if err := k.s.loop.a.w.cfg.Collect.Commit(ctx, k.pending[0].name); err != nil {
			return fmt.Errorf("commit after checkpoint %d: %w", id, err)
		}
		k.pending = k.pending[1:]
	}
	return nil
}
