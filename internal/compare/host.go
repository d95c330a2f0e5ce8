package compare

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"statebench.dev/bench/internal/results"
)

// CanaryFile is where the state of the host during a run is kept, in the run's directory.
const CanaryFile = "canary.json"

// Canary is what the host was like before and during a run. A figure that the system does not tell is absent.
type Canary struct {
	Schema int `json:"schema"`
	// Loop is how long a fixed piece of work on one processor took just before the run, in milliseconds.
	Loop results.Opt `json:"loopMs"`
	// Steal is the share of processor time that the hypervisor gave to others, Foreign what processes other than the run and
	// its store used.
	Steal   results.Opt `json:"steal"`
	Foreign results.Opt `json:"foreignCpu"`
	// Throttled counts the stretches in which a limit of processor time was in force.
	Throttled results.Opt `json:"throttled"`
	// SwapIn is pages read back from the swap.
	SwapIn results.Opt `json:"swapIn"`
	// FreeDisk is the share of the disk with the results that was free at the end.
	FreeDisk results.Opt `json:"freeDisk"`
}

// Host watches the host during one run. It is not safe for concurrent use.
type Host struct {
	loop   time.Duration
	before counters
}

// counters are what the system has counted since it began; -1: not told.
type counters struct {
	total, idle, steal float64 // ticks of all processors
	own                float64 // seconds of this process and its children that have ended
	throttled, swapIn  float64
}

// loopRounds is about a second of work.
const loopRounds = 400_000_000

// Watch does the fixed piece of work and begins to watch.
func Watch() *Host {
	start := time.Now()
	spin(loopRounds)
	return &Host{loop: time.Since(start), before: read()}
}

// spin is a chain of multiplications that no processor can shorten.
func spin(rounds int) uint64 {
	x := uint64(rounds) | 1
	for range rounds {
		x = x*6364136223846793005 + 1442695040888963407
	}
	runtime.KeepAlive(x)
	return x
}

// End tells how the host was since Watch. apart is processor time in seconds that is not foreign although other processes
// used it, such as that of a store in a container; out is a folder on the disk with the results.
func (h *Host) End(apart float64, out string) Canary {
	now := read()
	c := Canary{Schema: results.Schema, Loop: results.Some(float64(h.loop) / 1e6)}
	if total := now.total - h.before.total; h.before.total >= 0 && total > 0 {
		c.Steal = results.Some(rounded((now.steal - h.before.steal) / total))
		busy := total - (now.idle - h.before.idle) - (now.steal - h.before.steal)
		own := (now.own - h.before.own + apart) * ticks
		c.Foreign = results.Some(rounded(max(0, busy-own) / total))
	}
	if h.before.throttled >= 0 && now.throttled >= 0 {
		c.Throttled = results.Some(now.throttled - h.before.throttled)
	}
	if h.before.swapIn >= 0 && now.swapIn >= 0 {
		c.SwapIn = results.Some(now.swapIn - h.before.swapIn)
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(out, &disk); err == nil && disk.Blocks > 0 {
		c.FreeDisk = results.Some(rounded(float64(disk.Bavail) / float64(disk.Blocks)))
	}
	return c
}

// ticks a second in /proc/stat, on every Linux there is.
const ticks = 100

func rounded(v float64) float64 { return math.Round(v*1e4) / 1e4 }

// read takes the counters; what is not there is -1.
func read() counters {
	c := counters{total: -1, throttled: -1, swapIn: -1}
	if line, ok := lineOf("/proc/stat", "cpu "); ok {
		c.processors(strings.Fields(line))
	}
	if line, ok := lineOf("/sys/fs/cgroup/cpu.stat", "nr_throttled "); ok {
		c.throttled = number(line)
	}
	if line, ok := lineOf("/proc/vmstat", "pswpin "); ok {
		c.swapIn = number(line)
	}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err == nil {
			c.own += time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
		}
	}
	return c
}

// processors reads user, nice, system, idle, iowait, irq, softirq, steal; what follows is contained in these.
func (c *counters) processors(fields []string) {
	const idle, iowait, steal = 3, 4, 7
	if len(fields) <= steal {
		return
	}
	total := 0.0
	for i, f := range fields[:steal+1] {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return
		}
		total += v
		switch i {
		case idle, iowait:
			c.idle += v
		case steal:
			c.steal = v
		}
	}
	c.total = total
}

// lineOf finds the rest of a line by how it begins.
func lineOf(path, begin string) (string, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, begin); ok {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

func number(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return -1
	}
	return v
}

// The limits within which a run counts.
const (
	maxSteal    = 0.02
	maxForeign  = 0.10
	minFreeDisk = 0.20
	loopRange   = 0.15 // around the median of all runs of the comparison
)

// unfit says why a run on such a host says nothing; loop is the median of the canaries of the comparison, 0 where not known.
func (c Canary) unfit(loop float64) (reasons []string) {
	add := func(is bool, format string, args ...any) {
		if is {
			reasons = append(reasons, fmt.Sprintf(format, args...))
		}
	}
	add(c.Steal.Set && c.Steal.Value >= maxSteal, "the hypervisor gave %s of the processors to others (limit %s)", percent(c.Steal.Value), percent(maxSteal))
	add(c.Foreign.Set && c.Foreign.Value >= maxForeign, "other processes used %s of the processors (limit %s)", percent(c.Foreign.Value), percent(maxForeign))
	add(c.Throttled.Set && c.Throttled.Value > 0, "a limit of processor time was in force %g times", c.Throttled.Value)
	add(c.SwapIn.Set && c.SwapIn.Value > 0, "%g pages came back from the swap", c.SwapIn.Value)
	add(c.FreeDisk.Set && c.FreeDisk.Value < minFreeDisk, "only %s of the disk is free (limit %s)", percent(c.FreeDisk.Value), percent(minFreeDisk))
	add(c.Loop.Set && loop > 0 && math.Abs(c.Loop.Value/loop-1) > loopRange, "the canary took %s, the median is %s (limit ±%s)",
		duration(c.Loop.Value), duration(loop), percent(loopRange))
	return reasons
}
