package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Settings returns every setting of a plan by its dotted name, with its value as text. What stands in lists is named by its id,
// name or path, where it has one; a list of plain values is one setting. The top-level keys named in except are left out, and
// so are the settings of a changelog that is off. A plan that cannot be encoded has the one setting "plan" that says why.
func (p *Plan) Settings(except ...string) map[string]string {
	b, err := json.Marshal(p)
	if err != nil {
		return map[string]string{"plan": err.Error()}
	}
	var v map[string]any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return map[string]string{"plan": err.Error()}
	}
	for _, k := range except {
		delete(v, k)
	}
	out := map[string]string{}
	flatten("", v, out)
	if !p.Backend.Changelog.Enabled {
		for k := range out { // order-free: settings that do nothing are dropped
			if strings.HasPrefix(k, "backend.changelog.") && k != "backend.changelog.enabled" {
				delete(out, k)
			}
		}
	}
	return out
}

func flatten(path string, v any, out map[string]string) {
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x { // order-free: each has a key of its own
			flatten(strings.TrimPrefix(path+"."+k, "."), e, out)
		}
	case []any:
		if plain(x) {
			words := make([]string, len(x))
			for i, e := range x {
				words[i] = fmt.Sprint(e)
			}
			out[path] = strings.Join(words, ", ")
			return
		}
		for i, e := range x {
			flatten(path+"."+nameIn(e, i), e, out)
		}
	case nil:
	default:
		out[path] = fmt.Sprint(x)
	}
}

func plain(list []any) bool {
	for _, e := range list {
		switch e.(type) {
		case map[string]any, []any:
			return false
		}
	}
	return true
}

func nameIn(e any, i int) string {
	if m, ok := e.(map[string]any); ok {
		for _, k := range []string{"id", "name", "path"} {
			if s, ok := m[k].(string); ok && s != "" {
				return s
			}
		}
	}
	return fmt.Sprint(i + 1)
}

// SameDisturbances tells whether a phase has the same faults and rescales in both plans.
func (p *Plan) SameDisturbances(other *Plan, phase string) bool {
	return p.disturbances(phase) == other.disturbances(phase)
}

func (p *Plan) disturbances(phase string) string {
	here := []any{}
	for _, f := range p.Faults {
		if f.Phase == phase {
			here = append(here, f)
		}
	}
	for _, r := range p.Rescales {
		if r.Phase == phase {
			here = append(here, r)
		}
	}
	b, err := json.Marshal(here)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// PlacedByEvent names the first fault, else the first rescale, of a phase that an event places: it comes at another moment in
// each variant of a job. Empty: there is none.
func (p *Plan) PlacedByEvent(phase string) string {
	for _, f := range p.Faults {
		if f.Phase == phase && f.At.Event != "" {
			return "fault " + f.ID
		}
	}
	for _, r := range p.Rescales {
		if r.Phase == phase && r.At.Event != "" {
			return r.ID
		}
	}
	return ""
}
