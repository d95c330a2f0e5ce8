package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"statebench.dev/bench/internal/registry"
)

// optionReader turns a YAML block into the canonical JSON of options: keys sorted, values with units written as their
// types write them.
type optionReader struct {
	l     *loader
	what  string // "workload counter", "with of fault kill-1"
	known []Option
	open  bool     // keys that are not known are taken as they are written, someone else judges them
	skip  []string // dotted names of keys that are read elsewhere
	ok    bool
}

// options reads a block of options. ok is false when a problem was reported.
func (l *loader) options(n ast.Node, path string, r *optionReader) (_ json.RawMessage, ok bool) {
	r.l, r.ok = l, true
	if !isMapping(n) {
		l.fail(nodePlace(n), "%s must be a mapping, is %s", r.what, kindOf(n))
		return nil, false
	}
	before := len(l.problems)
	v := r.mapping(n, path, "", 0)
	return canonical(v), r.ok && len(l.problems) == before
}

// canonical writes JSON with sorted keys and without HTML escapes. v holds only maps, slices, strings, json.Number and bools.
func canonical(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("scenario: value from YAML has no JSON: " + err.Error())
	}
	return bytes.TrimSpace(b.Bytes())
}

// mapping reads one level; prefix is the dotted name of the level among the options.
func (r *optionReader) mapping(n ast.Node, path, prefix string, depth int) map[string]any {
	out := map[string]any{}
	if depth > maxDepth {
		r.bad(nodePlace(n), "%s is nested too deeply", r.what)
		return out
	}
	for _, f := range r.l.entries(n, path, r.level(prefix)) {
		full := join(prefix, f.key)
		if slices.Contains(r.skip, full) {
			continue
		}
		option, found := r.option(full)
		switch {
		case found || r.open && !r.nests(full):
			if v, err := r.value(f, option.Kind, depth); err != nil {
				r.bad(f.where, "%s", err)
			} else {
				out[f.key] = v
			}
		case r.nests(full) && isMapping(f.value):
			if inner := r.mapping(f.value, f.path, full, depth+1); len(inner) > 0 {
				out[f.key] = inner
			}
		case r.nests(full):
			r.bad(f.where, "%s must be a mapping with %s, is %s", f.key, strings.Join(r.siblings(full), ", "), kindOf(f.value))
		default:
			r.bad(f.at, "%s", unknownKey(f.key, r.level(prefix), r.siblings(prefix)))
		}
	}
	return out
}

func (r *optionReader) bad(at Place, format string, args ...any) {
	r.l.fail(at, format, args...)
	r.ok = false
}

func (r *optionReader) level(prefix string) string {
	if prefix == "" {
		return r.what
	}
	return prefix + " of " + r.what
}

func (r *optionReader) option(full string) (Option, bool) {
	for _, o := range r.known {
		if o.Name == full {
			return o, true
		}
	}
	return Option{}, false
}

func (r *optionReader) nests(full string) bool {
	return slices.ContainsFunc(r.names(), func(n string) bool { return strings.HasPrefix(n, full+".") })
}

// names lists the dotted names of all keys that may stand in the block.
func (r *optionReader) names() []string {
	names := slices.Clone(r.skip)
	for _, o := range r.known {
		names = append(names, o.Name)
	}
	return names
}

// siblings lists the keys that stand on the level of prefix.
func (r *optionReader) siblings(prefix string) []string {
	var out []string
	for _, rest := range r.names() {
		if prefix != "" {
			var ok bool
			if rest, ok = strings.CutPrefix(rest, prefix+"."); !ok {
				continue
			}
		}
		first, _, _ := strings.Cut(rest, ".")
		if !slices.Contains(out, first) {
			out = append(out, first)
		}
	}
	return out
}

// value converts one value by its kind.
func (r *optionReader) value(f field, kind string, depth int) (any, error) {
	if element, list := strings.CutPrefix(kind, "[]"); list {
		return r.list(f, element, depth)
	}
	if kind == "" {
		return r.loose(f, depth)
	}
	r.l.origin(f.path, f.where)
	switch kind {
	case "duration":
		d, err := duration(r.l, f)
		return d.String(), err
	case "size":
		s, err := scalar(f, "a size such as 4MiB")
		if err != nil {
			return nil, err
		}
		b, err := registry.ParseBytes(s)
		return b.String(), err
	case "rate":
		v, err := rate(r.l, f)
		return registry.Rate(v).String(), err
	case "share":
		s, err := share(r.l, f)
		return s.String(), err
	case "int":
		n, err := whole[int64](math.MinInt64, math.MaxInt64)(r.l, f)
		return json.Number(strconv.FormatInt(n, 10)), err
	case "number":
		return numberValue(f)
	case "bool":
		return truth(r.l, f)
	case "text":
		return text(r.l, f)
	}
	return nil, fmt.Errorf("option %s has the unknown kind %q", f.key, kind)
}

func numberValue(f field) (any, error) {
	s, err := scalar(f, "a number")
	if err != nil {
		return nil, err
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return nil, fmt.Errorf("%s must be a number, is %q", f.key, s)
	}
	if n, ok := parseWhole(s); ok {
		return json.Number(strconv.FormatInt(n, 10)), nil
	}
	return json.Number(strconv.FormatFloat(v, 'g', -1, 64)), nil
}

func (r *optionReader) list(f field, kind string, depth int) (any, error) {
	elements, ok := r.l.items(f, f.key)
	if !ok {
		r.ok = false
		return []any{}, nil
	}
	r.l.origin(f.path, f.where)
	out := []any{}
	for _, e := range elements {
		v, err := r.value(e, kind, depth+1)
		if err != nil {
			r.bad(e.where, "%s", err)
			continue
		}
		out = append(out, v)
	}
	return out, nil
}

// loose converts a value as it is written: numbers to numbers, truth values to truth values, the rest to text.
func (r *optionReader) loose(f field, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%s is nested too deeply", f.key)
	}
	r.l.origin(f.path, f.where)
	switch v := f.value.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		inner := &optionReader{l: r.l, what: f.key + " of " + r.what, open: true, ok: true}
		out := inner.mapping(v, f.path, "", depth+1)
		r.ok = r.ok && inner.ok
		return out, nil
	case *ast.SequenceNode:
		return r.list(f, "", depth)
	case *ast.BoolNode:
		return v.Value, nil
	case *ast.IntegerNode:
		n, err := whole[int64](math.MinInt64, math.MaxInt64)(r.l, f)
		return json.Number(strconv.FormatInt(n, 10)), err
	case *ast.FloatNode:
		return numberValue(f)
	}
	return scalar(f, "a value")
}

// optionProblems reports an error of a workload or a fault where the option it is about stands. base is the path of the
// block of options; fallback is used when the error names none.
func (l *loader) optionProblems(err error, base string, fallback Place) {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, e := range joined.Unwrap() {
			l.optionProblems(e, base, fallback)
		}
		return
	}
	message := err.Error()
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		message = fmt.Sprintf("%s must be %s, is a %s", wrongType.Field, typeWords(wrongType), wrongType.Value)
	}
	l.fail(l.optionPlace(err, base, fallback), "%s", strings.ReplaceAll(message, "\n", "; "))
}

// optionPlace finds the option that an error is about: it says so itself, or its text begins with the name.
func (l *loader) optionPlace(err error, base string, fallback Place) Place {
	var named interface{ Option() string }
	var wrongType *json.UnmarshalTypeError
	candidate := ""
	switch {
	case errors.As(err, &named):
		candidate = named.Option()
	case errors.As(err, &wrongType):
		candidate = wrongType.Field
	default:
		first, rest, _ := strings.Cut(err.Error(), " ")
		if first == "option" {
			first, _, _ = strings.Cut(rest, " ")
		}
		candidate = strings.Trim(first, `:"`)
	}
	if candidate == "where" {
		base, _ = cutLast(base)
	}
	for candidate != "" {
		if at, ok := l.places[join(base, candidate)]; ok {
			return at
		}
		candidate, _ = cutLast(candidate)
	}
	return fallback
}

// cutLast takes the last part off a dotted path.
func cutLast(path string) (before, last string) {
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

// typeWords says in words what a JSON field wants.
func typeWords(e *json.UnmarshalTypeError) string {
	switch kindOfType(e.Type) {
	case "duration":
		return "a duration such as 250ms"
	case "size":
		return "a size such as 4MiB"
	case "rate":
		return "a rate such as 40_000/s"
	case "share":
		return "a share such as 5%"
	case "int":
		return "a whole number"
	case "number":
		return "a number"
	case "bool":
		return "true or false"
	case "text":
		return "text"
	}
	return "something else"
}
