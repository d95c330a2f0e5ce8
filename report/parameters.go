package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"statebench.dev/bench/internal/plan"
)

// parameter is one setting of the plans, with its value in each arm.
type parameter struct {
	Key     string
	Values  []string
	Differs bool
}

// parameters lists every setting of the plans, in order of name. What names a run rather than describes it is left out.
func parameters(all []*arm) (list []parameter) {
	flat := make([]map[string]string, len(all))
	keys := map[string]bool{}
	for i, a := range all {
		flat[i] = flatten(a.plan)
		for k := range flat[i] { // order-free: a set
			keys[k] = true
		}
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		p := parameter{Key: k}
		first := ""
		for i, a := range all {
			v, ok := flat[i][k]
			switch {
			case a.plan == nil:
				v = "not run"
			case !ok:
				v = "–"
			}
			p.Values = append(p.Values, v)
			if a.plan != nil {
				p.Differs = p.Differs || first != "" && v != first
				first = v
			}
		}
		list = append(list, p)
	}
	return list
}

// flatten turns a plan into names of settings and their values as text.
func flatten(p *plan.Plan) map[string]string {
	out := map[string]string{}
	if p == nil {
		return out
	}
	b, err := json.Marshal(p)
	if err != nil {
		return map[string]string{"plan": err.Error()}
	}
	var v map[string]any
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return map[string]string{"plan": err.Error()}
	}
	for _, k := range []string{"arm", "rep", "baseline", "about", "scenario", "schema"} {
		delete(v, k)
	}
	walk("", v, out)
	if !p.Backend.Changelog.Enabled {
		for k := range out { // order-free: settings that do nothing are dropped
			if strings.HasPrefix(k, "backend.changelog.") && k != "backend.changelog.enabled" {
				delete(out, k)
			}
		}
	}
	return out
}

// walk names what stands in lists by its id or name, where it has one.
func walk(path string, v any, out map[string]string) {
	join := func(k string) string {
		if path == "" {
			return k
		}
		return path + "." + k
	}
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x { // order-free: each has a key of its own
			walk(join(k), e, out)
		}
	case []any:
		if plain(x) {
			var words []string
			for _, e := range x {
				words = append(words, fmt.Sprint(e))
			}
			out[path] = strings.Join(words, ", ")
			return
		}
		for i, e := range x {
			name := fmt.Sprint(i + 1)
			if m, ok := e.(map[string]any); ok {
				for _, k := range []string{"id", "name", "path"} {
					if s, ok := m[k].(string); ok && s != "" {
						name = s
						break
					}
				}
			}
			walk(join(name), e, out)
		}
	case nil:
	default:
		out[path] = fmt.Sprint(x)
	}
}

// plain tells whether a list holds neither lists nor objects.
func plain(list []any) bool {
	for _, e := range list {
		switch e.(type) {
		case map[string]any, []any:
			return false
		}
	}
	return true
}
