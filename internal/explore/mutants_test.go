//go:build mutants

package explore_test

import (
	"slices"
	"testing"
	"time"

	"statebench.dev/bench/internal/explore"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/run"
)

func seconds(n float64) plan.Duration { return plan.Duration(n * float64(time.Second)) }

func after(n float64) plan.Trigger {
	d := seconds(n)
	return plan.Trigger{Time: &d}
}

// TestMutantsAreKilled plants each bug in runs that pass without it, and prints which checks find it in the plan made for it, where
// the named ones must.
func TestMutantsAreKilled(t *testing.T) {
	kills, err := runner(deps()).Selftest(explore.Mutants(), explore.SelftestSeeds, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kills {
		t.Logf("%-22s seed %2d, must %v, failed %v", k.Name, k.Seed, k.Must, k.Failed)
		if !k.Killed() {
			t.Errorf("%s survives %d seeds: %v must fail at once, there failed %v %s", k.Name, explore.SelftestSeeds, k.Must, k.Failed, k.Wrong)
		}
	}
}

// maxPlans bounds the random plans that are tried to find a planted bug.
const maxPlans = 20

// TestMutantsAreMetByRandomPlans: these bugs need no plan made for them.
func TestMutantsAreMetByRandomPlans(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs many plans")
	}
	met := []string{"ack-before-durable", "drop-key-group", "truncate-early", "delete-on-subsume", "log-behind-cut", "drop-broadcast", "first-watermark", "replay-twice", "accept-zombie"}
	r := runner(deps())
	for _, m := range explore.Mutants() {
		if !slices.Contains(met, m.Name) {
			continue
		}
		found := 0
		for n := 0; n < maxPlans && found == 0; n++ {
			x, err := r.RunWith(resolved(t, explore.Generate(2*n+1)), run.Options{Mutants: []string{m.Name}}) // an odd one has the changelog on
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(x.Failed(), func(id string) bool { return slices.Contains(m.Must, id) }) {
				found = n + 1
			}
			if err := x.Remove(); err != nil {
				t.Error(err)
			}
		}
		t.Logf("%-20s random plan %d", m.Name, found)
		if found == 0 {
			t.Errorf("%s: %d random plans, and none of %v failed", m.Name, maxPlans, m.Must)
		}
	}
}
