package run_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/registry"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"
	"statebench.dev/bench/workloads"
)

// later is a start as the next program.
func later(s plan.Step) plan.Step {
	s.Start.Schema = 2
	return s
}

// TestMigrationInALife: a job goes on as a program that stores its state in another schema, from base and log, through a crash right
// after, and on to another backend. All checks pass, also of what the old program stored; with the states of the other program the
// final checkpoint has other bytes, and the same where these have no schema.
func TestMigrationInALife(t *testing.T) {
	for i, b := range []string{"heap", "heap-on", "lsm", "lsm-on"} {
		for _, second := range []string{"map", "list"} {
			if testing.Short() && i%2 == 0 {
				continue
			}
			t.Run(b+" "+second, func(t *testing.T) {
				t.Parallel()
				var finals [2]map[string]string
				for n := range finals {
					next := startOn(plan.FromCheckpoint, "", 2)
					if n == 1 {
						next = later(next)
					}
					p := lifelong(t, "sim", "mem", b, []plan.Step{{Savepoint: plan.Native}, stopWith(""), next},
						[]plan.Step{stopWith(plan.Canonical), startOn(plan.FromSavepoint, map[bool]string{true: "lsm", false: "heap-on"}[i == 0], 4)})
					p.Seed = uint64(i + 1)
					p.Faults = []plan.Fault{{ID: "crash", Kind: "worker-crash", Phase: "on-0", Where: "worker/1", For: seconds(0.1),
						At: plan.Trigger{Event: "checkpoint-triggered", Count: 1, Since: "phase"}}}
					w, err := catalog.Workloads().Find("counter")
					if err == nil {
						p.Workload.Options, err = w.New.Resolve(json.RawMessage(`{"partitions":3,"keys":{"count":300},"second":"` + second + `"}`))
					}
					if err != nil {
						t.Fatal(err)
					}
					finals[n] = finalDigests(t, carryOut(t, p))
				}
				for state, d := range finals[0] {
					versioned := !strings.Contains(state, "window") && !strings.Contains(state, "timers") && !strings.HasPrefix(state, "total/")
					if other := finals[1][state]; other == "" || (other == d) == versioned {
						t.Errorf("%s has digest %s in the first program, %s in the second", state, d, other)
					}
				}
				if len(finals[0]) == 0 {
					t.Error("nothing was compared")
				}
			})
		}
	}
}

// finalDigests are those of the newest checkpoint, by state and key group.
func finalDigests(t *testing.T, rd results.RunDir) map[string]string {
	t.Helper()
	all, err := results.GroupRestores(lines[results.StateLine](t, rd, results.StatesFile))
	if err != nil || len(all) == 0 {
		t.Fatalf("%d restores, %v", len(all), err)
	}
	digests := map[string]string{}
	for _, g := range all[len(all)-1].Groups {
		digests[fmt.Sprintf("%s/%s/%d", g.Operator, g.State, g.Group)] = g.Digest
	}
	return digests
}

// forgetful is a workload whose third life runs the first program.
type forgetful struct {
	workloads.Workload
	lives int
}

// Evolve implements workloads.Evolving.
func (w *forgetful) Evolve(schema int) error {
	w.lives++
	if w.lives == 2 {
		schema = 1
	}
	return w.Workload.(workloads.Evolving).Evolve(schema)
}

// TestOlderProgramEndsTheJob: a program that does not know the schema of what it restores fails the job for good, at its first
// attempt, naming state, both schemas and a remedy.
func TestOlderProgramEndsTheJob(t *testing.T) {
	for _, b := range []string{"heap-on", "lsm"} {
		d := deps()
		entry, err := d.Workloads.Find("counter")
		if err != nil {
			t.Fatal(err)
		}
		kind := entry.New
		kind.New = func(o json.RawMessage, e workloads.Env) (workloads.Workload, error) {
			w, err := entry.New.New(o, e)
			return &forgetful{Workload: w}, err
		}
		d.Workloads = registry.NewTable("workload", registry.Entry[workloads.Kind]{Name: "counter", New: kind})
		p := lifelong(t, "sim", "mem", b, []plan.Step{stopWith(plan.Native), later(startOn(plan.FromSavepoint, "", 2))},
			[]plan.Step{stopWith(plan.Native), later(startOn(plan.FromSavepoint, "", 3))})
		rd, err := results.Dir(t.TempDir()).CreateRun(run.Name(&p))
		if err != nil {
			t.Fatal(err)
		}
		out, err := run.Run(d, p, rd, run.Options{})
		if err == nil {
			err = out.Err
		}
		want := `state "value" is stored as held version 2 and opened as version 1: that is newer than the program knows; run the program that wrote it`
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", b, err, want)
		}
	}
}
