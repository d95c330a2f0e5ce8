// Package changelog wraps a keyed state backend: each change is applied to the nested backend and logged, so that a
// checkpoint has to store only the log since the last materialization, and the nested backend is snapshotted in the
// background, at its own pace.
//
// A checkpoint of a subtask is three parts: the base (the newest materialization that had finished at the barrier, or what
// the subtask was restored from), the deltas inherited from the restored handles until the first materialization, and the
// subtask's own log from where the base was cut. A restore opens the nested backend from all bases and replays the deltas.
// Every part keeps the key groups for which it is to be read, so rescaling twice without a materialization in between
// neither applies an old log over a newer one nor reads a base again that was replaced.
//
// docs/changelog.md tells how this maps to Apache Flink's changelog state backend and where it differs.
package changelog

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/dstl"
)

// Options configure the backend. Nested is required; the other zero values have the defaults given.
type Options struct {
	// Nested makes the backend that holds the working state. Its Keyed must implement backend.Positioned.
	Nested backend.Factory
	// NestedName is the name that the nested backend writes into handles; it names the format of a base that is still empty.
	NestedName string
	// Materialize is the time from the end of one materialization to the begin of the next; 0: 10 minutes. The first one
	// comes after a part of it that is fixed by the subtask's name, so that subtasks do not materialize together.
	Materialize time.Duration
	// Growth also begins a materialization when a checkpoint has completed and the log is larger than this part of the base, or
	// of the nested state where that is smaller or there is no base, one subtask of a worker at a time; 0: 1. It bounds what
	// checkpoints hold beside the base and what a restore replays, whatever the rate of changes.
	Growth float64
	// GrowthOff leaves the size of the log out of it.
	GrowthOff bool
	// GrowthFloor is the size in bytes that a log must exceed before Growth is looked at, so that a small state is not
	// materialized at every checkpoint; 0: 1 MiB.
	GrowthFloor int64
	// ReplayBudget does as Growth does when replaying the log would take longer, as far as the last restore of the subtask
	// tells; 0: 2 seconds.
	ReplayBudget time.Duration
	// ReplayBudgetOff leaves the time of replay out of it.
	ReplayBudgetOff bool
	// Concurrent is how many subtasks of a worker materialize at a time; another one tries again later. 0: all may.
	Concurrent int
	// ConcurrentJob is how many subtasks of the whole job do, where the worker's surroundings have Permits: another one waits for
	// its turn. 0: all may.
	ConcurrentJob int
	// MaterializeOff disables materialization: the log then grows until the job is restored without the changelog.
	MaterializeOff bool
	// Tolerated is how many materializations in a row may fail before the subtask does; 0: 3.
	Tolerated int

	// Preemptive, PreemptiveOff, BatchDelay, BatchSize, InFlight and Upload are those of dstl.Options.
	Preemptive    int64
	PreemptiveOff bool
	BatchDelay    time.Duration
	BatchSize     int64
	InFlight      int64
	Upload        dstl.UploadOptions
}

// Validate reports everything that is wrong with o.
func (o Options) Validate() error {
	var errs []error
	if o.Nested == nil {
		errs = append(errs, errors.New("no nested backend"))
	}
	if o.Materialize < 0 {
		errs = append(errs, fmt.Errorf("materialization interval is negative: %v", o.Materialize))
	}
	if !(o.Growth >= 0) {
		errs = append(errs, fmt.Errorf("growth is %v, must be 0 or more", o.Growth))
	}
	if o.GrowthFloor < 0 {
		errs = append(errs, fmt.Errorf("floor of growth is negative: %d", o.GrowthFloor))
	}
	if o.ReplayBudget < 0 {
		errs = append(errs, fmt.Errorf("replay budget is negative: %v", o.ReplayBudget))
	}
	if o.Concurrent < 0 {
		errs = append(errs, fmt.Errorf("concurrent materializations are negative: %d", o.Concurrent))
	}
	if o.ConcurrentJob < 0 {
		errs = append(errs, fmt.Errorf("concurrent materializations of the job are negative: %d", o.ConcurrentJob))
	}
	if o.Tolerated < 0 {
		errs = append(errs, fmt.Errorf("tolerated failures are negative: %d", o.Tolerated))
	}
	return errors.Join(append(errs, o.log().Validate())...)
}

func (o Options) withDefaults() Options {
	if o.Materialize == 0 {
		o.Materialize = 10 * time.Minute
	}
	if o.Growth == 0 {
		o.Growth = 1
	}
	if o.GrowthFloor == 0 {
		o.GrowthFloor = 1 << 20
	}
	if o.ReplayBudget == 0 {
		o.ReplayBudget = 2 * time.Second
	}
	if o.Tolerated == 0 {
		o.Tolerated = 3
	}
	return o
}

func (o Options) log() dstl.Options {
	return dstl.Options{
		Preemptive: o.Preemptive, PreemptiveOff: o.PreemptiveOff,
		BatchDelay: o.BatchDelay, BatchSize: o.BatchSize, InFlight: o.InFlight, Upload: o.Upload,
	}
}

// New returns a factory of changelog backends. Invalid options are reported by ForWorker.
func New(o Options) backend.Factory { return factory{o} }

type factory struct{ o Options }

// ForWorker makes the worker's nested backend and the log that its subtasks share.
func (f factory) ForWorker(ctx context.Context, e backend.WorkerEnv) (backend.Backend, error) {
	if err := f.o.Validate(); err != nil {
		return nil, fmt.Errorf("changelog backend: %w", err)
	}
	nested, err := f.o.Nested.ForWorker(ctx, e)
	if err != nil {
		return nil, err
	}
	log, err := dstl.New(e, f.o.log())
	if err != nil {
		return nil, errors.Join(err, nested.Close(ctx))
	}
	return &Backend{o: f.o.withDefaults(), env: e, nested: nested, log: log}, nil
}

// Backend is the changelog backend of one worker in one attempt. Open may be called concurrently.
type Backend struct {
	o      Options
	env    backend.WorkerEnv
	nested backend.Backend
	log    dstl.Log
	grown  atomic.Bool  // a subtask materializes since its log has grown
	taken  atomic.Int64 // subtasks that materialize, where their number is bounded
}

var _ backend.Backend = (*Backend)(nil)

// Close implements backend.Backend: it waits for uploads under way and deletes segments that no checkpoint can need.
func (b *Backend) Close(ctx context.Context) error {
	return errors.Join(b.nested.Close(ctx), b.log.Close(ctx))
}

// Open implements backend.Backend. It also opens handles of the nested backend alone, which have no delta. The
// context must live as long as the subtask: materializations run under it in the subtask's loop.
func (b *Backend) Open(ctx context.Context, o backend.OpenOptions) (backend.Keyed, error) {
	k, err := b.restore(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Subtask, err)
	}
	k.cutAt = b.env.World.Now()
	k.schedule()
	return k, nil
}
