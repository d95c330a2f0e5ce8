package report

import (
	"slices"
	"strings"

	"statebench.dev/bench/internal/plan"
)

// arm is one variant with all runs of it that left something behind.
type arm struct {
	name     string
	short    string // without what all names begin with
	baseline bool
	plan     *plan.Plan // of its first run; nil: none was started
	runs     []*Run
}

// arms are those of the invocation, in order of the manifest.
func (inv *Invocation) arms() []*arm {
	var all []*arm
	for _, r := range inv.Runs {
		i := slices.IndexFunc(all, func(a *arm) bool { return a.name == r.Entry.Arm })
		if i < 0 {
			i = len(all)
			all = append(all, &arm{name: r.Entry.Arm, short: r.Entry.Arm, baseline: r.Entry.Arm == inv.Manifest.Baseline})
		}
		if r.Plan == nil {
			continue
		}
		all[i].runs = append(all[i].runs, r)
		if all[i].plan == nil {
			all[i].plan = r.Plan
		}
	}
	shorten(all)
	return all
}

// shorten drops the words that all names begin with: changelog-off and changelog-on become off and on.
func shorten(all []*arm) {
	if len(all) < 2 {
		return
	}
	common := all[0].name
	for _, a := range all[1:] {
		n := 0
		for n < len(common) && n < len(a.name) && common[n] == a.name[n] {
			n++
		}
		common = common[:n]
	}
	common = common[:strings.LastIndexByte(common, '-')+1]
	for _, a := range all {
		if a.name == common || strings.TrimPrefix(a.name, common) == "" {
			return
		}
	}
	for _, a := range all {
		a.short = strings.TrimPrefix(a.name, common)
	}
}

// base is the arm that the others are compared with; nil when it is not among them.
func base(all []*arm) *arm {
	for _, a := range all {
		if a.baseline {
			return a
		}
	}
	return nil
}

// measuredPhase is a phase that counts in statistics.
type measuredPhase struct {
	name string
	// why says why its figures are shown but not compared; empty: they are.
	why string
	// timed: it is measured in time, so that arms need not have done the same work in it.
	timed bool
}

// phases lists the phases that count in statistics, in order. A phase is compared when all arms got the same faults and
// rescales in it, at places that do not depend on how an arm behaves.
func phases(all []*arm) []measuredPhase {
	var first *plan.Plan
	for _, a := range all {
		if first == nil {
			first = a.plan
		}
	}
	if first == nil {
		return nil
	}
	var list []measuredPhase
	for _, p := range first.Phases {
		if p.Discard || p.Until != "" {
			continue
		}
		list = append(list, measuredPhase{name: p.Name, why: incomparable(all, first, p.Name), timed: p.For > 0})
	}
	return list
}

func incomparable(all []*arm, first *plan.Plan, phase string) string {
	for _, a := range all {
		if a.plan != nil && !a.plan.SameDisturbances(first, phase) {
			return "its faults or rescales differ between the arms"
		}
	}
	if placed := first.PlacedByEvent(phase); placed != "" {
		return placed + " is placed by an event, which comes at another place in each arm"
	}
	return ""
}

// window is a set of phases that figures are taken over.
type window []string

func (w window) has(phase string) bool { return slices.Contains(w, phase) }

// comparedWindow is all phases that may be compared; when there is none, all that are measured.
func comparedWindow(list []measuredPhase) (w window, compared bool) {
	for _, p := range list {
		if p.why == "" {
			w = append(w, p.name)
		}
	}
	if len(w) > 0 {
		return w, true
	}
	for _, p := range list {
		w = append(w, p.name)
	}
	return w, false
}
