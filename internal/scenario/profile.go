package scenario

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	_ "embed"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/registry"
)

//go:embed profiles/s3-standard.yaml
var s3Standard string

// s3Name is the shipped profile.
const s3Name = "s3-standard"

// Profiles names the profiles that need no file.
func Profiles() []string { return []string{plan.Local, s3Name} }

// profile reads env.store.profile: a name, a file, or the figures themselves.
func (l *loader) profile(o object, s *Scenario) {
	f, ok := o.find("profile")
	if !ok {
		return
	}
	l.origin(f.path, f.where)
	if isMapping(f.value) {
		if p, ok := l.object(f.value, f.path, "profile", "profile"); ok {
			s.Store.Profile, s.Store.Model = l.figures(p)
		}
		return
	}
	name, err := text(l, f)
	if err != nil {
		l.fail(f.where, "profile must be %s, a file or a mapping, is %s", strings.Join(Profiles(), ", "), kindOf(f.value))
		return
	}
	if !isFile(name) {
		l.named(s, name, func(format string, args ...any) { l.fail(f.where, format, args...) })
		return
	}
	in, err := l.input(s, name)
	if err != nil {
		l.fail(f.where, "profile %s", err)
		return
	}
	l.profileFile(s, in.File, func(format string, args ...any) { l.fail(f.where, format, args...) })
}

// profileFlag applies --profile. A file that the command line names may lie anywhere.
func (l *loader) profileFlag(s *Scenario) {
	name := l.over.Profile
	if name == "" {
		return
	}
	l.origins["env.store.profile"] = "flag --profile"
	fail := func(format string, args ...any) { l.flag("--profile", format, args...) }
	if isFile(name) {
		l.profileFile(s, name, fail)
		return
	}
	l.named(s, name, fail)
}

// isFile tells a file from a name.
func isFile(name string) bool { return strings.ContainsAny(name, "./"+string(filepath.Separator)) }

// named takes a profile that needs no file.
func (l *loader) named(s *Scenario, name string, fail func(format string, args ...any)) {
	if !slices.Contains(Profiles(), name) {
		message := fmt.Sprintf("profile must be %s or a file such as mine.yaml, is %q", strings.Join(Profiles(), ", "), name)
		if near := registry.Nearest(name, Profiles()); near != "" {
			message += fmt.Sprintf("; did you mean %q?", near)
		}
		fail("%s", message)
		return
	}
	s.Store.Profile, s.Store.Model = name, plan.Profile{}
	if name == s3Name {
		s.Store.Model = Shipped()
	}
}

// profileFile reads a profile from a file.
func (l *loader) profileFile(s *Scenario, path string, fail func(format string, args ...any)) {
	src, err := readRegular(path)
	if err != nil {
		fail("profile cannot be read: %v", err)
		return
	}
	name, model, problems := ReadProfile(path, src)
	l.problems = append(l.problems, problems...)
	if len(problems) == 0 {
		s.Store.Profile, s.Store.Model = name, model
	}
}

// Shipped returns the figures of s3-standard.
func Shipped() plan.Profile {
	_, p, problems := readProfile("s3-standard.yaml", s3Standard)
	if len(problems) > 0 {
		panic("scenario: the shipped profile does not load: " + problems[0].Error())
	}
	return p
}

// ReadProfile reads a profile file, in YAML or JSON, as strictly as Load reads scenarios. path names it in problems. A
// profile of a shipped name must have the shipped figures: results carry the name alone.
func ReadProfile(path string, src []byte) (name string, p plan.Profile, problems []Problem) {
	return readProfile(path, string(src))
}

func readProfile(path, src string) (string, plan.Profile, []Problem) {
	l := newLoader(path, []byte(src), Tables{}, Overrides{})
	doc := l.parse([]byte(src))
	if doc == nil {
		return "", plan.Profile{}, sortProblems(l.problems)
	}
	root, ok := l.object(doc, "", "profile.file", "")
	if !ok {
		return "", plan.Profile{}, sortProblems(l.problems)
	}
	var version, kind string
	read(root, "apiVersion", &version, word)
	read(root, "kind", &kind, word)
	name, p := l.figures(root)
	if len(l.problems) == 0 && name == s3Name && src != s3Standard && !sameFigures(p, Shipped()) {
		l.fail(l.places["name"], "name %s is that of the shipped profile, which has other figures; choose another", name)
	}
	return name, p, sortProblems(l.problems)
}

func sameFigures(a, b plan.Profile) bool {
	a.About = b.About
	return a == b
}

// figures reads what a profile says, from a file or from a scenario.
func (l *loader) figures(o object) (profileName string, p plan.Profile) {
	before := len(l.problems)
	read(o, "name", &profileName, name)
	read(o, "about", &p.About, text)
	for _, op := range operations(&p) {
		f, ok := o.find(op.name)
		if !ok {
			continue
		}
		q, ok := l.object(f.value, f.path, "profile.operation", op.name)
		if !ok {
			continue
		}
		read(q, "p50", &op.first.P50, duration)
		op.first.P99 = op.first.P50
		read(q, "p99", &op.first.P99, duration)
	}
	if f, ok := o.find("bandwidth"); ok {
		if b, ok := l.object(f.value, f.path, "profile.bandwidth", "bandwidth"); ok {
			read(b, "connection", &p.Bandwidth.Connection, bandwidth)
			read(b, "worker", &p.Bandwidth.Worker, bandwidth)
			read(b, "store", &p.Bandwidth.Store, bandwidth)
		}
	}
	if f, ok := o.find("requests"); ok {
		if r, ok := l.object(f.value, f.path, "profile.requests", "requests"); ok {
			read(r, "write", &p.Requests.Write, requestRate)
			read(r, "read", &p.Requests.Read, requestRate)
		}
	}
	if len(l.problems) > before {
		return profileName, p
	}
	for _, err := range p.Validate() {
		l.optionProblems(err, o.path, o.at)
	}
	switch {
	case profileName == plan.Local:
		l.fail(l.places[join(o.path, "name")], "name local is that of the profile that adds nothing; choose another")
	case p.Zero():
		l.fail(o.at, "a profile without figures adds nothing; that is profile local")
	}
	return profileName, p
}

// operation is one line of a profile.
type operation struct {
	name  string
	first *plan.FirstByte
}

func operations(p *plan.Profile) []operation {
	return []operation{{"put", &p.Put}, {"get", &p.Get}, {"stat", &p.Stat}, {"list", &p.List}, {"delete", &p.Delete}}
}

// bandwidth reads bytes a second.
func bandwidth(_ *loader, f field) (registry.Bytes, error) {
	s, err := scalar(f, "a bandwidth such as 90MB/s")
	if err != nil {
		return 0, err
	}
	size, ok := strings.CutSuffix(strings.TrimSpace(s), "/s")
	b, err := registry.ParseBytes(size)
	if !ok || err != nil || b <= 0 {
		return 0, fmt.Errorf("%s %q is no bandwidth; write it as 90MB/s", f.key, s)
	}
	return b, nil
}

// requestRate reads requests a second.
func requestRate(l *loader, f field) (registry.Rate, error) {
	r, err := rate(l, f)
	if err == nil && r < 1 {
		err = errors.New(f.key + " must be at least 1/s")
	}
	return registry.Rate(r), err
}

// FormatProfile writes a profile as ReadProfile reads it.
func FormatProfile(name string, p plan.Profile) []byte {
	var b strings.Builder
	b.WriteString("apiVersion: bench/v1\nkind: StoreProfile\n")
	for _, line := range profileLines(name, p) {
		b.WriteString(line + "\n")
	}
	return []byte(b.String())
}

// profileLines are the settings of a profile, one a line.
func profileLines(name string, p plan.Profile) []string {
	out := []string{"name: " + quoted(name)}
	if p.About != "" {
		out = append(out, "about: "+strconv.Quote(p.About))
	}
	for _, op := range operations(&p) {
		if op.first.P50 > 0 {
			out = append(out, fmt.Sprintf("%s: {p50: %s, p99: %s}", op.name, op.first.P50, op.first.P99))
		}
	}
	var parts []string
	add := func(key, value string, set bool) {
		if set {
			parts = append(parts, key+": "+value)
		}
	}
	line := func(key string) {
		if len(parts) > 0 {
			out = append(out, key+": {"+strings.Join(parts, ", ")+"}")
		}
		parts = nil
	}
	b, r := p.Bandwidth, p.Requests
	add("connection", bandwidthText(b.Connection), b.Connection > 0)
	add("worker", bandwidthText(b.Worker), b.Worker > 0)
	add("store", bandwidthText(b.Store), b.Store > 0)
	line("bandwidth")
	add("write", r.Write.String(), r.Write > 0)
	add("read", r.Read.String(), r.Read > 0)
	line("requests")
	return out
}

// bandwidthText writes whole megabytes as such.
func bandwidthText(b registry.Bytes) string {
	if b%1e6 == 0 {
		return fmt.Sprintf("%dMB/s", b/1e6)
	}
	return b.String() + "/s"
}

// profileText says on one line what a profile adds.
func profileText(p plan.Profile) string {
	if p.Zero() {
		return "adds nothing to what the store itself takes"
	}
	var out []string
	for _, op := range operations(&p) {
		if op.first.P50 > 0 {
			out = append(out, fmt.Sprintf("%s %s (p99 %s)", op.name, op.first.P50, op.first.P99))
		}
	}
	b, r := p.Bandwidth, p.Requests
	for _, x := range []struct {
		of    string
		limit registry.Bytes
	}{{"a connection", b.Connection}, {"a worker", b.Worker}, {"the store", b.Store}} {
		if x.limit > 0 {
			out = append(out, bandwidthText(x.limit)+" "+x.of)
		}
	}
	if r.Write > 0 || r.Read > 0 {
		out = append(out, fmt.Sprintf("throttled above %s writes and %s reads a prefix", limitText(r.Write), limitText(r.Read)))
	}
	return strings.Join(out, ", ")
}

func limitText(r registry.Rate) string {
	if r == 0 {
		return "any number of"
	}
	return r.String()
}
