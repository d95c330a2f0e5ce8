package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/world"
)

// echo is a worker that does nothing and says yes to everything. Each of its keyed subtasks names the newest segments of the worker.
func echo(w world.World, t *Transport, name string, slots, segments, maxParallelism int) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		end := t.Attach(name, world.DomainOf(ctx), 1)
		end.Send(ctx, coordinatorName, 0, Register{Worker: name, Slots: slots, Life: 1})
		var d Deploy
		for {
			m, err := end.Take(ctx)
			if err != nil {
				return nil
			}
			switch b := m.Body.(type) {
			case Heartbeat:
				end.Send(ctx, m.From, 0, Heartbeat{Sent: w.Now(), Life: 1})
			case Deploy:
				d = b
				for _, s := range d.Subtasks {
					end.Send(ctx, m.From, m.Attempt, SubtaskRunning{Operator: s.Operator, Index: s.Index})
				}
			case CancelAttempt:
				end.Send(ctx, m.From, m.Attempt, AttemptEnded{Worker: name})
			case TriggerCheckpoint:
				for _, s := range d.Subtasks {
					a := Acknowledge{Checkpoint: b.ID, State: checkpoint.SubtaskState{Operator: s.Operator, Index: s.Index}}
					if s.Operator == "count" {
						h := &backend.StateHandle{Backend: "heap", Operator: s.Operator, Range: keygroup.RangeOf(s.Index, d.Parallelism, maxParallelism), Checkpoint: b.ID}
						for i := range uint64(segments) {
							h.Delta = append(h.Delta, backend.ObjectRef{Key: fmt.Sprintf("log/1/%s/%d.seg", name, b.ID+i), Bytes: 1 << 20, Length: 1 << 16, Groups: h.Range})
						}
						a.State.Keyed = h
					}
					end.Send(ctx, m.From, m.Attempt, a)
				}
			}
		}
	}
}

// BenchmarkCoordinator is the leader's work for one checkpoint of 1,000 subtasks of three operators on 50 workers, 20 segments each, with
// what the echoing workers and the simulated world cost.
func BenchmarkCoordinator(b *testing.B) {
	const workers, slots, segments, maxParallelism = 50, 20, 20, 4096
	simulate(b, 1, func(ctx context.Context, w world.World) {
		record := func(context.Context, history.Event) {}
		src := &numbers{parts: workers * slots, keys: 1, total: 1}
		cfg := &Config{
			World: w, Job: countJob(src, func() graph.Operator { return &counter{} }), Bucket: store.NewMem(), Failpoints: failpoint.New(), Record: record,
			Settings: plan.Job{Parallelism: workers * slots, MaxParallelism: maxParallelism, Checkpoint: plan.Checkpoint{Retain: 1, MaxConcurrent: 1}},
			Workers:  plan.Workers{Count: workers, Slots: slots, HeartbeatEvery: plan.Duration(time.Second), HeartbeatTimeout: plan.Duration(10 * time.Second)},
		}
		e, err := New(Config{World: w, Job: cfg.Job, Bucket: cfg.Bucket, Record: record, Backend: nopFactory{}, Settings: cfg.Settings, Workers: cfg.Workers})
		if err != nil {
			b.Fatal(err)
		}
		base, cancel := w.WithCancel(ctx)
		c := newCoordinator(cfg, e.transport, e.network, e.view, nil, coordinatorName, 1)
		e.mu.coordinator, e.mu.ctx, e.mu.cancel = c, base, cancel
		e.lead.Go(base, coordinatorName, c.run)
		g := world.NewGroup(w)
		for i := range workers {
			g.Go(base, workerName(i), echo(w, e.transport, workerName(i), slots, segments, maxParallelism))
		}
		if err := e.view.deployed.Wait(ctx); err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := e.Checkpoint(ctx); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(e.transport.Longest()), "longest-mailbox")
		cancel(errStopped)
		_ = g.Wait(ctx)
		_ = e.lead.Wait(ctx)
	})
}

type nopFactory struct{}

func (nopFactory) ForWorker(context.Context, backend.WorkerEnv) (backend.Backend, error) {
	return nil, nil
}
