package run_test

import (
	"fmt"
	"strings"
	"testing"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
)

// backendNamed is heap or lsm, with a changelog around it for heap-on and lsm-on.
func backendNamed(name string) *plan.Backend {
	nested, on := strings.CutSuffix(name, "-on")
	b := plan.Backend{Name: nested}
	if on {
		b.Changelog = plan.Changelog{Enabled: true, Materialize: seconds(0.7), Preemptive: 1 << 20, BatchDelay: seconds(0.002), BatchSize: 1 << 20, InFlight: 16 << 20}
	}
	return &b
}

func startOn(from, b string, parallelism int) plan.Step {
	s := &plan.Start{From: from, Parallelism: parallelism}
	if b != "" {
		s.Arm, s.Backend = b, backendNamed(b)
	}
	return plan.Step{Start: s}
}

func stopWith(form string) plan.Step { return plan.Step{Stop: &plan.Stop{Savepoint: form}} }

// lifelong is a plan whose job takes the steps between stretches of records.
func lifelong(t *testing.T, where, kind, b string, steps ...[]plan.Step) plan.Plan {
	p := short(t, where, kind)
	p.Scenario, p.Faults, p.Backend, p.Arm = "life", nil, *backendNamed(b), b
	phases := []plan.Phase{{Name: "warm", Records: 1500}}
	for i, list := range steps {
		phases = append(phases, plan.Phase{Name: fmt.Sprintf("restart-%d", i), Steps: list, Within: seconds(30)},
			plan.Phase{Name: fmt.Sprintf("on-%d", i), Records: 1000})
	}
	p.Phases = append(phases, p.Phases[2:]...)
	return p
}

// TestLives takes jobs through their lives on all backends, with and without a changelog, by either form of savepoint and by
// cancelling, at other parallelisms. All checks must pass: state and output equal the model's, each savepoint restores to
// the state it was taken at, nothing is orphaned.
func TestLives(t *testing.T) {
	for i, c := range []struct{ from, form, to string }{
		{"heap", plan.Canonical, "heap"}, {"heap", plan.Native, "heap"}, {"heap", "", "heap"},
		{"heap", plan.Canonical, "heap-on"}, {"heap", plan.Native, "heap-on"}, {"heap", "", "heap-on"},
		{"heap-on", plan.Canonical, "heap"}, {"heap-on", plan.Native, "heap"}, {"heap-on", "", "heap"},
		{"heap-on", plan.Canonical, "heap-on"}, {"heap-on", plan.Native, "heap-on"}, {"heap-on", "", "heap-on"},
		{"lsm", plan.Canonical, "lsm"}, {"lsm", plan.Native, "lsm"}, {"lsm", "", "lsm"},
		{"lsm", plan.Canonical, "lsm-on"}, {"lsm", plan.Native, "lsm-on"}, {"lsm", "", "lsm-on"},
		{"lsm-on", plan.Canonical, "lsm"}, {"lsm-on", plan.Native, "lsm"}, {"lsm-on", "", "lsm"},
		{"lsm-on", plan.Canonical, "lsm-on"}, {"lsm-on", plan.Native, "lsm-on"}, {"lsm-on", "", "lsm-on"},
		{"heap", plan.Canonical, "lsm"}, {"heap-on", plan.Canonical, "lsm-on"}, {"lsm", plan.Canonical, "heap-on"}, {"lsm-on", plan.Canonical, "heap"},
	} {
		if testing.Short() && i%5 != 0 {
			continue
		}
		t.Run(fmt.Sprintf("%s %s %s", c.from, c.form, c.to), func(t *testing.T) {
			t.Parallel()
			from, other := plan.FromSavepoint, plan.Canonical
			if c.form == "" {
				from = plan.FromCheckpoint
			}
			if c.form == plan.Canonical {
				other = plan.Native
			}
			p := lifelong(t, "sim", "mem", c.from, []plan.Step{{Savepoint: other}, stopWith(c.form), startOn(from, c.to, 2)}, []plan.Step{stopWith(c.form), startOn(from, c.from, 4)})
			p.Seed = uint64(i + 1)
			rd := carryOut(t, p)
			rows, err := results.ReadCSV[results.RecoveryRow](rd.Path(results.RecoveriesFile))
			if err != nil || len(rows) != 2 || rows[0].Cause != history.CauseStart || rows[0].Parallelism != 2 || !rows[0].Outage.Set {
				t.Errorf("%d rows of recoveries: %+v, %v", len(rows), rows, err)
			}
		})
	}
}

// TestLivesUnderFaults: a worker dies while a savepoint is taken, one that the job goes on after and one that it is stopped with,
// and once more while the job starts.
func TestLivesUnderFaults(t *testing.T) {
	for i, b := range []string{"heap", "heap-on", "lsm", "lsm-on"} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("%s seed %d", b, seed), func(t *testing.T) {
				t.Parallel()
				p := lifelong(t, "sim", "mem", b, []plan.Step{{Savepoint: plan.Native}, stopWith(plan.Canonical), startOn(plan.FromSavepoint, "", 4)})
				p.Seed = 10*uint64(i) + seed + 1
				die := func(worker, event string, n int) plan.Fault {
					return plan.Fault{ID: worker, Kind: "worker-crash", Phase: "restart-0", Where: "worker/" + worker, For: seconds(0.1),
						At: plan.Trigger{Event: event, Count: n, Since: "phase"}}
				}
				p.Faults = []plan.Fault{die("0", "savepoint-triggered", 1), die("1", "savepoint-triggered", 3), die("2", "restore-begin", 20)}
				carryOut(t, p)
			})
		}
	}
}

// TestLifeInTheRealWorld is one life in the real world, off to on by way of a canonical savepoint, and back by cancelling.
func TestLifeInTheRealWorld(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	p := lifelong(t, "real", "embedded", "lsm", []plan.Step{{Savepoint: plan.Native}, stopWith(plan.Canonical), startOn(plan.FromSavepoint, "heap-on", 2)},
		[]plan.Step{stopWith(""), startOn(plan.FromCheckpoint, "heap", 3)})
	carryOut(t, p)
}
