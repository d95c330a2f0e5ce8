package plan

import "testing"

func TestSettings(t *testing.T) {
	p := good()
	p.Faults = []Fault{{ID: "kill", Phase: p.Phases[0].Name, At: Trigger{Record: new(int64(7))}}}
	s := p.Settings("rep", "job")
	for key, want := range map[string]string{
		"phases." + p.Phases[0].Name + ".name": p.Phases[0].Name,
		"faults.kill.at.record":                "7",
		"backend.changelog.enabled":            "false",
	} {
		if s[key] != want {
			t.Errorf("%s is %q, want %q", key, s[key], want)
		}
	}
	for key := range s {
		switch {
		case key == "rep" || len(key) > 4 && key[:4] == "job.":
			t.Errorf("%s was to be left out", key)
		case len(key) > 18 && key[:18] == "backend.changelog." && key != "backend.changelog.enabled":
			t.Errorf("%s does nothing", key)
		}
	}
	p.Backend.Changelog.Enabled = true
	if len(p.Settings("rep", "job")) <= len(s) {
		t.Error("no settings of a changelog that is on")
	}
}

func TestDisturbances(t *testing.T) {
	p, q := good(), good()
	name := p.Phases[0].Name
	if !p.SameDisturbances(&q, name) || p.PlacedByEvent(name) != "" {
		t.Error("equal plans differ")
	}
	q.Faults = append(q.Faults, Fault{ID: "kill", Phase: name, At: Trigger{Event: "checkpoint-completed"}})
	if p.SameDisturbances(&q, name) {
		t.Error("a fault is overlooked")
	}
	if !q.SameDisturbances(&p, "another") {
		t.Error("a fault of another phase counts")
	}
	if got := q.PlacedByEvent(name); got != "fault kill" {
		t.Errorf("placed by an event: %q", got)
	}
	p.Rescales = append(p.Rescales, Rescale{ID: "out", Phase: name, At: Trigger{Event: "checkpoint-completed"}})
	if got := p.PlacedByEvent(name); got != "out" {
		t.Errorf("placed by an event: %q", got)
	}
}
