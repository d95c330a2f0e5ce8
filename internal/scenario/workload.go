package scenario

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/registry"
)

// workload reads which job runs, at which rate, with which options.
func (l *loader) workload(root object, s *Scenario) {
	f, ok := root.find("workload")
	if !ok {
		return
	}
	if !isMapping(f.value) {
		l.fail(f.where, "workload must be a mapping, is %s", kindOf(f.value))
		return
	}
	s.Workload.place = f.where
	what := strings.TrimSpace("workload " + l.peek(f, "name"))
	o := object{l: l, path: "workload", what: what, at: f.where, fields: l.entries(f.value, "workload", what)}
	if !o.need("name") || !read(o, "name", &s.Workload.Name, text) {
		return
	}
	e, err := l.tables.Workloads.Find(s.Workload.Name)
	if err != nil {
		l.fail(l.places["workload.name"], "%s (bench list workloads)", err)
		return
	}
	s.Workload.info = e.New
	l.rate(o, s)
	l.workloadOptions(f, s)
}

// rate reads the offered load: rate, or source.rate in the form of a list with one step.
func (l *loader) rate(o object, s *Scenario) {
	source := object{l: l}
	if f, ok := o.find("source"); ok && isMapping(f.value) {
		source.fields = l.entries(f.value, f.path, "source of "+o.what)
	}
	var open bool
	if read(source, "openLoop", &open, truth) && !open {
		l.fail(l.places["workload.source.openLoop"], "openLoop false %s", notYet)
	}
	given := read(o, "rate", &s.Workload.Rate, rate)
	at := l.places["workload.rate"]
	if source.has("rate") {
		if given {
			l.fail(l.places["workload.source.rate"], "the rate is given twice, first at %s:%d:%d", l.file, at.Line, at.Column)
		}
		at = l.places["workload.source.rate"]
		given = read(source, "rate", &s.Workload.Rate, stepped)
	}
	if given && s.Workload.info.Scheduled {
		l.fail(at, "workload %s keeps its own schedule and takes no rate", s.Workload.Name)
	}
}

// stepped reads a rate or {steps: [[0s, rate]]}.
func stepped(l *loader, f field) (float64, error) {
	if !isMapping(f.value) {
		return rate(l, f)
	}
	wrong := fmt.Errorf("rate must be like 40_000/s or {steps: [[0s, 40_000/s]]}")
	fields := l.entries(f.value, f.path, "rate")
	if len(fields) != 1 || fields[0].key != "steps" {
		return 0, wrong
	}
	list, ok := fields[0].value.(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 {
		return 0, wrong
	}
	if len(list.Values) > 1 {
		return 0, fmt.Errorf("a rate of several steps %s", notYet)
	}
	step, ok := l.resolve(list.Values[0]).(*ast.SequenceNode)
	if !ok || len(step.Values) != 2 {
		return 0, wrong
	}
	start, value := l.resolve(step.Values[0]), l.resolve(step.Values[1])
	if start == nil || value == nil {
		return 0, wrong
	}
	if d, err := registry.ParseDuration(start.GetToken().Value); err != nil || d != 0 {
		return 0, fmt.Errorf("the first step of a rate must begin at 0s")
	}
	return rate(l, field{key: f.key, value: value})
}

// workloadOptions reads the rest of the block, which belongs to the workload, and what arms have of it.
func (l *loader) workloadOptions(f field, s *Scenario) {
	info := s.Workload.info
	r := l.optionsOf(s)
	r.what, r.skip = "workload "+s.Workload.Name, []string{"name", "rate", "source.rate", "source.openLoop"}
	given, ok := l.options(f.value, "workload", r)
	if !ok {
		return
	}
	given = l.lift(given)
	s.Workload.Options = given
	if info.Resolve != nil {
		resolved, err := info.Resolve(given)
		if err != nil {
			l.optionProblems(err, "workload", f.where)
			return
		}
		s.Workload.Options = recanonical(resolved)
	}
	inputs := l.inputs(s, s.Workload.Options, "workload")
	for i := range s.Arms {
		arm := &s.Arms[i]
		arm.Options, arm.inputs = s.Workload.Options, inputs
		if arm.block.value != nil {
			l.armOptions(arm, s, given)
		}
	}
}

// optionsOf is a reader that knows the options of the workload.
func (l *loader) optionsOf(s *Scenario) *optionReader {
	info := s.Workload.info
	r := &optionReader{l: l, known: info.Options}
	if info.Options == nil && info.Resolve != nil {
		r.open = true
		if d, err := info.Resolve(json.RawMessage("{}")); err == nil {
			r.known = OptionsFrom(d)
		}
	}
	if o, ok := r.option("partitions"); ok {
		// The partitions belong to the source, beside its rate; as an option of the workload they stand on the first level.
		r.known = append(slices.Clone(r.known), Option{Name: "source.partitions", Kind: o.Kind})
	}
	return r
}

// armOptions puts the options that an arm has of its own over those that the workload was given.
func (l *loader) armOptions(arm *Arm, s *Scenario, given json.RawMessage) {
	r, base := l.optionsOf(s), arm.block.path
	r.what = "workload of arm " + arm.Name
	// What arms must have in common: the job and its input, record for record.
	for _, shared := range []string{"name", "rate", "partitions", "source"} {
		if at, ok := l.keyPlace(arm.block, shared); ok {
			l.fail(at, "arm %s cannot have its own %s: all arms get the same records", arm.Name, shared)
			r.skip = append(r.skip, shared)
		}
	}
	own, ok := l.options(arm.block.value, base, r)
	if !ok {
		return
	}
	merged, _ := value(given).(map[string]any)
	if merged == nil {
		merged = map[string]any{}
	}
	changes, _ := value(own).(map[string]any)
	arm.own = leaves(changes, "")
	overlay(merged, changes)
	arm.Options = canonical(merged)
	if resolve := s.Workload.info.Resolve; resolve != nil {
		resolved, err := resolve(arm.Options)
		if err != nil {
			l.optionProblems(err, base, arm.block.where)
			return
		}
		arm.Options = recanonical(resolved)
	}
	arm.inputs = l.inputs(s, arm.Options, base)
}

// keyPlace is where a key of a block stands.
func (l *loader) keyPlace(f field, key string) (Place, bool) {
	if !isMapping(f.value) {
		return Place{}, false
	}
	own, merged := l.pairs(f.value, 0)
	for _, v := range append(own, merged...) {
		if v.Key.GetToken().Value == key {
			return nodePlace(v.Key), true
		}
	}
	return Place{}, false
}

// overlay puts changes into a tree of options.
func overlay(into, changes map[string]any) {
	for k, v := range changes { // order-free: each goes to its own place
		inner, nested := v.(map[string]any)
		below, there := into[k].(map[string]any)
		if nested && there {
			overlay(below, inner)
			continue
		}
		into[k] = v
	}
}

// leaves lists the dotted names of the values in a tree of options, sorted.
func leaves(tree map[string]any, prefix string) (out []string) {
	for _, k := range slices.Sorted(maps.Keys(tree)) {
		if inner, nested := tree[k].(map[string]any); nested && len(inner) > 0 {
			out = append(out, leaves(inner, join(prefix, k))...)
			continue
		}
		out = append(out, join(prefix, k))
	}
	return out
}

// lift moves source.partitions to partitions.
func (l *loader) lift(options json.RawMessage) json.RawMessage {
	tree, _ := value(options).(map[string]any)
	source, ok := tree["source"].(map[string]any)
	partitions, has := source["partitions"]
	if !ok || !has {
		return options
	}
	const from, to = "workload.source.partitions", "workload.partitions"
	if at, twice := l.places[to]; twice {
		l.fail(l.places[from], "the partitions are given twice, first at %s:%d:%d", l.file, at.Line, at.Column)
	}
	l.places[to], l.origins[to] = l.places[from], l.origins[from]
	delete(source, "partitions")
	if len(source) == 0 {
		delete(tree, "source")
	}
	tree["partitions"] = partitions
	return canonical(tree)
}

// recanonical sorts the keys of JSON.
func recanonical(in json.RawMessage) json.RawMessage { return canonical(value(in)) }

// sim reads the overrides for the simulated world.
func (l *loader) sim(root object, s *Scenario) {
	f, ok := root.find("sim")
	if !ok {
		return
	}
	o, ok := l.object(f.value, "sim", "sim", "sim")
	if !ok {
		return
	}
	var r float64
	if read(o, "rate", &r, rate) {
		s.Sim.Rate = &r
		if s.Workload.info.Scheduled {
			l.fail(l.places["sim.rate"], "workload %s keeps its own schedule and takes no rate", s.Workload.Name)
		}
	}
	var part registry.Share
	if read(o, "records", &part, share) {
		s.Sim.Records = &part
		if part == 0 {
			l.fail(l.places["sim.records"], "records must be greater than 0%%")
		}
	}
	s.Sim.Options = map[string]json.RawMessage{}
	for _, key := range simKeys() {
		if f, ok := o.find(key); ok {
			l.simOption(f, s)
		}
	}
}

// simKeys are the keys of sim that override an option of the workload.
func simKeys() []string { return []string{"keys", "sizes", "speed", "duration"} }

func (l *loader) simOption(f field, s *Scenario) {
	info := s.Workload.info
	if s.Workload.Name == "" || info.Options == nil && info.Sim == nil && info.Resolve == nil {
		return // the workload is unknown, which has been reported
	}
	target, ok := info.Sim[f.key]
	if !ok {
		l.fail(f.at, "workload %s has no %s to override", s.Workload.Name, f.key)
		return
	}
	r := &optionReader{l: l, what: "sim", known: info.Options, ok: true}
	if r.known == nil && len(s.Workload.Options) > 0 {
		r.known = OptionsFrom(s.Workload.Options)
	}
	option, _ := r.option(target)
	v, err := r.value(f, option.Kind, 0)
	if err != nil {
		l.fail(f.where, "%s", err)
		return
	}
	s.Sim.Options[f.key] = canonical(v)
}

// simulated is options of the workload with the overrides of sim, complete again.
func (s *Scenario) simulated(of json.RawMessage) (json.RawMessage, error) {
	if len(s.Sim.Options) == 0 {
		return of, nil
	}
	options, _ := value(of).(map[string]any)
	if options == nil {
		options = map[string]any{}
	}
	for _, key := range simKeys() {
		if v, ok := s.Sim.Options[key]; ok {
			set(options, strings.Split(s.Workload.info.Sim[key], "."), v)
		}
	}
	out := canonical(options)
	if s.Workload.info.Resolve == nil {
		return out, nil
	}
	resolved, err := s.Workload.info.Resolve(out)
	if err != nil {
		return nil, err
	}
	return recanonical(resolved), nil
}

// set puts a value at a path, making the objects on the way.
func set(into map[string]any, path []string, v json.RawMessage) {
	for len(path) > 1 {
		next, ok := into[path[0]].(map[string]any)
		if !ok {
			next = map[string]any{}
			into[path[0]] = next
		}
		into, path = next, path[1:]
	}
	into[path[0]] = v
}

// inputs finds and hashes the files that the workload reads with some options, which stand in the block at base.
func (l *loader) inputs(s *Scenario, options json.RawMessage, base string) []plan.Input {
	out := []plan.Input{}
	if s.Workload.info.Inputs == nil {
		return out
	}
	files, err := s.Workload.info.Inputs(options)
	if err != nil {
		l.optionProblems(err, base, s.Workload.place)
		return out
	}
	for _, file := range files {
		in, err := l.input(s, file)
		if err != nil {
			l.fail(l.placeOr(base+"."+pathOf(value(options), file), base, "workload"), "%s", err)
			continue
		}
		out = append(out, in)
	}
	return out
}

// pathOf is the dotted name of the option that has the given text as its value.
func pathOf(options any, text string) string {
	object, _ := options.(map[string]any)
	keys := slices.Sorted(maps.Keys(object))
	for _, k := range keys {
		if object[k] == text {
			return k
		}
		if inner := pathOf(object[k], text); inner != "" {
			return join(k, inner)
		}
	}
	return ""
}

// input looks at one file. Symbolic links count as what they point to, so that none leads out of the folder.
func (l *loader) input(s *Scenario, path string) (plan.Input, error) {
	in := plan.Input{Path: path, File: path}
	if !filepath.IsAbs(path) {
		in.File = filepath.Join(s.Folder(), path)
	}
	found, err := filepath.EvalSymlinks(in.File)
	if !l.over.AllowPath {
		folder, folderErr := filepath.EvalSymlinks(s.Folder())
		if folderErr != nil {
			folder = s.Folder()
		}
		target := found
		if err != nil {
			target = in.File
		}
		if !inside(folder, target) {
			return in, fmt.Errorf("file %q lies outside the scenario's folder; --allow-path permits that", path)
		}
	}
	if err != nil {
		return in, fmt.Errorf("file %q does not exist in %s", path, s.Folder())
	}
	f, err := openRegular(found)
	if err != nil {
		return in, fmt.Errorf("file %q cannot be read: %w", path, err)
	}
	sum := sha256.New()
	in.Bytes, err = io.Copy(sum, f)
	err = errors.Join(err, f.Close())
	if err != nil {
		return in, fmt.Errorf("file %q cannot be read: %w", path, err)
	}
	in.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return in, nil
}

// inside tells whether a file lies in a folder or below it.
func inside(folder, file string) bool {
	a, errA := filepath.Abs(folder)
	b, errB := filepath.Abs(file)
	if errA != nil || errB != nil {
		return false
	}
	rel, err := filepath.Rel(a, b)
	return err == nil && filepath.IsLocal(rel)
}
