package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/target"
	"statebench.dev/bench/internal/world"
)

const (
	// hung is how long a request must go without an answer to count as one that hangs: many times what one takes else.
	hung     = 500 * time.Millisecond
	hungPoll = 50 * time.Millisecond
	// late is how long after the server is back an answer to a request that hung may come.
	late = time.Second
)

// containerFault does something to the container behind the store.
type containerFault struct {
	id   string
	what string // for evidence: what the container is while the fault is in force
	down func(ctx context.Context, s target.StoreServer) error
	back bool // it comes back by itself
}

// newContainer makes a fault without options; where is store.
func newContainer(s Spec, f containerFault) (Fault, error) {
	if err := decode(s.With, &struct{}{}); err != nil {
		return nil, errors.New("it takes no options")
	}
	if s.Where != "store" {
		return nil, fmt.Errorf("where %q is not store", s.Where)
	}
	f.id = s.ID
	return &f, nil
}

// Available needs a store in a container, which there is in the real world only.
func (f *containerFault) Available(c target.Capabilities) error {
	if !c.StoreServer {
		return errors.New("there is no container behind the store: it needs the real world and --store minio")
	}
	return nil
}

// Inject acts on the container in the process that fired the trigger. The proof is a request of the system that failed or
// that hung.
func (f *containerFault) Inject(ctx context.Context, e Env) error {
	if e.StoreServer == nil {
		return errors.New("there is no container behind the store")
	}
	a := &containerDown{fault: f, env: e, group: world.NewGroup(e.World), since: e.World.Now()}
	a.mu.open = map[string]time.Duration{}
	e.InForce(a)
	e.Watch(a.watch)
	if err := f.down(ctx, e.StoreServer); err != nil {
		a.end()
		return err
	}
	a.group.Go(ctx, "hung-requests", a.lookForHung)
	if f.back {
		a.group.Go(ctx, "container-start", func(ctx context.Context) error { return e.StoreServer.Start(ctx) })
	}
	return nil
}

// containerDown is such a fault in force.
type containerDown struct {
	fault *containerFault
	env   Env
	since time.Duration // when it was injected
	group *world.Group

	mu struct {
		sync.Mutex
		open   map[string]time.Duration // requests under way that began since then: when
		proven bool
		back   time.Duration // when the server was there again, 0 before: what begins after that proves nothing
		over   bool
	}
}

// watch follows the requests of the system, each attempt being one.
func (a *containerDown) watch(ctx context.Context, ev *history.Event) bool {
	request := ev.Actor + " " + ev.Text
	evidence := ""
	a.mu.Lock()
	switch ev.Kind {
	case history.StorePutBegin, history.StoreGetBegin, history.StoreDeleteBegin:
		if _, ok := a.mu.open[request]; !ok {
			a.mu.open[request] = ev.At
		}
	case history.StorePutEnd, history.StoreGetEnd, history.StoreDeleteEnd:
		began, known := a.mu.open[request]
		delete(a.mu.open, request)
		switch took := ev.At - a.since; {
		case a.mu.over:
		case lost(ev.Error):
			evidence = fmt.Sprintf("%s of %s by %s failed: %s", ev.Kind, ev.Text, ev.Actor, ev.Error)
		case known && a.during(began) && ev.At-began >= hung:
			evidence = fmt.Sprintf("request %s had no answer for %v", request, (ev.At - began).Round(time.Millisecond))
		case !known && took >= hung && ev.Kind == history.StorePutEnd:
			// Its begin was not seen, so it was under way; a put, since reads of one object may overlap.
			evidence = fmt.Sprintf("request %s, under way at the beginning, had no answer for %v", request, took.Round(time.Millisecond))
		}
	}
	goOn := !a.mu.over && !a.mu.proven
	a.mu.Unlock()
	if evidence != "" {
		a.prove(ctx, evidence)
	}
	return goOn
}

// during tells whether a request began before the server was back. The lock is held.
func (a *containerDown) during(began time.Duration) bool { return a.mu.back == 0 || began < a.mu.back }

// lost tells whether an error is one of a server that is not there: neither an answer of the server nor made by another fault.
func lost(text string) bool {
	return (strings.Contains(text, store.ErrUnavailable.Error()) || strings.Contains(text, store.ErrAmbiguous.Error())) &&
		!strings.Contains(text, store.ErrInjected.Error())
}

// end makes sure that nothing later counts as a proof.
func (a *containerDown) end() {
	a.mu.Lock()
	a.mu.over = true
	a.mu.Unlock()
}

func (a *containerDown) prove(ctx context.Context, evidence string) {
	a.mu.Lock()
	first := !a.mu.proven
	a.mu.proven = true
	a.mu.Unlock()
	if first {
		a.env.Prove(ctx, evidence)
	}
}

// lookForHung looks for requests that get no answer, until one is found or the fault is healed.
func (a *containerDown) lookForHung(ctx context.Context) error {
	for a.env.World.Sleep(ctx, hungPoll) == nil {
		now := a.env.World.Now()
		evidence := ""
		a.mu.Lock()
		for request, at := range a.mu.open { // order-free: any of them is a proof, and the simulated world has none
			if a.during(at) && now-at >= hung {
				evidence = fmt.Sprintf("request %s has had no answer for %v", request, (now - at).Round(time.Millisecond))
			}
		}
		done := a.mu.over || a.mu.proven
		a.mu.Unlock()
		if done {
			return nil
		}
		if evidence != "" {
			a.prove(ctx, evidence)
		}
	}
	return nil
}

// answers waits for one that proves the fault, where there is no proof yet: as long as the server was gone, requests that had begun
// before hung, and a job that waits for them begins no others.
func (a *containerDown) answers(ctx context.Context, back time.Duration) {
	a.mu.Lock()
	if a.mu.back == 0 {
		a.mu.back = max(back, 1)
	}
	a.mu.Unlock()
	for range late / hungPoll {
		a.mu.Lock()
		done := a.mu.proven || a.mu.over
		a.mu.Unlock()
		if done || a.env.World.Sleep(ctx, hungPoll) != nil {
			return
		}
	}
}

// Heal brings the container back and sends a request, which must pass.
func (a *containerDown) Heal(ctx context.Context) (string, error) {
	if err := a.env.StoreServer.Start(ctx); err != nil {
		return "", err
	}
	until := a.env.World.Now()
	a.answers(ctx, until)
	a.end()
	_ = a.group.Wait(ctx) // a start that failed, or died with its worker, was made good above
	ctx = store.WithInfo(ctx, store.Info{Cause: ProbeCause, Who: "run"})
	key := "probe-" + a.fault.id
	err := a.env.Probe.Put(ctx, key, []byte(a.fault.what), store.PutOptions{})
	for _, d := range a.env.Probe.Delete(ctx, []string{key}) {
		err = errors.Join(err, d.Err)
	}
	if err != nil {
		return "", fmt.Errorf("probe after healing: %w", err)
	}
	return fmt.Sprintf("the container was %s for %v and runs again; a put of %s passed", a.fault.what, (until - a.since).Round(time.Millisecond), key), nil
}
