package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/run"
)

// fits refuses plans that cannot fit into this machine.
func fits(plans []plan.Plan, out string) error {
	if err := run.Preflight(plans, thisMachine(out)); err != nil {
		return &exitError{exitEnvironment, err}
	}
	return nil
}

// thisMachine is what runs may use: the memory and the disks that are free now.
func thisMachine(out string) run.Machine {
	return run.Machine{Memory: availableMemory("/proc/meminfo", "/sys/fs/cgroup"), Disk: diskOf, Results: out, Temporary: os.TempDir()}
}

// availableMemory is what programs can still get, within the limit of a container; 0 where it is not known.
func availableMemory(meminfo, cgroup string) int64 {
	text, err := os.ReadFile(meminfo)
	if err != nil {
		return 0
	}
	free := int64(0)
	for line := range strings.Lines(string(text)) {
		var kib int64
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); err == nil {
			free = kib * 1024
		}
	}
	number := func(name string) (int64, bool) {
		b, err := os.ReadFile(filepath.Join(cgroup, name))
		if err != nil {
			return 0, false
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
		return n, err == nil // "max" is no limit
	}
	limit, limited := number("memory.max")
	used, known := number("memory.current")
	if limited && known {
		free = min(free, max(1, limit-used+reclaimable(filepath.Join(cgroup, "memory.stat"))))
	}
	return free
}

// reclaimable is what the kernel takes back from a control group before it refuses memory: file pages count as used, and
// whoever has just built or copied something has filled the group with them. MemAvailable counts them as free too.
func reclaimable(stat string) (n int64) {
	text, err := os.ReadFile(stat)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var name string
		var bytes int64
		if _, err := fmt.Sscanf(line, "%s %d", &name, &bytes); err == nil && slices.Contains([]string{"inactive_file", "active_file", "slab_reclaimable"}, name) {
			n += bytes
		}
	}
	return n
}

// diskOf tells about the file system of a path, of which only the beginning need exist.
func diskOf(path string) (run.Disk, bool) {
	path, err := filepath.Abs(path)
	if err != nil {
		return run.Disk{}, false
	}
	for {
		info, err := os.Stat(path)
		if err == nil {
			var s syscall.Statfs_t
			st, ok := info.Sys().(*syscall.Stat_t)
			if err := syscall.Statfs(path, &s); err != nil || !ok || s.Blocks == 0 { // /proc and its like tell nothing
				return run.Disk{}, false
			}
			return run.Disk{Device: uint64(st.Dev), Free: int64(s.Bavail) * int64(s.Bsize)}, true
		}
		up := filepath.Dir(path)
		if !errors.Is(err, fs.ErrNotExist) || up == path {
			return run.Disk{}, false
		}
		path = up
	}
}
