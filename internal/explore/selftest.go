package explore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/run"
)

// ErrNoMutants says that planted bugs are not compiled in.
var ErrNoMutants = errors.New("planted bugs are not compiled in: build with -tags mutants")

// SelftestSeeds is with how many seeds each planted bug is tried at most.
const SelftestSeeds = 12

// Kill is how a planted bug was found.
type Kill struct {
	Mutant
	Failed []string // the checks that failed with any of the seeds
	Seed   int      // the first with which all checks failed that must; 0: none was
	Wrong  string   // what is wrong with a run without the bug, in several lines: then its plan shows nothing
}

// Killed tells whether the bug was found.
func (k *Kill) Killed() bool { return k.Seed > 0 && k.Wrong == "" }

// Selftest plants each bug of a list in up to so many runs, which must pass without it, and returns how it was found, in the order
// of the list; so many bugs are tried at a time as jobs says. done, where not nil, is told of each, by one goroutine at a time.
// The error says that no bugs are compiled in, that runs cannot be carried out, or that the runner was interrupted.
func (r *Runner) Selftest(list []Mutant, seeds, jobs int, done func(k *Kill)) ([]Kill, error) {
	if !failpoint.MutantsBuilt {
		return nil, ErrNoMutants
	}
	var (
		kills  = make([]Kill, len(list))
		mu     sync.Mutex
		failed error
		wg     sync.WaitGroup
		next   = make(chan int, len(list))
	)
	for i := range list {
		next <- i
	}
	close(next)
	for range max(1, jobs) {
		wg.Go(func() {
			for i := range next {
				k, err := r.kill(list[i], seeds)
				mu.Lock()
				kills[i], failed = k, errors.Join(failed, err)
				if done != nil && err == nil {
					done(&k)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return kills, failed
}

// kill tries one seed after the other.
func (r *Runner) kill(m Mutant, seeds int) (Kill, error) {
	k := Kill{Mutant: m}
	for n := 1; n <= seeds && k.Seed == 0 && k.Wrong == ""; n++ {
		p, err := r.Resolve(m.Plan(uint64(n)))
		if err != nil {
			return k, err
		}
		sound, err := r.once(p)
		if err != nil {
			return k, err
		}
		if k.Wrong = sound.Problem(); k.Wrong != "" {
			break
		}
		x, err := r.once(p, m.Name)
		if err != nil {
			return k, err
		}
		k.add(n, x.Failed())
	}
	return k, nil
}

// once runs a plan with planted bugs and removes what it left.
func (r *Runner) once(p plan.Plan, bugs ...string) (Result, error) {
	x, err := r.RunWith(p, run.Options{Mutants: bugs, Interrupted: r.Interrupted})
	if err == nil && x.Outcome.Status == "interrupted" {
		err = errInterrupted
	}
	if err != nil {
		err = fmt.Errorf("%s, seed %d: %w", strings.Join(bugs, ","), p.Seed, err)
	}
	return x, errors.Join(err, x.Remove())
}

var errInterrupted = errors.New("interrupted")

// add notes which checks failed with a seed.
func (k *Kill) add(seed int, failed []string) {
	for _, id := range failed {
		if !slices.Contains(k.Failed, id) {
			k.Failed = append(k.Failed, id)
		}
	}
	if !slices.ContainsFunc(k.Must, func(id string) bool { return !slices.Contains(failed, id) }) {
		k.Seed = seed
	}
}
