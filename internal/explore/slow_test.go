package explore_test

import (
	"sync"
	"testing"

	"statebench.dev/bench/internal/explore"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/run"
	"statebench.dev/bench/internal/scenario"
)

// slow puts a plan on the store that is shipped as s3-standard.
func slow(p plan.Plan) plan.Plan {
	p.Store.Profile, p.Store.Model = "s3-standard", scenario.Shipped()
	return p
}

// throttling puts a plan on that store, which takes no more requests than a busy moment of the job makes.
func throttling(p plan.Plan) plan.Plan {
	p = slow(p)
	p.Store.Profile, p.Store.Model.Requests = "throttling", plan.Requests{Write: 150, Read: 60}
	p.Scenario += "-throttled"
	return p
}

// TestRandomPlansPassOnSlowStores runs random plans whose requests take what they take to S3, and are throttled.
func TestRandomPlansPassOnSlowStores(t *testing.T) {
	n := 20
	if testing.Short() {
		n = 2
	}
	var wg sync.WaitGroup
	for _, store := range []func(plan.Plan) plan.Plan{slow, throttling} {
		wg.Go(func() {
			for i := range n {
				p := store(resolved(t, explore.Generate(*from+i)))
				out, verdicts, rd := execute(t, p, run.Options{})
				problem := describe(out, verdicts)
				if problem != "" {
					t.Errorf("plan %d (%s, %s): %s", *from+i, p.Arm, p.Store.Profile, problem)
				}
				discard(t, p, rd, problem != "")
			}
		})
	}
	wg.Wait()
}
