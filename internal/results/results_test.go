package results_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// file writes content into a fresh file.
func file(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

// readAll collects lines up to the first error.
func readAll[T any](path string) (all []T, err error) {
	for v, err := range results.ReadLines[T](path) {
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}

func TestLinesAreReadAsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lines")
	l, err := results.CreateLines(path)
	must(t, err)
	want := []history.Event{{N: 1, Kind: history.RunBegin, Text: "\n\u2028<&>\x00"}, {N: 2, Positions: []int64{math.MaxInt64, -1}}, {}}
	for _, e := range want {
		must(t, l.Append(e))
	}
	must(t, l.Close())
	got, err := readAll[history.Event](path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v", got, err)
	}
	if _, err := results.CreateLines(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file was replaced: %v", err)
	}
	must(t, l.Err())
	if l.Append(make(chan int)) == nil || l.Err() == nil {
		t.Error("what cannot be written is no error")
	}
}

func TestBrokenLinesAreDamage(t *testing.T) {
	for content, good := range map[string]int{
		"":                                    0,
		"{}\n":                                1,
		"{}":                                  0,
		"{}\n{\"n\":3":                        1,
		"{}\n{\"n\":3}":                       1,
		"{\"n\":1}\n\n":                       1,
		"{\"n\":1}\n{\"n\":\"x\"}\n":          1,
		"{\"n\":1e30}\n":                      0,
		"{\"n\":99999999999999999999}\n":      0,
		"{\"n\":1}\x00\n":                     0,
		"\xff\xfe\n":                          0,
		"{\"ranges\":[{\"from\":-1}]}\n":      0,
		"{\"digests\":[{\"group\":65536}]}\n": 0,
		strings.Repeat("[", 200_000) + "\n":   0,
	} {
		got, err := readAll[history.Event](file(t, content))
		whole := content == "" || content == "{}\n"
		if len(got) != good || (err == nil) != whole || err != nil && !errors.Is(err, results.ErrDamaged) {
			t.Errorf("%.40q: %d lines, %v", content, len(got), err)
		}
	}
}

func TestRowsAreReadAsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.csv")
	c, err := results.CreateCSV[results.RecoveryRow](path)
	must(t, err)
	want := []results.RecoveryRow{{Cause: "a,b\"c\nd", Fault: results.Some(1.25), Attempt: math.MaxUint64, Parallelism: -3}, {Replay: results.Some(0)}}
	for _, r := range want {
		must(t, c.Append(r))
	}
	must(t, c.Close())
	got, err := results.ReadCSV[results.RecoveryRow](path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v", got, err)
	}
}

// row is a small table.
type row struct {
	Name string      `csv:"name"`
	N    int64       `csv:"n"`
	Size results.Opt `csv:"size"`
	OK   bool        `csv:"ok"`
}

func TestBrokenRowsAreDamage(t *testing.T) {
	for content, names := range map[string]string{
		"":                                 ":1",
		"name,n,size\n":                    "3 columns",
		"name,n,ok,size\n":                 "column 3",
		"name,n,size,ok\na,1,,true":        "cut",
		"name,n,size,ok\na,1,,tr":          "column ok",
		"name,n,size,ok\na,1,true\n":       "wrong number of fields",
		"name,n,size,ok\na,x,,true\n":      "column n",
		"name,n,size,ok\na,1e3,,true\n":    "column n",
		"name,n,size,ok\na,1,NaN,true\n":   "column size",
		"name,n,size,ok\na,1,-Inf,true\n":  "column size",
		"name,n,size,ok\na,1,1e999,true\n": "column size",
		"name,n,size,ok\na,1,2,maybe\n":    "column ok",
		"name,n,size,ok\na\"b,1,2,true\n":  "bare",
		"name,n,size,ok\n\"a,1,2,true\n":   ":2",
		"name,n,size,ok\n" + strings.Repeat("a", 2<<20) + ",1,2,true\n": "longer than",
	} {
		_, err := results.ReadCSV[row](file(t, content))
		if !errors.Is(err, results.ErrDamaged) || !strings.Contains(err.Error(), names) {
			t.Errorf("%.60q: %v, want something about %q", content, err, names)
		}
	}
}

// extended is row with columns that were added later.
type extended struct {
	Name  string      `csv:"name"`
	Early results.Opt `csv:"early" added:"later"`
	N     int64       `csv:"n"`
	Size  results.Opt `csv:"size"`
	OK    bool        `csv:"ok"`
	Late  results.Opt `csv:"late" added:"later"`
}

func TestColumnsThatWereAddedMayBeAbsent(t *testing.T) {
	want := extended{Name: "a", N: 1, Size: results.Some(2), OK: true}
	for content, early := range map[string]results.Opt{
		"name,n,size,ok\na,1,2,true\n":              {},
		"name,early,n,size,ok\na,7,1,2,true\n":      results.Some(7),
		"name,early,n,size,ok,late\na,,1,2,true,\n": {},
	} {
		want.Early = early
		got, err := results.ReadCSV[extended](file(t, content))
		if err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%q: %+v, %v", content, got, err)
		}
	}
	for content, names := range map[string]string{
		"name,n,size\n":              "3 columns",
		"n,early,name,size,ok\n":     "column 1",
		"name,n,size,ok,early\n":     "column 5",
		"name,n,size,ok,late,more\n": "column 6",
	} {
		_, err := results.ReadCSV[extended](file(t, content))
		if !errors.Is(err, results.ErrDamaged) || !strings.Contains(err.Error(), names) {
			t.Errorf("%q: %v, want something about %q", content, err, names)
		}
	}
}

func TestOpenFindsInvocationAndRuns(t *testing.T) {
	out := t.TempDir()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	d, err := results.Create(out, "x", at, 7)
	must(t, err)
	other, err := results.Create(out, "x", at, 7)
	must(t, err)
	if other == d {
		t.Error("two invocations of one second share a directory")
	}
	m := results.Manifest{Schema: results.Schema, Runs: []results.RunEntry{{Name: "a-1", Status: "finished"}, {Name: "b-1", Status: "interrupted"}, {Name: "c-1", Status: "not-run"}}}
	for _, r := range m.Runs[:2] {
		_, err := d.CreateRun(r.Name)
		must(t, err)
	}
	if _, err := d.CreateRun("a-1"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a run was begun twice: %v", err)
	}
	must(t, results.WriteJSON(d.Path(results.ManifestFile), m))
	for path, want := range map[string][]string{string(d): {"a-1", "b-1"}, string(d.Run("b-1")): {"b-1"}} {
		got, _, runs, err := results.Open(path)
		if err != nil || got != d || !reflect.DeepEqual(runs, want) {
			t.Errorf("%s: %s, %v, %v", path, got, runs, err)
		}
	}
	must(t, os.MkdirAll(string(d.Run("z-1")), 0o755))
	for _, path := range []string{string(d.Run("z-1")), out, filepath.Join(out, "absent"), d.Path(results.ManifestFile), string(other)} {
		if _, _, _, err := results.Open(path); !errors.Is(err, results.ErrDamaged) {
			t.Errorf("%s: %v", path, err)
		}
	}
	m.Schema++
	must(t, results.WriteJSON(d.Path(results.ManifestFile), m))
	if _, _, _, err := results.Open(string(d)); !errors.Is(err, results.ErrDamaged) || !strings.Contains(err.Error(), "schema version 2") {
		t.Errorf("a later schema: %v", err)
	}
}

func TestWriteFileLeavesTheOldOneWhereItFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	must(t, results.WriteFile(path, []byte("old")))
	if results.WriteJSON(path, math.NaN()) == nil {
		t.Error("NaN was written")
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "old" {
		t.Errorf("%q, %v", b, err)
	}
	must(t, results.WriteFile(path, []byte("new")))
	left, err := os.ReadDir(dir)
	must(t, err)
	if len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func TestInputsAreCheckedByHash(t *testing.T) {
	d, source := results.Dir(t.TempDir()), file(t, "1,2\n")
	in := plan.Input{Path: "x.csv", File: source, SHA256: "9f33eb11b8d2a4cf3a1b0ffde11ef64d92c86ef4e6aa6a1ac3d8a40e2a1bd2c0"}
	if err := results.KeepInput(d, in); !errors.Is(err, results.ErrDamaged) {
		t.Errorf("wrong hash: %v", err)
	}
	_, err := results.OpenInput(d, plan.Input{Path: "x.csv", SHA256: strings.Repeat("0", 64)})
	if !errors.Is(err, results.ErrDamaged) {
		t.Errorf("no such input: %v", err)
	}
}

func TestGroupsBelongToTheirRestore(t *testing.T) {
	r, g := &results.RestoreLine{}, &results.GroupLine{}
	all, err := results.GroupRestores([]results.StateLine{{Checkpoint: 1, Restore: r}, {Checkpoint: 1, Group: g}, {Checkpoint: 2, Restore: r}})
	if err != nil || len(all) != 2 || len(all[0].Groups) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	for _, bad := range [][]results.StateLine{{{Checkpoint: 1, Group: g}}, {{Checkpoint: 1, Restore: r}, {Checkpoint: 2, Group: g}}, {{Checkpoint: 1}}} {
		if _, err := results.GroupRestores(bad); !errors.Is(err, results.ErrDamaged) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func FuzzReadLines(f *testing.F) {
	for _, s := range []string{"", "{}\n", "{\"n\":1,\"kind\":\"run-begin\"}\n{\"n\":2}\n", "{", "null\n[]\n", "\x00\n", "{\"sizes\":{\"full\":-1}}\n"} {
		f.Add([]byte(s))
	}
	path := filepath.Join(f.TempDir(), fmt.Sprint(os.Getpid()))
	f.Fuzz(func(t *testing.T, b []byte) {
		must(t, os.WriteFile(path, b, 0o644))
		events, err := readAll[history.Event](path)
		if err != nil && !errors.Is(err, results.ErrDamaged) {
			t.Errorf("error is no damage: %v", err)
		}
		if n := strings.Count(string(b), "\n"); len(events) > n || err == nil && len(events) != n {
			t.Errorf("%d events of %d lines, %v", len(events), n, err)
		}
	})
}

func FuzzReadCSV(f *testing.F) {
	for _, s := range []string{"", "name,n,size,ok\n", "name,n,size,ok\na,1,,true\n\"x\ny\",-2,0.5,false\n", "name,n,size,ok\na,1,NaN,true\n", "name,n,size,ok\r\na,1,1e9,1\r\n"} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		path, again := filepath.Join(dir, fmt.Sprint(os.Getpid())), filepath.Join(dir, fmt.Sprint(os.Getpid(), "-again"))
		must(t, os.WriteFile(path, b, 0o644))
		rows, err := results.ReadCSV[row](path)
		if err != nil {
			if !errors.Is(err, results.ErrDamaged) {
				t.Errorf("error is no damage: %v", err)
			}
			return
		}
		_ = os.Remove(again)
		c, err := results.CreateCSV[row](again)
		must(t, err)
		for i, r := range rows {
			if math.IsNaN(r.Size.Value) || math.IsInf(r.Size.Value, 0) {
				t.Errorf("size is %v", r.Size)
			}
			rows[i].Size = results.Opt{} // written with six decimals
			must(t, c.Append(rows[i]))
		}
		must(t, c.Close())
		if back, err := results.ReadCSV[row](again); err != nil || !reflect.DeepEqual(back, rows) {
			t.Errorf("%+v came back as %+v, %v", rows, back, err)
		}
	})
}
