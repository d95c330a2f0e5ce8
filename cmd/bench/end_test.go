//go:build linux

package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/results"

	"golang.org/x/sys/unix"
)

// program is a run of the program, in a folder of its own.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	dir    string // of the process; temporary files go below
	lines  *bufio.Scanner
	stdout strings.Builder
	stderr bytes.Buffer
}

// start runs a command in dir and follows its output. It is killed after a minute.
func start(t *testing.T, dir, name string, args ...string) *program {
	t.Helper()
	p := &program{t: t, dir: dir}
	p.cmd = exec.Command(name, args...)
	p.cmd.Dir, p.cmd.Stderr = p.dir, &p.stderr
	p.cmd.Env = append(os.Environ(), "TMPDIR="+p.dir)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
	t.Cleanup(func() {
		limit.Stop()
		_ = p.cmd.Process.Kill() // it has ended but after a failed test
		_ = p.cmd.Wait()
	})
	return p
}

// until reads output up to a line that contains the text.
func (p *program) until(text string) {
	p.t.Helper()
	for p.lines.Scan() {
		p.stdout.WriteString(p.lines.Text() + "\n")
		if strings.Contains(p.lines.Text(), text) {
			return
		}
	}
	p.t.Fatalf("ended without a line about %q:\n%s%s", text, p.stdout.String(), p.stderr.String())
}

func (p *program) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// end reads the rest of the output and returns how the process ended.
func (p *program) end() syscall.WaitStatus {
	p.t.Helper()
	for p.lines.Scan() {
		p.stdout.WriteString(p.lines.Text() + "\n")
	}
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// output is everything that was printed; it is for messages.
func (p *program) output() string { return p.stdout.String() + "--- stderr\n" + p.stderr.String() }

// clean fails when sockets or processes of an embedded store are left.
func (p *program) clean() {
	p.t.Helper()
	if left, _ := filepath.Glob(filepath.Join(p.dir, "bench-store-*")); len(left) > 0 {
		p.t.Errorf("left behind: %v", left)
	}
	if left := stores(p.dir); len(left) > 0 {
		p.t.Errorf("processes of the embedded store left behind: %v", left)
	}
}

// only is the only invocation below the folder results.
func (p *program) only() (string, results.Manifest) {
	p.t.Helper()
	found, _ := filepath.Glob(filepath.Join(p.dir, "results", "*", "*"))
	if len(found) != 1 {
		p.t.Fatalf("invocations: %v\n%s", found, p.output())
	}
	_, m, _, err := results.Open(found[0])
	if err != nil {
		p.t.Fatal(err)
	}
	return found[0], m
}

func scenarioFile(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// ended fails when the last line is not that of the exit code, or is there twice.
func ended(t *testing.T, p *program, code int) {
	t.Helper()
	line := "exit " + exitLine(code)
	if all := p.stdout.String() + p.stderr.String(); strings.Count(all, "\nexit ") != 1 || !strings.Contains(all, line) {
		t.Errorf("want the line %q once:\n%s", line, p.output())
	}
}

func exitLine(code int) string {
	var b strings.Builder
	end(&b, code)
	return strings.TrimPrefix(strings.TrimSpace(b.String()), "exit ")
}

// TestAnInterruptKeepsWhatWasMeasured interrupts runs under way and judges and renders what is there.
func TestAnInterruptKeepsWhatWasMeasured(t *testing.T) {
	for _, c := range []struct {
		name   string
		signal os.Signal
		args   []string
	}{
		{"embedded", os.Interrupt, nil},
		{"terminated", syscall.SIGTERM, []string{"--store", "mem"}},
		{"simulated", os.Interrupt, []string{"--world", "sim"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, t.TempDir(), "bench", append([]string{"run", scenarioFile(t, "long.yaml")}, c.args...)...)
			p.until("phase load")
			if c.name == "embedded" && len(stores(p.dir)) != 1 {
				t.Errorf("processes of the embedded store: %v", stores(p.dir))
			}
			p.signal(c.signal)
			began := time.Now()
			if s := p.end(); s.ExitStatus() != exitInterrupted {
				t.Fatalf("ended by %v, exit code %d:\n%s", s.Signal(), s.ExitStatus(), p.output())
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("took %v to end", took)
			}
			ended(t, p, exitInterrupted)
			p.clean()
			keptWhatWasMeasured(t, p)
		})
	}
}

func keptWhatWasMeasured(t *testing.T, p *program) {
	dir, m := p.only()
	if m.Outcome != "interrupted" || m.Exit != exitInterrupted || m.Runs[0].Status != "interrupted" || m.Runs[1].Status != "not-run" {
		t.Errorf("manifest: %+v", m)
	}
	events := map[history.Kind]int{}
	for e, err := range results.ReadLines[history.Event](filepath.Join(dir, "runs", m.Runs[0].Name, results.HistoryFile)) {
		if err != nil {
			t.Fatal(err)
		}
		events[e.Kind]++
	}
	if events[history.RunEnd] != 1 || events[history.CheckpointCompleted] == 0 {
		t.Errorf("events of the history: %v", events)
	}
	for command, code := range map[string]int{"check": exitInconclusive, "report": exitPass} { // order-free: independent
		var out bytes.Buffer
		if got := Main(t.Context(), []string{command, dir}, &out, &out); got != code {
			t.Errorf("%s of it: exit code %d, want %d:\n%s", command, got, code, out.String())
		}
	}
	if page, err := os.ReadFile(filepath.Join(dir, results.ReportFile)); err != nil || !bytes.Contains(page, []byte("interrupted")) {
		t.Errorf("the page does not tell: %v", err)
	}
}

// TestASecondInterruptEndsAtOnce kills a run that is about to end; the store's process ends by itself. A run may be through
// before the second interrupt comes, then another is tried.
func TestASecondInterruptEndsAtOnce(t *testing.T) {
	for range 5 {
		p := start(t, t.TempDir(), "bench", "run", scenarioFile(t, "long.yaml"))
		p.until("phase load")
		children := stores(p.dir)
		if len(children) != 1 {
			t.Fatalf("processes of the embedded store: %v", children)
		}
		child, err := unix.PidfdOpen(children[0], 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(child)
		p.signal(os.Interrupt)
		p.until("a second interrupt ends the program at once")
		p.signal(os.Interrupt)
		s := p.end()
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(child), Events: unix.POLLIN}}, 10_000); n != 1 {
			t.Fatalf("the store's process did not end: %v", err)
		}
		p.clean()
		if s.ExitStatus() == exitInterrupted {
			continue
		}
		if !s.Signaled() || s.Signal() != syscall.SIGINT {
			t.Fatalf("ended with %v:\n%s", s, p.output())
		}
		dir, m := p.only()
		if m.Outcome != "running" || m.Exit != exitInconclusive || m.Runs[0].Status != "failed" {
			t.Errorf("manifest: %+v", m)
		}
		var out bytes.Buffer
		if got := Main(t.Context(), []string{"report", dir}, &out, &out); got != exitPass {
			t.Errorf("report of it: exit code %d\n%s", got, out.String())
		}
		if got := Main(t.Context(), []string{"check", dir}, &out, &out); got == exitPass {
			t.Errorf("check of it passes:\n%s", out.String())
		}
		return
	}
	t.Skip("each run was through before the second interrupt came")
}

// full is how a run on a full disk has to end: once, soon, with place, reason and remedy.
func full(t *testing.T, p *program, reason string) {
	t.Helper()
	if s := p.end(); s.ExitStatus() != exitInconclusive {
		t.Fatalf("ended with %v, want exit code %d:\n%s", s, exitInconclusive, p.output())
	}
	ended(t, p, exitInconclusive)
	lines := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "bench: results cannot be written: ") ||
		!strings.Contains(lines[0], reason) || !strings.Contains(lines[0], "--out") {
		t.Errorf("stderr:\n%s", p.stderr.String())
	}
	_, m := p.only()
	if m.Exit != exitInconclusive || m.Runs[0].Status != "failed" || !strings.Contains(m.Runs[0].Error, reason) || m.Runs[1].Status != "not-run" {
		t.Errorf("manifest: %+v", m)
	}
	p.clean()
}

// TestAFullDiskIsInconclusive fills the file system under a run's results.
func TestAFullDiskIsInconclusive(t *testing.T) {
	for _, world := range []string{"sim", "real"} {
		dir := t.TempDir()
		out := filepath.Join(dir, "results")
		if err := os.Mkdir(out, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", out, "tmpfs", 0, "size=128m"); err != nil {
			t.Skipf("a small file system takes root and the right to mount: %v", err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(out, 0); err != nil {
				t.Error(err)
			}
		})
		p := start(t, dir, "bench", "run", scenarioFile(t, "long.yaml"), "--world", world)
		p.until("begins (1 of 2)")
		fill(t, out)
		full(t, p, "no space left on device")
	}
}

// fill takes the space of a file system under a run, but for what a manifest needs: a run that finds it full does not begin.
// The space is free again when the test ends.
func fill(t *testing.T, out string) {
	t.Helper()
	f, err := os.CreateTemp(out, "filler")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := os.Remove(f.Name()); err != nil { // the space stays taken while it is open
		t.Fatal(err)
	}
	size, chunk := int64(0), make([]byte, 1<<20)
	for {
		n, err := f.Write(chunk)
		size += int64(n)
		if err != nil {
			break
		}
	}
	if err := f.Truncate(size - 64<<10); err != nil {
		t.Fatal(err)
	}
}

// TestAFileLimitIsInconclusive runs with a limit on the size of each file: the manifest can be written.
func TestAFileLimitIsInconclusive(t *testing.T) {
	p := start(t, t.TempDir(), "sh", "-c", `ulimit -f 512 && exec bench run "$0" --world sim`, scenarioFile(t, "long.yaml"))
	full(t, p, "file too large")
}

// TestAReadOnlyFolderIsRefused runs with results in a folder that takes none.
func TestAReadOnlyFolderIsRefused(t *testing.T) {
	out := t.TempDir()
	if err := os.Chmod(out, 0o555); err != nil {
		t.Fatal(err)
	}
	if f, err := os.CreateTemp(out, "root"); err == nil { // root may write everywhere, but not into /proc
		_ = f.Close()
		out = "/proc/self"
	}
	var stdout, stderr strings.Builder
	if code := Main(t.Context(), []string{"run", "testdata/tiny.yaml", "--out", out}, &stdout, &stderr); code != exitEnvironment {
		t.Errorf("exit code %d, want %d", code, exitEnvironment)
	}
	if !strings.Contains(stderr.String(), "create results directory: mkdir "+out) || stdout.Len() > 0 {
		t.Errorf("stdout:\n%sstderr:\n%s", stdout.String(), stderr.String())
	}
}
