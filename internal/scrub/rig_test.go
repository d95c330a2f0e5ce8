package scrub_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/provision"
	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"
	"statebench.dev/bench/internal/scrub"
	"statebench.dev/bench/internal/world"
)

// kept is a bucket that outlives the run that closes it.
type kept struct{ store.Bucket }

func (kept) Close() error { return nil }

// fixtures are the stores that simulated runs left, by arm; each is made once and never changed.
var fixtures sync.Map // of func() map[string][]byte

// arms are the backends that leave different objects.
var arms = map[string]plan.Backend{
	"heap":           {Name: "heap"},
	"lsm":            {Name: "lsm"},
	"heap-changelog": {Name: "heap", Changelog: changelog},
	"lsm-changelog":  {Name: "lsm", Changelog: changelog},
	"savepoints":     {Name: "lsm"}, // and then a heap with a changelog
}

var changelog = plan.Changelog{Enabled: true, Materialize: plan.Duration(1700 * time.Millisecond), Preemptive: 1 << 14,
	BatchDelay: plan.Duration(5 * time.Millisecond), BatchSize: 1 << 20, InFlight: 64 << 20}

// left returns what a small simulated run with a rescale left, as objects below its prefix.
func left(t *testing.T, arm string) map[string][]byte {
	t.Helper()
	once, _ := fixtures.LoadOrStore(arm, sync.OnceValue(func() map[string][]byte { return simulate(t, arm) }))
	return once.(func() map[string][]byte)()
}

func simulate(t *testing.T, arm string) map[string][]byte {
	mem := store.NewMem()
	runOn(t, arm, func(world.World) store.Bucket { return kept{mem} })
	prefixes, err := scrub.Prefixes(t.Context(), mem)
	if err != nil || len(prefixes) != 1 {
		t.Fatalf("the run lies under %q: %v", prefixes, err)
	}
	return contents(t, store.WithPrefix(mem, prefixes[0]))
}

// runOn carries out a small simulated run on a bucket, which it does not empty.
func runOn(t *testing.T, arm string, bucket func(w world.World) store.Bucket) {
	t.Helper()
	second := plan.Duration(time.Second)
	p := plan.Plan{
		Schema: plan.Version, Scenario: "scrubbed", Arm: arm, Rep: 1, Seed: 7, World: "sim",
		Store:   plan.Store{Kind: "mem", Profile: "local"},
		Workers: plan.Workers{Count: 3, Slots: 2, Cores: 2, HeartbeatEvery: second, HeartbeatTimeout: 5 * second},
		Job: plan.Job{Parallelism: 2, MaxParallelism: 8, RestartDelay: second / 10, BufferRecords: 256, Credits: 4, FlushEvery: second / 50,
			Checkpoint: plan.Checkpoint{Interval: second / 2, Timeout: 20 * second, Retain: 2, MaxConcurrent: 1}},
		Backend: arms[arm],
		Workload: plan.Workload{Name: "counter", Rate: 500, Options: json.RawMessage(
			`{"partitions":2,"keys":{"count":100,"pick":"uniform"},"values":{"size":"50B"},"second":"list"}`)},
		Phases: []plan.Phase{
			{Name: "load", Records: 1500},
			{Name: "heal", Until: plan.UntilRecovered, Within: 60 * second},
			{Name: "drain", Until: plan.UntilDrained, Within: 60 * second},
			{Name: "verify", Until: plan.UntilVerified, Within: 60 * second},
		},
		Rescales: []plan.Rescale{{ID: "grow", Phase: "load", At: plan.Trigger{Record: new(int64(700))}, To: 3, From: "latest"}},
	}
	if arm == "savepoints" {
		next := arms["heap-changelog"]
		p.Rescales = nil
		p.Phases = slices.Insert(p.Phases, 1,
			plan.Phase{Name: "move", Within: 30 * second, Steps: []plan.Step{{Savepoint: plan.Native}, {Stop: &plan.Stop{Savepoint: plan.Canonical}},
				{Start: &plan.Start{From: plan.FromSavepoint, Parallelism: 3, Arm: "heap-changelog", Backend: &next}}}},
			plan.Phase{Name: "on", Records: 800})
		p.Phases[0].Records = 700
	}
	kind, err := catalog.Workloads().Find(p.Workload.Name)
	if err == nil {
		p.Workload.Options, err = kind.New.Resolve(p.Workload.Options)
	}
	deps := run.Deps{Workloads: catalog.Workloads(), Faults: catalog.Faults(), Backends: catalog.Backends(),
		Provision: func(_ context.Context, w world.World, _ string) (store.Bucket, provision.Description, error) {
			return bucket(w), provision.Description{Kind: "mem"}, nil
		}}
	var out run.Outcome
	if err == nil {
		var dir results.RunDir
		if dir, err = results.Dir(t.TempDir()).CreateRun("run-1"); err == nil {
			out, err = run.Run(deps, p, dir, run.Options{KeepObjects: true})
		}
	}
	if err = errors.Join(err, out.Err); err != nil {
		t.Fatal(err)
	}
}

// contents are all objects of a bucket.
func contents(t *testing.T, b store.Bucket) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for at, err := range b.List(t.Context(), "", "") {
		var body []byte
		if err == nil {
			body, err = b.Get(t.Context(), at.Key)
		}
		if err != nil {
			t.Fatal(err)
		}
		all[at.Key] = body
	}
	return all
}

// bucketOf makes a bucket of objects.
func bucketOf(t *testing.T, objects map[string][]byte) *store.Mem {
	t.Helper()
	b := store.NewMem()
	for key, body := range objects {
		put(t, b, key, body)
	}
	return b
}

func put(t *testing.T, b store.Bucket, key string, body []byte) {
	t.Helper()
	if err := b.Put(t.Context(), key, body, store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

// replaced is b with one object replaced, or removed when body is nil.
func replaced(t *testing.T, objects map[string][]byte, key string, body []byte) *store.Mem {
	t.Helper()
	b := bucketOf(t, objects)
	for _, d := range b.Delete(t.Context(), []string{key}) {
		if d.Err != nil {
			t.Fatal(d.Err)
		}
	}
	if body != nil {
		put(t, b, key, body)
	}
	return b
}

func flipped(body []byte, at int) []byte {
	body = bytes.Clone(body)
	body[at] ^= 0x10
	return body
}

// dated is a bucket that tells when its objects were written.
type dated struct {
	store.Bucket
	at map[string]time.Time // of those that are not as old as all
	by time.Time
}

func (d dated) List(ctx context.Context, prefix, after string) iter.Seq2[store.Attributes, error] {
	return func(yield func(store.Attributes, error) bool) {
		for a, err := range d.Bucket.List(ctx, prefix, after) {
			a.Modified = d.by
			if at, ok := d.at[a.Key]; ok {
				a.Modified = at
			}
			if !yield(a, err) {
				return
			}
		}
	}
}

func (d dated) Uploads(ctx context.Context, prefix string) ([]store.Upload, error) {
	all, err := d.Bucket.Uploads(ctx, prefix)
	for i := range all {
		all[i].Begun = d.by
	}
	return all, err
}

// inWorld calls f in a simulated world.
func inWorld(t *testing.T, f func(ctx context.Context, w world.World) error) {
	t.Helper()
	w := world.NewSim(world.SimOptions{Seed: 1})
	if err := w.Run(func(ctx context.Context) error { return f(ctx, w) }); err != nil {
		t.Fatal(err)
	}
}

// audit audits b and returns the findings too.
func audit(t *testing.T, b store.Bucket, o scrub.Options) (r *scrub.Report, all []scrub.Finding) {
	t.Helper()
	o.Formats = catalog.Formats()
	o.Found = func(f scrub.Finding) error { all = append(all, f); return nil }
	inWorld(t, func(ctx context.Context, w world.World) (err error) {
		r, err = scrub.Audit(ctx, w, b, o)
		return err
	})
	return r, all
}
