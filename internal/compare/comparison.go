package compare

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"statebench.dev/bench/internal/metrics"
)

// Options say what is judged, and how.
type Options struct {
	// Primary are the metrics that decide, as phase/metric, with * and ? as in file names: their verdicts make the exit code
	// and hold together as a family. Empty: the recovery-point age and lateness of the first phase that is compared, the
	// restore of the first with a recovery, and the bytes a record.
	Primary []string
	// Advisory are shown beside; empty: a choice of the metrics of each phase.
	Advisory []string
	// Floor is that of noisy metrics as a share, Level what intervals cover; 0: the defaults.
	Floor, Level float64
}

// Comparison is one variant against another.
type Comparison struct {
	Scenario, World, Store, Profile string
	A, B                            Side
	Level                           float64
	// Differences are those of settings, program and host.
	Differences []Difference
	// Pairs are the runs that count, Alone those that would and have no partner.
	Pairs []RunPair
	Alone []*Run
	// Invalid are the runs that do not count.
	Invalid []*Run
	// Unpaired: no two runs have the same seed, so that samples are compared, not pairs.
	Unpaired bool
	// Void says why nothing can be concluded at all; empty: it can.
	Void string
	// Warnings say what weakens the answer.
	Warnings []string
	// Rows are the metrics, primary ones first, then by phase.
	Rows []Row
}

// Row is one metric of one phase.
type Row struct {
	Phase   string
	Metric  metrics.Metric
	Primary bool
	Judgement
	// Missing says how many runs have no such figure, and why; empty: all have.
	Missing string
	// Values are those of the pairs that were judged; none for samples without pairs.
	Values []Pair
}

// Name is phase/metric.
func (r *Row) Name() string { return r.Phase + "/" + r.Metric.Name }

// maxInvalid is the share of runs that may be invalid.
const maxInvalid = 0.3

// mostPrimary is how many tested metrics a family should have at most: each makes the others harder to prove.
const mostPrimary = 3

// Compare decides which runs count, pairs them, and judges the metrics of each pair of sides. An error wraps
// results.ErrDamaged, or says which metric or phase does not exist.
func Compare(sides [][2]Side, o Options) ([]*Comparison, error) {
	var all []*Run
	for _, s := range sides {
		for _, r := range slices.Concat(s[0].Runs, s[1].Runs) {
			if !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
	}
	if err := Examine(all); err != nil {
		return nil, err
	}
	if o.Floor == 0 {
		o.Floor = NoisyFloor
	}
	if o.Level == 0 {
		o.Level = DefaultLevel
	}
	var list []*Comparison
	for _, s := range sides {
		c := &Comparison{A: s[0], B: s[1], Level: o.Level}
		if err := c.compare(o); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// simulated tells whether times come from a cost model.
func (c *Comparison) simulated() bool { return c.World == "sim" }

func (c *Comparison) compare(o Options) error {
	m := c.A.Runs[0].Manifest
	c.Scenario, c.World, c.Store, c.Profile = m.Scenario, m.World, m.Store, m.Profile
	if n := c.B.Runs[0].Manifest; n.World != m.World {
		return fmt.Errorf("%s was measured in world %s, %s in world %s: the two are never mixed", c.A.Name, m.World, c.B.Name, n.World)
	} else if n.Profile != m.Profile || n.Store != m.Store {
		c.Store, c.Profile = m.Store+" against "+n.Store, m.Profile+" against "+n.Profile
	}
	for _, r := range slices.Concat(c.A.Runs, c.B.Runs) {
		if !r.Valid() {
			c.Invalid = append(c.Invalid, r)
		}
	}
	pa, pb := c.A.plan(), c.B.plan()
	if pa == nil || pb == nil {
		c.Void = "one variant was not run"
		return nil
	}
	first := func(s Side) *Run {
		return s.Runs[slices.IndexFunc(s.Runs, func(r *Run) bool { return r.Plan != nil })]
	}
	c.Differences = differences(first(c.A), first(c.B))
	c.match()
	list := phases(pa, pb)
	for _, p := range list {
		if p.why != "" {
			c.Warnings = append(c.Warnings, fmt.Sprintf("phase %s is not compared: %s", p.name, p.why))
		}
	}
	list = slices.DeleteFunc(list, func(p phase) bool { return p.why != "" })
	if len(list) == 0 && c.Void == "" {
		c.Void = "no phase can be compared"
	}
	return c.judge(list, o)
}

// match pairs the runs and says what is wrong with them as a whole.
func (c *Comparison) match() {
	c.Pairs, c.Alone = pairUp(c.A, c.B)
	total := len(c.A.Runs) + len(c.B.Runs)
	for _, d := range c.Differences {
		switch {
		case strings.HasPrefix(d.Key, "workload.") || strings.HasPrefix(d.Key, "inputs."):
			c.Void = fmt.Sprintf("the variants had different work to do: %s is %s against %s", d.Key, d.A, d.B)
		case !d.Arm && c.A.Runs[0].Invocation == c.B.Runs[0].Invocation && !strings.HasPrefix(d.Key, "faults.") && !strings.HasPrefix(d.Key, "rescales."):
			c.Void = fmt.Sprintf("arms of one scenario may differ in their backend only: %s is %s against %s", d.Key, d.A, d.B)
		}
	}
	switch {
	case float64(len(c.Invalid)) > maxInvalid*float64(total):
		c.Void = fmt.Sprintf("%d of %d runs do not count, more than %s", len(c.Invalid), total, percent(maxInvalid))
	case len(c.A.valid()) == 0 || len(c.B.valid()) == 0:
		c.Void = "no run of one variant counts"
	case len(c.Pairs) == 0:
		c.Unpaired = true
		c.Warnings = append(c.Warnings, "no two runs have the same seed: weak evidence, since a host that changed in between looks like a difference")
	case len(c.Alone) > 0:
		c.Warnings = append(c.Warnings, fmt.Sprintf("%s without a partner, left out", plural(len(c.Alone), "run")))
	}
	if !c.simulated() && blocked(c.Pairs) {
		c.Warnings = append(c.Warnings, fmt.Sprintf("all runs of one variant came before all of the other: weak evidence, since a host that drifts looks like a difference; `bench compare scenarios/%s.yaml --pairs N` alternates", c.Scenario))
	}
}

// judge makes the rows.
func (c *Comparison) judge(list []phase, o Options) error {
	primary, err := choose(o.Primary, list)
	if err != nil {
		return err
	}
	patterns := o.Advisory
	if len(patterns) == 0 {
		patterns = advisory(list)
	}
	shown, err := choose(patterns, list)
	if err != nil {
		return err
	}
	exact := counted(c.A.plan())
	candidates := slices.Concat(groups(list)...)
	for _, r := range c.counting() {
		if err := r.measure(slices.Concat(primary, candidates, shown, exact)); err != nil {
			return err
		}
	}
	if len(primary) == 0 {
		primary = c.pick(groups(list))
	}
	for _, k := range exact {
		c.add(k, false, o)
	}
	for _, k := range primary {
		c.add(k, true, o)
	}
	for _, k := range shown {
		if !slices.Contains(primary, k) && !slices.Contains(exact, k) {
			c.add(k, false, o)
		}
	}
	c.settle()
	return nil
}

// counting are the runs whose figures are looked at.
func (c *Comparison) counting() (runs []*Run) {
	if c.Unpaired {
		return slices.Concat(c.A.valid(), c.B.valid())
	}
	for _, p := range c.Pairs {
		runs = append(runs, p.A, p.B)
	}
	return runs
}

// add judges one metric. What nobody asked for and no run has is left out.
func (c *Comparison) add(k key, primary bool, o Options) {
	m, err := metrics.Lookup(k.metric)
	if err != nil {
		return // it was looked up before
	}
	row := Row{Phase: k.phase, Metric: m, Primary: primary}
	rule := DefaultRule(m, o.Floor, o.Level)
	if k.phase == wholeRun {
		rule.Class, rule.Floor = Exact, 0
	}
	missing, why := 0, ""
	take := func(r *Run) (float64, bool) {
		f := r.figures[k]
		if !f.OK() {
			missing, why = missing+1, f.Warning
		}
		return f.Value, f.OK()
	}
	if c.Unpaired {
		var a, b []float64
		for _, r := range c.A.valid() {
			if v, ok := take(r); ok {
				a = append(a, v)
			}
		}
		for _, r := range c.B.valid() {
			if v, ok := take(r); ok {
				b = append(b, v)
			}
		}
		row.Judgement = JudgeUnpaired(a, b, rule)
	} else {
		for _, p := range c.Pairs {
			a, okA := take(p.A)
			b, okB := take(p.B)
			if okA && okB {
				row.Values = append(row.Values, Pair{a, b})
			}
		}
		row.Judgement = Judge(row.Values, rule)
	}
	if row.Pairs == 0 && !primary {
		return
	}
	if missing > 0 {
		row.Missing = fmt.Sprintf("%d of %d runs have none: %s", missing, len(c.counting()), why)
	}
	c.Rows = append(c.Rows, row)
}

// settle holds the verdicts of families together and blocks those of phases that tell nothing.
func (c *Comparison) settle() {
	slices.SortStableFunc(c.Rows, func(a, b Row) int {
		switch {
		case a.Primary == b.Primary:
			return 0
		case a.Primary:
			return -1
		}
		return 1
	})
	var family, others []*Judgement
	for i := range c.Rows {
		if r := &c.Rows[i]; r.Primary {
			family = append(family, &r.Judgement)
		} else {
			others = append(others, &r.Judgement)
		}
	}
	Holm(family)
	Advisory(others)
	tested := 0
	for _, j := range family {
		if j.tested {
			tested++
		}
	}
	if tested > mostPrimary {
		c.Warnings = append(c.Warnings, fmt.Sprintf("%d primary metrics are tested: each one makes the others harder to prove, %d should do", tested, mostPrimary))
	}
	unequal := c.unequal()
	for i := range c.Rows {
		r := &c.Rows[i]
		why := c.unsteady(r.Phase)
		switch {
		case c.Void != "":
			r.Block(c.Void)
		case r.rule.Class != Exact && unequal:
			r.Block("the variants did not do the same work")
		case r.Primary && r.Missing != "" && r.Verdict != Regression:
			r.Block("runs without a figure may be the worst ones")
		case why != "" && r.rule.Class == Noisy && r.Metric.Timed():
			r.Block(why)
		}
	}
}

// unequal tells whether something differs that must not.
func (c *Comparison) unequal() bool {
	return slices.ContainsFunc(c.Rows, func(r Row) bool { return r.rule.Class == Exact && r.Pairs > 0 && r.Verdict != Equivalent })
}

// unsteady says so when more than half of the runs of a variant drift in a phase.
func (c *Comparison) unsteady(phase string) string {
	for _, s := range []Side{c.A, c.B} {
		drifting, n := 0, 0
		for _, r := range s.Runs {
			if r.figures == nil {
				continue
			}
			n++
			if _, ok := r.drifts[phase]; ok {
				drifting++
			}
		}
		if 2*drifting > n {
			return fmt.Sprintf("%s drifts: checkpoints of the last third of the phase last longer or shorter than those of the first, in %d of %d runs", s.Name, drifting, n)
		}
	}
	return ""
}

// choose finds the metrics that patterns stand for.
func choose(patterns []string, list []phase) (keys []key, err error) {
	for _, p := range patterns {
		name, metric, ok := strings.Cut(p, "/")
		if !ok {
			return nil, fmt.Errorf("metric %q has no phase: write phase/metric, such as steady/recoveryPointAge.p99w", p)
		}
		plain := !strings.ContainsAny(metric, "*?[")
		if plain {
			m, err := metrics.Lookup(metric)
			if err != nil {
				return nil, err
			}
			if m.Better == metrics.Neither {
				return nil, fmt.Errorf("metric %s is neither better nor worse when it is larger", metric)
			}
		}
		n := len(keys)
		for _, ph := range list {
			if ok, err := path.Match(name, ph.name); err != nil || !ok {
				continue
			}
			for _, m := range metrics.All() {
				if ok, err := path.Match(metric, m.Name); err == nil && ok && m.Better != metrics.Neither && !slices.Contains(keys, key{ph.name, m.Name}) {
					keys = append(keys, key{ph.name, m.Name})
				}
			}
		}
		if len(keys) == n {
			var known []string
			for _, ph := range list {
				known = append(known, ph.name)
			}
			return nil, fmt.Errorf("%q stands for no metric of a phase that is compared (%s); `bench list metrics` names the metrics", p, strings.Join(known, ", "))
		}
	}
	return keys, nil
}
