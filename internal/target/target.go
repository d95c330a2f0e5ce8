// Package target says what a run drives: submit a job, observe it, trigger checkpoints, rescale it, kill parts of it.
//
// What every target can do is Cluster; what only some can do are small interfaces found by type assertion. A fault that a
// target cannot do is refused when the plan is made.
package target

import (
	"context"
	"time"
)

// Cluster runs one job. Methods are safe for concurrent use by processes of the run.
type Cluster interface {
	// Submit starts the job and returns once the first attempt is being deployed.
	Submit(ctx context.Context) error
	// Checkpoint triggers one outside the schedule and waits for its end; it returns the id of the completed checkpoint.
	Checkpoint(ctx context.Context) (uint64, error)
	// Status is a consistent view of the job as the run sees it.
	Status() Status
	// Stop ends the job: no further checkpoint is triggered, all processes of it end. It waits for them.
	Stop(ctx context.Context) error
}

// Status of a job.
type Status struct {
	State         string // created, running, failing, restoring, finished, failed
	Attempt       uint64
	Parallelism   int
	LastCompleted uint64 // newest completed checkpoint; 0: none
	Pending       int    // checkpoints pending
	Deletes       int    // objects that are to be deleted and were not tried yet
	Error         string // why it failed
}

// Rescaler changes the parallelism of a running job.
type Rescaler interface {
	// Rescale restarts the job with the given parallelism, from a fresh checkpoint if the job is healthy (latest), else from the
	// newest completed one; from "previous" takes the newest completed one without a fresh one. It returns when the new attempt runs.
	Rescale(ctx context.Context, parallelism int, from string) error
}

// Killer crashes and revives workers.
type Killer interface {
	// Workers are the names of all workers, alive or not, in a fixed order.
	Workers() []string
	// KillWorker crashes the worker at once; loseDisk wipes its local disk, else what was synced is kept. It may be
	// called from a process of the worker itself, and then does not return.
	KillWorker(ctx context.Context, worker string, loseDisk bool) error
	// ReviveWorker brings a crashed worker back; it waits until all processes of its former life have ended.
	ReviveWorker(ctx context.Context, worker string) error
	// WorkerUp tells whether the named worker is alive.
	WorkerUp(worker string) bool
}

// TaskFailer makes one subtask fail with an error of the user's code.
type TaskFailer interface {
	// FailTask makes the subtask (or any one, for "any") return an error at its next record boundary.
	FailTask(ctx context.Context, subtask string, reason string) error
	// Subtasks are the names of the running attempt's subtasks, in a fixed order.
	Subtasks() []string
}

// StoreServer is the server behind the store, where the run has started one that faults can act on. A call returns once
// the server is in that state; one that finds it in a state it cannot leave that way is an error.
type StoreServer interface {
	// Pause freezes the server: connections are taken, requests hang. Resume ends that, and requests that waited go on.
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
	// Stop ends the server in good order, Kill at once, as a crash does. What it has acknowledged is there after Start.
	Stop(ctx context.Context) error
	Kill(ctx context.Context) error
	// Start brings the server back, whatever was done to it, and returns once it serves.
	Start(ctx context.Context) error
}

// Capabilities say which faults a target can carry out.
type Capabilities struct {
	KillWorker, FailTask, StoreFaults, Rescale bool
	// StoreServer: there is a server behind the store that can be paused, stopped, killed and started.
	StoreServer bool
	Workers     int
}

// Lag is the source lag of a cluster.
type Lag interface {
	// Lag is how late the newest emitted records are against their due times, the maximum over partitions.
	Lag() time.Duration
	// Emitted is the number of distinct source records emitted so far (replays count once).
	Emitted() int64
}
