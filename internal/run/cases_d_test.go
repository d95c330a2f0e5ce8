package run_test

import (
	"context"
	"errors"
	"testing"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/catalog"
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
