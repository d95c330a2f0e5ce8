package lsm

import (
	"context"
	"time"
)

// Costs are what the database's work costs in the simulated world. Each is CPU time of the subtask's worker.
type Costs struct {
	Write    time.Duration // a put, an append or a delete
	Get      time.Duration
	Scan     time.Duration // an element of a scan
	Flush    time.Duration // a flush of the memtable, besides its bytes
	Snapshot time.Duration // listing and linking the files of a snapshot
	Open     time.Duration // opening a database
	Attach   time.Duration // attaching one layer of restored tables

	FlushByte   time.Duration // a byte of keys and values that is flushed
	CompactByte time.Duration // a byte of table files that is compacted
	FileByte    time.Duration // a byte of a table file that is uploaded or downloaded: read, checksummed, written
}

// DefaultCosts are costs measured with this package's benchmarks; docs/lsm.md has the measurement.
func DefaultCosts() Costs {
	return Costs{
		Write: time.Microsecond, Get: 4 * time.Microsecond, Scan: 500 * time.Nanosecond,
		Flush: 400 * time.Microsecond, Snapshot: 300 * time.Microsecond, Open: 5 * time.Millisecond, Attach: 500 * time.Microsecond,
		FlushByte: 5, CompactByte: 8, FileByte: 1,
	}
}

// chargeAt is the debt from which on it is paid: a payment may let other processes run.
const chargeAt = 250 * time.Microsecond

// owe notes the cost of an operation of the loop, and pays when much is owed. It does nothing in the real world.
func (k *keyed) owe(cost time.Duration) {
	if !k.simulated {
		return
	}
	if k.owed += cost; k.owed >= chargeAt {
		k.pay(k.ctx, 0)
	}
}

// pay charges what is owed and more.
func (k *keyed) pay(ctx context.Context, more time.Duration) {
	cost := k.owed + more
	k.owed = 0
	k.b.e.World.Compute(ctx, cost)
}
