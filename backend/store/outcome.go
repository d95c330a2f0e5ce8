package store

import (
	"context"

	"statebench.dev/bench/internal/history"
)

// effect is what is known of one key of one request.
type effect struct {
	applied  history.Applied
	injected bool
}

// outcome travels in the context of one request, from WithTrace to the decorators below it, which know better than the
// returned error whether the request had its effect: a lost acknowledgement was applied, a put whose process is killed
// while it still waits for its latency was not. It is used by the one process that makes the request.
type outcome struct {
	effect
	byKey map[string]*effect // of a bulk delete
}

type outcomeKey struct{}

func outcomeOf(ctx context.Context) *outcome {
	o, _ := ctx.Value(outcomeKey{}).(*outcome)
	return o
}

// of returns the record for key, or nil where nobody listens.
func (o *outcome) of(key string) *effect {
	switch {
	case o == nil:
		return nil
	case o.byKey != nil:
		return o.byKey[key]
	}
	return &o.effect
}

func (o *outcome) report(key string, a history.Applied) {
	if e := o.of(key); e != nil {
		e.applied = a
	}
}

func (o *outcome) reportInjected(key string) {
	if e := o.of(key); e != nil {
		e.injected = true
	}
}

// settle records what the answer of the bucket below says. An answer that leaves the effect open does not
// overwrite what a decorator further down knows better.
func (o *outcome) settle(key string, err error) {
	if a := appliedBy(err); a != history.AppliedUnknown {
		o.report(key, a)
	}
}

// renamed is the context for a bulk delete of keys that are called full in the bucket below.
func renamed(ctx context.Context, keys, full []string) context.Context {
	o := outcomeOf(ctx)
	if o == nil || o.byKey == nil {
		return ctx
	}
	below := &outcome{byKey: make(map[string]*effect, len(keys))}
	for i, key := range keys {
		below.byKey[full[i]] = o.byKey[key]
	}
	return context.WithValue(ctx, outcomeKey{}, below)
}
