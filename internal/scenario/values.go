package scenario

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/registry"
)

// kebab is the form of every name that a user gives or reads in results.
var kebab = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`) // read-only: compiled once

// origin remembers where a setting comes from.
func (l *loader) origin(path string, at Place) {
	l.origins[path] = l.originOf(at)
}

// read sets into from the key, if it is given and parse accepts it; else into keeps its value. It tells whether into
// was set.
func read[T any](o object, key string, into *T, parse func(l *loader, f field) (T, error)) bool {
	f, ok := o.find(key)
	if !ok {
		return false
	}
	v, err := parse(o.l, f)
	if err != nil {
		o.l.fail(f.where, "%s", err)
		return false
	}
	*into = v
	o.l.origin(f.path, f.where)
	return true
}

// scalar is the text of a scalar value.
func scalar(f field, want string) (string, error) {
	switch v := f.value.(type) {
	case *ast.LiteralNode:
		return v.Value.Value, nil
	case *ast.StringNode:
		return v.Value, nil
	case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode:
		return "", fmt.Errorf("%s must be %s, is %s", f.key, want, kindOf(f.value))
	}
	return f.value.GetToken().Value, nil
}

// text reads a text; a bare number or truth value is refused, since its writer probably means something else.
func text(_ *loader, f field) (string, error) {
	switch f.value.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		s, err := scalar(f, "text")
		return strings.TrimSpace(s), err
	}
	return "", fmt.Errorf("%s must be text, is %s", f.key, kindOf(f.value))
}

// name reads a kebab-case name.
func name(l *loader, f field) (string, error) {
	s, err := text(l, f)
	if err == nil {
		err = checkName(f.key, s)
	}
	return s, err
}

// checkName says what is wrong with a name.
func checkName(what, s string) error {
	switch {
	case !kebab.MatchString(s):
		return fmt.Errorf("%s %q must be in kebab-case: a-z, 0-9 and single hyphens", what, s)
	case len(s) > plan.MaxName:
		return fmt.Errorf("%s must have at most %d characters, has %s: files are named after it", what, plan.MaxName, grouped(int64(len(s))))
	}
	return nil
}

// oneOf reads one of a few words. Words in later are refused as not supported yet.
func oneOf(words, later []string) func(l *loader, f field) (string, error) {
	return func(_ *loader, f field) (string, error) {
		s, err := scalar(f, "one of "+strings.Join(words, ", "))
		if err != nil {
			return "", err
		}
		return s, checkWord(f.key, s, words, later)
	}
}

// checkWord says what is wrong with a word that must be one of words.
func checkWord(key, s string, words, later []string) error {
	if slices.Contains(words, s) {
		return nil
	}
	if slices.Contains(later, s) {
		return fmt.Errorf("%s %q %s; it takes %s", key, s, notYet, strings.Join(words, ", "))
	}
	msg := fmt.Sprintf("%s must be %s, is %q", key, strings.Join(words, " or "), s)
	if near := registry.Nearest(s, words); near != "" && len(words) > 1 {
		msg += fmt.Sprintf("; did you mean %q?", near)
	}
	return fmt.Errorf("%s", msg)
}

// duration reads a time with its unit.
func duration(_ *loader, f field) (registry.Duration, error) {
	s, err := scalar(f, "a duration such as 250ms")
	if err != nil {
		return 0, err
	}
	return registry.ParseDuration(s)
}

// orOff also reads the word off, which is 0.
func orOff[T any](parse func(*loader, field) (T, error)) func(*loader, field) (T, error) {
	return func(l *loader, f field) (T, error) {
		if s, err := scalar(f, "a value or off"); err == nil && s == "off" {
			var none T
			return none, nil
		}
		return parse(l, f)
	}
}

// positiveDuration reads a time greater than zero.
func positiveDuration(l *loader, f field) (registry.Duration, error) {
	d, err := duration(l, f)
	if err == nil && d <= 0 {
		err = fmt.Errorf("%s must be greater than 0", f.key)
	}
	return d, err
}

// positiveBytes reads a size greater than zero.
func positiveBytes(_ *loader, f field) (int64, error) {
	s, err := scalar(f, "a size such as 4MiB")
	if err != nil {
		return 0, err
	}
	b, err := registry.ParseBytes(s)
	if err == nil && b <= 0 {
		err = fmt.Errorf("%s must be greater than 0", f.key)
	}
	return int64(b), err
}

// bytesOrNone reads a size, of which 0 is one.
func bytesOrNone(_ *loader, f field) (int64, error) {
	s, err := scalar(f, "a size such as 4MiB")
	if err != nil {
		return 0, err
	}
	b, err := registry.ParseBytes(s)
	return int64(b), err
}

// rate reads records a second.
func rate(_ *loader, f field) (float64, error) {
	s, err := scalar(f, "a rate such as 40_000/s")
	if err != nil {
		return 0, err
	}
	r, err := registry.ParseRate(s)
	return float64(r), err
}

// share reads a part of a whole.
func share(_ *loader, f field) (registry.Share, error) {
	s, err := scalar(f, "a share such as 5%")
	if err != nil {
		return 0, err
	}
	return registry.ParseShare(s)
}

// positiveShare reads a part of a whole that is something.
func positiveShare(l *loader, f field) (registry.Share, error) {
	s, err := share(l, f)
	if err == nil && (s <= 0 || s > 1) {
		return 0, fmt.Errorf("%s must be above 0%% and at most 100%%, is %s", f.key, s)
	}
	return s, err
}

// truth reads true or false.
func truth(_ *loader, f field) (bool, error) {
	if b, ok := f.value.(*ast.BoolNode); ok {
		return b.Value, nil
	}
	return false, fmt.Errorf("%s must be true or false, is %s", f.key, kindOf(f.value))
}

// parseWhole reads a whole number in decimal digits, grouped by underscores or not. Hexadecimal and octal forms are
// refused: 010 means 8 to some readers and 10 to others.
func parseWhole(s string) (int64, bool) {
	t := strings.ReplaceAll(strings.TrimPrefix(s, "-"), "_", "")
	if t == "" || strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") || len(t) > 1 && t[0] == '0' {
		return 0, false
	}
	for _, r := range t {
		if r < '0' || r > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
	return n, err == nil
}

// whole reads a whole number from lo to hi.
func whole[T int | int64](lo, hi T) func(l *loader, f field) (T, error) {
	return func(_ *loader, f field) (T, error) {
		s, err := scalar(f, "a whole number")
		if err != nil {
			return 0, err
		}
		n, ok := parseWhole(s)
		if !ok {
			return 0, fmt.Errorf("%s must be a whole number in decimal digits, is %q", f.key, s)
		}
		if n > int64(hi) && int64(hi) >= maxCount {
			return 0, fmt.Errorf("%s must be at most %s, is %s", f.key, grouped(int64(hi)), grouped(n))
		}
		if n < int64(lo) || n > int64(hi) {
			return 0, fmt.Errorf("%s must be %s, is %s", f.key, bounds(int64(lo), int64(hi)), grouped(n))
		}
		return T(n), nil
	}
}

// inRange reads a whole number within the limits that the block gives its key.
func inRange[T int | int64](l *loader, f field) (T, error) {
	return whole(T(f.spec.lo), T(f.spec.hi))(l, f)
}

// word reads one of the words that the block gives its key.
func word(l *loader, f field) (string, error) { return oneOf(f.spec.words, nil)(l, f) }

// maxCount is the upper end of numbers that have no natural one.
const maxCount = plan.MaxRecords

// maxReps bounds repetitions: all plans are made before the first run.
const maxReps = plan.MaxReps

func bounds(lo, hi int64) string {
	if hi >= maxCount {
		return "at least " + grouped(lo)
	}
	return grouped(lo) + " to " + grouped(hi)
}

// seedValue reads the seed, any whole number that fits 64 bits without a sign.
func seedValue(_ *loader, f field) (uint64, error) {
	s, err := scalar(f, "a whole number")
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.ReplaceAll(s, "_", ""), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("seed must be a whole number from 0 to 2^64-1, is %q", s)
	}
	return n, nil
}

// items returns the elements of a list, aliases resolved, as fields whose paths carry the index.
func (l *loader) items(f field, what string) ([]field, bool) {
	seq, ok := f.value.(*ast.SequenceNode)
	if !ok {
		l.fail(f.where, "%s must be a list, is %s", what, kindOf(f.value))
		return nil, false
	}
	var out []field
	for i, v := range seq.Values {
		e := field{key: f.key, path: fmt.Sprintf("%s[%d]", f.path, i), at: nodePlace(v), where: nodePlace(v), value: l.resolve(v)}
		if e.value == nil {
			continue
		}
		l.places[e.path] = e.where
		out = append(out, e)
	}
	return out, true
}

// words reads a list of texts, each checked by parse; a bad one is reported at its own place and left out.
func (l *loader) words(f field, what string, parse func(l *loader, f field) (string, error)) []string {
	elements, ok := l.items(f, what)
	if !ok {
		return nil
	}
	out := []string{}
	for _, e := range elements {
		s, err := parse(l, e)
		if err != nil {
			l.fail(e.where, "%s", err)
			continue
		}
		if slices.Contains(out, s) {
			l.fail(e.where, "%s %q is given twice", f.key, s)
			continue
		}
		out = append(out, s)
	}
	l.origin(f.path, f.where)
	return out
}

// quotedAlways is a text in double quotes, which YAML reads back.
func quotedAlways(s string) string { return strconv.Quote(escaped(s)) }

// grouped writes a whole number with commas between its groups of three.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}
