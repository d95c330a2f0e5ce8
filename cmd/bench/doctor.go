package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"statebench.dev/bench/backend/store/provision/minio"
	"statebench.dev/bench/internal/registry"

	"github.com/spf13/cobra"
)

// What a machine should have; with less a run is possible, and its numbers say less.
const (
	wantCores  = 2
	wantMemory = 4 << 30
	wantDisk   = 2 << 30
)

// finding is what the doctor says of one thing.
type finding struct {
	grade string // ok, note: some things need it, bad: nothing works without
	what  string
	is    string
	do    string // what to do; empty when all is well
}

func newDoctor(stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Look at what this machine has, and say what each missing thing needs",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			bad := 0
			for _, f := range append(machine(), containers(cmd.Context())...) {
				fmt.Fprintf(stdout, "%-5s %-10s %s\n", f.grade, f.what, f.is)
				if f.do != "" {
					fmt.Fprintf(stdout, "%16s %s\n", "", f.do)
				}
				if f.grade == "bad" {
					bad++
				}
			}
			if bad > 0 {
				return &exitError{exitEnvironment, fmt.Errorf("%d of these must be put right before anything runs", bad)}
			}
			return nil
		},
	}
}

// judged is a finding that is well when the condition holds.
func judged(well bool, grade, what, is, do string) finding {
	if well {
		return finding{"ok", what, is, ""}
	}
	return finding{grade, what, is, do}
}

// machine looks at what every run needs.
func machine() []finding {
	cores, mem := runtime.NumCPU(), memory()
	out := []finding{
		judged(cores >= wantCores, "note", "cores", fmt.Sprint(cores),
			fmt.Sprintf("with fewer than %d the store and the job take turns: compare arms, read no absolute numbers", wantCores)),
	}
	if mem > 0 {
		out = append(out, judged(mem >= wantMemory, "note", "memory", registry.Bytes(mem).String(),
			"the shipped scenarios take up to "+registry.Bytes(wantMemory).String()+"; choose fewer keys"))
	}
	out = append(out, folder("results", ".", "choose another place with --out"),
		folder("temporary", os.TempDir(), "set TMPDIR to a folder that can be written"))
	if text, err := os.ReadFile("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"); err == nil {
		governor := strings.TrimSpace(string(text))
		out = append(out, judged(governor == "performance", "note", "governor", governor,
			"the cores' clock varies: set the governor to performance while numbers are taken"))
	}
	return out
}

// folder looks at a folder that must be written to.
func folder(what, path, do string) finding {
	if full, err := filepath.Abs(path); err == nil {
		path = full
	}
	f, err := os.CreateTemp(path, ".bench-doctor-")
	if err != nil {
		return finding{"bad", what, path + " cannot be written: " + err.Error(), do}
	}
	f.Close()
	os.Remove(f.Name())
	disk, known := diskOf(path)
	if !known {
		return finding{"ok", what, path, ""}
	}
	return judged(disk.Free >= wantDisk, "note", what, fmt.Sprintf("%s, %s free", path, registry.Bytes(disk.Free>>20<<20)),
		"a long run can write "+registry.Bytes(wantDisk).String()+"; "+do)
}

// containers looks at what only store minio needs.
func containers(ctx context.Context) []finding {
	e, err := minio.Connect(ctx)
	if err != nil {
		return []finding{{"note", "engine", err.Error(), "only --store minio and `bench env` need it"}}
	}
	defer e.Close()
	out := []finding{{"ok", "engine", e.String(), ""}, image(ctx, e)}
	list, err := e.Containers(ctx)
	if err != nil {
		return append(out, finding{"note", "left-overs", err.Error(), "only --store minio needs the engine"})
	}
	var dead, live []string
	for _, c := range list {
		text := fmt.Sprintf("%.12s (%s, process %d, %s)", c.ID, c.Role, c.PID, c.State)
		if c.Dead {
			dead = append(dead, text)
		} else {
			live = append(live, text)
		}
	}
	if len(live) > 0 {
		out = append(out, finding{"ok", "containers", strings.Join(live, ", "), ""})
	}
	return append(out, judged(len(dead) == 0, "note", "left-overs", orNone(dead),
		"their runs were killed: `bench env down`, or the next run on store minio, removes them"))
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// image says how long the first run will take to begin.
func image(ctx context.Context, e *minio.Engine) finding {
	img, there, err := e.Present(ctx, minio.Source{})
	switch {
	case err != nil:
		return finding{"note", "image", err.Error(), "only --store minio needs it"}
	case there:
		return finding{"ok", "image", img.String(), ""}
	}
	if _, err := exec.LookPath("go"); err != nil {
		return finding{"note", "image", "none of MinIO", "to build one takes the go command on the path; or name one: `bench env up --image name@sha256:digest --pull`"}
	}
	return finding{"note", "image", "none of MinIO", "`bench env up`, or the first run on store minio, builds it from source, once: " + minio.BuildTime}
}
