// Package engine is the in-process target: a coordinator, workers with slots, subtasks, barriers, failover and rescaling.
//
// Every actor is one loop over one mailbox. All messages between coordinators and workers go through one Transport, the only
// place that stamps and checks fencing tokens; data between subtasks goes through the channels of a Network. Neither shares
// variables with the other side.
package engine

import (
	"context"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/sinks"
	"statebench.dev/bench/internal/world"
)

// Config is all an engine needs. It is not changed after New.
type Config struct {
	World    world.World
	Job      *graph.Job
	Settings plan.Job
	Workers  plan.Workers
	Total    int64 // records the sources emit together; math.MaxInt64: until Drain
	Backend  backend.Factory
	// Bucket is the run's store for everybody, with trace and retry; the engine fences it for each worker and coordinator.
	Bucket     store.Bucket
	Collect    *sinks.Collect
	Failpoints *failpoint.Set
	// Record stores an event; it may unwind the calling process when a trigger kills its domain.
	Record func(ctx context.Context, e history.Event)
	// Reached, where set, is called by a source subtask after each batch with the number of distinct records that all sources
	// together have emitted; it must be cheap and may unwind the process.
	Reached func(ctx context.Context, emitted int64)
	// OnCompleted, where set, is called by the coordinator once per completed checkpoint, in order of ids, with what it
	// names and what it names no more. It must not block.
	OnCompleted func(c checkpoint.RefsChange)
	Digests     bool   // record digests of restored state
	Folder      string // for the workers' local disks in the real world; empty: in memory
}
