package metrics

import (
	"fmt"
	"slices"
	"strings"

	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/stats"
)

// quantiles are the percentiles that families of samples come with.
var quantiles = []struct { // read-only: a part of the table
	suffix string
	q      float64
}{{"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}}

// family is a metric in all its statistics.
type family struct {
	name, about string
	unit        Unit
	samples     Samples
	of          func(d *Data, phase string) []float64
	measured    bool // there is none of it in the simulated world
}

// of each checkpoint that completed in the phase.
func checkpointFamilies() []family {
	column := func(name, about string, unit Unit, column func(c *results.CheckpointRow) results.Opt) family {
		return family{name: name, about: about, unit: unit, samples: Checkpoints, of: func(d *Data, phase string) []float64 { return d.completed(phase, column) }}
	}
	encode := column("checkpoint.metadataEncode", "time to make the metadata object of a checkpoint", Millis, func(c *results.CheckpointRow) results.Opt { return c.Encode })
	encode.measured = true
	return []family{
		column("checkpoint.duration", "from the trigger of a checkpoint to its completion", Millis, func(c *results.CheckpointRow) results.Opt { return c.Duration }),
		column("checkpoint.late", "from the moment a checkpoint was due to its completion", Millis, lateness),
		column("checkpoint.startDelay", "from the trigger until the first barrier reached the slowest subtask", Millis, func(c *results.CheckpointRow) results.Opt { return c.StartDelay }),
		column("checkpoint.align", "from the first barrier to the last at the slowest subtask", Millis, func(c *results.CheckpointRow) results.Opt { return c.Align }),
		column("checkpoint.sync", "part of the snapshot that holds up processing, slowest subtask", Millis, func(c *results.CheckpointRow) results.Opt { return c.Sync }),
		column("checkpoint.async", "rest of the snapshot, slowest subtask", Millis, func(c *results.CheckpointRow) results.Opt { return c.Async }),
		column("checkpoint.checkpointed", "bytes first stored for a checkpoint: of the log, or of the snapshot", Bytes, func(c *results.CheckpointRow) results.Opt { return c.Checkpointed }),
		column("checkpoint.size.full", "all that a checkpoint names", Bytes, func(c *results.CheckpointRow) results.Opt { return c.Full }),
		column("checkpoint.size.base", "materialized part of a checkpoint", Bytes, func(c *results.CheckpointRow) results.Opt { return c.Base }),
		column("checkpoint.size.delta", "log on top of the materialized part", Bytes, func(c *results.CheckpointRow) results.Opt { return c.Delta }),
		column("checkpoint.materialized", "materialized state that a checkpoint names for the first time", Bytes, func(c *results.CheckpointRow) results.Opt { return c.Materialized }),
		column("checkpoint.objects", "objects that a checkpoint names for the first time", Count, func(c *results.CheckpointRow) results.Opt { return c.Objects }),
		column("checkpoint.dead", "bytes of the objects that a checkpoint names which are no part of it", Bytes, func(c *results.CheckpointRow) results.Opt { return c.Dead }),
		column("checkpoint.metadata", "size of the metadata object of a checkpoint, not in its full size", Bytes, func(c *results.CheckpointRow) results.Opt { return c.Metadata }),
		encode,
	}
}

// lateness is from the planned moment to completion: a checkpoint that is slow is late, and so is one that had to wait for it.
func lateness(c *results.CheckpointRow) results.Opt {
	if !c.Late.Set || !c.Duration.Set {
		return results.Opt{}
	}
	return results.Some(c.Late.Value + c.Duration.Value)
}

// table is the list, in the order in which it is shown.
func table() (all []Metric) {
	for _, f := range checkpointFamilies() {
		all = append(all, f.metrics()...)
	}
	all = append(all, counts()...)
	all = append(all, recoveries()...)
	all = append(all, flow()...)
	all = append(all, ages()...)
	all = append(all, latencies()...)
	return append(all, costs()...)
}

// metrics are all statistics of a family.
func (f family) metrics() (all []Metric) {
	for _, q := range quantiles {
		all = append(all, Metric{
			Name: f.name + "." + q.suffix, About: fmt.Sprintf("%s: %s", f.about, percentile(q.suffix)), Unit: f.unit, Better: Lower, Samples: f.samples,
			Need: stats.Needed(q.q), quantile: q.q, Measured: f.measured,
			of: func(d *Data, phase string, m *Metric) stats.Figure { return stats.Quantile(f.of(d, phase), m.quantile) },
		})
	}
	return append(all,
		Metric{Name: f.name + ".mean", About: f.about + ": mean", Unit: f.unit, Better: Lower, Samples: f.samples, Measured: f.measured, of: func(d *Data, phase string, _ *Metric) stats.Figure {
			return stats.Mean(f.of(d, phase))
		}},
		Metric{Name: f.name + ".max", About: f.about + ": the greatest", Unit: f.unit, Better: Lower, Samples: f.samples, Measured: f.measured, of: func(d *Data, phase string, _ *Metric) stats.Figure {
			return greatest(f.of(d, phase))
		}})
}

func percentile(suffix string) string {
	if suffix == "p50" {
		return "median"
	}
	return strings.TrimPrefix(suffix, "p") + "th percentile"
}

// counts are how checkpoints ended.
func counts() []Metric {
	ended := func(name, about, status string, better Better) Metric {
		return Metric{Name: name, About: about, Unit: Count, Better: better, Samples: Whole, of: func(d *Data, phase string, _ *Metric) stats.Figure {
			return d.whole(phase, func(Phase) stats.Figure { return number(d.ended(phase, status)) })
		}}
	}
	return []Metric{
		ended("checkpoints.completed", "checkpoints that completed", completed, Higher),
		{Name: "checkpoints.perSecond", Unit: Often, Better: Higher, Samples: Whole,
			About: "checkpoints that completed, a second: no more than one an interval, and fewer where a checkpoint takes longer than that, since the triggers that come meanwhile are skipped",
			of: func(d *Data, phase string, _ *Metric) stats.Figure {
				return d.whole(phase, func(p Phase) stats.Figure { return PerSecond(d.ended(p.Name, completed), p.To-p.From) })
			}},
		ended("checkpoints.aborted", "checkpoints that were aborted", aborted, Lower),
		ended("checkpoints.skipped", "triggers that were skipped", skipped, Lower),
		{Name: "materializations", About: "materializations that were confirmed, each subtask's for itself", Unit: Count, Samples: Whole, of: func(d *Data, phase string, _ *Metric) stats.Figure {
			return d.whole(phase, func(p Phase) stats.Figure { return number(p.Materializations) })
		}},
	}
}

// recoveries are bounds on the slowest of a phase, and their number. A rescale is no recovery, nor is a start.
func recoveries() []Metric {
	worst := func(name, about string, unit Unit, samples Samples, missing string, column func(r *results.RecoveryRow) results.Opt) Metric {
		return Metric{Name: name, About: about, Unit: unit, Better: Lower, Samples: samples, of: func(d *Data, phase string, _ *Metric) stats.Figure {
			return d.worst(phase, samples, missing, column)
		}}
	}
	number := func(name, about string, samples Samples) Metric {
		return Metric{Name: name, About: about, Unit: Count, Samples: Whole, of: func(d *Data, phase string, _ *Metric) stats.Figure {
			return d.whole(phase, func(Phase) stats.Figure { return number(len(d.recovered(phase, samples))) })
		}}
	}
	total := func(r *results.RecoveryRow) results.Opt { return r.Recovery }
	return []Metric{
		number("recoveries", "failures that the job recovered from", Recoveries),
		worst("recovery.total", "from the fault until the job has caught up, slowest of the phase", Millis, Recoveries, "did not catch up", total),
		worst("recovery.outage", "from the fault to the first new output, slowest of the phase", Millis, Recoveries, "gave no new output", func(r *results.RecoveryRow) results.Opt { return r.Outage }),
		worst("recovery.detect", "from the fault until the coordinator knew, slowest of the phase", Millis, Recoveries, "were not detected", func(r *results.RecoveryRow) results.Opt { return r.Detect }),
		worst("recovery.restore", "base and replay, slowest of the phase", Millis, Recoveries, "did not restore", Restore),
		worst("recovery.replay", "replay of the log, slowest of the phase", Millis, Recoveries, "did not replay", func(r *results.RecoveryRow) results.Opt { return r.Replay }),
		worst("recovery.reprocessed", "source records emitted again, most of the phase", Count, Recoveries, "are not known", func(r *results.RecoveryRow) results.Opt { return r.Reprocessed }),
		number("rescales", "changes of parallelism that were carried through", Rescales),
		worst("rescale.total", "from the request until the job has caught up, slowest of the phase", Millis, Rescales, "did not catch up", total),
		worst("rescale.restore", "base and replay of a rescale, slowest of the phase", Millis, Rescales, "did not restore", Restore),
		number("starts", "starts of a job that was stopped", Starts),
		worst("start.total", "from the start of a stopped job until it has caught up, slowest of the phase", Millis, Starts, "did not catch up", total),
		worst("start.restore", "base and replay of a start, slowest of the phase", Millis, Starts, "did not restore", Restore),
	}
}

// Restore is base and replay of a recovery together.
func Restore(r *results.RecoveryRow) results.Opt {
	if !r.RestoreBase.Set {
		return results.Opt{}
	}
	return results.Some(r.RestoreBase.Value + r.Replay.Value)
}

// flow is what went through the job, and how far the source fell behind.
func flow() []Metric {
	series := func(name, about string, unit Unit, better Better, of func(rows []results.SeriesRow) stats.Figure) Metric {
		return Metric{Name: name, About: about, Unit: unit, Better: better, Samples: Seconds, of: func(d *Data, phase string, _ *Metric) stats.Figure {
			return of(d.seconds(phase))
		}}
	}
	mean := func(column func(s *results.SeriesRow) float64) func([]results.SeriesRow) stats.Figure {
		return func(rows []results.SeriesRow) stats.Figure { return stats.Mean(each(rows, column)) }
	}
	lag := func(s *results.SeriesRow) float64 { return s.Lag }
	return []Metric{
		{Name: "throughput", About: "records emitted for the first time, a second", Unit: Rate, Better: Higher, Samples: Whole, of: func(d *Data, phase string, _ *Metric) stats.Figure {
			return d.whole(phase, throughput)
		}},
		{Name: "records", About: "records emitted for the first time", Unit: Count, Better: Higher, Samples: Whole, of: func(d *Data, phase string, _ *Metric) stats.Figure {
			return d.whole(phase, func(p Phase) stats.Figure { return number(p.Records) })
		}},
		series("lag.max", "how far the source was behind its schedule, at most", Millis, Lower, func(rows []results.SeriesRow) stats.Figure { return greatest(each(rows, lag)) }),
		series("lag.end", "how far the source was behind its schedule at the end of the phase", Millis, Lower, func(rows []results.SeriesRow) stats.Figure { return last(each(rows, lag)) }),
		series("lag.slope", "growth of the lag, by least squares", PerSec, Lower, slope),
		series("busy.mean", "time in which subtasks worked", Share, Neither, mean(func(s *results.SeriesRow) float64 { return s.Busy })),
		series("backpressured.mean", "time in which subtasks waited for a slower receiver", Share, Lower, mean(func(s *results.SeriesRow) float64 { return s.Backpress })),
		series("deleteBacklog.max", "objects that were to be deleted and were not tried yet, at most", Count, Lower, mostOf(func(s *results.SeriesRow) results.Opt { return s.Deletes })),
		series("logBlocked.mean", "time in which subtasks waited for the changelog to upload", Share, Lower, mean(func(s *results.SeriesRow) float64 { return s.LogBlocked })),
		series("logSoftBlocked.mean", "of that, the part in which a subtask had used up its share, and others of its worker could go on", Share, Lower, meanOf(func(s *results.SeriesRow) results.Opt {
			return results.Opt{Value: s.LogBlocked - s.LogHard.Value, Set: s.LogHard.Set}
		})),
		series("logHardBlocked.mean", "of that, the part in which all of a worker was used up", Share, Lower, meanOf(func(s *results.SeriesRow) results.Opt { return s.LogHard })),
		series("logInFlight.max", "bytes of log handed over for upload and not durable, at most", Bytes, Lower, mostOf(func(s *results.SeriesRow) results.Opt { return s.InFlight })),
		series("logAge.max", "time since the base of a subtask's log was cut or restored, at most", Millis, Lower, mostOf(func(s *results.SeriesRow) results.Opt { return s.LogAge })),
	}
}

// ages are the recovery-point age: how old, at an instant, the trigger of the newest completed checkpoint is.
func ages() (all []Metric) {
	const about = "age of the newest completed checkpoint's trigger over all instants"
	for _, q := range quantiles {
		all = append(all, Metric{
			Name: "recoveryPointAge." + q.suffix + "w", About: about + ": " + percentile(q.suffix), Unit: Millis, Better: Lower, Samples: Instants, quantile: q.q,
			of: func(d *Data, phase string, m *Metric) stats.Figure {
				return stats.TimeWeighted(d.Ages(phase), m.quantile)
			},
		})
	}
	return append(all, Metric{Name: "recoveryPointAge.max", About: about + ": the greatest", Unit: Millis, Better: Lower, Samples: Instants, of: func(d *Data, phase string, _ *Metric) stats.Figure {
		var highs []float64
		for _, s := range d.Ages(phase) {
			highs = append(highs, s.High)
		}
		return greatest(highs)
	}})
}

// latencies are of records, from their due time to the sink. A replayed record keeps its due time, so an outage is in them.
func latencies() (all []Metric) {
	const about = "from the due time of a record until what it caused reached the sink"
	for _, q := range quantiles {
		all = append(all, Metric{
			Name: "latency." + q.suffix, About: about + ": " + percentile(q.suffix), Unit: Millis, Better: Lower, Samples: Records, Need: stats.Needed(q.q), quantile: q.q,
			of: func(d *Data, phase string, m *Metric) stats.Figure { return d.latency(phase, m.quantile) },
		})
	}
	return append(all, Metric{Name: "latency.max", About: about + ": the greatest", Unit: Millis, Better: Lower, Samples: Records, of: func(d *Data, phase string, _ *Metric) stats.Figure {
		return d.latency(phase, 1)
	}})
}

// costs are what the job asked of the store and of the processor.
func costs() []Metric {
	perCheckpoint := func(name, about string, unit Unit, column func(t *Traffic) int64) Metric {
		return Metric{Name: name, About: about, Unit: unit, Better: Lower, Samples: Checkpoints, of: func(d *Data, phase string, _ *Metric) stats.Figure {
			return d.perCheckpoint(phase, column)
		}}
	}
	cpu := func(name, about string, column func(s *results.SeriesRow) results.Opt) Metric {
		return Metric{Name: name, About: about, Unit: Micros, Better: Lower, Samples: Seconds, Measured: true, of: func(d *Data, phase string, _ *Metric) stats.Figure {
			return d.cpu(phase, column)
		}}
	}
	stored := func(name, about string, unit Unit, of func(d *Data, p Phase) stats.Figure) Metric {
		return Metric{Name: name, About: about, Unit: unit, Better: Lower, Samples: Whole, of: func(d *Data, phase string, _ *Metric) stats.Figure {
			return d.whole(phase, func(p Phase) stats.Figure { return of(d, p) })
		}}
	}
	return slices.Concat(prices(), logTraffic(stored), []Metric{
		perCheckpoint("requestsPerCheckpoint", "requests to the store, but for restores and the audit, over completed checkpoints", PerCkpt, func(t *Traffic) int64 { return t.Requests }),
		perCheckpoint("metadata.requestsPerCheckpoint", "requests for metadata objects and the coordinator log, over completed checkpoints", PerCkpt, func(t *Traffic) int64 { return t.Meta.Requests }),
		perCheckpoint("metadata.bytesPerCheckpoint", "bytes put for metadata objects and the coordinator log, over completed checkpoints", Bytes, func(t *Traffic) int64 { return t.Meta.Written }),
		perCheckpoint("bytesPerCheckpoint", "bytes put, materializations included, over completed checkpoints", Bytes, func(t *Traffic) int64 { return t.Written }),
		stored("store.bytesPerRecord", "bytes put over records first emitted", Bytes, bytesPerRecord),
		stored("storedBytes.max", "bytes of all objects in the store, at most", Bytes, func(d *Data, p Phase) stats.Figure {
			return d.stored(p.Name, func(t *Traffic) int64 { return t.StoredMax })
		}),
		stored("storedBytes.end", "bytes of all objects in the store at the end of the phase", Bytes, func(d *Data, p Phase) stats.Figure {
			return d.stored(p.Name, func(t *Traffic) int64 { return t.StoredEnd })
		}),
		stored("amplification", "stored bytes over keys and values of the working state, at the end of the phase", Count, amplification),
		cpu("cpuPerRecord", "CPU time of the process over records first emitted; the store's own process apart", func(s *results.SeriesRow) results.Opt { return s.CPU }),
		cpu("storeCpuPerRecord", "CPU time of the store's process over records first emitted", func(s *results.SeriesRow) results.Opt { return s.StoreCPU }),
		{Name: "heap.max", About: "live heap of the process, at most", Unit: Bytes, Better: Lower, Samples: Seconds, Measured: true, of: func(d *Data, phase string, _ *Metric) stats.Figure {
			var v []float64
			for _, s := range d.seconds(phase) {
				if s.Heap.Set {
					v = append(v, s.Heap.Value)
				}
			}
			return greatest(v)
		}},
	})
}
