package explore_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/provision"
	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/explore"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"
	"statebench.dev/bench/internal/world"
)

var (
	plans = flag.Int("plans", 300, "how many random plans to run")
	from  = flag.Int("from", 0, "the first plan's number")
	keep  = flag.String("keep", "", "folder to keep the results of failing plans in")
)

func deps() run.Deps {
	return run.Deps{
		Workloads: catalog.Workloads(), Faults: catalog.Faults(), Backends: catalog.Backends(), Storages: catalog.LogStorages(),
		Provision: func(ctx context.Context, w world.World, spec string) (store.Bucket, provision.Description, error) {
			return provision.Open(ctx, w, spec, provision.Options{})
		},
	}
}

// resolved completes the workload's options. In short mode, where the race detector multiplies the work of an embedded
// database, simulated plans, which are of one thread, keep to the heap, but for one in thirty.
func resolved(t testing.TB, p plan.Plan) plan.Plan {
	t.Helper()
	if testing.Short() && p.Simulated() && p.Seed%30 != 8 {
		p.Backend.Name = "heap"
	}
	kind, err := catalog.Workloads().Find(p.Workload.Name)
	if err != nil {
		t.Fatal(err)
	}
	if p.Workload.Options, err = kind.New.Resolve(p.Workload.Options); err != nil {
		t.Fatal(err)
	}
	return p
}

func runner(d run.Deps) *explore.Runner {
	return &explore.Runner{Deps: d, Checks: catalog.Checks()}
}

// execute runs and judges one plan in a folder of its own.
func execute(t *testing.T, p plan.Plan, o run.Options) (out run.Outcome, verdicts []results.Verdict, rd results.RunDir) {
	t.Helper()
	return executeWith(t, deps(), p, o)
}

func executeWith(t *testing.T, d run.Deps, p plan.Plan, o run.Options) (out run.Outcome, verdicts []results.Verdict, rd results.RunDir) {
	t.Helper()
	x, err := runner(d).RunWith(p, o)
	if err != nil {
		t.Errorf("%s: %v", p.Scenario, err)
	}
	return x.Outcome, x.Verdicts, x.Dir
}

// describe says what is wrong with a run that should have passed; empty when nothing is.
func describe(out run.Outcome, verdicts []results.Verdict) string {
	x := explore.Result{Outcome: out, Verdicts: verdicts}
	return x.Problem()
}

func discard(t *testing.T, p plan.Plan, rd results.RunDir, failed bool) {
	folder := filepath.Dir(filepath.Dir(string(rd)))
	if failed && *keep != "" {
		if err := os.Rename(folder, filepath.Join(*keep, p.Scenario)); err != nil {
			t.Error(err)
		}
		return
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Error(err)
	}
}

// kept leaves the results of a failing run where that was asked for.
func kept(x *explore.Result) (string, error) {
	if *keep == "" {
		return "", nil
	}
	where := filepath.Join(*keep, x.Plan.Scenario)
	return where, os.CopyFS(where, os.DirFS(x.Folder()))
}

// numbers are the plans to run: one in thirty of them in short mode.
func numbers() (all []int) {
	n := *plans
	if testing.Short() {
		n = max(1, n/30)
	}
	for i := range n {
		all = append(all, *from+i)
	}
	return all
}

// hidden tells whether faults of a run hid each other.
func hidden(out run.Outcome, verdicts []results.Verdict) bool {
	x := explore.Result{Outcome: out, Verdicts: verdicts}
	return x.Hidden()
}

// TestOnlyFaultsWithoutEffectAreHidden: a plan with anything else wrong is not drawn again.
func TestOnlyFaultsWithoutEffectAreHidden(t *testing.T) {
	none := "fault extra-0 (store-errors) had no effect: nothing"
	for _, c := range []struct {
		check, verdict string
		evidence       []string
		want           bool
	}{
		{"H1", results.Inconclusive, []string{none}, true},
		{"H1", results.Inconclusive, []string{none, "1 of 2 planned rescales were done"}, false},
		{"H1", results.Inconclusive, []string{"fault walk (worker-crash) was not healed: "}, false},
		{"H2", results.Inconclusive, []string{none}, false},
		{"S1", results.Fail, []string{none}, false},
		{"H1", results.Pass, nil, false},
	} {
		v := []results.Verdict{{Check: "O1", Verdict: results.Pass}, {Check: c.check, Verdict: c.verdict, Evidence: c.evidence}}
		if got := hidden(run.Outcome{}, v); got != c.want {
			t.Errorf("%+v: hidden is %t", c, got)
		}
	}
	if hidden(run.Outcome{Err: errors.New("x")}, []results.Verdict{{Check: "H1", Verdict: results.Inconclusive, Evidence: []string{none}}}) {
		t.Error("a run with an error is hidden")
	}
}

// again is how often a plan is drawn again at most whose faults hide each other, and in which share of the plans, in percent.
const (
	again      = 3
	againShare = 4
)

// fromCopies counts the objects that restores of a run read from copies on the workers' disks.
func fromCopies(t *testing.T, p *plan.Plan, rd results.RunDir) (n int64) {
	t.Helper()
	if !p.Backend.LocalRecovery {
		return 0
	}
	for e, err := range results.ReadLines[history.Event](rd.Path(results.HistoryFile)) {
		if err != nil {
			t.Error(err)
			break
		}
		if e.Kind == history.RestoreCopied {
			n += e.Count
		}
	}
	return n
}

// TestRandomPlansPass runs random plans in the simulated world, two at a time, and prints what they covered. Every plan
// that fails is repeated by `go test ./internal/explore -run TestRandomPlansPass -from N -plans 1`.
func TestRandomPlansPass(t *testing.T) {
	copied := int64(0) // objects that restores read from copies on the workers' disks
	began, n := time.Now(), len(numbers())
	x, err := runner(deps()).Fuzz(explore.FuzzOptions{
		From: *from, Seeds: n, Jobs: 2,
		Plan: func(n int) plan.Plan { return resolved(t, explore.Generate(n)) },
		Done: func(_ *explore.Found, r *explore.Result) { copied += fromCopies(t, &r.Plan, r.Dir) },
		Keep: kept,
		Found: func(r *explore.Result, f *explore.Failure) {
			t.Errorf("%s (%s, %s): %s: %s", r.Plan.Scenario, r.Plan.Arm, r.Plan.Backend.Name, f.Cause, r.Problem())
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.0f s of virtual time in %.0f s, %d plans drawn again, %d objects restored from copies\n%s",
		x.Virtual.Seconds(), time.Since(began).Seconds(), x.Redrawn, copied, x.Coverage.Table())
	if x.Hidden > x.Redrawn {
		t.Errorf("%d plans hide their faults however often they are drawn", x.Hidden-x.Redrawn)
	}
	if x.Redrawn > max(3, n*againShare/100) {
		t.Errorf("%d of %d plans were drawn again: faults are not seen to have an effect", x.Redrawn, n)
	}
	if testing.Short() || *plans < 100 {
		return
	}
	if copied == 0 {
		t.Error("no restore read a copy")
	}
	if *plans < 300 {
		return
	}
	for _, kind := range explore.Faults() {
		for _, stage := range explore.Stages() {
			if n := x.Coverage.Hits(kind, stage); n < 5 {
				t.Errorf("%s was proven only %d times at %s", kind, n, stage)
			}
		}
	}
}

// TestSameSeedSameDigest runs plans twice.
func TestSameSeedSameDigest(t *testing.T) {
	seeds := 50
	if testing.Short() {
		seeds = 2
	}
	next := make(chan int)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for n := range next {
				p := resolved(t, explore.Generate(n))
				a, _, first := execute(t, p, run.Options{})
				b, _, second := execute(t, p, run.Options{})
				if a.Digest == "" || a.Digest != b.Digest {
					t.Errorf("plan %d: digests %s and %s; %s", n, a.Digest, b.Digest, difference(t, first, second))
				}
				discard(t, p, first, false)
				discard(t, p, second, false)
			}
		})
	}
	for n := range seeds {
		next <- 1000 + n
	}
	close(next)
	wg.Wait()
}

// TestOneFlippedChoiceChangesTheDigest shows that the digest notices the order of things.
func TestOneFlippedChoiceChangesTheDigest(t *testing.T) {
	p := resolved(t, explore.Generate(1001))
	a, _, first := execute(t, p, run.Options{})
	flips := int64(10)
	if testing.Short() {
		flips = 3
	}
	changed := int64(0)
	for i := range flips {
		b, _, second := execute(t, p, run.Options{Flip: 1 + i*a.Choices/flips})
		if a.Digest != b.Digest {
			changed++
		}
		discard(t, p, second, false)
	}
	if changed < flips {
		t.Errorf("only %d of %d flipped choices change the digest", changed, flips)
	}
	discard(t, p, first, false)
}

// difference is the first event in which two histories differ.
func difference(t *testing.T, a, b results.RunDir) string {
	t.Helper()
	var left []json.RawMessage
	for e, err := range results.ReadLines[json.RawMessage](a.Path(results.HistoryFile)) {
		if err != nil {
			return err.Error()
		}
		left = append(left, append(json.RawMessage(nil), e...))
	}
	i := 0
	for e, err := range results.ReadLines[json.RawMessage](b.Path(results.HistoryFile)) {
		if err != nil {
			return err.Error()
		}
		if i >= len(left) || string(left[i]) != string(e) {
			was := "nothing"
			if i < len(left) {
				was = string(left[i])
			}
			return fmt.Sprintf("first difference:\n%s\n%s", was, e)
		}
		i++
	}
	return "histories are equal"
}
