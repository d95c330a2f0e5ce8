package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAvailableMemoryKnowsTheLimitOfAContainer(t *testing.T) {
	for _, c := range []struct {
		name, meminfo, limit, used, stat string
		want                             int64
	}{
		{"no limit", "MemTotal: 10 kB\nMemFree: 1 kB\nMemAvailable:        4 kB\n", "max", "1", "", 4096},
		{"no control group", "MemAvailable: 4 kB\n", "", "", "", 4096},
		{"a limit", "MemAvailable: 4 kB\n", "3000\n", "1000\n", "", 2000},
		{"a limit that is far", "MemAvailable: 4 kB\n", "30000\n", "1000\n", "", 4096},
		{"a limit that is reached", "MemAvailable: 4 kB\n", "3000\n", "5000\n", "anon 5000\n", 1},
		{"a limit that file pages reach", "MemAvailable: 4 kB\n", "3000\n", "3000\n", "anon 500\nfile 2500\ninactive_file 1500\nactive_file 700\nslab_reclaimable 50\n", 2250},
		{"not told", "MemTotal: 10 kB\n", "max", "1", "", 0},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"meminfo": c.meminfo, "memory.max": c.limit, "memory.current": c.used, "memory.stat": c.stat} {
			if text == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := availableMemory(filepath.Join(dir, "meminfo"), dir); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	if got := availableMemory(filepath.Join(t.TempDir(), "meminfo"), "/"); got != 0 {
		t.Errorf("where nothing is told: %d", got)
	}
}

func TestDiskOfWhatIsNotThereYet(t *testing.T) {
	dir := t.TempDir()
	here, ok := diskOf(dir)
	later, known := diskOf(filepath.Join(dir, "a", "b"))
	if !ok || !known || here.Free <= 0 || later.Device != here.Device {
		t.Errorf("%+v %t, %+v %t", here, ok, later, known)
	}
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if d, known := diskOf(filepath.Join(file, "below")); known {
		t.Errorf("below a file: %+v", d)
	}
	if _, err := os.Stat("/proc/self"); err == nil { // no block of it is free, for it has none
		if d, known := diskOf("/proc/self"); known {
			t.Errorf("a file system without a size: %+v", d)
		}
	}
}
