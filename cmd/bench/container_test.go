package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"statebench.dev/bench/backend/store/provision/minio"
	"statebench.dev/bench/internal/results"
)

// executable returns a path at which the test binary is the program, and so are the children that it starts.
func executable(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bench")
	if os.Link(os.Args[0], path) == nil {
		return path
	}
	from, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// commandLine is one of it.
type commandLine struct {
	*exec.Cmd
	output    string // the file that it prints to
	temporary string // its folder for temporary files
}

func bench(t *testing.T, args ...string) *commandLine {
	t.Helper()
	p := &commandLine{Cmd: exec.Command(executable(t), args...)}
	p.Dir, p.temporary = t.TempDir(), t.TempDir()
	p.Env = append(os.Environ(), "TMPDIR="+p.temporary)
	p.output = filepath.Join(t.TempDir(), "output")
	f, err := os.Create(p.output)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	p.Stdout, p.Stderr = f, f
	return p
}

// out is what it has printed so far.
func (p *commandLine) out(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(p.output)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ends waits for the exit code, two minutes at most.
func (p *commandLine) ends(t *testing.T, want int) string {
	t.Helper()
	limit := time.AfterFunc(2*time.Minute, func() { _ = p.Process.Kill() })
	defer limit.Stop()
	err := p.Wait()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	if got := p.ProcessState.ExitCode(); got != want {
		t.Fatalf("exit code %d, want %d:\n%s", got, want, p.out(t))
	}
	return p.out(t)
}

func (p *commandLine) run(t *testing.T, want int) string {
	t.Helper()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p.ends(t, want)
}

// leftNothing wants no temporary file of an ended process.
func (p *commandLine) leftNothing(t *testing.T) {
	t.Helper()
	left, err := os.ReadDir(p.temporary)
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}

// engineOrSkip connects to the engine, or skips where there is none and none is required.
func engineOrSkip(t *testing.T) *minio.Engine {
	t.Helper()
	if testing.Short() {
		t.Skip("containers take seconds")
	}
	e, err := minio.Connect(t.Context())
	var none *minio.NoEngineError
	if errors.As(err, &none) && os.Getenv("BENCH_REQUIRE_CONTAINERS") != "1" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	if _, err := e.Resolve(t.Context(), minio.Source{}); err != nil { // not as part of what is tested
		t.Fatal(err)
	}
	return e
}

// of are the containers that a process has.
func of(t *testing.T, e *minio.Engine, pid int) (ids []string) {
	t.Helper()
	list, err := e.Containers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if c.PID == pid {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// TestRunSurvivesWhatAContainerSuffers runs on MinIO, whose container is killed, paused, stopped and restarted meanwhile.
func TestRunSurvivesWhatAContainerSuffers(t *testing.T) {
	e := engineOrSkip(t)
	scenario, err := filepath.Abs("testdata/container.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p := bench(t, "run", scenario)
	out := p.run(t, exitPass)
	if !strings.Contains(out, "faults 4 planned, 4 hit, 4 healed") {
		t.Errorf("printed:\n%s", out)
	}
	if left := of(t, e, p.Process.Pid); len(left) > 0 {
		t.Errorf("containers are left: %v", left)
	}
	p.leftNothing(t)
	found, err := filepath.Glob(filepath.Join(p.Dir, "results", "*", "*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("results in %v, %v", found, err)
	}
	_, m, _, err := results.Open(found[0])
	if err != nil || m.Store != "minio" || !strings.Contains(m.StoreAbout, "sha256") {
		t.Errorf("store %q, made from %q, %v", m.Store, m.StoreAbout, err)
	}
}

// quickRun is a run of a second that has files on the local disk.
const quickRun = `apiVersion: bench/v1
kind: Scenario
name: quick
seed: 1
env: {store: {kind: mem}}
job: {parallelism: 1, maxParallelism: 4, checkpoint: {interval: 200ms}}
arms: {only: {backend: lsm}}
workload: {name: counter, source: {partitions: 1, rate: 2_000/s}, keys: {count: 10}}
phases: [{name: load, records: 2_000}]
`

// TestRunLeavesNothingWhenItIsEnded interrupts one run, kills another, and lets one crash.
func TestRunLeavesNothingWhenItIsEnded(t *testing.T) {
	e := engineOrSkip(t)
	scenario, err := filepath.Abs("testdata/container.yaml")
	if err != nil {
		t.Fatal(err)
	}
	quick := filepath.Join(t.TempDir(), "quick.yaml")
	if err := os.WriteFile(quick, []byte(quickRun), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		signal os.Signal
		code   int
	}{{os.Interrupt, exitInterrupted}, {os.Kill, -1}, {syscall.SIGQUIT, 2}} { // the last one ends as a panic does
		p := bench(t, "run", scenario)
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		for !strings.Contains(p.out(t), "phase warm") {
			pause(t)
		}
		if len(of(t, e, p.Process.Pid)) != 1 {
			t.Errorf("containers of the run: %v", of(t, e, p.Process.Pid))
		}
		if err := p.Process.Signal(c.signal); err != nil {
			t.Fatal(err)
		}
		p.ends(t, c.code)
		for end := time.Now().Add(20 * time.Second); len(of(t, e, p.Process.Pid)) > 0; pause(t) {
			if c.signal == os.Interrupt || time.Now().After(end) { // the guard of a killed one takes a moment
				t.Fatalf("after %v containers are left: %v", c.signal, of(t, e, p.Process.Pid))
			}
		}
		if c.signal != os.Interrupt { // nobody was there to remove files: the next run does
			next := bench(t, "run", quick, "--store", "mem")
			next.Env, next.temporary = p.Env, p.temporary
			next.run(t, exitPass)
		}
		p.leftNothing(t)
	}
}

// pause lets another process go on.
func pause(t *testing.T) {
	t.Helper()
	select {
	case <-time.After(20 * time.Millisecond):
	case <-t.Context().Done():
		t.Fatal("the test ends")
	}
}

// TestContainersAreRefusedWhereThereAreNone asks for them in the simulated world, of another store, and without an engine.
func TestContainersAreRefusedWhereThereAreNone(t *testing.T) {
	scenario, err := filepath.Abs("testdata/container.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{{"--world", "sim"}, {"--store", "embedded"}} {
		out := bench(t, append([]string{"run", scenario}, flags...)...).run(t, exitUsage)
		if !strings.Contains(out, "container.yaml:22:") || !strings.Contains(out, "container-kill acts on the container of store minio") {
			t.Errorf("%v printed:\n%s", flags, out)
		}
	}
	for _, args := range [][]string{{"run", scenario}, {"env", "up"}, {"env", "status"}} {
		p := bench(t, args...)
		p.Env = append(os.Environ(), "DOCKER_HOST=unix://"+filepath.Join(t.TempDir(), "absent.sock"))
		out := p.run(t, exitEnvironment)
		if !strings.Contains(out, "no container engine") || !strings.Contains(out, "--store embedded") {
			t.Errorf("%v printed:\n%s", args, out)
		}
	}
	p := bench(t, "doctor")
	p.Env = append(os.Environ(), "DOCKER_HOST=unix://"+filepath.Join(t.TempDir(), "absent.sock"))
	if out := p.run(t, exitPass); !strings.Contains(out, "note  engine     no container engine") {
		t.Errorf("doctor printed:\n%s", out)
	}
	for _, args := range [][]string{{"run", scenario, "--pull"}, {"env", "up", "--pull"}, {"env", "upp"}, {"env", "up", "more"}} {
		bench(t, args...).run(t, exitUsage)
	}
}
