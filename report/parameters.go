package report

import (
	"maps"
	"slices"
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
		if a.plan != nil {
			flat[i] = a.plan.Settings("arm", "rep", "baseline", "about", "scenario", "schema")
		}
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
