package explore_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	"statebench.dev/bench/internal/validate"
	"statebench.dev/bench/internal/world"
)

var (
	plans = flag.Int("plans", 300, "how many random plans to run")
	from  = flag.Int("from", 0, "the first plan's number")
	keep  = flag.String("keep", "", "folder to keep the results of failing plans in")
)

func deps() run.Deps {
	return run.Deps{
		Workloads: catalog.Workloads(), Faults: catalog.Faults(), Backends: catalog.Backends(),
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

// execute runs and judges one plan in a folder of its own.
func execute(t *testing.T, p plan.Plan, o run.Options) (out run.Outcome, verdicts []results.Verdict, rd results.RunDir) {
	t.Helper()
	return executeWith(t, deps(), p, o)
}

func executeWith(t *testing.T, d run.Deps, p plan.Plan, o run.Options) (out run.Outcome, verdicts []results.Verdict, rd results.RunDir) {
	t.Helper()
	folder, err := os.MkdirTemp("", "explore-")
	if err == nil {
		rd, err = results.Dir(folder).CreateRun("run-1")
	}
	if err == nil {
		out, err = run.Run(d, p, rd, o)
	}
	if err == nil {
		verdicts, err = run.Judge(d, results.Dir(folder), "run-1", catalog.Checks())
	}
	if err != nil {
		t.Errorf("%s: %v", p.Scenario, err)
		out.Err = err
	}
	return out, verdicts, rd
}

// describe says what is wrong with a run that should have passed; empty when nothing is.
func describe(out run.Outcome, verdicts []results.Verdict) string {
	if out.Err == nil && validate.Overall(verdicts) == results.Pass {
		return ""
	}
	s := fmt.Sprintf("%s: %v", out.Status, out.Err)
	for _, v := range verdicts {
		if v.Verdict != results.Pass {
			s += fmt.Sprintf("\n    %s %s: %s", v.Check, v.Verdict, v.Summary)
			for _, e := range v.Evidence {
				s += "\n        " + e
			}
		}
	}
	return s
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

// hidden tells whether all that is wrong with a run is that faults of it were not seen to have an effect: what was not healed, not
// rescaled or not carried through, as H1 says too, is no such thing.
func hidden(out run.Outcome, verdicts []results.Verdict) bool {
	for _, v := range verdicts {
		switch {
		case v.Verdict == results.Pass:
		case v.Check != "H1" || v.Verdict != results.Inconclusive:
			return false
		case slices.ContainsFunc(v.Evidence, func(e string) bool { return !strings.Contains(e, ") had no effect: ") }):
			return false
		}
	}
	return out.Err == nil && validate.Overall(verdicts) == results.Inconclusive
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

// explored is what came of many plans.
type explored struct {
	mu      sync.Mutex
	cover   explore.Coverage
	virtual float64
	again   int
	copied  int64 // objects that restores read from copies on the workers' disks
}

// explore runs plan n, and others in its place as long as its faults hide each other.
func (x *explored) explore(t *testing.T, n int) {
	t.Helper()
	for k := 0; ; k++ {
		p := resolved(t, explore.Generate(n))
		out, verdicts, rd := execute(t, p, run.Options{})
		completed, last := checkpoints(t, rd)
		copied := fromCopies(t, &p, rd)
		problem, redraw := describe(out, verdicts), hidden(out, verdicts) && k < again
		if (problem == "" || redraw) && (completed < 20 || last < 60) {
			problem, redraw = fmt.Sprintf("only %d checkpoints completed in %.0f s", completed, last), false
		}
		discard(t, p, rd, problem != "" && !redraw)
		x.mu.Lock()
		x.virtual += last
		x.copied += copied
		switch {
		case problem == "":
			x.cover.Add(&p, completed)
		case redraw:
			x.again++
		default:
			t.Errorf("plan %d (%s, %s): %s", n, p.Arm, p.Backend.Name, problem)
		}
		x.mu.Unlock()
		if !redraw {
			return
		}
		n = explore.Again(n)
	}
}

// checkpoints returns how many checkpoints of a run completed, and when the last of them was triggered, in seconds.
func checkpoints(t *testing.T, rd results.RunDir) (completed int, last float64) {
	t.Helper()
	rows, err := results.ReadCSV[results.CheckpointRow](rd.Path(results.CheckpointsFile))
	if err != nil {
		t.Error(err)
	}
	for _, r := range rows {
		if r.Status == "completed" {
			completed++
			last = r.Trigger.Value
		}
	}
	return completed, last
}

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
	var x explored
	next := make(chan int)
	var wg sync.WaitGroup
	began := time.Now()
	for range 2 {
		wg.Go(func() {
			for n := range next {
				x.explore(t, n)
			}
		})
	}
	all := numbers()
	for _, n := range all {
		next <- n
	}
	close(next)
	wg.Wait()
	t.Logf("%.0f s of virtual time in %.0f s, %d plans drawn again, %d objects restored from copies\n%s",
		x.virtual, time.Since(began).Seconds(), x.again, x.copied, x.cover.Table())
	if x.again > max(3, len(all)*againShare/100) {
		t.Errorf("%d of %d plans were drawn again: faults are not seen to have an effect", x.again, len(all))
	}
	if testing.Short() || *plans < 100 {
		return
	}
	if x.copied == 0 {
		t.Error("no restore read a copy")
	}
	if *plans < 300 {
		return
	}
	for _, kind := range explore.Faults() {
		for _, stage := range explore.Stages() {
			if n := x.cover.Hits(kind, stage); n < 5 {
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
