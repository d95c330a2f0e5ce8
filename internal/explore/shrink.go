package explore

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"statebench.dev/bench/internal/plan"
)

// ErrPasses says that what is to be shrunk does not fail.
var ErrPasses = errors.New("the run does not fail")

// ShrinkOptions say how to look for a smaller plan.
type ShrinkOptions struct {
	// Check is the id of the check that must fail in each smaller plan; empty: the first one that fails in the plan itself.
	Check string
	// Over is asked before each run: once true the best so far is the result; nil: never.
	Over func() bool
	// Step is told of each smaller plan that fails too; nil: nobody is.
	Step func(what string, p *plan.Plan)
}

// Shrunk is a smaller plan that fails as the first one does.
type Shrunk struct {
	Plan    plan.Plan
	Check   string // that fails
	Problem string // what its run says, in several lines
	Digest  string // of its run, which two runs had
	Runs    int    // that were made
	Whole   bool   // nothing more could be left out; else the time was over
}

// shrinker is a search under way.
type shrinker struct {
	*Runner
	o     ShrinkOptions
	best  plan.Plan
	seen  map[string]bool // encoded plans that did not fail
	runs  int
	err   error
	after int // smaller plans found so far
}

// Shrink looks for the smallest plan that fails by the same check as p, a resolved plan of the simulated world: fewer faults by
// delta debugging, then fewer rescales, a lower rate, fewer records, keys and partitions, less parallelism, and shorter faults,
// again and again until nothing helps. A plan that does not fail gives ErrPasses.
func (r *Runner) Shrink(p plan.Plan, o ShrinkOptions) (Shrunk, error) {
	s := &shrinker{Runner: r, o: o, best: p, seen: map[string]bool{}}
	first, err := r.Run(p)
	if err = errors.Join(err, first.Remove()); err != nil {
		return Shrunk{}, err
	}
	failed := first.Failed()
	if s.o.Check == "" && len(failed) > 0 {
		s.o.Check = failed[0]
	}
	if !slices.Contains(failed, s.o.Check) {
		return Shrunk{}, fmt.Errorf("%w: %s", ErrPasses, first.ends())
	}
	for before := -1; before < s.after && !s.over(); {
		before = s.after
		s.pass()
	}
	return s.result()
}

// ends says how a run ended that does not fail as it should.
func (x *Result) ends() string {
	switch {
	case x.Outcome.Status == "interrupted":
		return "it was interrupted"
	case x.Problem() == "":
		return "it passes"
	}
	return x.Cause().String()
}

// result runs the best plan twice more.
func (s *shrinker) result() (Shrunk, error) {
	out := Shrunk{Plan: s.best, Check: s.o.Check, Whole: !s.over()}
	calm := *s.Runner
	calm.Interrupted = nil // what was found is worth two short runs
	for i := range 2 {
		x, err := calm.Run(s.best)
		if err = errors.Join(s.err, err, x.Remove()); err != nil {
			return out, err
		}
		if i == 1 && x.Outcome.Digest != out.Digest {
			return out, errors.New("the shrunk plan, run twice, has two digests: please report it as a bug of the harness")
		}
		out.Problem, out.Digest = x.Problem(), x.Outcome.Digest
	}
	out.Runs = s.runs + 3
	return out, nil
}

func (s *shrinker) over() bool {
	return s.err != nil || s.Interrupted != nil && s.Interrupted() || s.o.Over != nil && s.o.Over()
}

// try keeps the best plan with a change, if it is another plan and fails by the same check.
func (s *shrinker) try(what string, change func(p *plan.Plan)) bool {
	p, err := clone(&s.best)
	if err != nil {
		s.err = err
	}
	if s.over() {
		return false
	}
	change(&p)
	text, err := p.Encode()
	if err != nil || s.seen[string(text)] || p.Validate() != nil {
		return false
	}
	if _, err := s.Resolve(p); err != nil {
		return false // the workload does not take such options
	}
	if was, err := s.best.Encode(); err == nil && string(was) == string(text) {
		return false
	}
	s.runs++
	x, err := s.Run(p)
	if s.err = errors.Join(err, x.Remove()); s.err != nil {
		return false
	}
	if !slices.Contains(x.Failed(), s.o.Check) {
		s.seen[string(text)] = true
		return false
	}
	s.best = p
	s.after++
	if s.o.Step != nil {
		s.o.Step(what, &p)
	}
	return true
}

// clone copies a plan and all that it refers to.
func clone(p *plan.Plan) (c plan.Plan, err error) {
	text, err := json.Marshal(p)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	return c, err
}
