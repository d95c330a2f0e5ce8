package provision_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/embedded"
	"statebench.dev/bench/backend/store/provision"
	"statebench.dev/bench/internal/world"
)

const child = "BENCH_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		if err := embedded.ServeChild(os.Args[1:]...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestOpenBringsUpEachKind(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "objects")
	o := provision.Options{Embedded: embedded.Options{Args: []string{}, Env: []string{child + "=1"}}}
	for _, spec := range []string{"mem", "dir:" + folder, "embedded"} {
		b, d, err := provision.Open(t.Context(), world.NewReal(1), spec, o)
		if err != nil {
			t.Fatalf("%s: %v", spec, err)
		}
		if err := b.Put(t.Context(), "k", []byte("x"), store.PutOptions{}); err != nil {
			t.Errorf("%s: %v", spec, err)
		}
		kind, location, _ := strings.Cut(spec, ":")
		if d.Kind != kind || kind != "embedded" && d.Location != location || (kind == "embedded") != (d.PID != 0) {
			t.Errorf("%s: %+v", spec, d)
		}
		if d.Usage != nil {
			if u, err := d.Usage(); err != nil || u.RSS == 0 {
				t.Errorf("%s: %+v, %v", spec, u, err)
			}
		}
		if err := b.Close(); err != nil {
			t.Errorf("%s: %v", spec, err)
		}
		if kind == "embedded" {
			if _, err := os.Stat(d.Location); err == nil {
				t.Errorf("socket is left after Close")
			}
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		w          world.World
		spec, want string
	}{
		{world.NewReal(1), "memory", "mem, dir:PATH, embedded"},
		{world.NewReal(1), "", "mem, dir:PATH, embedded"},
		{world.NewReal(1), "dir:", "mem, dir:PATH, embedded"},
		{world.NewReal(1), "mem:1GiB", "mem, dir:PATH, embedded"},
		{world.NewReal(1), "dir:" + file, "not a folder"},
		{world.NewReal(1), "dir:" + file + "/below", "not a directory"},
		{world.NewReal(1), "minio:latest", "mem, dir:PATH, embedded"},
		{world.NewReal(1), "minio", "starts no containers"},
		{world.NewSim(world.SimOptions{}), "embedded", "mem only"},
		{world.NewSim(world.SimOptions{}), "minio", "mem only"},
		{world.NewSim(world.SimOptions{}), "s3://bucket/?endpoint=http://127.0.0.1:1", "mem only"},
	} {
		if b, _, err := provision.Open(t.Context(), c.w, c.spec, provision.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Open(%q) = %v, %v; want an error about %q", c.spec, b, err, c.want)
		}
	}
}
