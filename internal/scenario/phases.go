package scenario

import (
	"math"
	"slices"
	"strings"
	"time"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/registry"
)

// The closing phases, in their order. Each is there in every scenario: one that the file leaves out is added.
const (
	healName   = "heal"
	drainName  = "drain"
	verifyName = "verify"
)

// closing is the closing phase of a name with its defaults; ok is false for a name of the user's own.
func closing(name string) (p plan.Phase, ok bool) {
	switch name {
	case healName:
		return plan.Phase{Name: name, Until: plan.UntilRecovered, Within: plan.Duration(time.Minute)}, true
	case drainName:
		return plan.Phase{Name: name, Until: plan.UntilDrained, Within: plan.Duration(time.Minute), GCGrace: plan.Duration(10 * time.Second)}, true
	case verifyName:
		return plan.Phase{Name: name, Until: plan.UntilVerified, Within: plan.Duration(5 * time.Minute)}, true
	}
	return plan.Phase{}, false
}

// phases reads the phases and adds the closing ones that are missing.
func (l *loader) phases(root object, s *Scenario) {
	s.Verify.Checks = l.tables.Checks
	f, ok := root.find("phases")
	if !ok {
		return
	}
	items, ok := l.items(f, "phases")
	if !ok {
		return
	}
	if len(items) == 0 {
		l.fail(f.where, "phases is empty; a run needs at least one")
		return
	}
	names := map[string]Place{}
	for _, item := range items {
		l.phase(item, s, names)
	}
	l.close(s, f.where)
}

// phase reads one phase.
func (l *loader) phase(item field, s *Scenario, names map[string]Place) {
	if !isMapping(item.value) {
		l.fail(item.where, "a phase must be a mapping, is %s", kindOf(item.value))
		return
	}
	id := l.peek(item, "name")
	p := Phase{place: item.where, path: item.path}
	var closes bool
	p.Phase, closes = closing(id)
	blockPath := "phases"
	if closes {
		blockPath += "." + id
	}
	o, ok := l.object(item.value, item.path, blockPath, strings.TrimSpace("phase "+id))
	if !ok {
		return
	}
	if read(o, "name", &p.Name, name) {
		at := l.places[item.path+".name"]
		if first, twice := names[p.Name]; twice {
			l.fail(at, "phase %s is there twice, first at %s:%d:%d", p.Name, l.file, first.Line, first.Column)
		}
		names[p.Name] = at
	}
	if closes {
		l.closingPhase(o, &p, s)
	} else {
		l.measured(o, &p, s)
	}
	l.order(s, p)
	s.Phases = append(s.Phases, p)
}

// closingPhase reads heal, drain or verify.
func (l *loader) closingPhase(o object, p *Phase, s *Scenario) {
	var given string
	for _, key := range []string{"heal", "source", "audit", "until"} {
		read(o, key, &given, word)
	}
	read(o, "within", &p.Within, positiveDuration)
	read(o, "gcGrace", &p.GCGrace, duration)
	if f, ok := o.find("final"); ok {
		l.words(f, "final", oneOf([]string{"checkpoint"}, []string{"savepoint"}))
	}
	var on bool
	if read(o, "restoreDigests", &on, truth) {
		v := on
		s.Verify.RestoreDigests = &v
	}
	if read(o, "recordIds", &on, truth) {
		v := on
		s.Verify.RecordIDs = &v
	}
	if f, ok := o.find("check"); ok {
		if t, err := text(l, f); err == nil && t == "all" {
			l.origin(f.path, f.where)
		} else {
			s.Verify.Checks = l.words(f, "check, unless it is all,", known("check", l.tables.Checks))
		}
	}
}

// measured reads a phase that the user named.
func (l *loader) measured(o object, p *Phase, s *Scenario) {
	read(o, "for", &p.For, positiveDuration)
	read(o, "records", &p.Records, inRange)
	read(o, "discard", &p.Discard, truth)
	l.measures(o, p)
	// The order of reading is that of the file, so that since finds what stands before it.
	for _, f := range o.fields {
		switch f.key {
		case "steps":
			l.steps(f, p, s)
		case "faults":
			if items, ok := l.items(f, "faults"); ok {
				for _, item := range items {
					l.fault(item, p, s)
				}
			}
		case "rescale":
			if o.has("steps") {
				l.fail(f.at, "a phase of steps takes no rescale; start the job anew with {start: {from: last-savepoint, parallelism: 4}}, or rescale in another phase")
				continue
			}
			if items, ok := l.items(f, "rescale"); ok {
				for _, item := range items {
					l.rescale(item, p, s)
				}
			}
		}
	}
}

// measures checks that a phase has exactly one measure, and a limit only where it has none.
func (l *loader) measures(o object, p *Phase) {
	var given []string
	for _, k := range []string{"for", "records", "steps"} {
		if o.has(k) {
			given = append(given, k)
		}
	}
	switch {
	case len(given) > 1:
		l.fail(l.places[join(o.path, given[1])], "phase %s has both %s and %s; it takes one", p.Name, given[0], given[1])
	case !l.attempted(o.path, "for", "records", "steps"):
		l.fail(o.at, "phase %s has no end; give records: 100_000, for: 30s or steps", p.Name)
	}
	if o.has("steps") {
		p.Within = stepsWithin
		read(o, "within", &p.Within, positiveDuration)
	} else if f, ok := o.find("within"); ok {
		l.fail(f.at, "within limits steps, and the phases heal, drain and verify; phase %s ends by its measure", p.Name)
	}
}

// order checks that the closing phases stand last, in their order.
func (l *loader) order(s *Scenario, p Phase) {
	rank := func(p Phase) int { return slices.Index([]string{healName, drainName, verifyName}, p.Name) }
	if len(s.Phases) == 0 || p.Name == "" {
		return
	}
	last := s.Phases[len(s.Phases)-1]
	_, lastCloses := closing(last.Name)
	_, closes := closing(p.Name)
	switch {
	case lastCloses && !closes:
		l.fail(p.place, "phase %s stands after %s; heal, drain and verify come last", p.Name, last.Name)
	case lastCloses && closes && rank(last) > rank(p):
		l.fail(p.place, "phase %s stands after %s; the order is heal, drain, verify", p.Name, last.Name)
	}
}

// close adds the closing phases that the file leaves out. at is where the list of phases stands.
func (l *loader) close(s *Scenario, at Place) {
	var own, end []Phase
	for _, p := range s.Phases {
		if _, closes := closing(p.Name); !closes {
			own = append(own, p)
		}
	}
	for _, n := range []string{healName, drainName, verifyName} {
		p, _ := closing(n)
		next := Phase{Phase: p, place: at, path: "phases." + n}
		for _, given := range s.Phases {
			if given.Name == n {
				next = given
			}
		}
		end = append(end, next)
	}
	if len(own) == 0 {
		l.fail(at, "phases has only closing ones; a run needs at least one with records, for or steps")
	}
	s.Phases = append(own, end...)
}

// scaled is n times share, rounded, and at least 1.
func scaled(n int64, share registry.Share) int64 {
	return max(1, int64(math.Round(float64(n)*float64(share))))
}
