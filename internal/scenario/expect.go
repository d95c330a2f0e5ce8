package scenario

import (
	"slices"
	"strings"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/registry"
)

// MetricInfo is what a scenario has to know of a metric.
type MetricInfo struct {
	// Bound reads "< 1s": an operator and a value in the unit of the metric. The error says what would be right.
	Bound func(text string) (op string, value float64, err error)
	// Samples says what it is taken over ("completed checkpoints"), Need how many of these there must be; 0: any number.
	Samples string
	Need    int
	// Capacity is how many of them the phase of a plan can give; known is false where the plan does not say. Nil: it never does.
	Capacity func(p *plan.Plan, phase string) (n int64, known bool)
	// Measured metrics have no value in the simulated world.
	Measured bool
}

// Expectation is a statement on one metric of a phase and the arms it is for.
type Expectation struct {
	plan.Expectation
	Arms  []string // in file order; nil: all
	at    Place
	path  string
	info  MetricInfo
	whole bool // written as a mapping
}

// expect reads the expectations; the phases have been read.
func (l *loader) expect(root object, s *Scenario) {
	f, ok := root.find("expect")
	if !ok {
		return
	}
	if !isMapping(f.value) {
		l.fail(f.where, "expect must be a mapping from phases to statements, is %s", kindOf(f.value))
		return
	}
	for _, ph := range l.entries(f.value, "expect", "expect") {
		if !l.expectPhase(ph, s) {
			continue
		}
		if !isMapping(ph.value) {
			l.fail(ph.where, "expectations of phase %s must be a mapping from metrics to statements, is %s", ph.key, kindOf(ph.value))
			continue
		}
		for _, m := range l.entries(ph.value, ph.path, "expectations of phase "+ph.key) {
			l.metric(m, ph.key, s)
		}
	}
}

// expectPhase tells whether a phase is measured, so that something can be expected of it.
func (l *loader) expectPhase(f field, s *Scenario) bool {
	i := slices.IndexFunc(s.Phases, func(p Phase) bool { return p.Name == f.key })
	switch {
	case i < 0 && slices.Contains(later("expect"), f.key):
		l.fail(f.at, "key %q in expect %s", f.key, notYet)
	case i < 0:
		var names []string
		for _, p := range s.Phases {
			if p.Until == "" && !p.Discard {
				names = append(names, p.Name)
			}
		}
		err := &registry.UnknownError{What: "phase", Name: f.key, Nearest: registry.Nearest(f.key, names)}
		l.fail(f.at, "%s", err)
	case s.Phases[i].Until != "":
		l.fail(f.at, "nothing is measured in phase %s; expect something of a phase of your own", f.key)
	case s.Phases[i].Discard:
		l.fail(f.at, "nothing is measured in phase %s, which is marked discard", f.key)
	default:
		return true
	}
	return false
}

// metric reads the statements on one metric: one, or a list of them.
func (l *loader) metric(f field, phase string, s *Scenario) {
	e, err := l.tables.Metrics.Find(f.key)
	if err != nil {
		l.fail(f.at, "%s (bench list metrics)", err)
		return
	}
	if kindOf(f.value) != "a list" {
		l.statement(f, f.key, phase, e.New, s)
		return
	}
	items, _ := l.items(f, f.key)
	if len(items) == 0 {
		l.fail(f.where, "%s has an empty list; write one statement, such as \"<= 1s\"", f.key)
	}
	for _, item := range items {
		l.statement(item, f.key, phase, e.New, s)
	}
}

// statement reads "< 1s" or {is: "< 1s", ifNone: pass, arms: [a]}.
func (l *loader) statement(f field, metric, phase string, info MetricInfo, s *Scenario) {
	x := Expectation{Expectation: plan.Expectation{Phase: phase, Metric: metric}, at: f.where, path: f.path, info: info}
	is := object{l: l, path: f.path, fields: []field{{key: "is", path: f.path, at: f.at, value: f.value, where: f.where}}}
	if isMapping(f.value) {
		var ok bool
		if is, ok = l.object(f.value, f.path, "expect.statement", metric); !ok {
			return
		}
		x.whole = true
		var none string
		if read(is, "ifNone", &none, word) {
			x.Unset = none == "pass"
		}
		if a, ok := is.find("arms"); ok {
			x.Arms = l.words(a, "arms", known("arm", s.armNames()))
			if x.Arms != nil && len(x.Arms) == 0 && len(l.problems) == 0 {
				l.fail(a.where, "arms is empty; leave the key out for all arms")
			}
		}
	}
	bound, ok := is.find("is")
	if !ok {
		return
	}
	text, err := scalar(bound, "a statement such as \"<= 1s\"")
	if err == nil {
		x.Text = strings.TrimSpace(text)
		x.Op, x.Value, err = info.Bound(x.Text)
	}
	if err != nil {
		l.fail(bound.where, "%s: %s", metric, err)
		return
	}
	l.origin(f.path, bound.where)
	s.Expect = append(s.Expect, x)
}

// enoughSamples reports percentiles that can never have enough samples in their phase. It wants a plan at the full measure,
// before sim scales it.
func (l *loader) enoughSamples(s *Scenario, p *plan.Plan) {
	for _, x := range s.Expect {
		n, known := x.capacity(p)
		if known && n < int64(x.info.Need) {
			l.fail(x.at, "%s needs %s %s; phase %s can give %s (%s)", x.Metric, grouped(int64(x.info.Need)), x.info.Samples, x.Phase,
				grouped(n), measureText(p, x.Phase))
		}
	}
}

func (x Expectation) capacity(p *plan.Plan) (n int64, known bool) {
	if x.info.Need == 0 || x.info.Capacity == nil {
		return 0, false
	}
	return x.info.Capacity(p, x.Phase)
}

// measureText says what bounds the samples of a phase.
func measureText(p *plan.Plan, phase string) string {
	for _, ph := range p.Phases {
		switch {
		case ph.Name != phase:
		case ph.For > 0:
			return ph.For.String() + ", interval " + p.Job.Checkpoint.Interval.String()
		case p.Workload.Rate > 0:
			return grouped(ph.Records) + " records at " + rateText(p.Workload.Rate) + ", interval " + p.Job.Checkpoint.Interval.String()
		default:
			return grouped(ph.Records) + " records"
		}
	}
	return "of that length"
}

// expectations are those of an arm in a plan that is complete but for them. What the simulated world cannot tell is left
// out there: figures that are measured, and percentiles for which sim leaves too few samples.
func (s *Scenario) expectations(p *plan.Plan) (in []plan.Expectation, out []Expectation) {
	for _, x := range s.Expect {
		n, known := x.capacity(p)
		switch {
		case x.Arms != nil && !slices.Contains(x.Arms, p.Arm):
		case p.Simulated() && (x.info.Measured || known && n < int64(x.info.Need)):
			out = append(out, x)
		default:
			in = append(in, x.Expectation)
		}
	}
	return in, out
}

// passedOver notes the expectations that the simulated world leaves out.
func (l *loader) passedOver(s *Scenario, plans []plan.Plan) {
	if s.World != "sim" {
		return
	}
	for i := range plans {
		if plans[i].Rep > 1 {
			continue
		}
		_, out := s.expectations(&plans[i])
		for _, x := range out {
			note := "expectation " + x.Phase + " " + x.Metric + " " + x.Text + " is passed over: it is measured, which the simulated world cannot"
			if !x.info.Measured {
				note = "expectation " + x.Phase + " " + x.Metric + " " + x.Text + " is passed over: sim leaves too few samples for it"
			}
			if !slices.Contains(s.Notes, note) {
				s.Notes = append(s.Notes, note)
			}
		}
	}
}

// expect writes the expectations, phase by phase.
func (w *writer) expect() {
	if len(w.s.Expect) == 0 {
		return
	}
	w.line(0, "expect:", "")
	phase := ""
	for i := 0; i < len(w.s.Expect); {
		x := w.s.Expect[i]
		if x.Phase != phase {
			phase = x.Phase
			w.line(1, quoted(phase)+":", "")
		}
		n := i + 1
		for n < len(w.s.Expect) && w.s.Expect[n].Phase == phase && w.s.Expect[n].Metric == x.Metric {
			n++
		}
		if n == i+1 {
			w.set(2, quoted(x.Metric), x.text(), x.path)
		} else {
			w.line(2, quoted(x.Metric)+":", "")
			for ; i < n; i++ {
				w.line(3, "- "+w.s.Expect[i].text(), w.from(w.s.Expect[i].path))
			}
		}
		i = n
	}
}

// text is an expectation as the file may have it.
func (x Expectation) text() string {
	if !x.whole {
		return quotedAlways(x.Text)
	}
	parts := []string{"is: " + quotedAlways(x.Text)}
	if x.Unset {
		parts = append(parts, "ifNone: pass")
	}
	if x.Arms != nil {
		words := make([]string, len(x.Arms))
		for i, a := range x.Arms {
			words[i] = quoted(a)
		}
		parts = append(parts, "arms: ["+strings.Join(words, ", ")+"]")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
