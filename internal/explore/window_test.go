package explore_test

import (
	"sync"
	"testing"

	"statebench.dev/bench/internal/explore"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"
	"statebench.dev/bench/internal/validate"
)

// TestRandomWindowPlansPass runs random plans over windows, with faults and rescales, in both arms. S1 to S3 compare all
// state and output with the model: no window is emitted twice or never, no replay brings back what has expired.
func TestRandomWindowPlansPass(t *testing.T) { mustPassOver(t, "window", 40) }

// TestRandomJoinPlansPass does so with the join of events and broadcast rules: no subtask misses a rule, no event leaves before its rule
// has come, nothing that is held back is lost or comes twice.
func TestRandomJoinPlansPass(t *testing.T) { mustPassOver(t, "enrich", 30) }

// mustPassOver runs random plans over one workload. A plan in which one fault hides another (H1) says nothing; there are some more plans
// than must pass.
func mustPassOver(t *testing.T, workload string, want int) {
	t.Helper()
	if testing.Short() {
		want = 6
	}
	numbers := make(chan int)
	passed := map[string]int{} // by arm
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for n := range numbers {
				p := resolved(t, explore.Generate(n))
				out, verdicts, rd := execute(t, p, run.Options{})
				problem := describe(out, verdicts)
				mu.Lock()
				if problem == "" {
					passed[p.Arm]++
				}
				mu.Unlock()
				if problem != "" {
					t.Logf("plan %d (%s, %s): %s", n, p.Arm, p.Workload.Options, problem)
				}
				failed := out.Err != nil || validate.Overall(verdicts) == results.Fail
				if failed {
					t.Fail()
				}
				discard(t, p, rd, failed)
			}
		})
	}
	for n, left := 2000, want+want/10+1; left > 0; n++ {
		if explore.Generate(n).Workload.Name == workload {
			left--
			numbers <- n
		}
	}
	close(numbers)
	wg.Wait()
	if off, on := passed["changelog-off"], passed["changelog-on"]; off+on < want || min(off, on) < want/4 {
		t.Errorf("only %d plans without and %d with a changelog passed", off, on)
	}
}
