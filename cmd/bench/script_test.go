package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"statebench.dev/bench/internal/results"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the test binary the program too, the child that serves the embedded store included.
func TestMain(m *testing.M) {
	os.Setenv(raceOptions, noSleep)
	testscript.Main(m, map[string]func(){"bench": func() { os.Exit(mainCode()) }})
}

// Under the race detector each process sleeps a second before it exits, unless it is told otherwise.
const raceOptions, noSleep = "GORACE", "atexit_sleep_ms=0"

// TestScripts runs command lines, see testdata/script. In a script $SCENARIOS is the folder testdata and $SHIPPED that of
// the shipped scenarios; beside the commands of testscript there are:
//
//	exits CODE COMMAND...     runs a command, which must end with the code
//	invocation NAME DIR       sets $NAME to the only invocation below an --out
//	digest NAME DIR [RUN]     sets $NAME to the digest in a manifest, or that of one run
//	replace FILE OLD NEW      replaces the first OLD in a file
//	empty DIR                 fails when a folder has anything in it
//	childless                 fails when a process of the embedded store of this script is left
func TestScripts(t *testing.T) {
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			e.Setenv("SCENARIOS", testdata)
			e.Setenv(raceOptions, noSleep)
			e.Setenv("SHIPPED", filepath.Join(testdata, "..", "..", "..", "scenarios"))
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name == "full" {
				return !testing.Short(), nil
			}
			return false, errors.New("unknown condition")
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits, "invocation": invocation, "digest": digest, "replace": replace, "empty": empty, "childless": childless,
		},
	})
}

func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	var ended *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &ended):
		code = ended.ExitCode()
	default:
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

func invocation(ts *testscript.TestScript, _ bool, args []string) {
	found, err := filepath.Glob(filepath.Join(ts.MkAbs(args[1]), "*", "*"))
	ts.Check(err)
	if len(found) != 1 {
		ts.Fatalf("%d invocations in %s: %v", len(found), args[1], found)
	}
	ts.Setenv(args[0], found[0])
}

func digest(ts *testscript.TestScript, _ bool, args []string) {
	_, m, _, err := results.Open(ts.MkAbs(args[1]))
	ts.Check(err)
	d := m.Digest
	if len(args) > 2 {
		i := slices.IndexFunc(m.Runs, func(r results.RunEntry) bool { return r.Name == args[2] })
		d = m.Runs[i].Digest
	}
	if d == "" {
		ts.Fatalf("%s has no digest", args[1])
	}
	ts.Setenv(args[0], d)
}

func replace(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile(args[0])
	if !strings.Contains(text, args[1]) {
		ts.Fatalf("%s does not contain %q", args[0], args[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Replace(text, args[1], args[2], 1)), 0o644))
}

func empty(ts *testscript.TestScript, _ bool, args []string) {
	var left []string
	ts.Check(filepath.WalkDir(ts.MkAbs(args[0]), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left = append(left, path)
		}
		return err
	}))
	if len(left) > 0 {
		ts.Fatalf("%d files are left in %s: %v", len(left), args[0], left)
	}
}

func childless(ts *testscript.TestScript, _ bool, _ []string) {
	if left := stores(ts.Getenv("TMPDIR")); len(left) > 0 {
		ts.Fatalf("processes of the embedded store are left: %v", left)
	}
}

// stores are the processes that serve an embedded store with a socket below a folder.
func stores(folder string) (pids []int) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		line, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(line), "\x00"+embeddedCommand+"\x00"+folder) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
