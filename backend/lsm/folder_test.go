package lsm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"statebench.dev/bench/backend"
)

const folderChild = "LSM_TEST_FOLDER"

// TestMain is also a process that makes a folder and dies without a word once its input ends.
func TestMain(m *testing.M) {
	if at := os.Getenv(folderChild); at != "" {
		dir, _, err := makeFolder(Options{Folder: at}, backend.WorkerEnv{Worker: "child", Attempt: 1})
		if err != nil {
			panic(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "table"), []byte("state"), 0o600); err != nil {
			panic(err)
		}
		os.Stdout.WriteString(dir + "\n")
		os.Stdin.Read(make([]byte, 1))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestFoldersOfDeadProcessesAreRemoved: the next backend removes what a process left that was killed, and only that.
func TestFoldersOfDeadProcessesAreRemoved(t *testing.T) {
	at := t.TempDir()
	foreign := filepath.Join(at, folderMark+"1-foreign")
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), folderChild+"="+at)
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 4096)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	left := strings.TrimSpace(string(line[:n]))
	// What the child would leave if it died before it had the lock, or with it and before its folder had its name.
	unlocked := filepath.Join(at, fmt.Sprintf("%s%d-child-1-7", newMark, child.Process.Pid))
	unnamed := filepath.Join(at, newMark+"x-child-1-7")
	for _, dir := range []string{unlocked, unnamed} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	make1 := func(worker string) string {
		dir, lock, err := makeFolder(Options{Folder: at}, backend.WorkerEnv{Worker: worker, Attempt: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { lock.Close() })
		return dir
	}
	exists := func(dir string) bool { _, err := os.Stat(dir); return err == nil }
	first := make1("worker-0")
	if !exists(left) || !exists(unlocked) {
		t.Error("a folder of a process that lives was removed")
	}
	in.Close()
	_ = child.Wait() // it fails, as it is told to
	second := make1("worker-1")
	if exists(unlocked) || !exists(unnamed) {
		t.Errorf("of folders that are not locked yet there are: that of the dead process %t, that of nobody knows whom %t", exists(unlocked), exists(unnamed))
	}
	if exists(left) || !exists(first) || !exists(second) || !exists(foreign) {
		t.Errorf("there are: left %t, first %t, second %t, foreign %t", exists(left), exists(first), exists(second), exists(foreign))
	}
}
