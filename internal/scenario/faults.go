package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/registry"
)

// fault reads one planned fault of phase p, which is not yet among s.Phases.
func (l *loader) fault(item field, p *Phase, s *Scenario) {
	what := "fault"
	if id := l.peek(item, "id"); id != "" {
		what = "fault " + id
	}
	o, ok := l.object(item.value, item.path, "phases.faults", what)
	if !ok {
		return
	}
	f := Fault{Fault: plan.Fault{Phase: p.Name}, place: item.where, path: item.path}
	if read(o, "id", &f.ID, name) {
		l.faultID(o, f.ID, p, s)
	}
	info, knownKind := l.faultKind(o, &f)
	if info.Container && s.Store.Kind != "minio" {
		l.fail(l.places[item.path+".fault"], "%s acts on the container of store minio, in the real world; this is the %s world on store %s", f.Kind, s.World, s.Store.Kind)
	}
	placed := read(o, "where", &f.Where, place) && l.placeExists(o, f.Where, s)
	with, withOK := o.find("with")
	if withOK {
		f.With, withOK = l.options(with.value, with.path, &optionReader{what: "with of " + what, known: info.Options, open: !knownKind})
	} else {
		withOK = !l.tried(item.path + ".with")
	}
	if knownKind && placed && withOK && info.Check != nil {
		if err := info.Check(f.Where, f.With); err != nil {
			at := item.where
			if w, ok := l.places[item.path+".with"]; ok {
				at = w
			}
			l.optionProblems(err, item.path+".with", at)
		}
	}
	read(o, "for", &f.For, positiveDuration)
	if a, ok := o.find("arms"); ok {
		f.Arms = l.words(a, "arms", known("arm", s.armNames()))
		if f.Arms != nil && len(f.Arms) == 0 && len(l.problems) == 0 {
			l.fail(a.where, "arms is empty; leave the key out for all arms")
		}
	}
	l.trigger(o, &f.At, p, s, f.Arms)
	p.Faults = append(p.Faults, f)
}

// peek returns the text of a key of an item before it is read, for messages; empty when there is none.
func (l *loader) peek(item field, key string) string {
	if !isMapping(item.value) {
		return ""
	}
	own, _ := l.pairs(item.value, 0)
	for _, v := range own {
		if v.Key.GetToken().Value == key {
			if n := l.resolve(v.Value); n != nil {
				return n.GetToken().Value
			}
		}
	}
	return ""
}

func (l *loader) faultID(o object, id string, p *Phase, s *Scenario) {
	at := l.places[o.path+".id"]
	if id == "phase" || id == "run" || strings.HasPrefix(id, "rescale-") {
		l.fail(at, "id %q is taken: since and rescales use it", id)
	}
	for _, ph := range append(slices.Clone(s.Phases), *p) {
		for _, f := range ph.Faults {
			if f.ID == id {
				first := l.places[f.path+".id"]
				l.fail(at, "id %q is used twice, first at %s:%d:%d", id, l.file, first.Line, first.Column)
				return
			}
		}
	}
}

func (l *loader) faultKind(o object, f *Fault) (FaultInfo, bool) {
	if !read(o, "fault", &f.Kind, text) {
		return FaultInfo{}, false
	}
	e, err := l.tables.Faults.Find(f.Kind)
	if err != nil {
		l.fail(l.places[o.path+".fault"], "%s (bench list faults)", err)
		return FaultInfo{}, false
	}
	return e.New, true
}

// place reads where a fault happens and checks the form; whether the fault can happen there is its own matter.
func place(l *loader, f field) (string, error) {
	s, err := text(l, f)
	if err != nil {
		return "", err
	}
	kind, which, ok := strings.Cut(s, "/")
	switch kind {
	case "store":
		if !ok {
			return s, nil
		}
	case "subtask":
		if ok && kebab.MatchString(which) {
			return s, nil
		}
	case "worker":
		if ok && which == "any" {
			return s, nil
		}
		if n, err := strconv.Atoi(which); ok && err == nil && n >= 0 && strconv.Itoa(n) == which {
			return s, nil
		}
	case "coordinator":
		return "", fmt.Errorf("where %q %s", s, notYet)
	}
	return "", fmt.Errorf("where %q is not store, worker/<number>, worker/any, subtask/<operator>-<index> or subtask/any", s)
}

// placeExists checks the number of a worker.
func (l *loader) placeExists(o object, where string, s *Scenario) bool {
	which, ok := strings.CutPrefix(where, "worker/")
	if !ok || which == "any" {
		return true
	}
	n, _ := strconv.Atoi(which)
	if n >= s.Workers.Count {
		l.fail(l.places[o.path+".where"], "worker %d does not exist; %d workers are numbered from 0 to %d", n, s.Workers.Count, s.Workers.Count-1)
		return false
	}
	return true
}

// rescale reads one planned change of parallelism.
func (l *loader) rescale(item field, p *Phase, s *Scenario) {
	n := 1 + len(p.Rescales)
	for _, ph := range s.Phases {
		n += len(ph.Rescales)
	}
	r := plan.Rescale{ID: fmt.Sprintf("rescale-%d", n), Phase: p.Name, From: "latest"}
	o, ok := l.object(item.value, item.path, "phases.rescale", "rescale")
	if !ok {
		return
	}
	read(o, "from", &r.From, word)
	if read(o, "to", &r.To, whole(1, s.Job.MaxParallelism)) && r.To > s.Workers.Count*s.Workers.Slots {
		l.fail(l.places[item.path+".to"], "to must be at most %d, the slots of %d workers with %d each, is %d",
			s.Workers.Count*s.Workers.Slots, s.Workers.Count, s.Workers.Slots, r.To)
	}
	l.trigger(o, &r.At, p, s, nil)
	p.Rescales = append(p.Rescales, r)
}

// trigger reads the key at of a fault or rescale; arms are those that get it, nil for all.
func (l *loader) trigger(o object, t *plan.Trigger, p *Phase, s *Scenario, arms []string) {
	f, ok := o.find("at")
	if !ok {
		return
	}
	at, ok := l.object(f.value, f.path, "phases.at", "at")
	if !ok {
		return
	}
	var forms []string
	for _, form := range []string{"time", "record", "event", "phase"} {
		if at.has(form) {
			forms = append(forms, form)
		}
	}
	switch {
	case len(forms) > 1:
		l.fail(f.where, "at must have exactly one of time, record, event, phase; has %s", strings.Join(forms, " and "))
		return
	case len(forms) == 0:
		if !l.attempted(f.path, "time", "record", "event", "phase", "checkpoint", "materialization") {
			l.fail(f.where, "at must have exactly one of time, record, event, phase; has none")
		}
		return
	}
	if forms[0] != "event" {
		for _, k := range []string{"count", "since"} {
			if at.has(k) {
				l.fail(l.places[join(f.path, k)], "%s goes with event only", k)
			}
		}
	}
	l.triggerForm(at, forms[0], t, p, s, arms)
}

// attempted tells whether one of the keys stands in the block, with a problem of its own.
func (l *loader) attempted(path string, keys ...string) bool {
	return slices.ContainsFunc(keys, func(k string) bool { return l.tried(join(path, k)) })
}

func (l *loader) triggerForm(at object, form string, t *plan.Trigger, p *Phase, s *Scenario, arms []string) {
	place := l.places[join(at.path, form)]
	switch form {
	case "phase":
		read(at, "phase", &t.Phase, word)
	case "time":
		var d plan.Duration
		if !read(at, "time", &d, duration) {
			return
		}
		t.Time = &d
		if p.For > 0 && d >= p.For {
			l.fail(place, "time %s is not inside phase %s, which lasts %s", d, p.Name, p.For)
		}
	case "record":
		var n int64
		if !read(at, "record", &n, inRange) {
			return
		}
		t.Record = &n
		if p.Records > 0 && n > p.Records {
			l.fail(place, "record %s is not inside phase %s, which has %s", grouped(n), p.Name, grouped(p.Records))
		}
	case "event":
		l.eventTrigger(at, t, p, s, arms)
	}
}

func (l *loader) eventTrigger(at object, t *plan.Trigger, p *Phase, s *Scenario, arms []string) {
	t.Count, t.Since = 1, "phase"
	read(at, "count", &t.Count, inRange)
	if read(at, "since", &t.Since, text) {
		l.since(at, t.Since, p, s, arms)
	}
	if !read(at, "event", &t.Event, text) {
		return
	}
	place := l.places[join(at.path, "event")]
	if !slices.Contains(Events(), t.Event) {
		l.fail(place, "%s (bench list events)", &registry.UnknownError{What: "event", Name: t.Event, Nearest: registry.Nearest(t.Event, Events())})
		return
	}
	if !logOnly(t.Event) {
		return
	}
	for _, a := range s.Arms {
		logs := slices.ContainsFunc(s.backendsOf(a, p), func(b plan.Backend) bool { return b.Changelog.Enabled })
		if (arms == nil || slices.Contains(arms, a.Name)) && !logs {
			l.fail(place, "event %s never happens in arm %s, which has no changelog; name the arms that get this", t.Event, a.Name)
		}
	}
}

// since checks what a trigger counts from: a fault must stand earlier and go to all arms that get this one.
func (l *loader) since(at object, since string, p *Phase, s *Scenario, arms []string) {
	if since == "phase" || since == "run" {
		return
	}
	place := l.places[join(at.path, "since")]
	var ids []string
	for _, ph := range append(slices.Clone(s.Phases), *p) {
		for _, f := range ph.Faults {
			ids = append(ids, f.ID)
			if f.ID != since {
				continue
			}
			for _, a := range s.armNames() {
				if f.Arms != nil && !slices.Contains(f.Arms, a) && (arms == nil || slices.Contains(arms, a)) {
					l.fail(place, "fault %s does not happen in arm %s, so this would never fire there", since, a)
				}
			}
			return
		}
	}
	msg := fmt.Sprintf("since %q is neither phase, run nor the id of a fault that stands earlier", since)
	if near := registry.Nearest(since, append(ids, "phase", "run")); near != "" {
		msg += fmt.Sprintf("; did you mean %q?", near)
	}
	l.fail(place, "%s", msg)
}
