package compare

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"statebench.dev/bench/internal/plan"
)

// Side is one variant with all its runs.
type Side struct {
	Name string
	Runs []*Run
}

// Sides finds what is to be compared. Of one invocation (b is nil) it is the baseline with each other arm. Of two it is each
// arm with that of the same name, or the only arm of one with the only arm of the other. The error says what is missing.
func Sides(a, b []*Run) ([][2]Side, error) {
	armsA, armsB := arms(a), arms(b)
	if b == nil {
		i := slices.IndexFunc(armsA, func(s Side) bool { return len(a) > 0 && s.Name == a[0].Manifest.Baseline })
		if i < 0 || len(armsA) < 2 {
			return nil, fmt.Errorf("the runs are of %s: name a second results directory, or one with a baseline and another arm", names(armsA))
		}
		var out [][2]Side
		for k, s := range armsA {
			if k != i {
				out = append(out, [2]Side{armsA[i], s})
			}
		}
		return out, nil
	}
	if len(armsA) == 1 && len(armsB) == 1 {
		return [][2]Side{label(armsA[0], armsB[0])}, nil
	}
	var out [][2]Side
	for _, s := range armsA {
		if i := slices.IndexFunc(armsB, func(x Side) bool { return x.Name == s.Name }); i >= 0 {
			out = append(out, label(s, armsB[i]))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no arm stands on both sides: %s against %s; name one run or one arm of each", names(armsA), names(armsB))
	}
	return out, nil
}

// label tells arms of the same name apart.
func label(a, b Side) [2]Side {
	if a.Name == b.Name {
		a.Name, b.Name = "A "+a.Name, "B "+b.Name
	}
	return [2]Side{a, b}
}

// arms are the variants in order of appearance.
func arms(runs []*Run) (list []Side) {
	for _, r := range runs {
		i := slices.IndexFunc(list, func(s Side) bool { return s.Name == r.Entry.Arm })
		if i < 0 {
			i = len(list)
			list = append(list, Side{Name: r.Entry.Arm})
		}
		list[i].Runs = append(list[i].Runs, r)
	}
	return list
}

func names(list []Side) string {
	var all []string
	for _, s := range list {
		all = append(all, s.Name)
	}
	if len(all) == 0 {
		return "no arm"
	}
	return strings.Join(all, ", ")
}

// plan is that of the first run that has one; nil: none has.
func (s Side) plan() *plan.Plan {
	for _, r := range s.Runs {
		if r.Plan != nil {
			return r.Plan
		}
	}
	return nil
}

// valid are the runs that count.
func (s Side) valid() (list []*Run) {
	for _, r := range s.Runs {
		if r.Valid() {
			list = append(list, r)
		}
	}
	return list
}

// RunPair is two runs that belong together.
type RunPair struct{ A, B *Run }

// pairUp puts valid runs with the same seed together, the first with the first where there are several. alone are those
// without a partner.
func pairUp(a, b Side) (pairs []RunPair, alone []*Run) {
	rest := b.valid()
	for _, r := range a.valid() {
		i := slices.IndexFunc(rest, func(x *Run) bool { return x.Plan.Seed == r.Plan.Seed })
		if i < 0 {
			alone = append(alone, r)
			continue
		}
		pairs = append(pairs, RunPair{r, rest[i]})
		rest = slices.Delete(rest, i, i+1)
	}
	return pairs, append(alone, rest...)
}

// blocked tells whether all runs of one side came before all of the other.
func blocked(pairs []RunPair) bool {
	if len(pairs) < 2 {
		return false
	}
	before, after := 0, 0
	for _, p := range pairs {
		for _, q := range pairs {
			if p.A.Began.Before(q.B.Began) {
				before++
			} else {
				after++
			}
		}
	}
	return before == 0 || after == 0
}

// Difference is one setting in which two variants, their programs or their hosts differ.
type Difference struct {
	Key  string `json:"key"`
	A, B string
	// Arm: it is a setting of the state backend, which variants are made to differ in.
	Arm bool `json:"arm"`
}

// differences lists them: settings of the plans, then program, host and store.
func differences(a, b *Run) (list []Difference) {
	add := func(key, x, y string) {
		if x != y {
			list = append(list, Difference{Key: key, A: orDash(x), B: orDash(y), Arm: strings.HasPrefix(key, "backend.")})
		}
	}
	x, y := settings(a.Plan), settings(b.Plan)
	all := maps.Clone(x)
	maps.Copy(all, y)
	for _, k := range slices.Sorted(maps.Keys(all)) {
		add(k, x[k], y[k])
	}
	m, n := a.Manifest, b.Manifest
	add("program", m.Version.Commit+m.Version.Executable+dirty(m.Version.Dirty), n.Version.Commit+n.Version.Executable+dirty(n.Version.Dirty))
	add("go", m.Version.Go, n.Version.Go)
	add("host", fmt.Sprintf("%s/%s, %d cores, %s", m.Host.OS, m.Host.Arch, m.Host.Cores, size(float64(m.Host.MemoryBytes))),
		fmt.Sprintf("%s/%s, %d cores, %s", n.Host.OS, n.Host.Arch, n.Host.Cores, size(float64(n.Host.MemoryBytes))))
	add("store made from", m.StoreAbout, n.StoreAbout)
	add("detection", m.Detection, n.Detection)
	return list
}

// settings leaves out what names a run or does nothing to it.
func settings(p *plan.Plan) map[string]string {
	return p.Settings("schema", "arm", "rep", "baseline", "about", "seed", "charts", "expect")
}

func dirty(is bool) string {
	if is {
		return " with changes"
	}
	return ""
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return oneLine(s)
}

// phase is one that both variants went through.
type phase struct {
	name    string
	records int64  // its length, where it is measured in records
	why     string // why it is not compared; empty: it is
	faults  bool   // it is disturbed
}

// phases lists those that count in statistics. A phase is compared when both variants had the same to do in it, with the same
// faults and rescales at places that do not depend on how a variant behaves.
func phases(a, b *plan.Plan) (list []phase) {
	for _, p := range a.Phases {
		if p.Discard || p.Until != "" || len(p.Steps) > 0 {
			continue
		}
		list = append(list, phase{name: p.Name, records: p.Records, why: incomparable(a, b, p), faults: disturbed(a, p.Name)})
	}
	return list
}

func incomparable(a, b *plan.Plan, p plan.Phase) string {
	i := slices.IndexFunc(b.Phases, func(x plan.Phase) bool { return x.Name == p.Name })
	switch {
	case i < 0:
		return "the other variant has no such phase"
	case b.Phases[i].Records != p.Records || b.Phases[i].For != p.For || b.Phases[i].Discard:
		return "it is not as long in the other variant"
	case !a.SameDisturbances(b, p.Name):
		return "its faults or rescales differ between the variants"
	}
	if placed := a.PlacedByEvent(p.Name); placed != "" {
		return placed + " is placed by an event, which comes at another place in each variant"
	}
	return ""
}
