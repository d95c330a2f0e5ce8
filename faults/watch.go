package faults

import (
	"context"
	"sync"

	"statebench.dev/bench/internal/history"
)

// Watcher calls f for each event from now on, in the process that emits it, until f returns false. f must not block.
type Watcher func(f func(ctx context.Context, e *history.Event) bool)

// Watchers is a list of watching functions, fed by an observer of the recorder. The zero value is ready; it is safe
// for concurrent use.
type Watchers struct {
	mu   sync.Mutex
	list []*watching
}

type watching struct {
	f    func(ctx context.Context, e *history.Event) bool
	done bool
}

// Watch adds f.
func (w *Watchers) Watch(f func(ctx context.Context, e *history.Event) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, &watching{f: f})
}

// Observe feeds one event to all functions, holding no lock while they run.
func (w *Watchers) Observe(ctx context.Context, e *history.Event) {
	w.mu.Lock()
	if len(w.list) == 0 {
		w.mu.Unlock()
		return
	}
	list := append([]*watching(nil), w.list...)
	w.mu.Unlock()
	ended := false
	for _, x := range list {
		if !w.ended(x) && !x.f(ctx, e) {
			ended = true
			w.end(x)
		}
	}
	if ended {
		w.drop()
	}
}

func (w *Watchers) ended(x *watching) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return x.done
}

func (w *Watchers) end(x *watching) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x.done = true
}

func (w *Watchers) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := w.list[:0:0]
	for _, x := range w.list {
		if !x.done {
			kept = append(kept, x)
		}
	}
	w.list = kept
}
