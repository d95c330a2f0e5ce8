package scenario

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"statebench.dev/bench/internal/registry"
)

// Param is a parameter of a scenario with the value in force.
type Param struct {
	Name  string
	Value string // as it was written
	From  string // file:line or flag
}

// param is a parameter while the file is read.
type param struct {
	name  string
	value ast.Node
	kind  string // of its value: paramKind
	given string // where its value was given, for messages
	from  string // the same, for origins
	used  bool
}

// reference is ${name} in a value; $${ stands for ${ itself.
var reference = regexp.MustCompile(`\$\$\{|\$\{([^}]*)\}`) // read-only: compiled once

// paramName is the form of a parameter's name.
var paramName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9-]*$`) // read-only: compiled once

// parameters reads the block params, before anything that may refer to it, and applies the --set flags.
func (l *loader) parameters(doc ast.Node, s *Scenario) {
	var block ast.Node
	if isMapping(doc) {
		own, _ := l.pairs(doc, 0)
		for _, v := range own {
			if v.Key.GetToken().Value == "params" {
				block = l.resolve(v.Value)
			}
		}
	}
	if block != nil {
		if _, null := block.(*ast.NullNode); !null {
			l.defined(block)
		}
	}
	if l.params == nil {
		l.params = []*param{} // from here on ${ means something
	}
	for _, set := range l.over.Set {
		l.set(set)
	}
	for _, p := range l.params {
		s.Params = append(s.Params, Param{Name: p.name, Value: p.value.GetToken().Value, From: p.from})
	}
}

// defined reads the parameters of the file.
func (l *loader) defined(block ast.Node) {
	if !isMapping(block) {
		l.fail(nodePlace(block), "params must be a mapping from names to values, is %s", kindOf(block))
		return
	}
	var found []*param
	for _, f := range l.entries(block, "params", "params") {
		switch {
		case !paramName.MatchString(f.key):
			l.fail(f.at, "parameter %q must be a letter and then letters, digits or hyphens", f.key)
		case strings.Contains(f.value.GetToken().Value, "${"):
			l.fail(f.where, "parameter %s must not refer to another", f.key)
		case paramKind(f.value) == "":
			l.fail(f.where, "parameter %s must be a single value, is %s", f.key, kindOf(f.value))
		default:
			found = append(found, &param{name: f.key, value: f.value, kind: paramKind(f.value), from: fmt.Sprintf("%s:%d", l.file, f.where.Line),
				given: fmt.Sprintf("at %s:%d:%d", l.file, f.where.Line, f.where.Column)})
		}
	}
	l.params = found
}

// paramKind is the kind of a parameter's value, by which another one is judged; empty for what is no single value.
func paramKind(n ast.Node) string {
	switch v := n.(type) {
	case *ast.BoolNode:
		return "true or false"
	case *ast.IntegerNode, *ast.FloatNode:
		return "a number"
	case *ast.StringNode:
		return textKind(v.Value)
	case *ast.LiteralNode:
		return "text"
	}
	return ""
}

// textKind is the kind of a value that is written as text: by its unit.
func textKind(s string) string {
	if _, err := registry.ParseDuration(s); err == nil {
		return "a duration"
	}
	if _, err := registry.ParseBytes(s); err == nil {
		return "a size"
	}
	if _, err := registry.ParseRate(s); err == nil {
		return "a rate"
	}
	if _, err := registry.ParseShare(s); err == nil && strings.HasSuffix(s, "%") {
		return "a share"
	}
	if _, ok := parseWhole(s); ok {
		return "a number"
	}
	return "text"
}

// set applies one --set flag.
func (l *loader) set(text string) {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		l.flag("--set", "must be name=value, is %q", text)
		return
	}
	i := slices.IndexFunc(l.params, func(p *param) bool { return p.name == name })
	if i < 0 {
		known := make([]string, len(l.params))
		for i, p := range l.params {
			known[i] = p.name
		}
		l.flag("--set", "%s", unknownParam(name, known))
		return
	}
	n := flagValue(value)
	p := l.params[i]
	if n == nil {
		l.flag("--set", "the value of %s must be a single value, is %q", name, value)
		return
	}
	kind := paramKind(n)
	if p.kind == "text" { // whatever looks like a number is text where text is wanted
		if kind != "text" {
			n = textNode(n, value)
		}
		kind = "text"
	}
	if kind != p.kind {
		l.flag("--set", "%s is %s (%s, given %s), %q is %s", name, p.kind, p.value.GetToken().Value, p.given, value, kind)
		return
	}
	p.value, p.given, p.from = n, "by --set", "flag --set"
}

// flagValue reads a value of the command line as YAML does; nil when it is no single value.
func flagValue(text string) ast.Node {
	f, err := parser.ParseBytes([]byte(text), 0)
	if err != nil || len(f.Docs) != 1 || f.Docs[0].Body == nil || paramKind(f.Docs[0].Body) == "" {
		return nil
	}
	return f.Docs[0].Body
}

func unknownParam(name string, known []string) string {
	message := fmt.Sprintf("parameter %q does not exist", name)
	switch near := registry.Nearest(name, known); {
	case near != "":
		return message + fmt.Sprintf("; did you mean %q?", near)
	case len(known) == 0:
		return message + "; the scenario has no params"
	}
	return message + "; there are " + strings.Join(known, ", ")
}

// substitute puts the values of parameters into a value: the value itself, with its type, where ${name} is all there is, else
// text. It returns nil after it reported a problem.
func (l *loader) substitute(n ast.Node) ast.Node {
	if l.params == nil || !strings.Contains(n.GetToken().Value, "${") {
		return n
	}
	text, err := scalar(field{value: n}, "text")
	if err != nil {
		return n
	}
	at := nodePlace(n)
	var used []*param
	unknown := false
	out := reference.ReplaceAllStringFunc(text, func(ref string) string {
		if ref == "$${" {
			return "${"
		}
		name := ref[2 : len(ref)-1]
		i := slices.IndexFunc(l.params, func(p *param) bool { return p.name == name })
		if i < 0 {
			unknown = true
			known := make([]string, len(l.params))
			for i, p := range l.params {
				known[i] = p.name
			}
			l.fail(at, "%s; a plain ${ is written $${", unknownParam(name, known))
			return ref
		}
		l.params[i].used = true
		used = append(used, l.params[i])
		return l.params[i].value.GetToken().Value
	})
	switch {
	case unknown:
		return nil
	case len(used) == 0:
		return textNode(n, out)
	}
	l.given[at] = used
	if len(used) == 1 && strings.TrimSpace(text) == "${"+used[0].name+"}" {
		return used[0].value
	}
	return textNode(n, out)
}

// textNode is a text at the place of a node.
func textNode(at ast.Node, text string) ast.Node {
	t := *at.GetToken()
	t.Value = text
	return ast.String(&t)
}

// valueOf says which parameters a value at a place came from, for messages.
func (l *loader) valueOf(at Place) string {
	var parts []string
	for _, p := range l.given[at] {
		parts = append(parts, fmt.Sprintf("${%s}, given %s", p.name, p.given))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (value of " + strings.Join(parts, " and ") + ")"
}

// originOf adds the parameters to the origin of a setting.
func (l *loader) originOf(at Place) string {
	from := fmt.Sprintf("%s:%d", l.file, at.Line)
	for _, p := range l.given[at] {
		from += fmt.Sprintf(", ${%s} of %s", p.name, strings.Replace(p.from, l.file+":", "line ", 1))
	}
	return from
}

// unused warns of parameters that nothing refers to.
func (l *loader) unused() {
	for _, p := range l.params {
		if !p.used {
			l.warn(l.places["params."+p.name], "parameter %s is not used", p.name)
		}
	}
}

// escaped writes a text so that no part of it is taken for a parameter.
func escaped(s string) string { return strings.ReplaceAll(s, "${", "$${") }
