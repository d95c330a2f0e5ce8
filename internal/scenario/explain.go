package scenario

import (
	"fmt"
	"slices"
	"strings"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/registry"
)

// Explain writes a scenario and its plans for people: what is compared, step by step what will happen with the values in
// force, every setting with its origin, and the warnings. plans is what Plans made of s.
func Explain(s *Scenario, plans []plan.Plan) string {
	var b strings.Builder
	explainHead(&b, s, plans)
	explainArms(&b, s)
	explainSteps(&b, s, plans)
	explainExpect(&b, s)
	b.WriteString("\nsettings, with the line of " + s.Path + " that gives each\n")
	w := &writer{s: s}
	w.env()
	w.job()
	w.arms()
	w.workload()
	w.sim()
	for line := range strings.Lines(w.b.String()) {
		b.WriteString("  " + strings.Replace(line, "# "+s.Path+":", "# line ", 1))
	}
	if len(s.Warnings)+len(s.Notes) > 0 {
		b.WriteString("\n")
	}
	for _, p := range s.Warnings {
		fmt.Fprintf(&b, "warning  %s\n", p.Error())
	}
	for _, n := range s.Notes {
		fmt.Fprintf(&b, "note     %s\n", n)
	}
	return b.String()
}

// count writes a number of things with the right ending.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func explainHead(b *strings.Builder, s *Scenario, plans []plan.Plan) {
	world := s.World
	if world == "sim" {
		world = "SIMULATED, times from a cost model"
	}
	fmt.Fprintf(b, "%s · seed %d · %s · store %s · profile %s · %s × %s\n", s.Name, s.Seed, world, s.Store.Kind, s.Store.Profile,
		count(len(s.Selected), "arm"), count(s.Reps, "rep"))
	if s.About != "" {
		for _, line := range wrap(s.About, 110) {
			fmt.Fprintf(b, "  %s\n", line)
		}
	}
	if len(plans) == 0 {
		return
	}
	wl := plans[0].Workload
	fmt.Fprintf(b, "\nworkload  %s %s\n", wl.Name, optionsText(wl.Options))
	load := rateText(wl.Rate)
	if s.Workload.info.Scheduled {
		load = "as the input's own times say"
	}
	fmt.Fprintf(b, "load      %s\n", load)
	if !s.Store.Model.Zero() {
		fmt.Fprintf(b, "profile   %s adds %s\n", s.Store.Profile, profileText(s.Store.Model))
	}
	for _, p := range s.Params {
		fmt.Fprintf(b, "param     %s = %s   (%s)\n", p.Name, p.Value, strings.Replace(p.From, s.Path+":", "line ", 1))
	}
	for _, in := range plans[0].Inputs {
		fmt.Fprintf(b, "input     %s, %s, sha256 %.12s\n", in.Path, grouped(in.Bytes)+" bytes", in.SHA256)
	}
	if s.World == "sim" && s.Sim.Records != nil {
		fmt.Fprintf(b, "scaled    phases and record triggers to %s by sim.records\n", s.Sim.Records)
	}
}

// wrap breaks a text at blanks into lines of at most n characters, where words allow it.
func wrap(s string, n int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > n {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}

func explainArms(b *strings.Builder, s *Scenario) {
	b.WriteString("\narms\n")
	wide := 0
	for _, a := range s.Arms {
		wide = max(wide, len(a.Name))
	}
	for _, a := range s.Arms {
		text := a.Backend.Name + ", no changelog"
		if c := a.Backend.Changelog; c.Enabled {
			text = fmt.Sprintf("%s with changelog: %s, batches of %s or %s, sent early above %s", a.Backend.Name,
				materializeText(c), c.BatchDelay, registry.Bytes(c.BatchSize), registry.Bytes(c.Preemptive))
			if c.Storage != "" {
				text += ", in storage " + c.Storage
			}
		}
		text += lsmText(a.Backend.LSM)
		if a.Backend.LocalRecovery {
			text += ", local copies of " + registry.Bytes(a.Backend.LocalCopies).String() + " a worker at most"
		}
		if len(a.own) > 0 {
			text += ", " + optionsText(canonical(a.ownOptions()))
		}
		if a.Name == s.Baseline {
			text += "   (baseline)"
		}
		if !slices.Contains(s.Selected, a.Name) {
			text += "   (not selected)"
		}
		fmt.Fprintf(b, "  %-*s  %s\n", wide, a.Name, text)
	}
}

// materializeText says when an arm materializes.
func materializeText(c plan.Changelog) string {
	if c.MaterializeOff {
		return "never materialized"
	}
	text := "materialized every " + c.Materialize.String()
	if c.Growth > 0 {
		text += fmt.Sprintf(" or when the log exceeds %s of the base and %s", registry.Share(c.Growth), registry.Bytes(c.GrowthFloor))
	}
	if c.ReplayBudget > 0 {
		text += " or " + c.ReplayBudget.String() + " of replay"
	}
	if c.Concurrent > 0 {
		text += fmt.Sprintf(", %d of a worker at a time", c.Concurrent)
	}
	if c.ConcurrentJob > 0 {
		text += fmt.Sprintf(", %d of the job at a time", c.ConcurrentJob)
	}
	return text
}

func explainSteps(b *strings.Builder, s *Scenario, plans []plan.Plan) {
	b.WriteString("\nsteps\n")
	wide, rate := 0, s.Workload.Rate
	if len(plans) > 0 {
		rate = plans[0].Workload.Rate
	}
	for _, p := range s.Phases {
		wide = max(wide, len(p.Name))
	}
	for i, p := range s.Phases {
		fmt.Fprintf(b, "  %2d  %-*s  %s\n", i+1, wide, p.Name, strings.Join(s.phaseText(p, rate), "   "))
		for n, step := range p.Steps {
			fmt.Fprintf(b, "        %s   %s\n", stepWords(step), s.lineOf(fmt.Sprintf("%s.steps[%d]", p.path, n)))
		}
		for _, f := range p.Faults {
			fmt.Fprintf(b, "        %s   %s\n", s.faultText(f, p), s.lineOf(f.path+".id"))
		}
		for n, r := range p.Rescales {
			fmt.Fprintf(b, "        %s to %d from the %s checkpoint, %s   %s\n", r.ID, r.To, r.From, s.triggerText(r.At, p),
				s.lineOf(fmt.Sprintf("%s.rescale[%d].to", p.path, n)))
		}
	}
}

func explainExpect(b *strings.Builder, s *Scenario) {
	if len(s.Expect) == 0 {
		return
	}
	b.WriteString("\nexpected\n")
	for _, x := range s.Expect {
		text := x.Phase + ": " + x.Metric + " " + x.Text
		if x.Unset {
			text += ", or no sample of it"
		}
		if x.Arms != nil {
			text += ", only in " + strings.Join(x.Arms, ", ")
		}
		fmt.Fprintf(b, "  %s   %s\n", text, s.lineOf(x.path))
	}
}

// lineOf is the origin of a setting, without the name of the file.
func (s *Scenario) lineOf(path string) string {
	from := s.Origin(path)
	if line, ok := strings.CutPrefix(from, s.Path+":"); ok {
		return "(line " + line + ")"
	}
	return "(" + from + ")"
}

// phaseText says how long a phase is and what is special about it.
func (s *Scenario) phaseText(p Phase, rate float64) []string {
	var out []string
	records := s.scale(p.Records)
	switch {
	case p.Until != "":
		out = append(out, fmt.Sprintf("until %s, within %s", p.Until, p.Within))
	case len(p.Steps) > 0:
		out = append(out, fmt.Sprintf("%s, within %s", count(len(p.Steps), "step"), p.Within))
	case p.For > 0:
		out = append(out, p.For.String())
	case rate > 0:
		out = append(out, fmt.Sprintf("%s records, about %.1fs", grouped(records), float64(records)/rate))
	default:
		out = append(out, grouped(records)+" records")
	}
	switch {
	case p.Discard:
		out = append(out, "not counted")
	case p.Until == plan.UntilDrained:
		out = append(out, "sources stop, last checkpoint, "+p.GCGrace.String()+" for late deletes")
	case p.Until == plan.UntilVerified:
		out = append(out, count(len(s.Verify.Checks), "check")+", every retained checkpoint restored")
	}
	if p.Until == "" {
		out = append(out, s.lineOf(p.path+".name"))
	}
	return out
}

func (s *Scenario) faultText(f Fault, p Phase) string {
	text := f.ID + ": " + f.Kind + " of " + f.Where
	if options := optionsText(f.With); options != "{}" {
		text += " " + options
	}
	text += ", " + s.triggerText(f.At, p)
	if f.For > 0 {
		text += ", healed after " + f.For.String()
	} else {
		text += ", until phase heal"
	}
	if f.Arms != nil {
		text += ", only in " + strings.Join(f.Arms, ", ")
	}
	return text
}

// triggerText says when something happens, with the values in force.
func (s *Scenario) triggerText(t plan.Trigger, p Phase) string {
	t = s.scaleTrigger(t, s.scale(p.Records))
	switch {
	case t.Time != nil:
		return t.Time.String() + " into the phase"
	case t.Record != nil:
		return "at record " + grouped(*t.Record)
	case t.Phase != "":
		return "when the phase begins"
	case t.Count == 1:
		return "at the first " + t.Event + " since " + t.Since
	}
	return fmt.Sprintf("at %s number %d since %s", t.Event, t.Count, t.Since)
}
