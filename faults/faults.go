// Package faults holds the disturbances a run can inject, one file each.
//
// A fault is made from its options, asked whether the target can carry it out, injected when its trigger fires, and
// healed. When is the plan's business, not the fault's. A fault counts only when its effect on the system was seen (Hit) and
// when its removal was seen to work (Heal): a fault's own report proves nothing.
package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/target"
	"statebench.dev/bench/internal/world"
)

// Spec is a planned fault as its constructor gets it.
type Spec struct {
	ID    string          // names the fault in the run
	Where string          // worker/1, worker/any, subtask/count-0, subtask/any, store
	With  json.RawMessage // options as a JSON object; empty for none
}

// Env is what a fault acts on.
type Env struct {
	World    world.World
	Cluster  target.Cluster
	Injector *store.Injector
	// Probe is the run's store above the injector, without retries: a request through it meets every rule in force.
	Probe store.Bucket
	// StoreServer is the server behind the store, nil where the target's capabilities have none.
	StoreServer target.StoreServer
	// InForce is called by the fault once, right before the step that puts it in force: Inject itself may not return.
	InForce func(a Active)
	// Prove is called by the fault, at most once, when its effect on the system was seen.
	Prove func(ctx context.Context, evidence string)
	// Watch calls f for each event of the run from now on, in the process that emits it, until f returns false.
	Watch Watcher
}

// Active is a fault in force.
type Active interface {
	// Heal removes the fault and returns the evidence that it is gone. It is idempotent, always called, and blocks until
	// removal is confirmed or ctx ends.
	Heal(ctx context.Context) (evidence string, err error)
}

// Fault is one planned disturbance. It is used once.
type Fault interface {
	// Available tells why the target cannot do this, or nil.
	Available(c target.Capabilities) error
	// Inject puts the fault in force. It runs in the process that fired the trigger, which may belong to the very
	// worker that is to die: then it does not return, and Env.InForce was called before.
	Inject(ctx context.Context, e Env) error
}

// Constructor makes a fault; an error says which option or place is wrong and what would be right.
type Constructor func(s Spec) (Fault, error)

// decode reads the options strictly: an unknown one is an error that lists those there are.
func decode(with json.RawMessage, into any, known ...string) error {
	if len(bytes.TrimSpace(with)) == 0 || string(with) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(with))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		text := strings.TrimPrefix(err.Error(), "json: ")
		return fmt.Errorf("%s; its options are %s", text, strings.Join(known, ", "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("options are followed by something else")
	}
	return nil
}

// place splits "worker/1" and checks the first part.
func place(where, kind string) (string, error) {
	k, rest, ok := strings.Cut(where, "/")
	if k != kind || !ok || rest == "" {
		return "", fmt.Errorf("where %q is not %s/<number> or %s/any", where, kind, kind)
	}
	return rest, nil
}

// pick resolves "any" with the fault's own random stream, so that another fault does not move the draw, and anything else by name.
func pick(w world.World, id, want, prefix string, names []string) (string, error) {
	if len(names) == 0 {
		return "", errors.New("there is none")
	}
	if want == "any" {
		return names[w.Rand("fault/"+id).IntN(len(names))], nil
	}
	for _, name := range []string{want, prefix + want} {
		if slices.Contains(names, name) {
			return name, nil
		}
	}
	return "", fmt.Errorf("%q is not one of %s", want, strings.Join(names, ", "))
}

func number(s string) error {
	if s == "any" {
		return nil
	}
	if n, err := strconv.Atoi(s); err != nil || n < 0 {
		return fmt.Errorf("%q is neither a number from 0 nor any", s)
	}
	return nil
}
