package backendtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// job is one attempt: subtasks of one operator on one or two workers.
type job struct {
	h        *harness
	workers  []*Worker
	backends []backend.Backend
	subtasks []*subtask
	borrowed []backend.ObjectRef // no checkpoint may name one
}

// subtask is one Keyed and its loop.
type subtask struct {
	worker *Worker
	keyed  backend.Keyed
	loop   *Loop
	stats  backend.RestoreStats
}

// open starts an attempt of that parallelism from handles; the test fails if that does.
func (h *harness) open(p int, handles []backend.StateHandle) *job {
	j, err := h.begin(p, handles)
	h.ok(err)
	return j
}

// borrow is open with handles of which no checkpoint may name an object.
func (h *harness) borrow(p int, handles []backend.StateHandle) *job {
	h.borrowed = true
	defer func() { h.borrowed = false }()
	return h.open(p, handles)
}

// tryOpen is open for attempts that may fail; those are closed. It waits until the restore is over, where a backend can be used
// before that.
func (h *harness) tryOpen(p int, handles []backend.StateHandle) (*job, error) {
	j, err := h.begin(p, handles)
	if err != nil {
		return nil, err
	}
	for _, s := range j.subtasks {
		l, ok := s.keyed.(interface {
			Local(ctx context.Context) error
		})
		if !ok {
			continue
		}
		if err = l.Local(s.worker.Ctx); err != nil {
			break
		}
	}
	if err != nil {
		j.close()
		return nil, err
	}
	return j, nil
}

// begin starts an attempt. One that cannot be opened is closed. Half of the attempts narrow the handles first, as a
// coordinator may, the others leave it to the backend.
func (h *harness) begin(p int, handles []backend.StateHandle) (*job, error) {
	h.attempt++
	j := &job{h: h}
	if h.borrowed {
		j.borrowed = objectsOf(&checkpointed{handles: handles})
	}
	for i := range min(2, p) {
		w := NewWorker(h.ctx, h.w, h.bucket, fmt.Sprintf("worker-%d", i), h.attempt)
		w.Env.Disk = h.disk(i)
		if h.attempt%3 != 0 { // it is a hint, which may be missing
			for s := i; s < p; s += min(2, p) {
				w.Env.Restores = append(w.Env.Restores, backend.Restore{
					Range: keygroup.RangeOf(s, p, h.max), Handles: handles, Written: h.attempt - 1,
				})
			}
		}
		b, err := h.factory.ForWorker(w.Ctx, w.Env)
		h.ok(err)
		j.workers, j.backends = append(j.workers, w), append(j.backends, b)
	}
	for i := range p {
		w := i % len(j.workers)
		s := &subtask{worker: j.workers[w], loop: NewLoop(j.workers[w].Ctx, h.w)}
		r := keygroup.RangeOf(i, p, h.max)
		given := handles
		if h.attempt%2 == 0 {
			given = narrowed(handles, r)
		}
		k, err := j.backends[w].Open(s.worker.Ctx, backend.OpenOptions{
			Operator: operator, Subtask: fmt.Sprintf("%s-%d", operator, i), Index: i, Range: r, Handles: given, Borrowed: h.borrowed,
			Loop: s.loop, Restored: &s.stats,
		})
		if err != nil {
			h.ok(s.loop.Close(h.ctx))
			j.close()
			return nil, err
		}
		s.keyed = k
		j.subtasks = append(j.subtasks, s)
		h.want(k.Range() == r, "range of subtask %d is %v, want %v", i, k.Range(), r)
	}
	return j, nil
}

// narrowed is the part of the handles that lies in r.
func narrowed(handles []backend.StateHandle, r keygroup.Range) []backend.StateHandle {
	var out []backend.StateHandle
	for _, h := range handles {
		if n, ok := h.Narrow(r); ok {
			out = append(out, n)
		}
	}
	return out
}

// dealt is the handles as the subtasks of a job of parallelism p would hold them, before any checkpoint of theirs.
func (h *harness) dealt(p int, handles []backend.StateHandle) []backend.StateHandle {
	var out []backend.StateHandle
	for i := range p {
		out = append(out, narrowed(handles, keygroup.RangeOf(i, p, h.max))...)
	}
	return out
}

// close ends the attempt in good order and looks for what is left.
func (j *job) close() {
	for _, s := range j.subtasks {
		j.h.ok(s.keyed.Close(s.worker.Ctx))
		j.h.ok(s.loop.Close(j.h.ctx))
	}
	for _, b := range j.backends {
		j.h.ok(b.Close(j.h.ctx))
	}
	for _, w := range j.workers {
		j.h.ok(w.Stop(j.h.ctx))
	}
}

// crash kills the workers with all that runs on them. What they had not synced to their disks is lost.
func (j *job) crash() {
	for i, w := range j.workers {
		w.Domain.Kill()
		j.h.ok(w.Domain.Await(j.h.ctx))
		j.h.disk(i).Crash()
	}
}

// disk is that of a worker, which survives attempts.
func (h *harness) disk(worker int) world.Disk {
	for len(h.disks) <= worker {
		h.disks = append(h.disks, world.NewMemDisk())
	}
	return h.disks[worker]
}

// follower is the backend of a subtask where it follows checkpoints, else nil.
func (j *job) follower(subtask int) backend.Follower {
	f, _ := j.backends[subtask%len(j.backends)].(backend.Follower)
	return f
}

// of is the subtask that owns g.
func (j *job) of(g keygroup.ID) *subtask {
	return j.subtasks[keygroup.SubtaskOf(g, len(j.subtasks), j.h.max)]
}

// each registers spec everywhere and returns its id, which must be the same in all subtasks of a fresh job.
func (j *job) each(spec backend.StateSpec) map[*subtask]backend.StateID {
	ids := map[*subtask]backend.StateID{}
	for _, s := range j.subtasks {
		id, err := s.keyed.Register(spec)
		j.h.ok(err)
		ids[s] = id
	}
	return ids
}

// breathe lets the loops take turns, and waits where a backend asks for it.
func (j *job) breathe() {
	for _, s := range j.subtasks {
		s.loop.Turn()
		j.h.ok(s.loop.Failed())
		if th, ok := s.keyed.(backend.Throttler); ok {
			for th.Blocked() {
				j.h.ok(s.loop.Until(s.worker.Ctx, th.Unblocked()))
			}
		}
	}
}

// sleep lets each loop take turns for up to d.
func (j *job) sleep(d time.Duration) {
	for _, s := range j.subtasks {
		j.h.ok(s.loop.Sleep(s.worker.Ctx, time.Duration(j.h.rng.Int64N(int64(d)+1))))
	}
}

// pending is a checkpoint under way.
type pending struct {
	id        uint64
	snapshots []backend.Snapshot
	persisted []backend.Persisted
	errs      []error
	model     *model // the state when it began
	started   bool
}

// begin takes the snapshots of a new checkpoint.
func (j *job) begin(m *model) *pending {
	j.h.id++
	p := &pending{id: j.h.id, model: m.clone(), persisted: make([]backend.Persisted, len(j.subtasks)), errs: make([]error, len(j.subtasks))}
	for _, s := range j.subtasks {
		snap, err := s.keyed.Snapshot(s.worker.Ctx, p.id)
		j.h.ok(err)
		p.snapshots = append(p.snapshots, snap)
	}
	return p
}

// start begins the asynchronous phase.
func (j *job) start(p *pending) {
	p.started = true
	for i, s := range j.subtasks {
		s.loop.Async("persist", func(ctx context.Context) (err error) {
			p.persisted[i], err = p.snapshots[i].Persist(ctx)
			if f := j.follower(i); f != nil && err == nil {
				f.Acknowledged(p.id, p.persisted[i].Handle)
			}
			return err
		}, func(err error) {
			p.errs[i] = err
			p.snapshots[i].Release()
		})
	}
}

// finish waits for the asynchronous phase and completes the checkpoint if that went well.
func (j *job) finish(p *pending) (*checkpointed, error) {
	if !p.started {
		j.start(p)
	}
	for _, s := range j.subtasks {
		j.h.ok(s.loop.Drain(s.worker.Ctx))
	}
	if err := errors.Join(p.errs...); err != nil {
		j.aborted(p.id)
		return nil, err
	}
	c := &checkpointed{id: p.id, model: p.model}
	for i, s := range j.subtasks {
		h := p.persisted[i].Handle
		j.h.want(h.Checkpoint == p.id && h.Range == s.keyed.Range(), "handle says checkpoint %d and range %v, want %d and %v", h.Checkpoint, h.Range, p.id, s.keyed.Range())
		c.handles = append(c.handles, h)
		if f := j.follower(i); f != nil {
			f.Completed(p.id, p.id-1)
		}
		j.h.ok(s.keyed.Completed(s.worker.Ctx, p.id, p.id-1))
	}
	j.h.apart(c, j.borrowed)
	return c, nil
}

// abort ends a checkpoint without completing it.
func (j *job) abort(p *pending) {
	if !p.started {
		for _, s := range p.snapshots {
			s.Release()
		}
	}
	for _, s := range j.subtasks {
		j.h.ok(s.loop.Drain(s.worker.Ctx))
	}
	j.aborted(p.id)
}

func (j *job) aborted(id uint64) {
	for i, s := range j.subtasks {
		if f := j.follower(i); f != nil {
			f.Aborted(id)
		}
		j.h.ok(s.keyed.Aborted(s.worker.Ctx, id))
	}
}

// checkpoint takes one that must complete.
func (j *job) checkpoint(m *model) *checkpointed {
	c, err := j.finish(j.begin(m))
	j.h.ok(err)
	return c
}
