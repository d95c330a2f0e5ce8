package explore

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"statebench.dev/bench/internal/plan"
)

// pass tries each way to make the plan smaller once.
func (s *shrinker) pass() {
	list(s, "fault", func(p *plan.Plan) *[]plan.Fault { return &p.Faults })
	list(s, "rescale", func(p *plan.Plan) *[]plan.Rescale { return &p.Rescales })
	s.load()
	s.workload()
	s.cluster()
	s.faults()
}

// list leaves out elements of a list of the plan.
func list[T any](s *shrinker, what string, of func(p *plan.Plan) *[]T) {
	all := slices.Clone(*of(&s.best))
	ddmin(len(all), func(keep []int) bool {
		return s.try(fmt.Sprintf("%d of %d %ss", len(keep), len(all), what), func(p *plan.Plan) {
			*of(p) = []T{}
			for _, i := range keep {
				*of(p) = append(*of(p), all[i])
			}
		})
	})
}

// number makes a number of the plan smaller, at least least: least at once, or else in ever smaller steps.
func (s *shrinker) number(what string, least int64, of func(p *plan.Plan) int64, set func(p *plan.Plan, v int64)) {
	if of(&s.best) <= least {
		return
	}
	to := func(v int64) bool {
		return v >= least && v < of(&s.best) && s.try(fmt.Sprintf("%s %d", what, v), func(p *plan.Plan) { set(p, v) })
	}
	if to(least) {
		return
	}
	for _, part := range [][2]int64{{1, 8}, {1, 2}, {3, 4}} {
		for to(of(&s.best) * part[0] / part[1]) {
		}
	}
}

// load lowers the rate in the same time, then makes the phases shorter.
func (s *shrinker) load() {
	s.number("records a second", 5, func(p *plan.Plan) int64 { return int64(p.Workload.Rate) }, func(p *plan.Plan, v int64) {
		part := float64(v) / p.Workload.Rate
		p.Workload.Rate = float64(v)
		for i := range p.Phases {
			if n := &p.Phases[i].Records; *n > 0 {
				*n = max(1, int64(float64(*n)*part))
			}
		}
		for _, at := range triggers(p) {
			if at.Record != nil {
				n := max(1, int64(float64(*at.Record)*part))
				at.Record = &n
			}
		}
	})
	for i := 0; i < len(s.best.Phases); i++ {
		if s.best.Phases[i].Records == 0 {
			continue
		}
		name := s.best.Phases[i].Name
		if s.try("without phase "+name, func(p *plan.Plan) { p.Phases = slices.Delete(p.Phases, i, i+1) }) {
			i--
			continue
		}
		s.number("records of phase "+name, 10, func(p *plan.Plan) int64 { return p.Phases[i].Records }, func(p *plan.Plan, v int64) { p.Phases[i].Records = v })
	}
}

// triggers are all of the plan.
func triggers(p *plan.Plan) (all []*plan.Trigger) {
	for i := range p.Faults {
		all = append(all, &p.Faults[i].At)
	}
	for i := range p.Rescales {
		all = append(all, &p.Rescales[i].At)
	}
	return all
}

// workload lowers what its options count, and takes plain values for what they name.
func (s *shrinker) workload() {
	for _, path := range [][]string{{"keys", "count"}, {"partitions"}, {"rules", "count"}} {
		if _, ok := option(&s.best, path).(float64); ok {
			s.number(path[0], 1, func(p *plan.Plan) int64 { return int64(option(p, path).(float64)) }, func(p *plan.Plan, v int64) { setOption(p, path, v) })
		}
	}
	for _, o := range []struct {
		path []string
		to   any
	}{{[]string{"second"}, "none"}, {[]string{"values", "size"}, "8B"}, {[]string{"keys", "pick"}, "uniform"}} {
		if option(&s.best, o.path) != nil {
			s.try(fmt.Sprintf("%s %v", o.path[len(o.path)-1], o.to), func(p *plan.Plan) { setOption(p, o.path, o.to) })
		}
	}
}

// option is a value of the workload's options; nil where there is none.
func option(p *plan.Plan, path []string) any {
	var at any
	if json.Unmarshal(p.Workload.Options, &at) != nil {
		return nil
	}
	for _, name := range path {
		o, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = o[name]
	}
	return at
}

// setOption replaces one, which exists.
func setOption(p *plan.Plan, path []string, v any) {
	var root map[string]any
	if json.Unmarshal(p.Workload.Options, &root) != nil {
		return
	}
	at := root
	for _, name := range path[:len(path)-1] {
		at = at[name].(map[string]any)
	}
	at[path[len(path)-1]] = v
	if text, err := json.Marshal(root); err == nil {
		p.Workload.Options = text
	}
}

// cluster takes fewer of everything.
func (s *shrinker) cluster() {
	for _, n := range []struct {
		what  string
		least int
		of    func(p *plan.Plan) *int
	}{
		{"parallelism", 1, func(p *plan.Plan) *int { return &p.Job.Parallelism }},
		{"max parallelism", 1, func(p *plan.Plan) *int { return &p.Job.MaxParallelism }},
		{"workers", 1, func(p *plan.Plan) *int { return &p.Workers.Count }},
		{"slots", 1, func(p *plan.Plan) *int { return &p.Workers.Slots }},
		{"retained checkpoints", 1, func(p *plan.Plan) *int { return &p.Job.Checkpoint.Retain }},
		{"checkpoints at a time", 1, func(p *plan.Plan) *int { return &p.Job.Checkpoint.MaxConcurrent }},
	} {
		s.number(n.what, int64(n.least), func(p *plan.Plan) int64 { return int64(*n.of(p)) }, func(p *plan.Plan, v int64) { *n.of(p) = int(v) })
	}
	for i := range s.best.Rescales {
		s.number("rescale to", 1, func(p *plan.Plan) int64 { return int64(p.Rescales[i].To) }, func(p *plan.Plan, v int64) { p.Rescales[i].To = int(v) })
	}
}

// faults shortens them, and lets those come first that wait for a count or a time.
func (s *shrinker) faults() {
	for i := range s.best.Faults {
		id := s.best.Faults[i].ID
		s.number("milliseconds of "+id, 100, func(p *plan.Plan) int64 { return time.Duration(p.Faults[i].For).Milliseconds() },
			func(p *plan.Plan, v int64) { p.Faults[i].For = plan.Duration(time.Duration(v) * time.Millisecond) })
	}
	for i := range triggers(&s.best) {
		at := func(p *plan.Plan) *plan.Trigger { return triggers(p)[i] }
		switch first := at(&s.best); {
		case first.Event != "":
			s.number("count of a trigger", 1, func(p *plan.Plan) int64 { return int64(at(p).Count) }, func(p *plan.Plan, v int64) { at(p).Count = int(v) })
		case first.Time != nil:
			s.number("milliseconds of a trigger", 0, func(p *plan.Plan) int64 { return time.Duration(*at(p).Time).Milliseconds() }, func(p *plan.Plan, v int64) {
				d := plan.Duration(time.Duration(v) * time.Millisecond)
				at(p).Time = &d
			})
		case first.Record != nil:
			s.number("record of a trigger", 1, func(p *plan.Plan) int64 { return *at(p).Record }, func(p *plan.Plan, v int64) { at(p).Record = &v })
		}
	}
}
