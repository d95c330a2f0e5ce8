package main

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"statebench.dev/bench/backend/store/provision/minio"
	"statebench.dev/bench/internal/plan"
)

// TestAScenarioSaysWhatItsContainerTakes: image and limits come from the plan, and a flag wins.
func TestAScenarioSaysWhatItsContainerTakes(t *testing.T) {
	plans := []plan.Plan{{Store: plan.Store{Kind: "minio", Image: "mine", Limits: plan.Limits{CPUs: 1.5, Memory: 512 << 20}}}}
	var f containerFlags
	if !f.take(plans) {
		t.Error("no container is needed")
	}
	if o := f.options(io.Discard); o.Image != "mine" || o.CPUs != 1.5 || o.Memory != 512<<20 {
		t.Errorf("options %+v", o)
	}
	f = containerFlags{source: minio.Source{Image: "other"}}
	if f.take(plans); f.options(io.Discard).Image != "other" {
		t.Errorf("the flag does not win")
	}
	if f.take([]plan.Plan{{Store: plan.Store{Kind: "mem"}}}) {
		t.Error("store mem needs a container")
	}
}

// TestAnInterruptEndsTheWaitForAPipe: nobody writes into it.
func TestAnInterruptEndsTheWaitForAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	for _, args := range [][]string{{"plan", pipe}, {"run", pipe}, {"run", "--plan", pipe}} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var stdout, stderr strings.Builder
		if code := Main(ctx, args, &stdout, &stderr); code != exitInterrupted {
			t.Errorf("%q: exit code %d:\n%s%s", args, code, stdout.String(), stderr.String())
		}
	}
}
