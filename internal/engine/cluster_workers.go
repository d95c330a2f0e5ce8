package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"statebench.dev/bench/internal/world"
)

// host is a machine on which a worker lives, one life after the other.
type host struct {
	name string
	// The following are guarded by the engine's lock.
	life   uint64
	worker *worker
	domain *world.Domain
	group  *world.Group // the main process of the life
	down   bool         // it was killed
	lose   bool         // with its disk
	rising bool         // it is being revived
}

// startWorker begins the next life of a host. The name of its domain is that of the worker for the first life, and has the
// number of the life for later ones.
func (e *Engine) startWorker(h *host) {
	e.mu.Lock()
	h.life++
	name, o := h.name, world.DomainOptions{Cores: e.cfg.Workers.Cores}
	if h.life > 1 {
		name = fmt.Sprintf("%s#%d", h.name, h.life)
		o.Disk = h.domain.Disk()
	}
	if e.cfg.Folder != "" {
		o.Folder = filepath.Join(e.cfg.Folder, h.name)
	}
	life, ctx, stopped := h.life, e.mu.ctx, e.mu.stopped
	h.domain, h.group = e.cfg.World.NewDomain(name, o), world.NewGroup(e.cfg.World)
	h.worker = newWorker(e.cfg, e.transport, e.network, h.name, life)
	h.down, h.rising = false, false
	w, domain, group := h.worker, h.domain, h.group
	e.mu.Unlock()
	if stopped {
		return
	}
	group.Go(domain.Enter(ctx), h.name, func(ctx context.Context) error {
		done := false
		defer func() { // a worker that ends by itself, by a panic even, is as dead as a killed one
			if !done {
				e.transport.Disconnect(h.name, life)
			}
		}()
		err := w.run(ctx)
		done = err == nil
		return err
	})
}

// endWorker waits until no process of a host is left and returns what ended its main process.
func (e *Engine) endWorker(ctx context.Context, h *host) error {
	e.mu.Lock()
	domain, group, down := h.domain, h.group, h.down
	e.mu.Unlock()
	if domain == nil {
		return nil
	}
	if down {
		domain.Kill() // finishes what the emitter began
	}
	err := group.Wait(ctx)
	if aerr := domain.Await(ctx); aerr != nil {
		return errors.Join(err, fmt.Errorf("%s has processes left: %w", h.name, aerr))
	}
	return err
}

func (e *Engine) host(worker string) (*host, error) {
	for _, h := range e.mu.hosts { // the list itself never changes
		if h.name == worker {
			return h, nil
		}
	}
	return nil, fmt.Errorf("no worker is called %q", worker)
}

// Workers implements target.Killer.
func (e *Engine) Workers() []string {
	var names []string
	for _, h := range e.mu.hosts {
		names = append(names, h.name)
	}
	return names
}

// WorkerUp implements target.Killer: it was started and not killed since.
func (e *Engine) WorkerUp(worker string) bool {
	h, err := e.host(worker)
	e.mu.Lock()
	defer e.mu.Unlock()
	return err == nil && h.domain != nil && !h.down
}

// KillWorker implements target.Killer. What the worker has on its way is dropped, its connection is lost at once, and none of
// its calls has an effect any more. Its disk is dealt with once its last process has ended, before a new life begins.
func (e *Engine) KillWorker(ctx context.Context, worker string, loseDisk bool) error {
	h, err := e.host(worker)
	if err != nil {
		return err
	}
	e.mu.Lock()
	if h.domain == nil || h.down {
		e.mu.Unlock()
		return fmt.Errorf("%s is not up", worker)
	}
	h.down, h.lose = true, loseDisk
	life, domain := h.life, h.domain
	e.mu.Unlock()
	// Before the death, since a dead process can post nothing any more.
	e.transport.Disconnect(worker, life)
	if world.DomainOf(ctx) == domain {
		domain.MarkDead()
		world.CheckAlive(ctx)
	}
	domain.Kill()
	return nil
}

// ReviveWorker implements target.Killer.
func (e *Engine) ReviveWorker(ctx context.Context, worker string) error {
	h, err := e.host(worker)
	if err != nil {
		return err
	}
	e.mu.Lock()
	if !h.down || h.rising || e.mu.stopped {
		e.mu.Unlock()
		return fmt.Errorf("%s is not down", worker)
	}
	h.rising = true
	domain, lose := h.domain, h.lose
	e.mu.Unlock()
	if err := e.endWorker(ctx, h); err != nil && !isCancel(err) {
		e.mu.Lock()
		h.rising = false
		e.mu.Unlock()
		return fmt.Errorf("end the former life of %s: %w", worker, err)
	}
	if lose {
		domain.Disk().Wipe()
	} else {
		domain.Disk().Crash()
	}
	e.startWorker(h)
	return nil
}
