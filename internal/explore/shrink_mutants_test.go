//go:build mutants

package explore_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"statebench.dev/bench/internal/explore"
	"statebench.dev/bench/internal/plan"
)

// TestMutantsFailureIsShrunk: of a plan with twelve faults and three rescales, in which a planted bug shows, at most two faults and
// 200 records are left, in less than two minutes, and the small plan repeats the same events.
func TestMutantsFailureIsShrunk(t *testing.T) {
	for _, name := range []string{"replay-twice", "drop-key-group"} {
		t.Run(name, func(t *testing.T) {
			r := runner(deps())
			r.Mutants = []string{name}
			p := resolved(t, explore.Chaos(11))
			for i := 0; len(p.Faults) < 12; i++ {
				kind := []string{"worker-crash", "task-error"}[i%2]
				where := []string{"worker/any", "subtask/any"}[i%2]
				p.Faults = append(p.Faults, plan.Fault{ID: fmt.Sprintf("further-%d", i), Kind: kind, Phase: "chaos", Where: where, At: after(3 + 4*float64(i)), For: seconds(float64(1 - i%2))})
			}
			began := time.Now()
			s, err := r.Shrink(p, explore.ShrinkOptions{Step: func(what string, p *plan.Plan) {
				t.Logf("%5.1f s  %2d faults, %d rescales, %5d records: %s", time.Since(began).Seconds(), len(p.Faults), len(p.Rescales), p.TotalRecords(), what)
			}})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d runs in %.1f s: %s", s.Runs, time.Since(began).Seconds(), s.Problem)
			if n := s.Plan.TotalRecords(); len(s.Plan.Faults) > 2 || n > 200 {
				t.Errorf("%d faults and %d records are left", len(s.Plan.Faults), n)
			}
			again, err := r.Run(s.Plan)
			if err != nil || again.Outcome.Digest != s.Digest || !slices.Contains(again.Failed(), s.Check) {
				t.Errorf("again: digest %s, was %s; %v; %v", again.Outcome.Digest, s.Digest, again.Failed(), err)
			}
			if err := again.Remove(); err != nil {
				t.Error(err)
			}
			r.Mutants = nil
			calm, err := r.Run(s.Plan)
			if err != nil || len(calm.Failed()) > 0 {
				t.Errorf("without the bug it fails: %s; %v", calm.Problem(), err)
			}
			if err := calm.Remove(); err != nil {
				t.Error(err)
			}
		})
	}
}
