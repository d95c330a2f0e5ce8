package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"

	"statebench.dev/bench/internal/results"

	"github.com/spf13/cobra"
)

func sha(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// build says which program this is: the commit stamped into it, else that of the work tree it was started in, else the hash of the executable.
func build() results.Build {
	b := results.Build{Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.modified":
				b.Dirty = s.Value == "true"
			}
		}
	}
	if b.Commit == "" && ownWorkTree() {
		if out, err := exec.Command("git", "rev-parse", "HEAD").Output(); err == nil {
			b.Commit = strings.TrimSpace(string(out))
			status, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no").Output()
			b.Dirty = err != nil || len(status) > 0
		}
	}
	if b.Commit == "" {
		if path, err := os.Executable(); err == nil {
			if f, err := os.Open(path); err == nil {
				defer f.Close()
				h := sha256.New()
				if _, err := io.Copy(h, f); err == nil {
					b.Executable = hex.EncodeToString(h.Sum(nil))
				}
			}
		}
	}
	return b
}

// ownWorkTree tells whether the program was started at the root of its own source, as `go run ./cmd/bench` is.
func ownWorkTree() bool {
	mod, err := os.ReadFile("go.mod")
	return err == nil && strings.HasPrefix(string(mod), "module statebench.dev/bench\n")
}

// memory is the machine's memory in bytes, 0 where it is not known.
func memory() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	var kib int64
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); err != nil {
		return 0
	}
	return kib * 1024
}

func newVersion(stdout io.Writer) *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print what this program was built from", Args: noArgs, RunE: func(*cobra.Command, []string) error {
		b := build()
		what := "commit " + b.Commit
		switch {
		case b.Commit == "":
			what = "executable sha256 " + b.Executable
		case b.Dirty:
			what += " with changes"
		}
		_, err := fmt.Fprintf(stdout, "bench, %s, %s, %s/%s\n", what, b.Go, runtime.GOOS, runtime.GOARCH)
		return err
	}}
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("`bench %s` takes no argument, got %q", cmd.Name(), args[0])
	}
	return nil
}
