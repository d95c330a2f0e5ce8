package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/target"
	"statebench.dev/bench/internal/world"
)

// phase is where the job is; Status shows fewer states.
type phase uint8

const (
	phaseStarting  phase = iota // nothing was deployed yet, the checkpoint to start from is being read
	phaseDelaying               // the old attempt is fenced, the restart delay runs
	phasePicking                // the checkpoint to restore is being read
	phaseWaiting                // for enough slots
	phaseDeploying              // subtasks restore their state
	phaseRunning
	phaseFailing    // the attempt failed, its processes are ending
	phaseStopping   // the same, for good
	phaseSuspending // the same, until the job is started again
	phaseStopped    // nothing of the job runs until it is started again
	phaseClearing   // nothing of the job runs, what is left over is being removed
	phaseFinished
	phaseFailed // for good
)

// coordinator leads the job: it registers workers, starts attempts, triggers and completes checkpoints, restores and
// rescales. It is one loop over one mailbox; requests to the store are made by processes beside it, which post their results back.
type coordinator struct {
	cfg     *Config
	world   world.World
	name    string
	life    uint64
	end     *Endpoint
	network *Network
	view    *view
	bucket  store.Bucket
	// children are the processes beside the loop.
	children *world.Group

	term     uint64
	ledger   *ledger
	workers  crew
	job      jobShape
	attempt  *attempt // the newest; nil before the first
	attempts uint64   // number of the newest
	phase    phase
	failure  string // why the job failed for good
	cause    string // of the next attempt
	choice   *checkpoint.Completed
	turn     uint64        // of searches for one
	until    time.Duration // of the phase: end of the delay, or of the patience with those that are to end or to register
	beat     time.Duration // when the next heartbeats are due
	began    time.Duration // since when the sources' schedule counts
	running  bool          // some attempt has run: began is set
	halted   bool          // the input is to end

	checkpoints checkpoints
	restarts    *restarts
	verdict     verdict // on the attempt that failed last
	rescale     *rescale
	backend     backend.Factory
	savepoints  savepoints
	stop        *suspension           // the job is being stopped, or is stopped; nil: neither
	start       *request              // it is being started again
	starting    *request              // the log is about to say that it is started
	origin      *checkpoint.Completed // what it was started from without claiming it, as long as nothing newer completed
	mode        checkpoint.Mode       // of that start
	released    released
	deferred    []*request // to be served when the job has been started
	cleaning    cleaning
	over        bool   // the loop ends
	reused      uint64 // mutantReuseID: the attempt that did
}

// jobShape is what the coordinator has to know of the graph.
type jobShape struct {
	operators    []string // in topological order
	at           map[string]int
	keyed        map[string]bool
	redistribute map[string]graph.Redistribution // 0: no operator state
	source, sink string
	partitions   int
	parallelism  int // of the next attempt
	max          int
}

// attemptsPerTerm separates the attempt numbers of leaders, which do not know how many their predecessors started.
const attemptsPerTerm = 1 << 20

func newCoordinator(cfg *Config, t *Transport, n *Network, v *view, d *world.Domain, name string, life uint64) *coordinator {
	c := &coordinator{
		cfg: cfg, world: cfg.World, name: name, life: life, network: n, view: v, children: world.NewGroup(cfg.World),
		end: t.Attach(name, d, life), bucket: store.WithFence(cfg.Bucket, nil), job: shapeOf(cfg), cause: "submit",
	}
	c.end.Watch()
	c.checkpoints = newCheckpoints(&cfg.Settings.Checkpoint)
	c.backend, c.savepoints.completed, c.released.objects = cfg.Backend, map[uint64]bool{}, map[string]int{}
	c.cleaning = newCleaning(cfg.World, cfg.Settings.Checkpoint.DeletesPerSecond)
	c.restarts = newRestarts(cfg)
	return c
}

func shapeOf(cfg *Config) jobShape {
	s := jobShape{
		at: map[string]int{}, keyed: map[string]bool{}, redistribute: map[string]graph.Redistribution{},
		parallelism: cfg.Settings.Parallelism, max: cfg.Settings.MaxParallelism,
	}
	for i, n := range cfg.Job.Nodes {
		s.operators = append(s.operators, n.ID)
		s.at[n.ID], s.keyed[n.ID] = i, n.Keyed
		switch {
		case n.Source != nil:
			s.source, s.partitions = n.ID, n.Source.Partitions()
		case n.Sink:
			s.sink = n.ID
		default:
			if o, ok := n.Operator().(graph.Stateful); ok {
				s.redistribute[n.ID] = o.Redistribution()
			}
		}
	}
	return s
}

// keyRange is the key groups of subtask i of p.
func (s *jobShape) keyRange(i, p int) keygroup.Range { return keygroup.RangeOf(i, p, s.max) }

// run is the coordinator's main process.
func (c *coordinator) run(ctx context.Context) error {
	ctx, cancel := c.world.WithCancel(ctx)
	ctx = store.WithInfo(ctx, store.Info{Who: c.name})
	c.record(ctx, history.Event{Kind: history.CoordinatorUp, Actor: c.name})
	err := c.lead(ctx)
	if err == nil {
		err = c.loop(ctx)
	}
	cancel(err)
	if werr := c.children.Wait(ctx); err == nil && !isCancel(werr) {
		err = werr
	}
	c.end.Close()
	c.retire(ctx, err)
	if isCancel(err) || errors.Is(err, checkpoint.ErrFenced) {
		return nil
	}
	return err
}

func isCancel(err error) bool {
	return err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, world.ErrKilled) || errors.Is(err, world.ErrClosed)
}

// retire leaves a last word for the run, and answers whoever still waits.
func (c *coordinator) retire(ctx context.Context, err error) {
	e := history.Event{Kind: history.CoordinatorDown, Actor: c.name, Term: c.term}
	if err != nil {
		e.Error = err.Error()
		c.phase, c.failure = phaseFailed, err.Error()
	}
	c.publish()
	c.record(ctx, e)
	if err == nil {
		err = errStopped
	}
	c.over = true
	c.refuseAll(err)
}

// loop takes messages and does what is due until the job is stopped or another leader took over.
func (c *coordinator) loop(ctx context.Context) error {
	mail := world.NewWaitSet(c.world, c.end.Readable())
	for {
		c.tick(ctx)
		c.publish()
		if c.over {
			return c.ledger.fenced
		}
		if err := c.children.Err(); !isCancel(err) {
			return err
		}
		if _, err := mail.Wait(ctx, c.wakeAt()); err != nil {
			return err
		}
		if c.end.Closed() {
			return fmt.Errorf("%s was replaced by a later life: %w", c.name, checkpoint.ErrFenced)
		}
		for {
			m, ok := c.end.TryTake(ctx)
			if !ok {
				break
			}
			c.handle(ctx, m)
		}
	}
}

// wakeAt is when something is due that no message announces.
func (c *coordinator) wakeAt() time.Duration {
	at := min(c.beat, c.checkpoints.wakeAt())
	if w := c.checkpoints.wanted; len(w) > 0 && w[0].after > c.world.Now() {
		at = min(at, w[0].after)
	}
	if c.until > c.world.Now() { // else something other than time is waited for
		at = min(at, c.until)
	}
	return at
}

// tick does what is due.
func (c *coordinator) tick(ctx context.Context) {
	now := c.world.Now()
	if now >= c.beat {
		c.heartbeat(ctx, now)
	}
	c.tickStop(ctx)
	c.cleaning.pace.rush(c.idle())
	c.advance(ctx, now)
	c.tickCheckpoints(ctx, now)
	c.enforceTolerance(ctx)
}

// handle acts on one message.
func (c *coordinator) handle(ctx context.Context, m Message) {
	if m.Term > c.term {
		c.stepDown(fmt.Errorf("%s follows a leader of term %d: %w", m.From, m.Term, checkpoint.ErrFenced))
		return
	}
	switch b := m.Body.(type) {
	case Register:
		c.register(ctx, b)
	case Heartbeat:
		c.workers.seen(m.From, b.Life, c.world.Now())
	case ConnectionLost:
		c.lost(ctx, b.Worker, b.Life, "connection lost")
	case SubtaskRunning:
		c.subtaskRunning(ctx, m, b)
	case SubtaskFailed:
		c.subtaskFailed(ctx, m, b)
	case AttemptEnded:
		c.attemptEnded(ctx, m, b)
	case Acknowledge:
		c.acknowledge(ctx, m, &b)
	case *Acknowledge:
		c.acknowledge(ctx, m, b)
	case Decline:
		c.decline(ctx, m, b)
	case AskPermit:
		c.askPermit(ctx, m, b)
	case ReturnPermit:
		c.returnPermit(ctx, m, b)
	case *request:
		c.serve(ctx, b)
	case picked:
		c.pickedCheckpoint(ctx, b)
	case ledgerDone:
		c.ledgerDone(ctx, b)
	case listed:
		c.listed(ctx, b)
	case batchDeleted:
		c.batchDeleted(ctx, b)
	default:
		c.note(ctx, fmt.Sprintf("%s got a %s from %s, which it does not know", c.name, messageName(m.Body), m.From))
	}
}

func (c *coordinator) record(ctx context.Context, e history.Event) {
	if e.Term == 0 && e.Kind == history.CoordinatorTakeover {
		e.Term = c.term
	}
	c.cfg.Record(ctx, e)
}

func (c *coordinator) note(ctx context.Context, text string) {
	c.record(ctx, history.Event{Kind: history.Note, Actor: c.name, Text: text})
}

// pass hits a failpoint of the coordinator.
func (c *coordinator) pass(ctx context.Context, point string) error {
	return c.cfg.Failpoints.Hit(ctx, point, c.name)
}

// mutant tells whether a planted bug is switched on.
func (c *coordinator) mutant(name string) bool { return c.cfg.Failpoints.Mutant(name) }

func (c *coordinator) zombies() bool { return c.mutant(mutantAcceptZombie) }

// failJob ends the job for good.
func (c *coordinator) failJob(ctx context.Context, why error) {
	c.phase, c.failure = phaseFailed, why.Error()
	c.note(ctx, "the job failed for good: "+why.Error())
	c.refuseAll(fmt.Errorf("the job failed: %w", why))
}

// stepDown ends this leader: another one took over.
func (c *coordinator) stepDown(err error) {
	c.ledger.fenced = err
	c.phase, c.failure, c.over = phaseFailed, err.Error(), true
}

// state is what Status shows of the phase.
func (c *coordinator) state() string {
	if c.failure != "" {
		return "failed"
	}
	switch c.phase {
	case phaseRunning:
		return "running"
	case phaseFailing, phaseStopping:
		return "failing"
	case phaseSuspending:
		return "stopping"
	case phaseStopped:
		return "stopped"
	case phaseClearing, phaseFinished:
		return "finished"
	}
	if c.running || c.attempts > c.ledger.firstAttempt() {
		return "restoring"
	}
	return "created"
}

// publish refreshes what the run sees.
func (c *coordinator) publish() {
	s := target.Status{State: c.state(), Parallelism: c.job.parallelism, Pending: len(c.checkpoints.pending), Deletes: c.cleaning.backlog, Error: c.failure}
	if a := c.attempt; a != nil {
		s.Attempt, s.Parallelism = a.id, a.parallelism
	}
	if n := c.checkpoints.completed.Newest(); n != nil {
		s.LastCompleted = n.Metadata.ID
	}
	c.view.set(s, c.attempt)
}

// patience is how long the leader waits for the processes of an attempt to end.
func (c *coordinator) patience() time.Duration {
	return max(plan.D(c.cfg.Workers.HeartbeatTimeout), time.Second)
}
