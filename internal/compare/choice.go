package compare

import (
	"slices"

	"statebench.dev/bench/internal/plan"
)

// groups are the questions that decide when nobody says which do, each with the metrics that can answer it, best first.
// Lateness counts from the moment a checkpoint was due, so that a slow variant does not look better for triggering fewer.
func groups(list []phase) [][]key {
	if len(list) == 0 {
		return nil
	}
	calm := max(0, slices.IndexFunc(list, func(p phase) bool { return !p.faults }))
	steady := list[calm].name
	var restore []key
	for _, p := range list {
		if p.faults {
			restore = append(restore, key{p.name, "recovery.restore"}, key{p.name, "rescale.restore"})
		}
	}
	return [][]key{
		{{steady, "recoveryPointAge.p99w"}},
		{{steady, "checkpoint.late.p50"}, {steady, "checkpoint.late.mean"}},
		restore,
		{{steady, "store.bytesPerRecord"}},
	}
}

// pick takes of each group the first metric that every run has, or else the first that any has: what some runs do not have,
// such as the restore of a recovery that never came, must not drop out of what decides.
func (c *Comparison) pick(groups [][]key) (keys []key) {
	runs := c.counting()
	lacks := func(k key) func(r *Run) bool { return func(r *Run) bool { return !r.figures[k].OK() } }
	for _, group := range groups {
		i := slices.IndexFunc(group, func(k key) bool { return !slices.ContainsFunc(runs, lacks(k)) })
		if i < 0 {
			i = slices.IndexFunc(group, func(k key) bool { return slices.ContainsFunc(runs, func(r *Run) bool { return r.figures[k].OK() }) })
		}
		if i >= 0 {
			keys = append(keys, group[i])
		}
	}
	return keys
}

// wholeRun stands for all phases of a run together, where a phase would be named.
const wholeRun = "whole run"

// counted are the figures that must be equal: the records of the run, where each phase is measured in them.
func counted(p *plan.Plan) (keys []key) {
	for _, ph := range p.Phases {
		if ph.For > 0 || len(ph.Steps) > 0 {
			return nil
		}
	}
	return []key{{wholeRun, "records"}}
}

// advisory is a choice of what to show of each phase.
func advisory(list []phase) (patterns []string) {
	for _, p := range list {
		choice := []string{
			"checkpoint.duration.p50", "checkpoint.late.p50", "checkpoint.late.p90", "checkpoint.sync.p50", "checkpoint.checkpointed.p50", "checkpoint.size.full.p50",
			"checkpoints.aborted", "recoveryPointAge.p50w", "recoveryPointAge.p99w", "throughput", "latency.p50", "latency.p99",
			"requestsPerCheckpoint", "store.bytesPerRecord", "storedBytes.max", "cpuPerRecord", "storeCpuPerRecord", "heap.max",
		}
		if p.faults {
			choice = append(choice, "recovery.restore", "recovery.outage", "recovery.total", "rescale.restore", "rescale.total")
		}
		for _, m := range choice {
			patterns = append(patterns, p.name+"/"+m)
		}
	}
	return patterns
}
