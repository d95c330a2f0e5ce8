package sinks

import (
	"context"
	"fmt"

	"statebench.dev/bench/internal/canon"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
)

// Writer is one sink subtask's way into a Collect, in one attempt. It is used by one process at a time. What it was
// given since its last Precommit belongs to it alone: it vanishes with the writer, so a dead subtask leaves no trace.
type Writer struct {
	collect *Collect
	lineage string // <subtask>/<attempt>
	subtask string
	attempt uint64
	scratch []byte
	records int64 // in the open transaction
	total   int64
	strays  int64
	sums    sums
	marks   [][]bitmap // by tag, then partition; nil where identities are not kept
	twice   duplicates
}

// transaction is what one writer collected for one checkpoint.
type transaction struct {
	subtask    string
	attempt    uint64
	checkpoint uint64
	records    int64
	strays     int64
	sums       []sum
	marks      []marks
	twice      duplicates
}

// marks are the identities of one partition and tag in one transaction.
type marks struct {
	partition int
	tag       uint8
	chunks    []chunk
}

// Add puts a record into the open transaction. Group is the key group of r.Hash. It copies nothing of r but its digest,
// does not allocate in steady state and never waits. A record whose partition, index or group cannot exist is counted
// as a stray, which the result reports.
func (w *Writer) Add(r *graph.Record, group keygroup.ID) {
	w.records++
	w.total++
	if uint(r.Partition) >= uint(w.collect.o.Partitions) || r.Index < 0 || int(group) >= w.collect.o.MaxParallelism {
		w.strays++
		return
	}
	w.scratch = canon.Output(w.scratch[:0], r.Partition, r.Index, r.Tag, r.Key, r.Value)
	w.sums.at(placeOf(r.Partition, group)).Add(w.scratch)
	if w.collect.o.RecordIDs {
		w.mark(r)
	}
}

// mark notes the identity of r.
func (w *Writer) mark(r *graph.Record) {
	for int(r.Tag) >= len(w.marks) {
		w.marks = append(w.marks, nil)
	}
	if w.marks[r.Tag] == nil {
		w.marks[r.Tag] = make([]bitmap, w.collect.o.Partitions)
	}
	if w.marks[r.Tag][r.Partition].set(r.Index) {
		w.twice.add(Identity{Partition: int(r.Partition), Index: r.Index, Tag: r.Tag})
	}
}

// Count is the number of records added since the writer was made.
func (w *Writer) Count() int64 { return w.total }

// Precommit closes the open transaction under the name <subtask>/<attempt>/<checkpoint>, keeps it durably, and opens the
// next. It is not visible in the result before Commit. It returns ErrFenced when a newer attempt has begun, and an
// error for a checkpoint that this writer has precommitted before. It does not wait for the object store.
func (w *Writer) Precommit(ctx context.Context, checkpoint uint64) (txn string, err error) {
	txn = fmt.Sprintf("%s/%d", w.lineage, checkpoint)
	t := w.close(checkpoint)
	if err := w.collect.keep(txn, t); err != nil {
		return "", err
	}
	w.collect.emit(ctx, history.SinkPrecommitted, t)
	return txn, nil
}

// close takes the open transaction out of the writer.
func (w *Writer) close(checkpoint uint64) *transaction {
	t := &transaction{subtask: w.subtask, attempt: w.attempt, checkpoint: checkpoint,
		records: w.records, strays: w.strays, sums: w.sums.take(), twice: w.twice}
	for tag := range w.marks {
		for p := range w.marks[tag] {
			b := &w.marks[tag][p]
			if len(b.chunks) == 0 {
				continue
			}
			t.marks = append(t.marks, marks{partition: p, tag: uint8(tag), chunks: append([]chunk(nil), b.chunks...)})
			b.chunks = b.chunks[:0]
		}
	}
	w.records, w.strays, w.twice = 0, 0, duplicates{}
	return t
}

// digest is that of all records of the transaction.
func (t *transaction) digest() (d canon.Digest) {
	for _, s := range t.sums {
		d.Merge(s.digest)
	}
	return d
}

// maxDuplicates bounds the list of duplicates; their number is exact beyond it.
const maxDuplicates = 1000

// duplicates are identities that were written more than once. Count is how often, list the first maxDuplicates of them.
type duplicates struct {
	count int64
	list  []Identity
}

func (d *duplicates) add(id Identity) {
	d.count++
	if len(d.list) < maxDuplicates {
		d.list = append(d.list, id)
	}
}

func (d *duplicates) merge(o duplicates) {
	d.count += o.count
	d.list = append(d.list, o.list[:min(len(o.list), maxDuplicates-len(d.list))]...)
}
