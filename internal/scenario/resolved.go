package scenario

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/registry"
)

// Resolved writes the scenario with every setting and, behind it, where it came from: default, file:line, a flag, or drawn
// for a seed. It reads back as a scenario with the same plans when it lies in the folder of the original.
func Resolved(s *Scenario) []byte {
	w := &writer{s: s}
	w.head()
	w.env()
	w.job()
	w.arms()
	w.workload()
	w.sim()
	w.phases()
	w.expect()
	w.line(0, "report:", "")
	w.list(1, "charts", s.Charts, "report.charts")
	if s.MaxResults > 0 {
		w.set(1, "maxResults", registry.Bytes(s.MaxResults).String(), "report.maxResults")
	}
	return w.b.Bytes()
}

// writer writes YAML line by line.
type writer struct {
	s *Scenario
	b bytes.Buffer
}

// line writes one line, with a comment when origin is not empty.
func (w *writer) line(depth int, text, origin string) {
	line := strings.Repeat("  ", depth) + text
	if origin != "" {
		line = fmt.Sprintf("%-52s # %s", line, origin)
	}
	w.b.WriteString(line + "\n")
}

// set writes a setting. The first of paths that has an origin tells where it came from.
func (w *writer) set(depth int, key, text string, paths ...string) {
	w.line(depth, key+": "+text, w.from(paths...))
}

func (w *writer) from(paths ...string) string {
	for _, p := range paths {
		if from, ok := w.s.origins[p]; ok {
			return from
		}
	}
	return "default"
}

// list writes a list of words on one line.
func (w *writer) list(depth int, key string, words []string, path string) {
	quotedWords := make([]string, len(words))
	for i, s := range words {
		quotedWords[i] = quoted(s)
	}
	w.set(depth, key, "["+strings.Join(quotedWords, ", ")+"]", path)
}

// withUnit is a number with a unit, which YAML takes for text.
var withUnit = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?(ns|µs|ms|s|m|h|m[0-9]+s|h[0-9]+m[0-9]+s|B|[KMGT]iB|%|/s)$`) // read-only: compiled once

// quoted writes a text so that YAML reads it back as text: bare where that is beyond doubt, else in double quotes.
func quoted(s string) string {
	s = escaped(s)
	if withUnit.MatchString(s) {
		return s
	}
	bare := s != "" && s != "true" && s != "false" && s != "null" && (s[0] >= 'a' && s[0] <= 'z' || s[0] >= 'A' && s[0] <= 'Z')
	for _, r := range s {
		bare = bare && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./", r))
	}
	if bare && !slices.Contains([]string{"y", "n", "yes", "no", "on", "off", "inf", "nan"}, strings.ToLower(s)) {
		return s
	}
	return strconv.Quote(s)
}

func (w *writer) head() {
	s := w.s
	w.line(0, "# "+s.Path+" with every setting and where it came from", "")
	w.line(0, "apiVersion: bench/v1", "")
	w.line(0, "kind: Scenario", "")
	w.set(0, "name", s.Name, "name")
	if s.About != "" {
		w.set(0, "about", quotedAlways(s.About), "about")
	}
	if len(s.Tags) > 0 {
		w.list(0, "tags", s.Tags, "tags")
	}
	w.set(0, "seed", strconv.FormatUint(s.Seed, 10), "seed")
}

func (w *writer) env() {
	s := w.s
	w.line(0, "env:", "")
	w.set(1, "world", s.World, "env.world")
	w.line(1, "store:", "")
	kind, _, _ := strings.Cut(s.Store.Kind, ":")
	w.set(2, "kind", kind, "env.store.kind")
	if s.Store.Spread > 0 {
		w.set(2, "spread", strconv.Itoa(s.Store.Spread), "env.store.spread")
	}
	w.profile()
	w.prices()
	w.container()
	w.line(1, "workers:", "")
	const p = "env.workers."
	w.set(2, "count", strconv.Itoa(s.Workers.Count), p+"count")
	w.set(2, "slots", strconv.Itoa(s.Workers.Slots), p+"slots")
	w.set(2, "cores", strconv.Itoa(s.Workers.Cores), p+"cores")
	w.line(2, "heartbeat:", "")
	w.set(3, "every", s.Workers.HeartbeatEvery.String(), p+"heartbeat.every")
	w.set(3, "timeout", s.Workers.HeartbeatTimeout.String(), p+"heartbeat.timeout")
}

// container writes what goes with the container of store minio, where it is given.
func (w *writer) container() {
	s := w.s.Store
	if s.Image != "" {
		w.set(2, "image", quotedAlways(s.Image), "env.store.image")
	}
	if s.Limits == (plan.Limits{}) {
		return
	}
	w.line(2, "limits:", "")
	if s.Limits.CPUs > 0 {
		w.set(3, "cpus", strconv.FormatFloat(s.Limits.CPUs, 'g', -1, 64), "env.store.limits.cpus")
	}
	if s.Limits.Memory > 0 {
		w.set(3, "memory", registry.Bytes(s.Limits.Memory).String(), "env.store.limits.memory")
	}
}

// profile writes a shipped profile by its name, any other with its figures: the file is not needed then.
func (w *writer) profile() {
	s := w.s.Store
	if s.Profile == plan.Local || s.Profile == s3Name {
		w.set(2, "profile", s.Profile, "env.store.profile")
		return
	}
	w.line(2, "profile:", w.from("env.store.profile"))
	for _, line := range profileLines(s.Profile, s.Model) {
		w.line(3, escaped(line), "")
	}
}

// prices writes those that are not the shipped ones, with their figures: the file is not needed then.
func (w *writer) prices() {
	p := w.s.Store.Prices
	if p == nil {
		return
	}
	w.line(2, "prices:", w.from("env.store.prices"))
	for _, line := range priceLines(*p) {
		w.line(3, escaped(line), "")
	}
}

func (w *writer) job() {
	j := w.s.Job
	w.line(0, "job:", "")
	w.set(1, "parallelism", strconv.Itoa(j.Parallelism), "job.parallelism")
	w.set(1, "maxParallelism", strconv.Itoa(j.MaxParallelism), "job.maxParallelism")
	w.line(1, "checkpoint:", "")
	const p = "job.checkpoint."
	w.set(2, "interval", j.Checkpoint.Interval.String(), p+"interval")
	w.set(2, "timeout", j.Checkpoint.Timeout.String(), p+"timeout")
	w.set(2, "minPause", j.Checkpoint.MinPause.String(), p+"minPause")
	w.set(2, "retain", strconv.Itoa(j.Checkpoint.Retain), p+"retain")
	w.set(2, "maxConcurrent", strconv.Itoa(j.Checkpoint.MaxConcurrent), p+"maxConcurrent")
	if n := j.Checkpoint.TolerableFailures; n != nil {
		w.set(2, "tolerableFailures", strconv.Itoa(*n), p+"tolerableFailures")
	}
	if n := j.Checkpoint.DeletesPerSecond; n > 0 {
		w.set(2, "deletesPerSecond", strconv.Itoa(n), p+"deletesPerSecond")
	}
	w.restart(j)
	w.set(1, "bufferRecords", strconv.Itoa(j.BufferRecords), "job.bufferRecords")
	w.set(1, "credits", strconv.Itoa(j.Credits), "job.credits")
	w.set(1, "flushEvery", j.FlushEvery.String(), "job.flushEvery")
}

func (w *writer) arms() {
	w.line(0, "arms:", "")
	for _, a := range w.s.Arms {
		w.line(1, quoted(a.Name)+":", "")
		set := func(depth int, key, text, path string) {
			w.set(depth, key, text, "arms."+a.Name+"."+path, "job."+path)
		}
		c := a.Backend.Changelog
		set(2, "backend", quoted(a.Backend.Name), "backend")
		w.lsm(a.Backend.LSM, set)
		if a.Backend.LocalRecovery {
			set(2, "localRecovery", "true", "localRecovery")
			set(2, "localCopies", registry.Bytes(a.Backend.LocalCopies).String(), "localCopies")
		}
		w.line(2, "changelog:", "")
		set(3, "enabled", strconv.FormatBool(c.Enabled), "changelog.enabled")
		w.line(3, "materialize:", "")
		if c.MaterializeOff {
			set(4, "enabled", "false", "changelog.materialize.enabled")
		}
		set(4, "every", c.Materialize.String(), "changelog.materialize.every")
		growth, budget := "off", "off"
		if c.Growth > 0 {
			growth = registry.Share(c.Growth).String()
		}
		if c.ReplayBudget > 0 {
			budget = c.ReplayBudget.String()
		}
		set(4, "growth", growth, "changelog.materialize.growth")
		set(4, "growthFloor", registry.Bytes(c.GrowthFloor).String(), "changelog.materialize.growthFloor")
		set(4, "replayBudget", budget, "changelog.materialize.replayBudget")
		if c.Concurrent > 0 {
			set(4, "concurrent", strconv.Itoa(c.Concurrent), "changelog.materialize.concurrent")
		}
		if c.ConcurrentJob > 0 {
			set(4, "concurrentJob", strconv.Itoa(c.ConcurrentJob), "changelog.materialize.concurrentJob")
		}
		set(3, "preemptive", registry.Bytes(c.Preemptive).String(), "changelog.preemptive")
		w.line(3, "batch:", "")
		set(4, "delay", c.BatchDelay.String(), "changelog.batch.delay")
		set(4, "size", registry.Bytes(c.BatchSize).String(), "changelog.batch.size")
		set(3, "inFlight", registry.Bytes(c.InFlight).String(), "changelog.inFlight")
		set(3, "storage", cmp.Or(c.Storage, plan.LogDFS), "changelog.storage")
		w.upload(c.Upload, set)
		if len(a.own) > 0 {
			w.line(2, "workload:", "")
			w.tree(3, a.ownOptions(), "arms."+a.Name+".workload")
		}
	}
	w.set(0, "baseline", quoted(w.s.Baseline), "baseline")
}

// upload writes how uploads of the log are tried again.
func (w *writer) upload(u plan.Upload, set func(depth int, key, text, path string)) {
	w.line(3, "upload:", "")
	set(4, "retryShare", registry.Share(u.RetryShare).String(), "changelog.upload.retryShare")
	set(4, "retriesPerSecond", strconv.Itoa(u.RetriesPerSecond), "changelog.upload.retriesPerSecond")
	if u.HedgeAfter > 0 {
		set(4, "hedgeAfter", u.HedgeAfter.String(), "changelog.upload.hedgeAfter")
	}
	set(4, "hedgeShare", registry.Share(u.HedgeShare).String(), "changelog.upload.hedgeShare")
}

// ownOptions is the tree of the options that an arm gives itself, as they were resolved.
func (a Arm) ownOptions() map[string]any {
	out := map[string]any{}
	for _, name := range a.own {
		if v := at(value(a.Options), name); v != nil {
			set(out, strings.Split(name, "."), canonical(v))
		}
	}
	tree, _ := value(canonical(out)).(map[string]any)
	return tree
}

func (w *writer) workload() {
	s := w.s
	w.line(0, "workload:", "")
	w.set(1, "name", quoted(s.Workload.Name), "workload.name")
	if s.Workload.Rate > 0 {
		w.set(1, "rate", rateText(s.Workload.Rate), "workload.source.rate", "workload.rate")
	}
	w.tree(1, value(s.Workload.Options), "workload")
}

// tree writes options, one setting a line.
func (w *writer) tree(depth int, v any, path string) {
	object, _ := v.(map[string]any)
	for _, k := range slices.Sorted(maps.Keys(object)) {
		inner, nested := object[k].(map[string]any)
		switch {
		case object[k] == nil:
		case nested && len(inner) > 0:
			w.line(depth, quoted(k)+":", "")
			w.tree(depth+1, inner, join(path, k))
		default:
			w.set(depth, quoted(k), flow(object[k]), join(path, k))
		}
	}
}

// flow writes a value on one line; JSON is YAML.
func flow(v any) string {
	if s, ok := v.(string); ok {
		return quoted(s)
	}
	return string(canonical(v))
}

func (w *writer) sim() {
	sim := w.s.Sim
	if sim.Rate == nil && sim.Records == nil && len(sim.Options) == 0 {
		return
	}
	w.line(0, "sim:", "")
	if sim.Rate != nil {
		w.set(1, "rate", rateText(*sim.Rate), "sim.rate")
	}
	if sim.Records != nil {
		w.set(1, "records", sim.Records.String(), "sim.records")
	}
	for _, k := range simKeys() {
		if v, ok := sim.Options[k]; ok {
			w.set(1, k, flow(value(v)), "sim."+k)
		}
	}
}

func (w *writer) phases() {
	w.line(0, "phases:", "")
	for _, p := range w.s.Phases {
		from := w.from(p.path + ".name")
		w.line(1, "- name: "+p.Name, from)
		set := func(key, text string) { w.set(2, key, text, p.path+"."+key) }
		if p.For > 0 {
			set("for", p.For.String())
		}
		if p.Records > 0 {
			set("records", strconv.FormatInt(p.Records, 10))
		}
		w.steps(p, set)
		if p.Until == "" {
			set("discard", strconv.FormatBool(p.Discard))
		}
		w.closing(p, set)
		if len(p.Faults) > 0 {
			w.line(2, "faults:", "")
		}
		for _, f := range p.Faults {
			w.fault(f)
		}
		if len(p.Rescales) > 0 {
			w.line(2, "rescale:", "")
		}
		for i, r := range p.Rescales {
			path := fmt.Sprintf("%s.rescale[%d]", p.path, i)
			w.line(3, "- to: "+strconv.Itoa(r.To), w.from(path+".to"))
			w.set(4, "from", r.From, path+".from")
			w.trigger(4, r.At, path+".at")
		}
	}
}

// steps writes the steps of a phase and their limit.
func (w *writer) steps(p Phase, set func(key, text string)) {
	if len(p.Steps) == 0 {
		return
	}
	w.line(2, "steps:", "")
	for i, step := range p.Steps {
		w.line(3, "- "+stepText(step), w.from(fmt.Sprintf("%s.steps[%d]", p.path, i)))
	}
	set("within", p.Within.String())
}

// closing writes what heal, drain and verify have of their own.
func (w *writer) closing(p Phase, set func(key, text string)) {
	if p.Until == "" {
		return
	}
	switch p.Name {
	case healName:
		set("heal", "all")
	case drainName:
		set("source", "stop")
		set("final", "[checkpoint]")
		set("gcGrace", p.GCGrace.String())
	case verifyName:
		w.list(2, "check", w.s.Verify.Checks, p.path+".check")
		set("audit", "retained")
		v, sim := w.s.Verify, w.s.World == "sim"
		set("restoreDigests", strconv.FormatBool(chosen(v.RestoreDigests, sim)))
		set("recordIds", strconv.FormatBool(chosen(v.RecordIDs, sim)))
	}
	set("until", p.Until)
	set("within", p.Within.String())
}

// chosen is a switch with an outer level.
func chosen(v *bool, outer bool) bool {
	if v != nil {
		return *v
	}
	return outer
}

func (w *writer) fault(f Fault) {
	set := func(key, text string) { w.set(4, key, text, f.path+"."+key) }
	w.line(3, "- id: "+quoted(f.ID), w.from(f.path+".id"))
	set("fault", quoted(f.Kind))
	set("where", quoted(f.Where))
	if options, ok := value(f.With).(map[string]any); ok && len(options) > 0 {
		w.line(4, "with:", "")
		w.tree(5, options, f.path+".with")
	}
	w.trigger(4, f.At, f.path+".at")
	if f.For > 0 {
		set("for", f.For.String())
	}
	if f.Arms != nil {
		w.list(4, "arms", f.Arms, f.path+".arms")
	}
}

func (w *writer) trigger(depth int, t plan.Trigger, path string) {
	w.line(depth, "at:", "")
	set := func(key, text string) { w.set(depth+1, key, text, path+"."+key) }
	switch {
	case t.Time != nil:
		set("time", t.Time.String())
	case t.Record != nil:
		set("record", strconv.FormatInt(*t.Record, 10))
	case t.Phase != "":
		set("phase", t.Phase)
	default:
		set("event", t.Event)
		set("count", strconv.Itoa(t.Count))
		set("since", quoted(t.Since))
	}
}

// optionsText writes options on one line for people: {disk: lose, share: 50%}.
func optionsText(options json.RawMessage) string {
	object, _ := value(options).(map[string]any)
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(object)) {
		if object[k] != nil {
			parts = append(parts, k+": "+valueText(object[k]))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func valueText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case map[string]any:
		return optionsText(canonical(v))
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = valueText(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return string(canonical(v))
}
