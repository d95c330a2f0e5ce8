package sinks

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"statebench.dev/bench/internal/canon"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// Options of a Collect.
type Options struct {
	World world.World
	// Partitions is the number of source partitions, at most 65,536.
	Partitions int
	// MaxParallelism is the number of key groups.
	MaxParallelism int
	// RecordIDs keeps the identity of every committed record, in about one bit each, so that lost and duplicate records
	// can be named. Without it there are counts and digests only.
	RecordIDs bool
	// Record takes the sink's events; nil: none are emitted. It is called without a lock held, after the effect, and
	// may unwind the calling process.
	Record func(ctx context.Context, e history.Event)
}

// Collect is a transactional sink that keeps counts, digests and identities of committed records. All methods may be
// called concurrently. None waits for more than another's short critical section.
type Collect struct {
	o  Options
	mu *world.Mutex
	// Guarded by mu.
	attempt   uint64                  // the newest that Restore was told of; older ones are fenced
	pending   map[string]*transaction // precommitted, by name
	committed map[string]*intervals   // checkpoints of committed transactions, by <subtask>/<attempt>
	sums      map[place]canon.Digest
	marks     map[stream]*bitmap
	twice     duplicates
	totals    totals
}

// stream is the part of the output whose identities differ in the index only.
type stream struct {
	partition int
	tag       uint8
}

// totals count what happened to transactions.
type totals struct {
	records, strays    int64
	committed, aborted int64
}

// NewCollect makes an empty sink.
func NewCollect(o Options) *Collect {
	return &Collect{o: o, mu: world.NewMutex(o.World), pending: map[string]*transaction{}, committed: map[string]*intervals{},
		sums: map[place]canon.Digest{}, marks: map[stream]*bitmap{}}
}

// Writer makes the writer of one sink subtask in one attempt. It may be made before or after the attempt's Restore.
func (c *Collect) Writer(subtask string, attempt uint64) *Writer {
	return &Writer{collect: c, subtask: subtask, attempt: attempt, lineage: lineageOf(subtask, attempt)}
}

func lineageOf(subtask string, attempt uint64) string {
	return subtask + "/" + strconv.FormatUint(attempt, 10)
}

// keep stores a closed transaction.
func (c *Collect) keep(txn string, t *transaction) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.attempt < c.attempt {
		return fmt.Errorf("precommit %s: %w (%d)", txn, ErrFenced, c.attempt)
	}
	if done := c.committed[lineageOf(t.subtask, t.attempt)]; c.pending[txn] != nil || done != nil && done.has(t.checkpoint) {
		return fmt.Errorf("precommit %s: transaction exists already", txn)
	}
	c.pending[txn] = t
	return nil
}

// Commit makes a precommitted transaction part of the result. Committing it again changes nothing and is no error. The
// error is ErrUnknown for a transaction that was never precommitted, or was aborted, and ErrFenced for an uncommitted one
// of an attempt that a newer one has taken over from.
func (c *Collect) Commit(ctx context.Context, txn string) error {
	return c.commitAs(ctx, txn, false)
}

// commitAs commits; restoring lets transactions of fenced attempts through.
func (c *Collect) commitAs(ctx context.Context, txn string, restoring bool) error {
	t, err := c.commit(txn, restoring)
	if err != nil {
		return err
	}
	if t != nil {
		c.emit(ctx, history.SinkCommitted, t)
	}
	return nil
}

// commit returns nil for a transaction that was committed before.
func (c *Collect) commit(txn string, restoring bool) (*transaction, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.pending[txn]
	if t == nil {
		if c.wasCommitted(txn) {
			return nil, nil
		}
		return nil, fmt.Errorf("commit %s: %w", txn, ErrUnknown)
	}
	if t.attempt < c.attempt && !restoring {
		return nil, fmt.Errorf("commit %s: %w (%d)", txn, ErrFenced, c.attempt)
	}
	delete(c.pending, txn)
	lineage := lineageOf(t.subtask, t.attempt)
	if c.committed[lineage] == nil {
		c.committed[lineage] = &intervals{}
	}
	c.committed[lineage].add(t.checkpoint)
	c.apply(t)
	return t, nil
}

func (c *Collect) wasCommitted(txn string) bool {
	i := strings.LastIndexByte(txn, '/')
	checkpoint, err := strconv.ParseUint(txn[i+1:], 10, 64)
	if i < 0 || err != nil {
		return false
	}
	done := c.committed[txn[:i]]
	return done != nil && done.has(checkpoint)
}

// apply adds the transaction to the committed output.
func (c *Collect) apply(t *transaction) {
	c.totals.committed++
	c.totals.records += t.records
	c.totals.strays += t.strays
	for _, s := range t.sums {
		d := c.sums[s.at]
		d.Merge(s.digest)
		c.sums[s.at] = d
	}
	for _, m := range t.marks {
		at := stream{m.partition, m.tag}
		if c.marks[at] == nil {
			c.marks[at] = &bitmap{}
		}
		c.marks[at].merge(m.chunks, func(index int64) {
			c.twice.add(Identity{Partition: m.partition, Index: index, Tag: m.tag})
		})
	}
	c.twice.merge(t.twice)
}

// Restore begins an attempt from a checkpoint: it commits the transactions in keep, which the checkpoint names, aborts
// every other uncommitted transaction of earlier attempts, and from then on refuses precommits and commits of those attempts. With
// attempt 1 and nothing to keep it changes nothing. It may be repeated. It returns ErrFenced for an attempt older than
// the newest, and ErrUnknown, changing no more than the fence, when a transaction of keep is lost.
func (c *Collect) Restore(ctx context.Context, attempt uint64, keep []string) error {
	if err := c.fence(attempt); err != nil {
		return err
	}
	for _, txn := range keep {
		if err := c.commitAs(ctx, txn, true); err != nil {
			return fmt.Errorf("restore attempt %d: %w", attempt, err)
		}
	}
	for _, t := range c.abort(attempt) {
		c.emit(ctx, history.SinkAborted, t)
	}
	return nil
}

// fence makes attempt the newest.
func (c *Collect) fence(attempt uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if attempt < c.attempt {
		return fmt.Errorf("restore attempt %d: %w (%d)", attempt, ErrFenced, c.attempt)
	}
	c.attempt = attempt
	return nil
}

// abort drops the uncommitted transactions of attempts before attempt and returns them in order of name.
func (c *Collect) abort(attempt uint64) []*transaction {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for txn, t := range c.pending { // order-free: sorted below
		if t.attempt < attempt {
			names = append(names, txn)
		}
	}
	sort.Strings(names)
	aborted := make([]*transaction, len(names))
	for i, txn := range names {
		aborted[i] = c.pending[txn]
		delete(c.pending, txn)
	}
	c.totals.aborted += int64(len(names))
	return aborted
}

// emit records an event about a transaction.
func (c *Collect) emit(ctx context.Context, kind history.Kind, t *transaction) {
	if c.o.Record == nil {
		return
	}
	c.o.Record(ctx, history.Event{Kind: kind, Actor: t.subtask, Attempt: t.attempt, Checkpoint: t.checkpoint,
		Records: t.records, Digest: t.digest().String()})
}
