package validate_test

import (
	"context"
	"encoding/json"
	"errors"
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
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"
	"statebench.dev/bench/internal/world"
)

// judgeIt makes the dependencies of a run, and of a judge, which needs the workloads only.
func judgeIt() run.Deps {
	return run.Deps{
		Workloads: catalog.Workloads(), Faults: catalog.Faults(), Backends: catalog.Backends(),
		Provision: func(ctx context.Context, w world.World, spec string) (store.Bucket, provision.Description, error) {
			return provision.Open(ctx, w, spec, provision.Options{})
		},
	}
}

func seconds(n float64) plan.Duration { return plan.Duration(n * float64(time.Second)) }

func after(n float64) plan.Trigger {
	d := seconds(n)
	return plan.Trigger{Time: &d}
}

// disturbed is a plan of some seconds in which something of everything happens: a crash, an error, failing requests, a rescale.
func disturbed(arm string) (plan.Plan, error) {
	const rate, warm, chaos = 200, 3, 14
	on := arm == "changelog-on"
	p := plan.Plan{
		Schema: plan.Version, Scenario: "judged", Arm: arm, Rep: 1, Baseline: !on, Seed: 7, World: "sim",
		Store:   plan.Store{Kind: "mem", Profile: "local"},
		Workers: plan.Workers{Count: 3, Slots: 2, Cores: 2, HeartbeatEvery: seconds(0.5), HeartbeatTimeout: seconds(2)},
		Job: plan.Job{Parallelism: 2, MaxParallelism: 8, RestartDelay: seconds(0.2), BufferRecords: 32, Credits: 3, FlushEvery: seconds(0.02),
			Checkpoint: plan.Checkpoint{Interval: seconds(0.8), Timeout: seconds(10), Retain: 3, MaxConcurrent: 1}},
		Backend: plan.Backend{Name: "heap", Changelog: plan.Changelog{Enabled: on, Materialize: seconds(4),
			Preemptive: 1 << 20, BatchDelay: seconds(0.005), BatchSize: 1 << 20, InFlight: 16 << 20}},
		Workload: plan.Workload{Name: "counter", Rate: rate, Options: json.RawMessage(`{"partitions":4,"keys":{"count":100}}`)},
		Phases: []plan.Phase{
			{Name: "warm", Records: rate * warm}, {Name: "chaos", Records: rate * chaos},
			{Name: "heal", Until: plan.UntilRecovered, Within: seconds(60)},
			{Name: "drain", Until: plan.UntilDrained, Within: seconds(60), GCGrace: seconds(2)},
			{Name: "verify", Until: plan.UntilVerified, Within: seconds(60)},
		},
		Faults: []plan.Fault{
			{ID: "fault-1", Kind: "store-latency", Phase: "chaos", Where: "store", With: json.RawMessage(`{"op":"put","delay":"300ms"}`), At: after(1), For: seconds(3)},
			{ID: "fault-2", Kind: "worker-crash", Phase: "chaos", Where: "worker/1", At: after(2.65), For: seconds(2)},
			{ID: "fault-3", Kind: "store-errors", Phase: "chaos", Where: "store", With: json.RawMessage(`{"op":"put|delete","share":"50%"}`), At: after(6), For: seconds(2)},
			{ID: "fault-4", Kind: "task-error", Phase: "chaos", Where: "subtask/any", At: after(10.2)},
		},
		Rescales: []plan.Rescale{{ID: "rescale-1", Phase: "chaos", At: after(8.3), To: 3, From: "latest"}},
		Verify:   plan.Verify{RestoreDigests: true, RecordIDs: true},
	}
	kind, err := catalog.Workloads().Find(p.Workload.Name)
	if err == nil {
		p.Workload.Options, err = kind.New.Resolve(p.Workload.Options)
	}
	return p, err
}

// invocation is made once: two arms, both pass.
var invocation = sync.OnceValues(func() (results.Dir, error) {
	out, err := os.MkdirTemp("", "judged-")
	if err != nil {
		return "", err
	}
	v := run.Invocation{Out: out, Resolved: []byte("name: judged\n"), Checks: catalog.Checks(), Clock: time.Now,
		Manifest: results.Manifest{Scenario: "judged", World: "sim", Store: "mem", Profile: "local", Seed: 7, Baseline: "changelog-off", Repetitions: 1}}
	for _, arm := range []string{"changelog-off", "changelog-on"} {
		p, err := disturbed(arm)
		if err != nil {
			return "", err
		}
		v.Plans = append(v.Plans, p)
	}
	for _, life := range []func() (plan.Plan, error){lifelong, owned} {
		p, err := life()
		if err != nil {
			return "", err
		}
		v.Plans = append(v.Plans, p)
	}
	dir, m, err := run.Invoke(judgeIt(), v)
	if err == nil && m.Exit != 0 {
		err = fmt.Errorf("exit code %d: %+v", m.Exit, m)
	}
	for _, r := range m.Runs {
		for _, name := range []string{results.HistoryFile, results.ObjectsFile} {
			if err == nil {
				err = expand(dir.Run(r.Name).Path(name))
			}
		}
	}
	return dir, err
})

// expand puts the plain form of a compressed file in its place, so that tests can damage one line of it.
func expand(path string) error {
	l, err := results.CreateLines(path + ".plain")
	if err != nil {
		return err
	}
	for v, err := range results.ReadLines[json.RawMessage](path) {
		if err != nil {
			return err
		}
		if err := l.Append(v); err != nil {
			return err
		}
	}
	if err := errors.Join(l.Close(), os.Remove(path+results.Compressed)); err != nil {
		return err
	}
	return os.Rename(path+".plain", path)
}

const off, on = "changelog-off-1", "changelog-on-1"

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := invocation(); err == nil {
		_ = os.RemoveAll(filepath.Dir(filepath.Dir(string(dir))))
	}
	os.Exit(code)
}

// TestCompressedFilesAreJudgedTheSame packs what the fixture expanded, whole and cut.
func TestCompressedFilesAreJudgedTheSame(t *testing.T) {
	f := copyOf(t, on)
	for _, name := range []string{results.HistoryFile, results.ObjectsFile} {
		all := lines[json.RawMessage](f, name)
		l, err := results.CreateCompressed(f.run.Path(name))
		f.must(err)
		for _, v := range all {
			f.must(l.Append(v))
		}
		f.must(l.Close())
		f.must(os.Remove(f.run.Path(name)))
	}
	verdicts, err := f.judge()
	f.must(err)
	for _, v := range verdicts { // order-free: each for itself
		if v.Verdict != results.Pass {
			t.Errorf("%+v", v)
		}
	}
	packed := f.run.Path(results.HistoryFile) + results.Compressed
	b, err := os.ReadFile(packed)
	f.must(err)
	f.must(os.WriteFile(packed, b[:len(b)/2], 0o644))
	if _, err := f.judge(); !errors.Is(err, results.ErrDamaged) || !strings.Contains(err.Error(), packed) {
		t.Errorf("cut: %v", err)
	}
}

// good returns the invocation, which must not be changed.
func good(t testing.TB) results.Dir {
	t.Helper()
	dir, err := invocation()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// files are a copy of a run, to be tampered with.
type files struct {
	t   testing.TB
	dir results.Dir
	run results.RunDir
}

// copyOf copies one run of the invocation.
func copyOf(t testing.TB, name string) *files {
	t.Helper()
	from, f := good(t).Run(name), &files{t: t, dir: results.Dir(t.TempDir())}
	f.run = f.dir.Run(name)
	f.must(os.CopyFS(string(f.run), os.DirFS(string(from))))
	return f
}

func (f *files) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *files) judge() (map[string]results.Verdict, error) {
	list, err := run.Judge(judgeIt(), f.dir, f.run.Name(), catalog.Checks())
	all := map[string]results.Verdict{}
	for _, v := range list {
		all[v.Check] = v
	}
	return all, err
}

// lines reads a .jsonl file of a run.
func lines[T any](f *files, name string) (all []T) {
	f.t.Helper()
	for v, err := range results.ReadLines[T](f.run.Path(name)) {
		f.must(err)
		all = append(all, v)
	}
	return all
}

// edit writes a .jsonl file anew with what change makes of its lines.
func edit[T any](f *files, name string, change func(all []T) []T) {
	f.t.Helper()
	all := change(lines[T](f, name))
	f.must(os.Remove(f.run.Path(name)))
	l, err := results.CreateLines(f.run.Path(name))
	f.must(err)
	for _, v := range all {
		f.must(l.Append(v))
	}
	f.must(l.Close())
}

// editRows does so with a .csv file.
func editRows[T any](f *files, name string, change func(all []T) []T) {
	f.t.Helper()
	all, err := results.ReadCSV[T](f.run.Path(name))
	f.must(err)
	all = change(all)
	f.must(os.Remove(f.run.Path(name)))
	c, err := results.CreateCSV[T](f.run.Path(name))
	f.must(err)
	for _, v := range all {
		f.must(c.Append(v))
	}
	f.must(c.Close())
}

// events changes the history and numbers it anew, so that only what was changed is wrong.
func (f *files) events(change func(all []history.Event) []history.Event) {
	f.t.Helper()
	edit(f, results.HistoryFile, func(all []history.Event) []history.Event {
		all = change(all)
		for i := range all {
			all[i].N = int64(i + 1)
		}
		return all
	})
}

// requests changes the object trace, and the number of its rows at the end of the history.
func (f *files) requests(change func(all []history.Request) []history.Request) {
	f.t.Helper()
	n := 0
	edit(f, results.ObjectsFile, func(all []history.Request) []history.Request {
		all = change(all)
		n = len(all)
		return all
	})
	f.events(func(all []history.Event) []history.Event {
		all[len(all)-1].Count = int64(n)
		return all
	})
}

// find is the place of the nth element, from 0, that is wanted; negative ones count from the last.
func find[T any](f *files, all []T, nth int, wanted func(v *T) bool) int {
	f.t.Helper()
	var at []int
	for i := range all {
		if wanted(&all[i]) {
			at = append(at, i)
		}
	}
	if nth < 0 {
		nth += len(at)
	}
	if nth < 0 || nth >= len(at) {
		f.t.Fatalf("there are only %d such elements", len(at))
	}
	return at[nth]
}

func kind(k history.Kind) func(e *history.Event) bool {
	return func(e *history.Event) bool { return e.Kind == k }
}

// without removes the nth element that is wanted.
func without[T any](f *files, all []T, nth int, wanted func(v *T) bool) []T {
	i := find(f, all, nth, wanted)
	return slices.Delete(all, i, i+1)
}

// retained are the checkpoints of the verify phase, oldest first.
func (f *files) retained() (all []uint64) {
	for _, l := range lines[results.StateLine](f, results.StatesFile) {
		if l.Restore != nil {
			all = append(all, l.Checkpoint)
		}
	}
	return all
}

func catalogIDs() (all []string) {
	for _, c := range catalog.Checks() {
		all = append(all, c.ID)
	}
	return all
}

func TestGoodRunsPass(t *testing.T) {
	for _, name := range []string{off, on, lives, owners} {
		verdicts, err := copyOf(t, name).judge()
		if err != nil {
			t.Fatal(err)
		}
		if len(verdicts) != len(catalog.Checks()) {
			t.Errorf("%s: %d verdicts, want %d", name, len(verdicts), len(catalog.Checks()))
		}
		for id, v := range verdicts {
			if v.Verdict != results.Pass || strings.Contains(v.Summary, "%!") {
				t.Errorf("%s: %s %s: %s", name, id, v.Verdict, v.Summary)
			}
		}
	}
}

// TestWhatWasNotSeenIsNoPass takes away what the verify phase wrote, as an interruption does, or cuts the history too.
func TestWhatWasNotSeenIsNoPass(t *testing.T) {
	interrupt := map[string]func(f *files){
		"before the verify phase": func(*files) {},
		"in the middle": func(f *files) {
			edit(f, results.HistoryFile, func(all []history.Event) []history.Event { return all[:len(all)/2] })
		},
		"before anything happened": func(f *files) {
			for _, name := range []string{results.HistoryFile, results.ObjectsFile, results.RefsFile} {
				edit(f, name, func([]json.RawMessage) []json.RawMessage { return nil })
			}
			editRows(f, results.CheckpointsFile, func([]results.CheckpointRow) []results.CheckpointRow { return nil })
			editRows(f, results.RecoveriesFile, func([]results.RecoveryRow) []results.RecoveryRow { return nil })
		},
	}
	for name, change := range interrupt {
		t.Run(name, func(t *testing.T) {
			f := copyOf(t, on)
			for _, late := range []string{results.OutputFile, results.ListingFile, results.StatesFile, results.CoordLogFile} {
				f.must(os.Remove(f.run.Path(late)))
			}
			change(f)
			verdicts, err := f.judge()
			f.must(err)
			for id, v := range verdicts {
				if v.Verdict == results.Pass {
					t.Errorf("%s passes: %s", id, v.Summary)
				}
				if v.Verdict == results.Fail && name != "in the middle" {
					t.Errorf("%s fails: %s", id, v.Summary)
				}
			}
		})
	}
}

// TestEmptyEvidenceIsNoPass empties one file at a time in a run that was carried through: no check may pass on nothing.
func TestEmptyEvidenceIsNoPass(t *testing.T) {
	for name, checks := range map[string][]string{
		results.StatesFile:   {"S1", "S2", "S3", "C3"},
		results.ListingFile:  {"F1", "F2"},
		results.CoordLogFile: {"C2"},
		results.RefsFile:     {"C2"},
		results.ObjectsFile:  {"C4", "F1", "F4", "F5"},
		results.HistoryFile:  {"H1", "H2", "S5", "O1", "O2", "C1", "C2", "C3", "C4", "F1", "M1"},
	} {
		f := copyOf(t, on)
		edit(f, name, func([]json.RawMessage) []json.RawMessage { return nil })
		verdicts, err := f.judge()
		f.must(err)
		for _, id := range checks {
			if v := verdicts[id]; v.Verdict == results.Pass {
				t.Errorf("%s passes on an empty %s: %s", id, name, v.Summary)
			}
		}
	}
}
