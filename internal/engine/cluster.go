package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"statebench.dev/bench/internal/target"
	"statebench.dev/bench/internal/world"
)

// Engine is one job on an in-process cluster of one coordinator and several workers. All methods may be called
// concurrently by processes of the run, Metrics by one at a time. Those that wait for the job (Submit, Checkpoint,
// Rescale, CleanUp, Stop) must not be called from a process that emits an event of the engine, which would wait for
// itself; KillWorker, FailTask and what only reads may.
type Engine struct {
	cfg       *Config
	transport *Transport
	network   *Network
	view      *view
	lead      *world.Group            // the coordinator's main process
	latency   *hdrhistogram.Histogram // what Metrics last returned; nil before it had anything
	mu        struct {
		*world.Mutex
		coordinator *coordinator // nil before Submit
		ctx         context.Context
		cancel      context.CancelCauseFunc
		hosts       []*host
		stopped     bool
	}
}

var (
	_ target.Cluster    = (*Engine)(nil)
	_ target.Rescaler   = (*Engine)(nil)
	_ target.Killer     = (*Engine)(nil)
	_ target.TaskFailer = (*Engine)(nil)
	_ target.Lag        = (*Engine)(nil)
)

// New makes an engine that runs nothing yet. The error names everything in cfg that it cannot work with.
func New(cfg Config) (*Engine, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	e := &Engine{cfg: &cfg, network: newNetwork(&cfg), view: newView(cfg.World), lead: world.NewGroup(cfg.World)}
	e.transport = NewTransport(cfg.World, cfg.Record, func() bool { return cfg.Failpoints.Mutant(mutantAcceptZombie) })
	e.mu.Mutex = world.NewMutex(cfg.World)
	for i := range cfg.Workers.Count {
		e.mu.hosts = append(e.mu.hosts, &host{name: workerName(i)})
	}
	return e, nil
}

func (cfg *Config) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(cfg.World != nil && cfg.Job != nil && cfg.Backend != nil && cfg.Bucket != nil && cfg.Record != nil, "world, job, backend, bucket and record are needed")
	if cfg.Job != nil {
		if err := cfg.Job.Validate(); err != nil {
			errs = append(errs, err)
		}
	}
	p, most := cfg.Settings.Parallelism, cfg.Settings.MaxParallelism
	check(p >= 1 && p <= most && most <= 1<<15, "parallelism %d and max parallelism %d: need 1 <= p <= max <= 32768", p, most)
	slots := cfg.Workers.Count * cfg.Workers.Slots
	check(p <= slots, "parallelism %d needs as many slots, there are %d", p, slots)
	return errors.Join(errs...)
}

func workerName(i int) string { return "worker-" + strconv.Itoa(i) }

// coordinatorName is the only coordinator's.
const coordinatorName = "coordinator-0"

// Submit starts the coordinator and the workers, and returns once the first attempt is being deployed. Their processes end with
// Stop, not with ctx. It is called once.
func (e *Engine) Submit(ctx context.Context) error {
	e.mu.Lock()
	if e.mu.coordinator != nil || e.mu.stopped {
		e.mu.Unlock()
		return errors.New("the job was submitted before")
	}
	base, cancel := e.cfg.World.WithCancel(context.Background())
	domain := e.cfg.World.NewDomain(coordinatorName, world.DomainOptions{})
	c := newCoordinator(e.cfg, e.transport, e.network, e.view, domain, coordinatorName, 1)
	e.mu.ctx, e.mu.cancel, e.mu.coordinator = base, cancel, c
	hosts := slices.Clone(e.mu.hosts)
	e.mu.Unlock()
	e.lead.Go(domain.Enter(base), coordinatorName, c.run)
	for _, h := range hosts {
		e.startWorker(h)
	}
	if _, err := world.Wait(ctx, e.cfg.World, world.Never, e.view.deployed, e.lead); err != nil {
		return err
	}
	if !e.view.deployed.Opened() {
		return e.ended()
	}
	return nil
}

// ended is why the coordinator is not there any more.
func (e *Engine) ended() error {
	if err := e.lead.Err(); err != nil {
		return fmt.Errorf("the coordinator ended: %w", err)
	}
	if s := e.view.status(); s.Error != "" {
		return fmt.Errorf("the job failed: %s", s.Error)
	}
	return errStopped
}

// ask gives the leader a request and waits for the answer.
func (e *Engine) ask(ctx context.Context, r *request) (uint64, error) {
	e.mu.Lock()
	c := e.mu.coordinator
	e.mu.Unlock()
	if c == nil {
		return 0, errors.New("the job has not been submitted")
	}
	r.done = world.NewLatch(e.cfg.World)
	if e.lead.Running() == 0 {
		return 0, e.ended()
	}
	c.end.Post(ctx, 0, r)
	if _, err := world.Wait(ctx, e.cfg.World, world.Never, r.done, e.lead); err != nil {
		return 0, err
	}
	if !r.done.Opened() {
		return 0, e.ended()
	}
	return r.id, r.err
}

// Checkpoint implements target.Cluster. It waits until the job runs and no more than the allowed checkpoints are pending; the
// minimum pause does not hold for it. After StopSources it waits for the end of the input, and takes checkpoints until one has no timer of
// processing time in it, so that nothing is held back: an operator whose timers renew themselves without input never comes to an end. The error says why the checkpoint was aborted.
func (e *Engine) Checkpoint(ctx context.Context) (uint64, error) {
	return e.ask(ctx, &request{kind: askCheckpoint})
}

// Rescale implements target.Rescaler. from is latest or previous. It returns once an attempt of the new parallelism runs,
// whatever fails meanwhile. One at a time.
func (e *Engine) Rescale(ctx context.Context, parallelism int, from string) error {
	_, err := e.ask(ctx, &request{kind: askRescale, parallelism: parallelism, from: from})
	return err
}

// StopSources ends the input: each source partition stops at the furthest position that any attempt reached, in this attempt and in later
// ones, and barriers go on. It returns when the sources have been told; a checkpoint asked for after it waits for them and lies behind
// their last records.
func (e *Engine) StopSources(ctx context.Context) error {
	_, err := e.ask(ctx, &request{kind: askStopSources})
	return err
}

// CleanUp removes what attempts that are over left in the store and no checkpoint names, for writes of which the outcome was
// unknown when the attempt ended. It never touches what the running attempt wrote; Stop does that.
func (e *Engine) CleanUp(ctx context.Context) error {
	_, err := e.ask(ctx, &request{kind: askCleanUp})
	return err
}

// Status implements target.Cluster.
func (e *Engine) Status() target.Status { return e.view.status() }

// Stop implements target.Cluster. Pending checkpoints are aborted, the attempt ends, what the newest completed checkpoint commits is
// committed, and what no retained checkpoint names is removed from the store; then coordinator and workers end. No process is left when it
// returns. If ctx ends first the rest is cut short. It may be called again, and without Submit.
func (e *Engine) Stop(ctx context.Context) error {
	e.mu.Lock()
	c, cancel, first := e.mu.coordinator, e.mu.cancel, !e.mu.stopped
	e.mu.stopped = true
	hosts := slices.Clone(e.mu.hosts)
	e.mu.Unlock()
	if c == nil {
		return nil
	}
	if first && e.lead.Running() > 0 {
		c.end.Post(ctx, 0, &request{kind: askStop, done: world.NewLatch(e.cfg.World)})
		_, _ = world.Wait(ctx, e.cfg.World, world.Never, e.lead) // when ctx ends, so does the wait for a graceful end
	}
	cancel(errStopped)
	err := e.lead.Wait(ctx)
	errs := []error{err}
	for _, h := range hosts {
		errs = append(errs, e.endWorker(ctx, h))
	}
	for i, err := range errs {
		if isCancel(err) || errors.Is(err, errStopped) {
			errs[i] = nil
		}
	}
	return errors.Join(errs...)
}

// FailTask implements target.TaskFailer. It does not wait.
func (e *Engine) FailTask(ctx context.Context, subtask string, reason string) error {
	e.mu.Lock()
	c := e.mu.coordinator
	e.mu.Unlock()
	names := e.Subtasks()
	if c == nil || len(names) == 0 {
		return errors.New("no attempt has been deployed")
	}
	if subtask == "any" {
		subtask = names[e.cfg.World.Rand("engine/fail-task").IntN(len(names))]
	}
	attempt, where := e.view.placement()
	at := strings.LastIndexByte(subtask, '-')
	index, err := strconv.Atoi(subtask[at+1:])
	if err != nil || !slices.Contains(names, subtask) || index >= len(where) {
		return fmt.Errorf("no subtask %q; there are %s", subtask, strings.Join(names, ", "))
	}
	c.end.Send(ctx, where[index], attempt, FailSubtask{Operator: subtask[:at], Index: index, Reason: reason})
	return nil
}

// Subtasks implements target.TaskFailer: those of the newest attempt, in order of (operator, index).
func (e *Engine) Subtasks() []string {
	_, where := e.view.placement()
	var names []string
	for _, n := range e.cfg.Job.Nodes {
		for i := range where {
			names = append(names, subtaskName(n.ID, i))
		}
	}
	return names
}

// Progress is how far the sources are.
func (e *Engine) Progress() *Progress { return e.network.Progress() }

// Lag implements target.Lag.
func (e *Engine) Lag() time.Duration { return e.Progress().Lag(e.cfg.World.Now()) }

// Emitted implements target.Lag.
func (e *Engine) Emitted() int64 { return e.Progress().Emitted() }
