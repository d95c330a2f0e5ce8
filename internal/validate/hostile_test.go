package validate_test

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"
	"statebench.dev/bench/internal/validate"
	"statebench.dev/bench/report"
)

var mutations = flag.Int("mutations", 200, "how many random damages to try")

// Limits on what reading one damaged invocation may take. A whole one takes some ten milliseconds and megabytes.
const (
	maxTime  = 20 * time.Second
	maxAlloc = 1 << 30
)

// victim is a working copy of the invocation. One file of it at a time is damaged and put right again.
type victim struct {
	t      *testing.T
	dir    results.Dir
	files  []string // relative
	whole  map[string][]byte
	passed bool // by the newest read: every check of every run passed
}

func newVictim(t *testing.T) *victim {
	v := &victim{t: t, dir: results.Dir(filepath.Join(t.TempDir(), "x")), whole: map[string][]byte{}}
	must(t, os.CopyFS(string(v.dir), os.DirFS(string(good(t)))))
	must(t, filepath.WalkDir(string(v.dir), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(string(v.dir), path)
		if err == nil {
			v.files = append(v.files, name)
			v.whole[name], err = os.ReadFile(path)
		}
		return err
	}))
	slices.Sort(v.files)
	return v
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put replaces a file; nil removes it.
func (v *victim) put(name string, b []byte) {
	v.t.Helper()
	must(v.t, os.RemoveAll(v.dir.Path(name)))
	if b != nil {
		must(v.t, os.WriteFile(v.dir.Path(name), b, 0o644))
	}
}

// read does with the invocation what the program does: it opens, judges and reports it. It returns the errors.
func (v *victim) read() error {
	v.passed = true
	_, _, runs, err := results.Open(string(v.dir))
	errs := []error{err}
	for _, name := range runs {
		verdicts, err := run.Judge(judgeIt(), v.dir, name, catalog.Checks())
		v.passed = v.passed && err == nil && validate.Overall(verdicts) == results.Pass
		errs = append(errs, err)
	}
	inv, err := report.Load(v.dir)
	if err == nil {
		_ = report.Terminal(inv)
	}
	return errors.Join(append(errs, err)...)
}

// survives reads the invocation and complains of a panic, of an error that is no damage, and of a waste of time or memory.
func (v *victim) survives(what string) error {
	v.t.Helper()
	type end struct {
		err   error
		panic any
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	done := make(chan end, 1)
	began := time.Now()
	go func() {
		var e end
		defer func() {
			if e.panic = recover(); e.panic != nil {
				b := make([]byte, 4<<10)
				e.panic = fmt.Sprintf("%v\n%s", e.panic, b[:runtime.Stack(b, false)])
			}
			done <- e
		}()
		e.err = v.read()
	}()
	select {
	case e := <-done:
		runtime.ReadMemStats(&after)
		if e.panic != nil {
			v.t.Errorf("%s: panic: %v", what, e.panic)
		}
		if e.err != nil && !errors.Is(e.err, results.ErrDamaged) {
			v.t.Errorf("%s: the error is no damage: %v", what, e.err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > maxAlloc {
			v.t.Errorf("%s: %d MiB were allocated in %v", what, n>>20, time.Since(began))
		}
		return e.err
	case <-time.After(maxTime):
		v.t.Fatalf("%s: it hangs", what)
	}
	return nil
}

// damage is one way to damage the content of a file.
type damage struct {
	name string
	do   func(r *rand.Rand, b []byte) []byte
}

var numbers = regexp.MustCompile(`-?[0-9]+(\.[0-9]+)?`) // read-only: a pattern

func damages() []damage {
	return []damage{
		{"cut", func(r *rand.Rand, b []byte) []byte { return b[:r.IntN(len(b))] }},
		{"cut at a line", func(r *rand.Rand, b []byte) []byte {
			all := bytes.SplitAfter(b, []byte("\n"))
			return bytes.Join(all[:r.IntN(len(all))], nil)
		}},
		{"flipped bits", func(r *rand.Rand, b []byte) []byte {
			for range 1 + r.IntN(4) {
				b[r.IntN(len(b))] ^= 1 << r.IntN(8)
			}
			return b
		}},
		{"other number", func(r *rand.Rand, b []byte) []byte {
			all := numbers.FindAllIndex(b, -1)
			if len(all) == 0 {
				return b
			}
			at := all[r.IntN(len(all))]
			huge := []string{"0", "-1", "1", "7", "1e18", "1e400", "-9223372036854775808", "9223372036854775807", "18446744073709551615", "4294967296",
				"99999999999999999999", "NaN", "-Inf", "0.5", "65535", "2147483647", "null", `""`, "[]", "{}"}
			return slices.Concat(b[:at[0]], []byte(huge[r.IntN(len(huge))]), b[at[1]:])
		}},
		{"line removed", func(r *rand.Rand, b []byte) []byte {
			all := bytes.SplitAfter(b, []byte("\n"))
			i := r.IntN(len(all))
			return bytes.Join(slices.Delete(all, i, i+1), nil)
		}},
		{"line repeated", func(r *rand.Rand, b []byte) []byte {
			all := bytes.SplitAfter(b, []byte("\n"))
			i, k := r.IntN(len(all)), r.IntN(len(all))
			return bytes.Join(slices.Insert(all, k, all[i]), nil)
		}},
		{"piece repeated", func(r *rand.Rand, b []byte) []byte {
			i, n := r.IntN(len(b)), r.IntN(200)
			return slices.Concat(b[:i], b[i:min(len(b), i+n)], b[i:])
		}},
		{"garbage inside", func(r *rand.Rand, b []byte) []byte {
			i := r.IntN(len(b))
			return slices.Concat(b[:i], garbage(r, 1+r.IntN(40)), b[i:])
		}},
		{"garbage", func(r *rand.Rand, _ []byte) []byte { return garbage(r, 1+r.IntN(5000)) }},
		{"content of another", nil}, // see TestRandomDamage
		{"empty", func(*rand.Rand, []byte) []byte { return []byte{} }},
		{"missing", func(*rand.Rand, []byte) []byte { return nil }},
	}
}

func garbage(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// TestRandomDamage damages files of an invocation at random: what reads it says so, or comes to a verdict.
func TestRandomDamage(t *testing.T) {
	v := newVictim(t)
	must(t, v.survives("undamaged"))
	n := *mutations
	if testing.Short() {
		n /= 20
	}
	noticed, judged := 0, 0
	for i := range n {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		name, d := v.files[r.IntN(len(v.files))], damages()[r.IntN(len(damages()))]
		b := bytes.Clone(v.whole[name])
		if d.do == nil {
			b = v.whole[v.files[r.IntN(len(v.files))]]
		} else {
			b = d.do(r, b)
		}
		v.put(name, b)
		switch err := v.survives(fmt.Sprintf("number %d, %s of %s", i, d.name, name)); {
		case err != nil:
			noticed++
		case !v.passed:
			judged++
		}
		v.put(name, v.whole[name])
	}
	t.Logf("%d damages: %d are errors, with %d a check does not pass, with %d all pass", n, noticed, judged, n-noticed-judged)
	must(t, v.survives("put right"))
}

// TestFilesThatAreNone replaces each file by what waits or never ends.
func TestFilesThatAreNone(t *testing.T) {
	v := newVictim(t)
	for name, whole := range v.whole {
		if base := filepath.Base(name); base == results.VerdictsFile || base == results.ResolvedFile || base == results.SeriesFile || strings.HasPrefix(filepath.Dir(name), filepath.Join(results.RunsDir, off)) {
			continue // not read by a judge, or the same again
		}
		if testing.Short() && filepath.Ext(name) != ".csv" && filepath.Base(name) != results.PlanFile {
			continue
		}
		path := v.dir.Path(name)
		for what, make := range map[string]func() error{
			"folder":       func() error { return os.Mkdir(path, 0o755) },
			"pipe":         func() error { return syscall.Mkfifo(path, 0o644) },
			"device":       func() error { return os.Symlink("/dev/zero", path) },
			"link to self": func() error { return os.Symlink(path, path) },
		} {
			must(t, os.Remove(path))
			must(t, make())
			if err := v.survives(what + " for " + name); err == nil {
				t.Errorf("a %s in the place of %s is not noticed", what, name)
			}
			v.put(name, whole)
		}
	}
}

// TestLongLine puts a line of a hundred megabytes into each file that is read.
func TestLongLine(t *testing.T) {
	if testing.Short() {
		t.Skip("writes a few hundred megabytes")
	}
	v := newVictim(t)
	long := bytes.Repeat([]byte("12345678"), 100<<20/8)
	for _, name := range []string{results.HistoryFile, results.CheckpointsFile, results.PlanFile} {
		name = filepath.Join(results.RunsDir, on, name)
		v.put(name, slices.Concat(v.whole[name], long, []byte("\n")))
		if v.survives("long line in "+name) == nil {
			t.Errorf("a line of 100 MB in %s is not noticed", name)
		}
		v.put(name, v.whole[name])
	}
}

// TestNamesThatLeadElsewhere: nothing outside of the invocation is read or, by somebody who writes verdicts, written.
func TestNamesThatLeadElsewhere(t *testing.T) {
	for _, name := range []string{"..", ".", "", "../x", "a/../../b", "/etc", "changelog-on-1/..", "with\x00zero"} {
		v := newVictim(t)
		var m results.Manifest
		must(t, results.ReadJSON(v.dir.Path(results.ManifestFile), &m))
		m.Runs[1].Name = name
		must(t, results.WriteJSON(v.dir.Path(results.ManifestFile), m))
		if v.survives("run "+name) == nil {
			t.Errorf("run name %q is not noticed", name)
		}
	}
	v := newVictim(t)
	away := filepath.Join(t.TempDir(), "away")
	must(t, os.Rename(string(v.dir.Run(on)), away))
	must(t, os.Symlink(away, string(v.dir.Run(on))))
	if v.survives("run elsewhere") == nil {
		t.Error("a run directory that is a link is not noticed")
	}
	for _, hash := range []string{strings.Repeat("../", 21) + "x", strings.Repeat("/", 64), strings.Repeat("g", 64)} {
		if _, err := results.OpenInput(v.dir, plan.Input{Path: "x", SHA256: hash}); !errors.Is(err, results.ErrDamaged) {
			t.Errorf("input %q: %v", hash, err)
		}
	}
}

// TestOtherPlanIsNoticed: a run is judged by the plan that it carried out.
func TestOtherPlanIsNoticed(t *testing.T) {
	f := copyOf(t, on)
	p, _, err := results.ReadPlan(f.run.Path(results.PlanFile))
	f.must(err)
	p.Job.Checkpoint.Retain++
	f.must(results.WriteJSON(f.run.Path(results.PlanFile), p))
	if _, err := f.judge(); !errors.Is(err, results.ErrDamaged) || !strings.Contains(err.Error(), results.PlanFile) {
		t.Errorf("error is %v", err)
	}
}

// TestAbsurdPositionsEnd: figures that agree with each other and with nothing else keep nobody busy.
func TestAbsurdPositionsEnd(t *testing.T) {
	for _, to := range []int64{1e18, math.MaxInt64, -1, math.MinInt64} {
		f := copyOf(t, on)
		last := f.retained()[2]
		f.events(func(all []history.Event) []history.Event {
			for i := range all {
				switch e := &all[i]; {
				case e.Kind == history.SourceRange && e.Partition == 0:
					e.To = to
				case e.Kind == history.CheckpointCompleted && e.Checkpoint == last:
					e.Positions[0] = to
				}
			}
			return all
		})
		edit(f, results.StatesFile, func(all []results.StateLine) []results.StateLine {
			for _, l := range all {
				if l.Restore != nil && l.Checkpoint == last {
					l.Restore.Positions[0] = to
				}
			}
			return all
		})
		began := time.Now()
		verdicts, err := f.judge()
		f.must(err)
		if v := verdicts["S1"]; v.Verdict != results.Fail || !strings.Contains(v.Summary, "cannot follow to checkpoint") {
			t.Errorf("position %d: S1 %s: %s", to, v.Verdict, v.Summary)
		}
		if took := time.Since(began); took > maxTime {
			t.Errorf("position %d took %v", to, took)
		}
	}
}

// TestOutputThatInflates: identities that take a thousand times the room of their file, and those that cannot be.
func TestOutputThatInflates(t *testing.T) {
	v := newVictim(t)
	name := filepath.Join(results.RunsDir, on, results.OutputFile)
	for what, raw := range map[string][]byte{
		"zeros": make([]byte, 64<<20), "cut": make([]byte, 71),
		"gap": slices.Concat(bytes.Repeat([]byte{255}, 8), bytes.Repeat([]byte{1}, 64)),
		"far": slices.Concat([]byte{0, 0, 0, 0, 0, 0, 0, 127}, bytes.Repeat([]byte{1}, 64)),
	} {
		var packed bytes.Buffer
		w, err := flate.NewWriter(&packed, flate.BestSpeed)
		must(t, err)
		_, err = w.Write(raw)
		must(t, errors.Join(err, w.Close()))
		var o map[string]any
		must(t, json.Unmarshal(v.whole[name], &o))
		o["marks"] = []any{map[string]any{"partition": 0, "tag": 0, "count": int64(1) << 60, "bits": base64.StdEncoding.EncodeToString(packed.Bytes())}}
		must(t, results.WriteJSON(v.dir.Path(name), o))
		if v.survives(what) == nil {
			t.Errorf("%s is not noticed", what)
		}
	}
}
