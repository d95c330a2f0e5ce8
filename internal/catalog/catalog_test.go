package catalog

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/provision"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"
	"statebench.dev/bench/internal/scenario"
	"statebench.dev/bench/internal/world"
)

// workloadOptions are the options of workloads that do not run without any, in YAML.
var workloadOptions = map[string]string{
	"counter": "source: {partitions: 4, rate: 2_000/s}, keys: {count: 400}, values: {size: 50B}",
	"trace": "file: events.csv, duration: 3s, source: {partitions: 4}, time: {column: time_s, unit: s}, key: tail_number," +
		" second: [origin], values: [departure_delay_min], labels: [destination], timerEvery: 24h",
	"enrich": "source: {partitions: 4, rate: 2_000/s}, keys: {count: 300}, values: {size: 50B}, rules: {count: 9, share: 5%}," +
		" disorder: 150ms, hold: 130ms",
	"window": "source: {partitions: 4, rate: 2_000/s}, keys: {count: 300}, values: {size: 50B}, size: 400ms, slide: 100ms, keep: all," +
		" disorder: 150ms, watermark: 60ms, ttl: 200ms",
}

// faultPlaces are where faults strike, with which options and for how long, where the defaults do not do. What damages
// answers stays in force until phase heal, so that the restore after the rescale meets it.
var faultPlaces = map[string]string{
	"worker-crash":  "where: worker/1, with: {disk: lose}, for: 1s",
	"task-error":    "where: subtask/any, for: 1s",
	"store-errors":  "where: store, with: {op: put, status: 503, share: 50%}, for: 1s",
	"store-latency": "where: store, with: {op: put, delay: 50ms}, for: 1s",
	"store-outage":  "where: store, for: 1s",
	"lost-ack":      "where: store, with: {share: 50%}, for: 1s",
	"cut-body":      "where: store, with: {share: 40%}, for: 1s",
	"flipped-byte":  "where: store, with: {share: 40%}",
}

// wanted is what a test runs.
type wanted struct {
	workload, world, fault, backend string
	parallelism, records            int
}

// text is the scenario of it: each backend is run as it is and with the changelog around it.
func (w wanted) text() string {
	faults, rescale := "", ""
	if w.fault != "" {
		faults = fmt.Sprintf("faults: [{id: f, fault: %s, %s, at: {record: %d}}], ", w.fault, faultPlaces[w.fault], w.records/4)
		rescale = fmt.Sprintf("rescale: [{at: {record: %d}, to: %d}], ", w.records*3/4, w.parallelism+1)
	}
	return fmt.Sprintf(`apiVersion: bench/v1
kind: Scenario
name: catalog
seed: 11
env: {world: %s, store: {kind: mem}, workers: {count: 3, slots: 2, heartbeat: {every: 200ms, timeout: 1s}}}
job: {parallelism: %d, maxParallelism: 16, checkpoint: {interval: 300ms, timeout: 10s, retain: 2}}
arms:
  plain: {backend: %s}
  logged: {backend: %s, changelog: {enabled: true, materialize: {every: 700ms}}}
baseline: plain
workload: {name: %s, %s}
phases:
  - {name: all, %s%srecords: %d}
  - {name: heal, heal: all, until: recovered, within: 60s}
  - {name: drain, source: stop, final: [checkpoint], gcGrace: 1s}
  - {name: verify, check: all, audit: retained}
`, w.world, w.parallelism, w.backend, w.backend, w.workload, workloadOptions[w.workload], faults, rescale, w.records)
}

// runs carries the scenario out and returns its manifest; every check of every run must pass.
func (w wanted) runs(t *testing.T) results.Manifest {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "events.csv"), events(w.records), 0o600); err != nil {
		t.Fatal(err)
	}
	s, problems := scenario.Load(filepath.Join(folder, "catalog.yaml"), []byte(w.text()), Scenario(), scenario.Overrides{})
	if len(problems) > 0 {
		t.Fatalf("%s\n%s", scenario.Format(problems), w.text())
	}
	plans, err := scenario.Plans(s)
	if err != nil {
		t.Fatal(err)
	}
	dir, m, err := run.Invoke(deps(), run.Invocation{
		Plans: plans, Resolved: scenario.Resolved(s), Out: t.TempDir(), Checks: Checks(), Clock: time.Now,
		Manifest: results.Manifest{Scenario: s.Name, Seed: s.Seed, World: s.World},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range m.Runs {
		if r.Status != "finished" || r.Verdict != results.Pass {
			t.Errorf("%s: %s, %s %s", r.Name, r.Status, r.Verdict, r.Error)
			explain(t, dir, r.Name)
		}
	}
	return m
}

// events is a file of n events for workloads that read one, an event a minute.
func events(n int) []byte {
	out := []byte("time_s,tail_number,origin,destination,departure_delay_min\n")
	for i := range n {
		out = fmt.Appendf(out, "%d,N%d,O%d,D%d,%d\n", 60*i, i*i%97, i%3, i%11, i%50-5)
	}
	return out
}

// explain logs the verdicts of a run that did not pass.
func explain(t *testing.T, dir results.Dir, name string) {
	t.Helper()
	verdicts, err := run.Judge(deps(), dir, name, Checks())
	if err != nil {
		t.Error(err)
	}
	for _, v := range verdicts {
		if v.Verdict != results.Pass {
			t.Errorf("%+v", v)
		}
	}
}

func deps() run.Deps {
	return run.Deps{Workloads: Workloads(), Faults: Faults(), Backends: Backends(), Storages: LogStorages(),
		Provision: func(ctx context.Context, w world.World, spec string) (store.Bucket, provision.Description, error) {
			return provision.Open(ctx, w, spec, provision.Options{})
		}}
}

// TestScenariosNameEachLogStorage: what plans may say is what there is.
func TestScenariosNameEachLogStorage(t *testing.T) {
	names, want := LogStorages().Names(), plan.LogStorages()
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("storages %v, plans may name %v", names, want)
	}
}

// TestWorkloadsAgreeWithTheirModels runs each workload without faults on each backend, with and without the changelog,
// at two parallelisms in the simulated world and at one in the real one.
func TestWorkloadsAgreeWithTheirModels(t *testing.T) {
	for _, w := range Workloads().Entries() {
		for _, b := range Backends().Names() {
			for _, at := range []wanted{{world: "sim", parallelism: 1}, {world: "sim", parallelism: 3}, {world: "real", parallelism: 3}} {
				at.workload, at.backend, at.records = w.Name, b, 3_000
				t.Run(fmt.Sprintf("%s/%s/%s/%d", w.Name, b, at.world, at.parallelism), func(t *testing.T) {
					// The race detector makes an embedded database very slow: there it is run once, by threads.
					database := b == "lsm" && (at.world == "sim" || w.Name != "counter")
					if testing.Short() && (database || b != "lsm" && at.world == "real" || at.parallelism == 1) {
						t.Skip("one of each is enough here")
					}
					if at.world == "real" {
						t.Parallel()
					}
					at.runs(t)
				})
			}
		}
	}
}

// TestFaultsHitAndHeal runs each fault, and a rescale after it, over the first workload on each backend, twice: all
// checks pass, the fault is proven hit and healed (H1), and the same seed gives the same history.
func TestFaultsHitAndHeal(t *testing.T) {
	workload := Workloads().Names()[0]
	for _, f := range Faults().Entries() {
		if strings.HasPrefix(f.Name, "container-") {
			continue // there is none in the simulated world; cmd/bench tests them
		}
		for _, b := range Backends().Names() {
			t.Run(f.Name+"/"+b, func(t *testing.T) {
				if testing.Short() && b != "heap" {
					t.Skip("an embedded database is very slow under the race detector")
				}
				w := wanted{workload: workload, world: "sim", fault: f.Name, backend: b, parallelism: 3, records: 12_000}
				first := w.runs(t)
				if testing.Short() {
					return
				}
				second := w.runs(t)
				if first.Digest == "" || first.Digest != second.Digest {
					t.Errorf("digests of one seed are %q and %q", first.Digest, second.Digest)
				}
			})
		}
	}
}

// TestListsAreUseful: everything that can be named says what it is.
func TestListsAreUseful(t *testing.T) {
	about := map[string]string{}
	for _, e := range Workloads().Entries() {
		about["workload "+e.Name] = e.About
	}
	for _, e := range Faults().Entries() {
		about["fault "+e.Name] = e.About
	}
	for _, e := range Backends().Entries() {
		about["backend "+e.Name] = e.About
	}
	for _, e := range Stores().Entries() {
		about["store "+e.Name] = e.About
	}
	for _, c := range Checks() {
		about["check "+c.ID] = c.Name
	}
	for name, text := range about {
		if text == "" || strings.TrimRight(text, ".") != text {
			t.Errorf("%s: %q is no description", name, text)
		}
	}
}
