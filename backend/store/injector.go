package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// Decision is what happens to one request. The zero value lets it pass.
type Decision struct {
	// Delay holds the request up before anything else.
	Delay time.Duration
	// Status other than 0 makes it fail without effect, Timeout makes it hang without effect.
	Status  int
	Timeout bool
	// RetryAfter is what the answer of a throttled request asks for.
	RetryAfter time.Duration
	// What is done to a request that is let through.
	LostAck, Cut, Flip bool

	at   float64 // where the body is cut or flipped, in [0, 1)
	late []*activeRule
}

// Touched tells whether the decision changes anything.
func (d Decision) Touched() bool {
	return d.Delay > 0 || d.Status != 0 || d.Timeout || d.LostAck || d.Cut || d.Flip
}

// happened tells the rules that were waiting for it that c was damaged, or its answer lost.
func (d Decision) happened(ctx context.Context, c Call) {
	for _, a := range d.late {
		a.OnHit(ctx, c)
	}
}

// Injector decides about each request of a bucket made with WithFaults. It is a list of rules that may change at any
// time; every rule draws from its own stream, so adding or removing one does not move the draws of another. It can serve
// several buckets. Safe for concurrent use in both worlds.
type Injector struct {
	w  world.World
	mu struct {
		*world.Mutex
		rules []*activeRule
		hits  map[string]int64 // by name, also of rules removed since
		asked map[string]int64 // by operation
	}
}

type activeRule struct {
	Rule
	name string
	rand *rand.Rand
	seen int64 // matching requests so far
}

// NewInjector returns an injector without rules.
func NewInjector(w world.World) *Injector {
	in := &Injector{w: w}
	in.mu.Mutex = world.NewMutex(w)
	in.mu.hits, in.mu.asked = map[string]int64{}, map[string]int64{}
	return in
}

// Add puts r into force and returns what takes it out again; remove may be called more than once. Requests that wait
// in a delay or a timeout keep to what was decided for them. It panics when r is not valid.
func (in *Injector) Add(r Rule) (remove func()) {
	if err := r.Validate(); err != nil {
		panic(fmt.Sprintf("store: rule %q: %v", r, err))
	}
	a := &activeRule{Rule: r, name: r.Name}
	if a.name == "" {
		a.name = r.String()
	}
	a.rand = in.w.Rand("store/fault/" + a.name)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.rules = append(in.mu.rules, a)
	return func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		if i := slices.Index(in.mu.rules, a); i >= 0 {
			in.mu.rules = slices.Delete(slices.Clone(in.mu.rules), i, i+1)
		}
	}
}

// String prints the rules in force, one a line, in the form that ParseRules reads.
func (in *Injector) String() string {
	in.mu.Lock()
	defer in.mu.Unlock()
	var b strings.Builder
	for _, a := range in.mu.rules {
		b.WriteString(a.Rule.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// Hits returns how many requests the rules called name have touched, those removed since included. A rule without a
// name is called by its text.
func (in *Injector) Hits(name string) int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.mu.hits[name]
}

// Asked returns how often the injector was asked about operation op.
func (in *Injector) Asked(op string) int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.mu.asked[op]
}

// Before decides about c, counts the hits and calls OnHit of each rule that takes part, holding no lock. Rules that let the
// request through and do something to it afterwards are told once that is done.
func (in *Injector) Before(ctx context.Context, c Call) Decision {
	in.mu.Lock()
	in.mu.asked[c.Op]++
	var d Decision
	var hit []*activeRule
	for _, damaging := range []bool{false, true} { // what fails the request comes first: then there is nothing to damage
		for _, a := range in.mu.rules {
			if a.damages() == damaging && a.matches(c, d.fails()) && a.apply(c.Op, &d) {
				in.mu.hits[a.name]++
				hit = append(hit, a)
			}
		}
	}
	in.mu.Unlock()
	for _, a := range hit {
		switch {
		case a.OnHit == nil:
		case a.damages() && !d.fails():
			d.late = append(d.late, a)
		default:
			a.OnHit(ctx, c)
		}
	}
	return d
}

// damages tells whether all that the rule does is done to a request that was let through.
func (a *activeRule) damages() bool {
	return (a.LostAck || a.Cut || a.Flip) && a.Delay == 0 && a.Jitter == 0
}

// fails tells whether the request fails without effect.
func (d Decision) fails() bool { return d.Status != 0 || d.Timeout }

// matches also advances the rule's stream, whatever other rules do, and its counter. Requests that fail are not counted by a
// rule that does damage: its n-th request is one that it can damage.
func (a *activeRule) matches(c Call, fails bool) bool {
	if len(a.Ops) > 0 && !slices.Contains(a.Ops, c.Op) || !strings.HasPrefix(c.Key, a.Prefix) {
		return false
	}
	if !fails || !a.damages() {
		a.seen++
	}
	drawn := a.Share == 0 || a.rand.Float64() < a.Share
	return drawn && (a.Request == 0 || a.Request == a.seen)
}

// apply adds the rule's effects to d and tells whether there was any. Of errors the first one counts, though every rule that fails
// the request has its effect, and a request that
// fails has no body to damage.
func (a *activeRule) apply(op string, d *Decision) bool {
	touched := false
	if a.Delay > 0 || a.Jitter > 0 {
		d.Delay += a.Delay
		if a.Jitter > 0 {
			d.Delay += time.Duration(a.rand.Int64N(int64(a.Jitter)))
		}
		touched = true
	}
	if d.fails() {
		return touched || a.Status != 0 || a.Timeout // the request fails as this rule wants, whoever comes first
	}
	if a.Status != 0 || a.Timeout {
		d.Status, d.Timeout, d.RetryAfter = a.Status, a.Timeout, a.RetryAfter
		d.LostAck, d.Cut, d.Flip, d.at = false, false, false, 0
		return true
	}
	set := func(want, able bool, to *bool) {
		if want && able {
			*to, touched = true, true
		}
	}
	write := op == history.OpPut || op == history.OpDelete || op == history.OpAbort
	body := op == history.OpPut || op == history.OpGet
	set(a.LostAck, write, &d.LostAck)
	set(a.Cut, body || op == history.OpList, &d.Cut)
	set(a.Flip, body, &d.Flip)
	if d.at == 0 && (d.Cut || d.Flip) {
		d.at = a.rand.Float64()
	}
	return touched
}

// err returns the error of a decision that fails the request without effect, or nil.
func (d Decision) err(c Call) error {
	switch {
	case d.Timeout && c.Op == history.OpPut:
		return injected(ErrAmbiguous, "no answer")
	case d.Timeout:
		return injected(ErrUnavailable, "no answer")
	case d.Status == 0:
		return nil
	}
	what := fmt.Sprintf("status %d", d.Status)
	switch {
	case d.Status == http.StatusForbidden:
		return injected(ErrDenied, what)
	case throttles(d.Status):
		return Throttled(injected(ErrThrottled, what), d.RetryAfter)
	case c.Op == history.OpPut:
		return injected(ErrAmbiguous, what)
	}
	return injected(ErrUnavailable, what)
}

// After does to the answer of a get what d says: it cuts the body or flips a byte of it.
func (in *Injector) After(d Decision, body []byte, err error) ([]byte, error) {
	if err != nil {
		return body, err
	}
	if d.Flip {
		flip(body, d.at)
	}
	if d.Cut {
		return nil, injected(errors.Join(ErrUnavailable, io.ErrUnexpectedEOF), fmt.Sprintf("body of %d bytes cut", len(body)))
	}
	return body, nil
}

// flip changes one byte of body in place.
func flip(body []byte, at float64) {
	if len(body) > 0 {
		body[int(at*float64(len(body)))] ^= 0x55
	}
}

func injected(kind error, what string) error {
	return fmt.Errorf("%w %s: %w", ErrInjected, what, kind)
}
