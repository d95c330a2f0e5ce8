package report

import (
	"fmt"
	"slices"

	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/stats"
)

// Statuses of rows of checkpoints.csv.
const (
	completed = "completed"
	aborted   = "aborted"
	skipped   = "skipped"
)

// sample collects a column of the completed checkpoints of an arm in a window.
func (a *arm) sample(w window, column func(*results.CheckpointRow) results.Opt) (values []float64) {
	for _, r := range a.runs {
		for i := range r.Checkpoints {
			c := &r.Checkpoints[i]
			if v := column(c); c.Status == completed && v.Set && w.has(c.Phase) {
				values = append(values, v.Value)
			}
		}
	}
	return values
}

// checkpoints counts those of a status in a window.
func (a *arm) checkpoints(w window, status string) (n int) {
	for _, r := range a.runs {
		for i := range r.Checkpoints {
			if c := &r.Checkpoints[i]; c.Status == status && w.has(c.Phase) {
				n++
			}
		}
	}
	return n
}

// carried is a phase that a run carried through, and how many checkpoints completed in it.
type carried struct {
	run         *Run
	phase       metrics.Phase
	checkpoints int
}

// carried are those of a window, of all runs of an arm.
func (a *arm) carried(w window) (list []carried) {
	for _, r := range a.runs {
		one := arm{runs: []*Run{r}}
		for _, p := range r.data.Phases {
			if w.has(p.Name) && p.Ended {
				list = append(list, carried{r, p, one.checkpoints(window{p.Name}, completed)})
			}
		}
	}
	return list
}

// age is the time-weighted quantile of the recovery-point age in milliseconds: how old, at a random instant of the window, the
// trigger of the newest completed checkpoint is. Before the first one it is the age of the run.
func (a *arm) age(w window, q float64) stats.Figure {
	var spans []stats.Span
	for _, r := range a.runs {
		for _, name := range w {
			spans = append(spans, r.data.Ages(name)...)
		}
	}
	return stats.TimeWeighted(spans, q)
}

// throughput is records a second over the window.
func (a *arm) throughput(w window) stats.Figure {
	var records int64
	var took float64
	n := 0
	for _, r := range a.runs {
		for _, name := range w {
			if p, ok := r.story.phase(name); ok && p.ended && p.to > p.from && !r.stepped(name) {
				records, took, n = records+p.records, took+p.to-p.from, n+1
			}
		}
	}
	if n == 0 {
		return stats.None(0, "no phase was carried through")
	}
	return stats.Figure{Value: float64(records) / took, N: n}
}

// stepped tells whether a phase consists of steps, in which the job may be stopped: it offers no load of its own.
func (r *Run) stepped(phase string) bool {
	return slices.ContainsFunc(r.Plan.Phases, func(p plan.Phase) bool { return p.Name == phase && len(p.Steps) > 0 })
}

// lag tells, in milliseconds, how far the source was behind its schedule at most in the window, and at the end of its phases.
func (a *arm) lag(w window) (most, end float64) {
	for _, r := range a.runs {
		for _, name := range w {
			last := 0.0
			for _, s := range r.Series {
				if s.Phase == name {
					most, last = max(most, s.Lag), s.Lag
				}
			}
			end = max(end, last)
		}
	}
	return most, end
}

// reached is the least share of the offered rate that the source reached over a phase of the window, 1 where it kept up. It
// tells what samples of a second do not see: an impossible rate, over phases that are short for that.
func (a *arm) reached(w window) float64 {
	least := 1.0
	if a.plan == nil || rate(a.plan) <= 0 {
		return least
	}
	for _, r := range a.runs {
		for _, name := range w {
			p, ok := r.story.phase(name)
			due := float64(p.records) / rate(a.plan)
			if took := p.to - p.from; ok && p.ended && took-due > 0.1 && !r.stepped(name) {
				least = min(least, due/took)
			}
		}
	}
	return least
}

// requests and written are per completed checkpoint of the window: everything that writing checkpoints asked of the store.
func (a *arm) perCheckpoint(w window, column func(*metrics.Traffic) int64) stats.Figure {
	var total int64
	for _, r := range a.runs {
		for _, name := range w {
			if t := r.data.Traffic[name]; t != nil {
				total += column(t)
			}
		}
	}
	n := a.checkpoints(w, completed)
	if n == 0 {
		return stats.None(0, "no checkpoint completed")
	}
	return stats.Figure{Value: float64(total) / float64(n), N: n}
}

// cpu is microseconds a record over the window, of a column that counts seconds since a process began.
func (a *arm) cpu(w window, column func(*results.SeriesRow) results.Opt) stats.Figure {
	var used float64
	var records int64
	n := 0
	for _, r := range a.runs {
		for i := 1; i < len(r.Series); i++ {
			last, s := &r.Series[i-1], &r.Series[i]
			if from, to := column(last), column(s); w.has(s.Phase) && from.Set && to.Set && s.Emitted >= last.Emitted {
				used, records, n = used+to.Value-from.Value, records+s.Emitted-last.Emitted, n+1
			}
		}
	}
	if n == 0 || records == 0 {
		return stats.None(0, "not measured")
	}
	return stats.Figure{Value: used / float64(records) * 1e6, N: n}
}

// recoveries are the rows of a cause, in a phase of the window.
func (a *arm) recoveries(w window, cause string) (rows []results.RecoveryRow) {
	for _, r := range a.runs {
		for _, row := range r.Recoveries {
			if row.Cause == cause && w.has(row.Phase) {
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// meanOf is the mean of a figure of recoveries; it warns when one of them never came so far.
func meanOf(rows []results.RecoveryRow, column func(*results.RecoveryRow) results.Opt, missing string) stats.Figure {
	var values []float64
	for i := range rows {
		if v := column(&rows[i]); v.Set {
			values = append(values, v.Value)
		}
	}
	if len(rows) == 0 {
		return stats.None(0, "none")
	}
	if len(values) < len(rows) {
		return stats.None(len(values), fmt.Sprintf("%d of %d %s", len(rows)-len(values), len(rows), missing))
	}
	return stats.Mean(values)
}

// causes lists the causes of recoveries in the window, in order of appearance.
func causes(all []*arm, w window) (list []string) {
	seen := map[string]bool{}
	for _, a := range all {
		for _, r := range a.runs {
			for _, row := range r.Recoveries {
				if w.has(row.Phase) && !seen[row.Cause] {
					seen[row.Cause] = true
					list = append(list, row.Cause)
				}
			}
		}
	}
	return list
}

// writers is the mean number of subtasks that hold state in a checkpoint of the arm; 0: not known.
func (a *arm) writers() float64 {
	acks, in := 0, 0
	for _, r := range a.runs {
		acks, in = acks+r.story.acks, in+r.story.ackedIn
	}
	if in == 0 {
		return 0
	}
	return float64(acks) / float64(in)
}

// changelogArm is the first arm with a changelog other than base; nil: none.
func changelogArm(all []*arm) *arm {
	for _, a := range all {
		if a.plan != nil && a.plan.Backend.Changelog.Enabled && !a.baseline {
			return a
		}
	}
	return nil
}

// rate is the offered load in records a second, 0 where the plan gives none.
func rate(p *plan.Plan) float64 { return p.Workload.Rate }
