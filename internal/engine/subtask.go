package engine

import (
	"context"
	"fmt"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
)

// subtask is one parallel instance of an operator. It lives in a loop, alone or chained behind another one, and has its own name,
// state, events and acknowledgements either way.
type subtask struct {
	loop   *loop
	node   *graph.Node
	name   string // <operator>-<index>
	d      SubtaskDeployment
	role   role
	keyed  backend.Keyed // nil without keyed state
	stats  backend.RestoreStats
	counts counts
}

// role is what distinguishes sources, operators and sinks.
type role interface {
	// open prepares for the first record, with the state restored.
	open(ctx context.Context) error
	// snapshot adds what is not keyed to the subtask's part of a checkpoint, in the synchronous part.
	snapshot(ctx context.Context, id uint64, part *checkpoint.SubtaskState) error
	// completed tells that a checkpoint completed.
	completed(ctx context.Context, id uint64) error
}

// taker is a role that takes records: an operator or a sink.
type taker interface {
	role
	process(r *graph.Record, group keygroup.ID) error
	// advance takes a watermark that rose.
	advance(watermark int64) error
	// retire says that no watermark will come, since no source above has a partition.
	retire()
	// settle ends a batch.
	settle(now time.Duration) error
}

// downstream is where the records of a subtask go: the channels of its edges, or the next subtask of its loop.
type downstream interface {
	graph.Collector
	advance(watermark int64) error
	retire()
}

var (
	_ downstream = (*fanout)(nil)
	_ downstream = (*link)(nil)
)

// link leads to a chained subtask: a call instead of a channel.
type link struct {
	to   *subtask
	take taker
	max  int // max parallelism
}

// Collect implements graph.Collector. The record is lent, not copied.
func (k *link) Collect(r *graph.Record) error {
	k.to.counts.in++
	if err := k.take.process(r, keygroup.Of(r.Hash, k.max)); err != nil {
		return k.to.failed(err)
	}
	return nil
}

func (k *link) advance(watermark int64) error {
	if err := k.take.advance(watermark); err != nil {
		return k.to.failed(err)
	}
	return nil
}

func (k *link) retire() { k.take.retire() }

// subtaskError says which subtask of a loop an error belongs to.
type subtaskError struct {
	subtask *subtask
	err     error
}

func (e *subtaskError) Error() string { return e.subtask.name + ": " + e.err.Error() }
func (e *subtaskError) Unwrap() error { return e.err }

// failed marks err as this subtask's, unless it is marked as another one's already.
func (s *subtask) failed(err error) error {
	if marked, ok := err.(*subtaskError); ok {
		return marked
	}
	return &subtaskError{subtask: s, err: err}
}

// record emits an event of the subtask.
func (s *subtask) record(ctx context.Context, e history.Event) {
	e.Actor = s.name
	s.loop.a.record(ctx, e)
}

// ranges are the key groups of the subtask.
func (s *subtask) keys() keygroup.Range {
	a := s.loop.a
	return keygroup.RangeOf(s.d.Index, a.d.Parallelism, a.w.cfg.Settings.MaxParallelism)
}

// open restores the subtask and opens its role.
func (s *subtask) open(ctx context.Context) error {
	restored := s.loop.a.d.Restored
	if restored != 0 {
		s.record(ctx, history.Event{Kind: history.RestoreBegin, Checkpoint: restored, Ranges: []keygroup.Range{s.keys()}})
	}
	if s.node.Keyed {
		if err := s.openKeyed(ctx); err != nil {
			return s.failed(err)
		}
	}
	done := history.Event{Kind: history.RestoreDone, Checkpoint: restored}
	if s.loop.a.d.Digests && s.keyed != nil && restored != 0 { // before an operator of a later schema converts what was restored
		var err error
		if done.Digests, err = s.digests(); err != nil {
			return s.failed(err)
		}
	}
	if err := s.role.open(ctx); err != nil {
		return s.failed(err)
	}
	if restored == 0 {
		return nil
	}
	if src, ok := s.role.(*source); ok {
		done.Positions = src.positions()
	}
	s.record(ctx, done)
	return nil
}

func (s *subtask) openKeyed(ctx context.Context) error {
	a := s.loop.a
	keyed, err := a.backend.Open(ctx, backend.OpenOptions{
		Operator: s.node.ID, Subtask: s.name, Index: s.d.Index, Range: s.keys(), Handles: s.d.Handles, Borrowed: a.d.Borrowed, Loop: s.loop, Restored: &s.stats,
	})
	if err != nil {
		return fmt.Errorf("open keyed state: %w", err)
	}
	s.keyed = keyed
	s.loop.throttle, _ = keyed.(backend.Throttler)
	if a.d.Restored == 0 {
		return nil
	}
	s.record(ctx, history.Event{Kind: history.RestoreLoaded, Checkpoint: a.d.Restored, Dur: s.stats.BaseTime, Bytes: s.stats.BaseBytes})
	s.record(ctx, history.Event{Kind: history.RestoreReplayed, Checkpoint: a.d.Restored, Dur: s.stats.ReplayTime,
		Bytes: s.stats.DeltaBytes, Records: s.stats.ReplayedChanges})
	if s.stats.LocalHits+s.stats.LocalMisses > 0 {
		s.record(ctx, history.Event{Kind: history.RestoreCopied, Checkpoint: a.d.Restored, Bytes: s.stats.LocalBytes,
			Count: s.stats.LocalHits, From: s.stats.LocalMisses})
	}
	return nil
}

// digests are those of all states that are not empty, in order of key group and state.
func (s *subtask) digests() ([]history.GroupDigest, error) {
	var all []history.GroupDigest
	r := s.keyed.Range()
	for g := r.From; g < r.To; g++ {
		for _, spec := range s.keyed.States() {
			d, err := backend.DigestGroup(s.keyed, spec, g)
			if err != nil {
				return nil, fmt.Errorf("digest restored state: %w", err)
			}
			if d.Count > 0 {
				all = append(all, history.GroupDigest{Operator: s.node.ID, State: spec.Name, Group: g, Count: d.Count, Digest: d.String()})
			}
		}
	}
	return all, nil
}
