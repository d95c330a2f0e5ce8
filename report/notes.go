package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/stats"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// warnings are what limits the figures, most serious first.
func (inv *Invocation) warnings(t *table) (list []string) {
	m := &inv.Manifest
	if m.Outcome == results.Running {
		list = append(list, "the program ended before this invocation did")
	}
	for _, r := range inv.Runs {
		switch {
		case r.Entry.Status == statusNotRun:
			list = append(list, r.Entry.Name+" was not run")
		case r.Entry.Status != statusFinished:
			list = append(list, strings.TrimSuffix(fmt.Sprintf("%s %s: %s", r.Entry.Name, r.Entry.Status, r.Entry.Error), ": "))
		case r.Entry.Error != "":
			list = append(list, r.Entry.Name+": "+r.Entry.Error)
		}
		list = append(list, r.Problems...)
	}
	for _, w := range m.Warnings {
		if !slices.Contains(list, w) {
			list = append(list, w)
		}
	}
	for _, p := range phases(t.arms) {
		if p.why != "" && len(t.arms) > 1 {
			list = append(list, fmt.Sprintf("phase %s is shown, not compared: %s", p.name, p.why))
		}
		if p.timed && p.why == "" && len(t.arms) > 1 {
			list = append(list, fmt.Sprintf("phase %s is measured in time: the arms need not have done the same work in it", p.name))
		}
	}
	list = append(list, t.pacingWarnings()...)
	if t.base != nil {
		reps := "one repetition"
		if m.Repetitions > 1 {
			reps = fmt.Sprintf("%d repetitions put together", m.Repetitions)
		}
		list = append(list, reps+": differences are not tested")
	}
	for i := range list {
		list[i] = clip(oneLine(list[i]), 300)
	}
	return list
}

// notes are statements derived from the figures that help to read them.
func (inv *Invocation) notes(t *table) (list []string) {
	if n := noGain(t); n != "" {
		list = append(list, n)
	}
	if n := inv.putNote(t); n != "" {
		list = append(list, n)
	}
	if t.sim && slices.ContainsFunc(t.arms, func(a *arm) bool { return a.plan != nil && a.plan.Backend.Name == incremental }) {
		list = append(list, "backend lsm was simulated by itself: the database ran, on files in memory and with small memtables; what its work took "+
			"comes from a cost model, and what checkpoints share from this policy")
	}
	for _, r := range inv.Runs {
		if text := r.savepointText(t.sim); text != "" {
			list = append(list, "savepoints of "+oneLine(r.Entry.Name)+": "+text)
		}
		if text := r.startText(); text != "" {
			list = append(list, "starts of "+oneLine(r.Entry.Name)+": "+text)
		}
	}
	if at := inv.Manifest.ObjectsAt; at != "" {
		list = append(list, "the objects were kept: "+oneLine(at))
	}
	return list
}

// incremental is the backend whose snapshots are not all of its state.
const incremental = "lsm"

// noGain says, from the figures, that a changelog has nothing to save where a subtask's whole state is smaller than what the
// changelog lets gather before it uploads ahead of a checkpoint.
func noGain(t *table) string {
	on := changelogArm(t.arms)
	if t.base == nil || on == nil || t.base.plan == nil || t.base.plan.Backend.Changelog.Enabled || t.base.plan.Backend.Name == incremental {
		return ""
	}
	full := stats.Quantile(t.base.sample(t.window, func(c *results.CheckpointRow) results.Opt { return c.Full }), 0.5)
	writers, threshold := t.base.writers(), float64(on.plan.Backend.Changelog.Preemptive)
	if !full.OK() || writers <= 0 || full.Value/writers >= threshold {
		return ""
	}
	text := fmt.Sprintf("no gain to speak of is to be expected from the changelog here: %s holds %s in about %s, %s each, below the pre-emptive "+
		"threshold of %s (%s), so that its full snapshots are small already",
		t.base.name, formatBytes(full.Value), plural(int(math.Round(writers)), "subtask"), formatBytes(full.Value/writers), formatBytes(threshold), on.name)
	before, after := t.base.medianDuration(t.window), on.medianDuration(t.window)
	if before.OK() && after.OK() {
		text += fmt.Sprintf("; a checkpoint took %s against %s", unitMillis.format(before.Value, t.sim), unitMillis.format(after.Value, t.sim))
	}
	return text
}

// medianDuration is that of the completed checkpoints of a window.
func (a *arm) medianDuration(w window) stats.Figure {
	return stats.Quantile(a.sample(w, func(c *results.CheckpointRow) results.Opt { return c.Duration }), 0.5)
}

// minPuts is how many puts the note about their duration takes.
const minPuts = 20

// putNote says what a put took, since that decides whether a changelog pays.
func (inv *Invocation) putNote(t *table) string {
	if t.sim {
		return "the simulated store answers by a cost model: compare arms within a run, not with measured runs"
	}
	var parts []string
	for _, a := range t.arms {
		puts := hdrhistogram.New(1, maxMicros, 3)
		for _, r := range a.runs {
			if r.traffic.puts != nil {
				puts.Merge(r.traffic.puts)
			}
		}
		if puts.TotalCount() >= minPuts {
			parts = append(parts, fmt.Sprintf("%s in %s", formatMillis(float64(puts.ValueAtQuantile(50))/1000), a.name))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	profile, other := oneLine(inv.Manifest.Profile), "the same under `--profile local` shows this machine's own store"
	if profile == "local" {
		other = "a remote S3 adds tens of milliseconds to each, as under `--profile s3-standard`"
	}
	return fmt.Sprintf("the median PUT took %s under profile %s, and whether a changelog pays depends on that; %s", list(parts), profile, other)
}

// comparison is what the key table says about one arm against the baseline.
type comparison struct {
	arm           *arm
	better, worse []string
	none          bool // of the figures could be compared
}

// notable differences are ratios outside of this band.
const (
	bandLow  = 0.95
	bandHigh = 1.05
)

// compare lists, for each arm, the figures at which it is better and worse than the baseline.
func compare(t *table) (all []comparison) {
	if t.base == nil {
		return nil
	}
	at := slices.Index(t.arms, t.base)
	for i, a := range t.arms {
		if a == t.base {
			continue
		}
		c := comparison{arm: a, none: true}
		for _, r := range t.rows {
			if r.better == neither {
				continue
			}
			ratio := stats.Ratio(r.figures[i], r.figures[at])
			if !ratio.OK() {
				continue
			}
			c.none = false
			if ratio.Value >= bandLow && ratio.Value <= bandHigh {
				continue
			}
			text := fmt.Sprintf("%s ×%s", r.name, formatRatio(ratio.Value))
			if (ratio.Value < 1) == (r.better == lower) {
				c.better = append(c.better, text)
			} else {
				c.worse = append(c.worse, text)
			}
		}
		all = append(all, c)
	}
	return all
}

// sentence puts a comparison into words. It claims no more than that the figures were seen: nothing tells yet what a
// repetition would give.
func (c comparison) sentence(base string) string {
	part := func(word string, what []string) string {
		if len(what) == 0 {
			return ""
		}
		return word + ": " + strings.Join(what, ", ")
	}
	var parts []string
	for _, p := range []string{part("better", c.better), part("worse", c.worse)} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if c.none {
		return fmt.Sprintf("%s against %s: there are no figures of both to compare", c.arm.name, base)
	}
	if len(parts) == 0 {
		return fmt.Sprintf("%s against %s: no figure differs by more than 5 %%", c.arm.name, base)
	}
	return fmt.Sprintf("%s against %s, as seen and not tested: %s", c.arm.name, base, strings.Join(parts, " · "))
}

// tally counts verdicts over all runs.
type tally struct{ pass, fail, inconclusive int }

// text is the counts in words.
func (n tally) text() string {
	return fmt.Sprintf("%d pass · %d fail · %d inconclusive", n.pass, n.fail, n.inconclusive)
}

func (inv *Invocation) tally() (n tally) {
	for _, r := range inv.Runs {
		for _, v := range r.Verdicts {
			switch v.Verdict {
			case results.Pass:
				n.pass++
			case results.Fail:
				n.fail++
			default:
				n.inconclusive++
			}
		}
	}
	return n
}

// faultCounts are how many planned faults of all runs were proven hit and healed.
func (inv *Invocation) faultCounts() (planned, hit, healed int) {
	for _, r := range inv.Runs {
		if r.Plan == nil {
			continue
		}
		planned += len(r.Plan.Faults)
		for _, f := range r.story.faults {
			if f.hit {
				hit++
			}
			if f.healed {
				healed++
			}
		}
	}
	return planned, hit, healed
}

// rescaleCounts are how many rescales were planned in all runs, and how many were carried through.
func (inv *Invocation) rescaleCounts() (planned, done int) {
	for _, r := range inv.Runs {
		if r.Plan == nil {
			continue
		}
		planned += len(r.Plan.Rescales)
		for _, b := range r.story.bands {
			if b.rescale && b.ended && b.id != stopped {
				done++
			}
		}
	}
	return planned, done
}

// disturbed says in words what became of the faults and rescales of the plans; empty where there are none.
func (inv *Invocation) disturbed(between string) string {
	var parts []string
	if planned, hit, healed := inv.faultCounts(); planned > 0 {
		parts = append(parts, fmt.Sprintf("faults %d planned, %d hit, %d healed", planned, hit, healed))
	}
	if planned, done := inv.rescaleCounts(); planned+done > 0 {
		parts = append(parts, fmt.Sprintf("rescales %d planned, %d done", planned, done))
	}
	return strings.Join(parts, between)
}

// savepointText says in words which savepoints a run took; empty where there are none.
func (r *Run) savepointText(sim bool) string {
	var parts []string
	failed := 0
	for _, p := range r.story.savepoints {
		if !p.completed {
			failed++
			continue
		}
		parts = append(parts, fmt.Sprintf("%s, %s in %s", oneLine(p.form), formatBytes(float64(p.bytes)), unitMillis.format(p.millis, sim)))
	}
	if failed > 0 {
		parts = append(parts, fmt.Sprintf("%d aborted", failed))
	}
	return strings.Join(parts, "; ")
}

// startText says in words from what a run's job was started, and who owned that; empty where it never was stopped.
func (r *Run) startText() string {
	var parts []string
	for _, s := range r.story.starts {
		parts = append(parts, fmt.Sprintf("%s %d, %s, parallelism %d", oneLine(s.from), s.checkpoint, oneLine(s.mode), s.parallelism))
	}
	return strings.Join(parts, "; ")
}

// startModes names the modes in which jobs of the runs were started, each once; empty where none was.
func (inv *Invocation) startModes() string {
	seen := map[string]bool{}
	for _, r := range inv.Runs {
		for _, s := range r.story.starts {
			seen[s.mode] = true
		}
	}
	if len(seen) == 0 {
		return ""
	}
	return "starts " + strings.Join(slices.Sorted(maps.Keys(seen)), ", ")
}

// again lists the command lines that repeat the invocation, one run of it, and the judging. All of them exist.
func (inv *Invocation) again() (lines []string) {
	if c := inv.command(); c != "" {
		lines = append(lines, c)
	}
	for i := len(inv.Runs) - 1; i >= 0; i-- {
		if r := inv.Runs[i]; r.Plan != nil {
			lines = append(lines, inv.repeat(r))
			break
		}
	}
	dir := shellWord(string(inv.Dir))
	return append(lines, "bench check "+dir, "bench report "+dir)
}

// repeat is the command line that repeats one run.
func (inv *Invocation) repeat(r *Run) string {
	return "bench run --plan " + shellWord(inv.Dir.Run(r.Entry.Name).Path(results.PlanFile))
}

// command is the command line that made the results, with the seed, should that have been drawn.
func (inv *Invocation) command() string {
	args := inv.Manifest.Command
	if len(args) < 2 || args[1] != "run" {
		return ""
	}
	words := []string{"bench"}
	seeded := false
	for _, a := range args[1:] {
		words = append(words, shellWord(oneLine(a)))
		seeded = seeded || a == "--seed" || strings.HasPrefix(a, "--seed=") || a == "--plan" || strings.HasPrefix(a, "--plan=")
	}
	if !seeded {
		words = append(words, fmt.Sprintf("--seed %d", inv.Manifest.Seed))
	}
	return strings.Join(words, " ")
}
