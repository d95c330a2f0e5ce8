package explore

import (
	"errors"
	"slices"
	"sync"
	"time"

	"statebench.dev/bench/internal/plan"
)

// Limits of the search for failures.
const (
	redraws    = 3  // how often a plan is drawn again at most whose faults hide each other
	keptOfOne  = 3  // results that are kept of one cause
	twiceEvery = 20 // one plan in so many is run twice
	leastDone  = 20 // checkpoints of a plan that completed
	leastSpan  = time.Minute
)

// FuzzOptions say what to run.
type FuzzOptions struct {
	From  int // the first plan's number
	Seeds int // how many plans to run; 0: until the time is over
	Jobs  int // how many at a time, 1 or more
	// Plan makes a plan from its number; nil: Chaos.
	Plan func(n int) plan.Plan
	// Over is asked before each plan: once true no other begins.
	Over func() bool
	// Keep stores a failing run for good and returns where; nil: nothing is kept. It is called for the first few runs of a
	// cause, by one goroutine at a time, and must leave the result alone.
	Keep func(x *Result) (where string, err error)
	// Found is told of each failing run and what is known of its cause, by one goroutine at a time; nil: nobody is.
	Found func(x *Result, f *Failure)
	// Done is told after each plan what is known so far and what came of it, by one goroutine at a time; nil: nobody is.
	Done func(f *Found, x *Result)
}

// Failure is a cause and the runs that have it.
type Failure struct {
	Cause
	Plans   []int    // their numbers, the first one that was met first
	Kept    []string // where results of the first ones lie
	Problem string   // what is wrong with the first one, in several lines
}

// Found is what came of many plans.
type Found struct {
	Plans    int // that were run and judged, those whose faults hid each other included
	Passed   int
	Hidden   int // that were run and say nothing, since one fault hid another
	Redrawn  int // of these, those in whose place another one was run
	Twice    int // that were run twice, and had the same digest
	Virtual  time.Duration
	Coverage Coverage
	Failures []*Failure // in the order in which they were met
}

// Worst is the class of the worst failure; empty when nothing failed.
func (f *Found) Worst() string {
	for _, class := range []string{Violation, Bug, Inconclusive} {
		if slices.ContainsFunc(f.Failures, func(x *Failure) bool { return x.Class == class }) {
			return class
		}
	}
	return ""
}

// fuzzer is a search under way.
type fuzzer struct {
	*Runner
	o    FuzzOptions
	mu   sync.Mutex
	next int
	Found
	err error // of the harness; ends the search
}

// Fuzz runs plans until there were enough, the time is over, or the runner is interrupted, and tells failures apart. Of the plans
// under way at an interruption nothing is known. The error says that a run could not be carried out or kept.
func (r *Runner) Fuzz(o FuzzOptions) (*Found, error) {
	if o.Plan == nil {
		o.Plan = Chaos
	}
	f := &fuzzer{Runner: r, o: o, next: o.From}
	var wg sync.WaitGroup
	for range max(1, o.Jobs) {
		wg.Go(func() {
			for n, more := f.take(); more; n, more = f.take() {
				f.explore(n)
			}
		})
	}
	wg.Wait()
	for _, x := range f.Failures {
		slices.Sort(x.Plans[1:])
	}
	return &f.Found, f.err
}

// take returns the number of the next plan.
func (f *fuzzer) take() (n int, more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil || f.stopped() || f.o.Seeds > 0 && f.next >= f.o.From+f.o.Seeds || f.o.Over != nil && f.o.Over() {
		return 0, false
	}
	f.next++
	return f.next - 1, true
}

func (f *fuzzer) stopped() bool { return f.Interrupted != nil && f.Interrupted() }

// explore runs plan n, and others in its place as long as its faults hide each other.
func (f *fuzzer) explore(n int) {
	for k := 0; ; k++ {
		p, err := f.Resolve(f.o.Plan(n))
		if err != nil {
			f.fail(err)
			return
		}
		x, err := f.Run(p)
		again := err == nil && f.add(n, &x, k < redraws)
		f.fail(errors.Join(err, x.Remove()))
		if !again {
			return
		}
		n = Again(n)
	}
}

func (f *fuzzer) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

// add counts what came of plan n, and tells whether another one is to be run in its place.
func (f *fuzzer) add(n int, x *Result, redraw bool) (again bool) {
	if x.Outcome.Status == "interrupted" {
		return false
	}
	c, twice := x.Cause(), false
	completed, last, err := x.Checkpoints()
	switch {
	case err != nil:
		f.fail(err)
		return false
	case c == (Cause{}) && (completed < leastDone || last < leastSpan):
		c = Cause{Class: Inconclusive, Text: "few checkpoints completed, or for a short time only"}
	case c == (Cause{}) && n%twiceEvery == 0:
		if twice, err = f.same(x); err != nil {
			f.fail(err)
			return false
		}
		if !twice && !f.stopped() {
			c = Cause{Class: Bug, Text: "the same plan, run twice, has two digests"}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Plans++
	f.Virtual += last
	f.Coverage.Pass(x.Outcome.Failpoints)
	if twice {
		f.Twice++
	}
	switch {
	case c != (Cause{}):
		f.found(n, x, c)
	case x.Hidden():
		f.Hidden++
		if again = redraw; again {
			f.Redrawn++
		}
	default:
		f.Passed++
		f.Coverage.Add(&x.Plan, completed)
	}
	if f.o.Done != nil {
		f.o.Done(&f.Found, x)
	}
	return again
}

// same runs the plan of a result again and compares the digests.
func (f *fuzzer) same(x *Result) (bool, error) {
	y, err := f.Run(x.Plan)
	return err == nil && y.Outcome.Digest == x.Outcome.Digest, errors.Join(err, y.Remove())
}

// found files a failing run under its cause.
func (f *fuzzer) found(n int, x *Result, c Cause) {
	i := slices.IndexFunc(f.Failures, func(o *Failure) bool { return o.Cause == c })
	if i < 0 {
		i = len(f.Failures)
		f.Failures = append(f.Failures, &Failure{Cause: c, Problem: x.Problem()})
	}
	fl := f.Failures[i]
	fl.Plans = append(fl.Plans, n)
	if f.o.Keep != nil && len(fl.Kept) < keptOfOne {
		where, err := f.o.Keep(x)
		if err != nil && f.err == nil {
			f.err = err
		}
		if err == nil {
			fl.Kept = append(fl.Kept, where)
		}
	}
	if f.o.Found != nil {
		f.o.Found(x, fl)
	}
}
