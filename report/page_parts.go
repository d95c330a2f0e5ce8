package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/stats"
)

// phaseView is one phase of one arm.
type phaseView struct {
	Phase, Arm                        string
	First                             bool // of its phase
	Compared                          string
	N                                 int
	Duration, Checkpointed, Full      string
	Throughput, Lag, Aborted, Skipped string
}

// phaseViews are the figures of each phase that counts, before they are put together.
func phaseViews(t *table) (list []phaseView) {
	for _, p := range phases(t.arms) {
		compared := "compared"
		if p.why != "" {
			compared = "shown only: " + p.why
		}
		for i, a := range t.arms {
			w := window{p.name}
			figure := func(f stats.Figure, u unit) string {
				if !f.OK() {
					return f.Warning
				}
				return u.format(f.Value, t.sim)
			}
			quantile := func(column func(*results.CheckpointRow) results.Opt, u unit) string {
				values := a.sample(w, column)
				f := stats.Quantile(values, 0.5)
				if n := len(values); f.Need > n && n > 0 {
					return u.format(slices.Min(values), t.sim) + " – " + u.format(slices.Max(values), t.sim)
				}
				return figure(f, u)
			}
			most, _ := a.lag(w)
			list = append(list, phaseView{Phase: p.name, Arm: a.name, First: i == 0, Compared: compared, N: a.checkpoints(w, completed),
				Duration:     quantile(func(c *results.CheckpointRow) results.Opt { return c.Duration }, unitMillis),
				Checkpointed: quantile(func(c *results.CheckpointRow) results.Opt { return c.Checkpointed }, unitBytes),
				Full:         quantile(func(c *results.CheckpointRow) results.Opt { return c.Full }, unitBytes),
				Throughput:   figure(a.throughput(w), unitRate), Lag: unitMillis.format(most, t.sim),
				Aborted: fmt.Sprint(a.checkpoints(w, aborted)), Skipped: fmt.Sprint(a.checkpoints(w, skipped))})
		}
	}
	return list
}

// recoveryView is one recovery with all its figures.
type recoveryView struct {
	Run, Cause, ID, Phase string
	Cells                 []string
}

// RecoveryColumns are the headings of recoveryView.Cells.
func (v view) RecoveryColumns() []string {
	return []string{"detect", "restart", "base", "replay", "first output", "outage", "recovery", "base bytes", "log bytes", "changes", "records again", "from checkpoint", "parallelism"}
}

func recoveryViews(inv *Invocation, t *table) (list []recoveryView) {
	for _, r := range inv.Runs {
		for i := range r.Recoveries {
			row := &r.Recoveries[i]
			v := recoveryView{Run: r.Entry.Name, Cause: row.Cause, ID: row.ID, Phase: row.Phase}
			add := func(o results.Opt, u unit, none string) {
				if !o.Set {
					v.Cells = append(v.Cells, none)
					return
				}
				v.Cells = append(v.Cells, u.format(o.Value, t.sim))
			}
			for _, o := range []results.Opt{row.Detect, row.Restart, row.RestoreBase, row.Replay, row.FirstOutput, row.Outage} {
				add(o, unitMillis, "–")
			}
			add(row.Recovery, unitMillis, "not caught up")
			add(row.BaseBytes, unitBytes, "–")
			add(row.DeltaBytes, unitBytes, "–")
			for _, o := range []results.Opt{row.Replayed, row.Reprocessed} {
				if o.Set {
					v.Cells = append(v.Cells, formatCount(int64(o.Value)))
				} else {
					v.Cells = append(v.Cells, "–")
				}
			}
			v.Cells = append(v.Cells, fmt.Sprint(row.Checkpoint), fmt.Sprint(row.Parallelism))
			list = append(list, v)
		}
	}
	return list
}

// checkView is one check over all runs.
type checkView struct {
	Anchor, Check, Name, Class, Word string
	Open                             bool
	Runs                             []answerView
}

type answerView struct {
	Run, Word, Class, Size string
	Evidence, Timeline     []string
	More                   int
}

// checkViews puts the verdicts of all runs together by check, in the order of the first run that has them.
func checkViews(inv *Invocation) (list []checkView) {
	at := map[string]int{}
	for _, r := range inv.Runs {
		for _, v := range r.Verdicts {
			i, ok := at[v.Check]
			if !ok {
				i = len(list)
				at[v.Check] = i
				list = append(list, checkView{Anchor: anchor(v.Check), Check: v.Check, Name: v.Name, Class: "pass", Word: word(results.Pass)})
			}
			c := &list[i]
			a := answerView{Run: r.Entry.Name, Word: word(v.Verdict), Class: class(v.Verdict)}
			if v.Verdict == results.Pass {
				a.Evidence = []string{v.Summary}
			} else {
				a.Size, a.Evidence = findings(v)
				a.Timeline = r.story.timeline.cut(v)
				c.Open = true
				if c.Class != "fail" {
					c.Class, c.Word = a.Class, a.Word
				}
			}
			if n := len(a.Evidence); n > maxEvidence {
				a.Evidence, a.More = a.Evidence[:maxEvidence], n-maxEvidence
			}
			c.Runs = append(c.Runs, a)
		}
	}
	return list
}

// class is the style of a verdict.
func class(verdict string) string {
	switch verdict {
	case results.Pass, results.Fail:
		return verdict
	}
	return "unsure"
}

// runView is what the page says about one run beside its checks.
type runView struct {
	Name, Status, Error string
	Faults              []faultView
	Listed              bool
	Prefixes            []prefixView
	Uploads, Bad        int64
	Retained            []retainedView
	Requests            []requestView
	Facts               [][2]string
	Notes               []string
}

type faultView struct{ ID, Kind, Where, Proof string }

type prefixView struct {
	Prefix       string
	Count, Bytes int64
}

type retainedView struct {
	ID                           uint64
	Word, Class                  string
	Parallelism, Objects, Groups int
	Bytes, Elements              int64
}

type requestView struct {
	Cause, Op                                            string
	Count, Bytes, Errors, Injected, Throttled, Ambiguous int64
}

func (r *Run) view() runView {
	v := runView{Name: r.Entry.Name, Status: r.Entry.Status, Error: r.Entry.Error, Listed: r.stored.listed, Uploads: r.stored.uploads, Bad: r.stored.bad, Notes: r.story.notes}
	for _, f := range r.story.faults {
		proof := "hit and healed"
		switch {
		case f.missed != "":
			proof = f.missed
		case !f.hit:
			proof = "no effect was seen"
		case !f.healed:
			proof = "hit, not healed"
		}
		v.Faults = append(v.Faults, faultView{f.id, f.kind, f.where, proof})
	}
	for _, p := range r.stored.prefixes {
		v.Prefixes = append(v.Prefixes, prefixView{p.prefix, p.count, p.size})
	}
	for _, c := range r.stored.retained {
		row := retainedView{ID: c.id, Word: "restored, equals the model", Class: "pass", Parallelism: c.parallelism, Objects: c.objects, Bytes: c.bytes, Groups: c.groups, Elements: c.elements}
		switch {
		case !c.ok:
			row.Word, row.Class = "not restored: "+c.err, "fail"
		case c.differing > 0:
			row.Word, row.Class = plural(c.differing, "group")+" unlike the model", "fail"
		}
		v.Retained = append(v.Retained, row)
	}
	for _, q := range r.traffic.rows {
		v.Requests = append(v.Requests, requestView{q.cause, q.op, q.count, q.bytes, q.errors, q.injected, q.throttled, q.ambiguous})
	}
	s := &r.story
	v.Facts = append(v.Facts, [2]string{"events", formatCount(s.events)}, [2]string{"materializations", fmt.Sprintf("%s confirmed, %s failed", formatCount(int64(s.materializations)), formatCount(int64(s.failed)))},
		[2]string{"took", r.Entry.Took.Round(100 * time.Millisecond).String()})
	if r.Entry.Digest != "" {
		v.Facts = append(v.Facts, [2]string{"digest", r.Entry.Digest})
	}
	return v
}

// facts describe the machine and the program.
func (inv *Invocation) facts() (list [][2]string) {
	m := &inv.Manifest
	add := func(name, value string) {
		if strings.TrimSpace(value) != "" {
			list = append(list, [2]string{name, oneLine(value)})
		}
	}
	commit := m.Version.Commit
	if m.Version.Dirty {
		commit += " with changes"
	}
	memory := ""
	if m.Host.MemoryBytes > 0 {
		memory = ", " + formatBytes(float64(m.Host.MemoryBytes)) + " memory"
	}
	add("started", m.Started.UTC().Format("2006-01-02 15:04:05 UTC")+", took "+m.Took.Round(100*time.Millisecond).String())
	add("machine", fmt.Sprintf("%s/%s, %s%s", m.Host.OS, m.Host.Arch, plural(m.Host.Cores, "core"), memory))
	add("program", m.Version.Go)
	add("commit", commit)
	add("executable sha256", m.Version.Executable)
	add("world", m.World)
	add("store", m.Store)
	add("store profile", m.Profile)
	add("failure detection", m.Detection)
	add("seed", fmt.Sprint(m.Seed))
	add("baseline", m.Baseline)
	add("repetitions", fmt.Sprint(m.Repetitions))
	add("scenario sha256", m.Resolved)
	add("digest of the history", m.Digest)
	add("schema", fmt.Sprint(m.Schema))
	add("outcome", fmt.Sprintf("exit %d, %s", m.Exit, m.Outcome))
	return list
}
