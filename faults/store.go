package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/registry"
	"statebench.dev/bench/internal/target"
)

// storeOptions are the options of every fault of the store.
type storeOptions struct {
	Op      string            `json:"op"`      // put, get, list, stat, delete; empty: all
	Prefix  string            `json:"prefix"`  // of the run's own keys
	Share   *registry.Share   `json:"share"`   // of the matching requests; absent: all
	Request int64             `json:"request"` // only the n-th matching request
	Status  int               `json:"status"`  // store-errors
	Delay   registry.Duration `json:"delay"`   // store-latency
	Jitter  registry.Duration `json:"jitter"`  // store-latency
}

// storeFault is a rule of the store's injector.
type storeFault struct {
	rule   store.Rule
	effect string // what it does to a request, in words
}

// NewStoreErrors makes the fault store-errors: requests fail with a status, without effect or, for a put that fails with
// 5xx other than 503, with an unknown outcome. Where: store. Options: op, prefix, share, request, status (default 503).
func NewStoreErrors(s Spec) (Fault, error) {
	o := storeOptions{Status: 503}
	r, err := rule(s, &o, "op", "prefix", "share", "request", "status")
	if err != nil {
		return nil, err
	}
	r.Status = o.Status
	return valid(r, fmt.Sprintf("failed with status %d", o.Status))
}

// NewStoreLatency makes the fault store-latency: requests take longer. Where: store. Options: op, prefix, share, request,
// delay, jitter; one of delay and jitter is needed.
func NewStoreLatency(s Spec) (Fault, error) {
	var o storeOptions
	r, err := rule(s, &o, "op", "prefix", "share", "request", "delay", "jitter")
	if err != nil {
		return nil, err
	}
	if o.Delay == 0 && o.Jitter == 0 {
		return nil, errors.New("delay is missing, for example delay: 300ms")
	}
	r.Delay, r.Jitter = time.Duration(o.Delay), time.Duration(o.Jitter)
	return valid(r, "was held up")
}

// rule reads the options into o, which holds the defaults; those that are not known to the fault are errors.
func rule(s Spec, o *storeOptions, known ...string) (store.Rule, error) {
	if err := decode(s.With, o, known...); err != nil {
		return store.Rule{}, err
	}
	for _, x := range []struct {
		name string
		set  bool
	}{{"share", o.Share != nil}, {"request", o.Request != 0}, {"status", o.Status != 0}, {"delay", o.Delay != 0}, {"jitter", o.Jitter != 0}} {
		if x.set && !slices.Contains(known, x.name) {
			return store.Rule{}, fmt.Errorf("%s is no option of this fault; its options are %s", x.name, strings.Join(known, ", "))
		}
	}
	if s.Where != "store" {
		return store.Rule{}, fmt.Errorf("where %q is not store", s.Where)
	}
	r := store.Rule{Name: s.ID, Prefix: o.Prefix, Request: o.Request}
	if o.Share != nil {
		if *o.Share == 0 {
			return r, errors.New("share is 0: the fault would touch nothing")
		}
		r.Share = float64(*o.Share)
	}
	if o.Op != "" {
		r.Ops = strings.Split(o.Op, "|")
	}
	return r, nil
}

// of refuses operations that the fault cannot touch.
func of(r store.Rule, able ...string) error {
	for _, op := range r.Ops {
		if slices.Contains(store.Ops(), op) && !slices.Contains(able, op) {
			return fmt.Errorf("op %s: this fault touches %s only", op, strings.Join(able, ", "))
		}
	}
	return nil
}

func valid(r store.Rule, effect string) (Fault, error) {
	if err := r.Validate(); err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return &storeFault{rule: r, effect: effect}, nil
}

// Available needs a target whose store requests can be reached.
func (f *storeFault) Available(c target.Capabilities) error {
	if !c.StoreFaults {
		return errors.New("the target's store requests cannot be reached")
	}
	return nil
}

// Inject adds the rule. The proof is a request of the system that the rule touched: one that it failed or held up, or to
// which it did its damage.
func (f *storeFault) Inject(_ context.Context, e Env) error {
	var proven atomic.Bool
	r := f.rule
	r.OnHit = func(ctx context.Context, c store.Call) {
		if store.InfoOf(ctx).Cause != ProbeCause && !proven.Swap(true) {
			e.Prove(ctx, fmt.Sprintf("request %s %s %s", c.Op, c.Key, f.effect))
		}
	}
	e.InForce(&storeRule{env: e, rule: r, remove: e.Injector.Add(r)})
	return nil
}

// ProbeCause is the cause in the object trace of requests that only prove a fault healed.
const ProbeCause = "probe"

type storeRule struct {
	env    Env
	rule   store.Rule
	remove func()
}

// Heal removes the rule and sends requests that it would have touched: they must pass untouched.
func (a *storeRule) Heal(ctx context.Context) (string, error) {
	a.remove()
	before := a.env.Injector.Hits(a.rule.Name)
	ctx = store.WithInfo(ctx, store.Info{Cause: ProbeCause, Who: "run"})
	what, err := a.probe(ctx, a.rule.Prefix+"probe-"+a.rule.Name)
	masked := errors.Is(err, store.ErrInjected) // by another fault that is still in force: this rule had no part in it
	if err != nil && !masked {
		return "", fmt.Errorf("probe after healing: %w", err)
	}
	if n := a.env.Injector.Hits(a.rule.Name) - before; n > 0 {
		return "", fmt.Errorf("the rule touched %d requests after it was removed", n)
	}
	if masked {
		return fmt.Sprintf("rule removed after %d hits; it had no part in %s, which another fault touched", before, what), nil
	}
	return fmt.Sprintf("rule removed after %d hits; %s passed", before, what), nil
}

// probe writes an object, reads it back whole, and deletes it, or does less where the rule concerns less.
func (a *storeRule) probe(ctx context.Context, key string) (what string, err error) {
	concerns := func(op string) bool { return len(a.rule.Ops) == 0 || slices.Contains(a.rule.Ops, op) }
	if !concerns(history.OpPut) && !concerns(history.OpGet) && !concerns(history.OpDelete) {
		if _, err = a.env.Probe.Stat(ctx, key); errors.Is(err, store.ErrNotExist) {
			err = nil
		}
		return "a stat of " + key, err
	}
	body := []byte(a.rule.String())
	what = "a put of " + key
	err = a.env.Probe.Put(ctx, key, body, store.PutOptions{})
	if err == nil && concerns(history.OpGet) {
		var there []byte
		what = "a put and a get of " + key
		if there, err = a.env.Probe.Get(ctx, key); err == nil && !bytes.Equal(there, body) {
			err = fmt.Errorf("%q came back other than it was written", key)
		}
	}
	return what, errors.Join(err, a.clear(ctx, key))
}

// clear removes the probe's object, however often another fault gets in the way.
func (a *storeRule) clear(ctx context.Context, key string) error {
	for {
		var err error
		for _, d := range a.env.Probe.Delete(ctx, []string{key}) {
			err = errors.Join(err, d.Err)
		}
		if err == nil || !errors.Is(err, store.ErrInjected) {
			return err
		}
		if e := a.env.World.Sleep(ctx, 100*time.Millisecond); e != nil {
			return errors.Join(err, e)
		}
	}
}
