package run_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"
	"statebench.dev/bench/internal/scrub"
	"statebench.dev/bench/internal/world"
)

// liar is a bucket that keeps one of ten objects that it is asked to delete, however often, and says that it is gone.
type liar struct {
	watched
	asked int
	kept  map[string]bool
}

func (b *liar) Delete(ctx context.Context, keys []string) []store.Deleted {
	var real []string
	for _, key := range keys {
		if b.asked++; b.asked%10 == 5 || b.kept[key] {
			b.kept[key] = true
			continue
		}
		real = append(real, key)
	}
	b.Bucket.Delete(ctx, real)
	out := make([]store.Deleted, len(keys))
	for i, key := range keys {
		out[i].Key = key
	}
	return out
}

// TestD19DeletesThatAreNone (docs/known-faults.md): the run is not clean, and an audit finds what is left.
func TestD19DeletesThatAreNone(t *testing.T) {
	b := &liar{watched: watched{Bucket: store.NewMem()}, kept: map[string]bool{}}
	p := short(t, "sim", "mem")
	d := deps()
	d.Provision = provided(b)
	dir := results.Dir(t.TempDir())
	rd, err := dir.CreateRun(run.Name(&p))
	if err != nil {
		t.Fatal(err)
	}
	out, err := run.Run(d, p, rd, run.Options{KeepObjects: true})
	if err = errors.Join(err, out.Err); err != nil {
		t.Fatal(err)
	}
	verdicts, err := run.Judge(d, dir, rd.Name(), catalog.Checks())
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, v := range verdicts {
		found = found || v.Verdict == results.Fail
	}
	if !found || len(b.kept) == 0 {
		t.Errorf("%d of %d deletes were none; verdicts %+v", len(b.kept), b.asked, verdicts)
	}
	prefixes, err := scrub.Prefixes(t.Context(), b)
	if err != nil || len(prefixes) != 1 {
		t.Fatalf("the run lies under %q: %v", prefixes, err)
	}
	w := world.NewSim(world.SimOptions{})
	if err := w.Run(func(ctx context.Context) error {
		r, err := scrub.Audit(ctx, w, store.WithPrefix(b, prefixes[0]), scrub.Options{Formats: catalog.Formats()})
		if err == nil && (r.Counts[scrub.Orphan] == 0 || r.Verdict() != scrub.Litter) {
			t.Errorf("the audit says %v: %+v", r.Verdict(), r.Counts)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestD21RunWithSpreadKeys (docs/known-faults.md): a run whose store takes few writes a second under one prefix, with a crash and the audit of
// what is retained. Spread, its log and bases are not throttled; results, checks and faults see the same keys.
func TestD21RunWithSpreadKeys(t *testing.T) {
	throttled := map[int]int{}
	for _, n := range []int{0, 32} {
		p := short(t, "sim", "mem")
		p.Store.Profile, p.Store.Spread = "few-writes", n
		p.Backend.Changelog.Preemptive, p.Faults = 8<<10, p.Faults[1:] // its probes would be throttled
		p.Store.Model = plan.Profile{Requests: plan.Requests{Write: 12}}
		rd := carryOut(t, p)
		puts := 0
		for _, r := range lines[history.Request](t, rd, results.ObjectsFile) {
			if r.Op != history.OpPut || !strings.HasPrefix(r.Key, "log/") && !strings.HasPrefix(r.Key, "base/") {
				continue
			}
			puts++
			if r.Throttled {
				throttled[n]++
			}
		}
		if puts < 30 {
			t.Errorf("only %d puts of data objects", puts)
		}
	}
	if throttled[0] < 10 || throttled[32] > 0 {
		t.Errorf("puts that were throttled, by the number of prefixes: %v", throttled)
	}
}
