package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/world"
)

// ledger is the process that owns the coordinator log. Its jobs are done one after the other, in the order in which they were
// given, since the log is a sequence; each is answered with a ledgerDone in the leader's mailbox.
type ledger struct {
	c    *coordinator
	log  *checkpoint.Log
	jobs *world.Queue[ledgerJob]
	// Of the leader's loop:
	open   int   // jobs that were given and not answered
	fenced error // another leader took over
}

// ledgerJob is one of: reserve ids up to reserve, complete the checkpoint with this metadata, drop checkpoints, start the job.
type ledgerJob struct {
	reserve  uint64
	complete *checkpoint.Metadata
	// savepoint says that complete is one.
	savepoint bool
	deadline  time.Duration // for the metadata object of complete
	drop      []uint64
	start     *request
}

// ledgerDone answers a job.
type ledgerDone struct {
	job      ledgerJob
	object   checkpoint.ObjectUse // complete: the metadata object
	encode   time.Duration        // complete: what it took to make the metadata object
	written  bool                 // complete: the metadata object may be there
	reserved uint64
	dropped  []uint64 // what stands in the log as dropped, of job.drop
	err      error
}

func newLedger(c *coordinator, log *checkpoint.Log) *ledger {
	return &ledger{c: c, log: log, jobs: world.NewQueue[ledgerJob](c.world, world.Unbounded)}
}

// firstAttempt is the number below the first attempt of this leader.
func (l *ledger) firstAttempt() uint64 {
	if l == nil {
		return 0
	}
	return (l.log.Term()-1)*attemptsPerTerm + 1
}

// start runs the process until ctx ends.
func (l *ledger) start(ctx context.Context) {
	l.c.children.Go(ctx, "ledger", func(ctx context.Context) error {
		for {
			j, err := l.jobs.Take(ctx)
			if err != nil {
				return nil // stopped
			}
			done := l.do(ctx, j)
			if ctx.Err() != nil {
				return nil
			}
			l.c.end.Post(ctx, 0, done)
		}
	})
}

// give hands a job to the process; called by the loop.
func (l *ledger) give(j ledgerJob) {
	l.open++
	l.jobs.TryPut(j)
}

func (l *ledger) do(ctx context.Context, j ledgerJob) ledgerDone {
	switch {
	case j.complete != nil:
		return l.complete(ctx, j)
	case j.drop != nil:
		return l.drop(ctx, j)
	case j.start != nil:
		o := j.start.origin
		err := l.log.Start(store.WithInfo(ctx, store.Info{Cause: "coord", Checkpoint: o.Metadata.ID}), o.Metadata.ID, o.Object.Key, checkpoint.Mode(j.start.mode))
		return ledgerDone{job: j, err: err}
	}
	err := l.log.Reserve(store.WithInfo(ctx, store.Info{Cause: "coord"}), j.reserve)
	return ledgerDone{job: j, reserved: l.log.State().Reserved, err: err}
}

// complete writes the metadata object and then the entry that decides.
func (l *ledger) complete(ctx context.Context, j ledgerJob) ledgerDone {
	m := j.complete
	began := l.c.world.Now()
	body := checkpoint.Encode(m)
	took := l.c.world.Now() - began
	key, entry := checkpoint.MetadataKey(m.ID, m.Term), l.log.Complete
	if j.savepoint {
		key, entry = checkpoint.SavepointMetadataKey(m.ID, m.Term), l.log.Savepoint
	}
	done := ledgerDone{job: j, object: checkpoint.ObjectUse{
		Key: key, Bytes: int64(len(body)), CRC32C: store.CRC32C(body),
	}, encode: took}
	if newest := l.log.State().Newest; newest >= m.ID && !j.savepoint {
		done.err = fmt.Errorf("checkpoint %d completed before: %w", newest, errSubsumed)
		return done
	}
	if done.err = l.c.pass(ctx, failpoint.CheckpointMetadataBegin); done.err != nil {
		return done
	}
	ctx = store.WithInfo(ctx, store.Info{Attempt: m.Attempt, Checkpoint: m.ID})
	done.written = true
	if done.err = l.putMetadata(ctx, done.object.Key, body, j.deadline); done.err != nil {
		return done
	}
	if done.err = l.c.pass(ctx, failpoint.CheckpointMetadataEnd); done.err != nil {
		return done
	}
	if done.err = l.c.pass(ctx, failpoint.CheckpointEntryBegin); done.err != nil {
		return done
	}
	if done.err = entry(store.WithInfo(ctx, store.Info{Cause: "coord"}), m.ID, done.object.Key); done.err != nil {
		return done
	}
	// It is decided: an error planned for the end of the step can only be reported by whoever planned it.
	_ = l.c.pass(ctx, failpoint.CheckpointEntryEnd)
	return done
}

var (
	errSubsumed = errors.New("a newer checkpoint completed")
	errExpired  = errors.New("checkpoint expired")
)

// putMetadata gives up at the checkpoint's deadline: as long as no entry names it, the object means nothing.
func (l *ledger) putMetadata(ctx context.Context, key string, body []byte, deadline time.Duration) error {
	limited, cancel := ctx, func() {}
	if deadline != world.Never {
		limited, cancel = l.c.world.WithTimeout(ctx, max(deadline-l.c.world.Now(), time.Nanosecond))
	}
	defer cancel()
	err := l.c.bucket.Put(limited, key, body, store.PutOptions{IfNotExist: true, Info: store.Info{Cause: "meta"}})
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return fmt.Errorf("%w while its metadata was written: %w", errExpired, err)
	}
	return err
}

// drop removes checkpoints from the log, oldest first, and stops at the first error.
func (l *ledger) drop(ctx context.Context, j ledgerJob) ledgerDone {
	done := ledgerDone{job: j}
	for _, id := range j.drop {
		if done.err = l.c.pass(ctx, failpoint.CheckpointDropBegin); done.err != nil {
			return done
		}
		if done.err = l.log.Drop(store.WithInfo(ctx, store.Info{Cause: "coord", Checkpoint: id}), id); done.err != nil {
			return done
		}
		done.dropped = append(done.dropped, id)
		_ = l.c.pass(ctx, failpoint.CheckpointDropEnd) // it is dropped: too late for an error
	}
	return done
}
