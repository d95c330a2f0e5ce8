package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"statebench.dev/bench/internal/registry"
)

// maxDepth and maxNodes bound what aliases may expand to.
const (
	maxDepth = 40
	maxNodes = 20_000
)

// loader reads one file and collects every problem on the way.
type loader struct {
	file     string
	lines    []string
	tables   Tables
	over     Overrides
	problems []Problem
	warnings []Problem
	anchors  map[string]ast.Node
	places   map[string]Place  // path of a setting -> where its value stands
	origins  map[string]string // path of a setting -> where it comes from
	params   []*param          // nil: there are none, and ${ means nothing
	given    map[Place][]*param
	nodes    int
}

// object is a mapping whose keys have been checked.
type object struct {
	l      *loader
	path   string // dotted, with list indices: phases[3].faults[0]; empty for the whole file
	what   string // what messages call it
	at     Place
	fields []field
}

// field is one key of an object with its value, aliases resolved.
type field struct {
	key   string
	path  string
	at    Place // of the key
	value ast.Node
	where Place // of the value
	spec  key   // what the block says of it; zero where keys are not those of a block
}

func newLoader(path string, src []byte, tables Tables, o Overrides) *loader {
	return &loader{
		file: path, lines: strings.Split(strings.ReplaceAll(string(src), "\r\n", "\n"), "\n"), tables: tables, over: o,
		anchors: map[string]ast.Node{}, places: map[string]Place{}, origins: map[string]string{}, given: map[Place][]*param{},
	}
}

func (l *loader) problem(at Place, format string, args ...any) Problem {
	p := Problem{File: l.file, Place: at, Message: oneLine(fmt.Sprintf(format, args...) + l.valueOf(at))}
	if at.Line >= 1 && at.Line <= len(l.lines) {
		p.Source = strings.TrimRight(l.lines[at.Line-1], " ")
	}
	return p
}

// oneLine keeps a text of the file from breaking a message.
func oneLine(s string) string { return strings.NewReplacer("\r", " ", "\n", " ").Replace(s) }

func (l *loader) fail(at Place, format string, args ...any) {
	l.problems = append(l.problems, l.problem(at, format, args...))
}

func (l *loader) warn(at Place, format string, args ...any) {
	l.warnings = append(l.warnings, l.problem(at, format, args...))
}

// flag reports a problem with a flag of the command line.
func (l *loader) flag(name, format string, args ...any) {
	l.problems = append(l.problems, Problem{File: name, Message: oneLine(fmt.Sprintf(format, args...))})
}

// parse returns the one document of the file, or nil after it reported why there is none.
func (l *loader) parse(src []byte) ast.Node {
	f, err := parser.ParseBytes(src, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		at := Place{Line: 1, Column: 1}
		message := err.Error()
		var located yaml.Error
		if errors.As(err, &located) {
			message = located.GetMessage()
			if t := located.GetToken(); t != nil {
				at = placeOf(t)
			}
		}
		if at.Line <= len(l.lines) && strings.Contains(l.lines[at.Line-1], "${") {
			message += `; write "${name}" in quotes inside braces and brackets`
		}
		l.fail(at, "not valid YAML: %s", message)
		return nil
	}
	var docs []ast.Node
	for _, d := range f.Docs {
		if d.Body != nil {
			docs = append(docs, d.Body)
		}
	}
	if len(docs) == 0 {
		l.fail(Place{Line: 1, Column: 1}, "the file is empty")
		return nil
	}
	for _, d := range docs[1:] {
		l.fail(nodePlace(d), "a second document; a file holds one scenario")
	}
	ast.Walk(anchorFinder{l}, docs[0])
	return docs[0]
}

// anchorFinder collects the anchors of a document.
type anchorFinder struct{ l *loader }

// Visit remembers an anchor's node.
func (a anchorFinder) Visit(n ast.Node) ast.Visitor {
	if anchor, ok := n.(*ast.AnchorNode); ok {
		a.l.anchors[anchor.Name.GetToken().Value] = anchor.Value
	}
	return a
}

// resolve follows anchors and aliases to the node that holds the value. It returns nil after it reported a problem.
func (l *loader) resolve(n ast.Node) ast.Node {
	at := nodePlace(n)
	for range maxDepth {
		switch v := n.(type) {
		case *ast.AnchorNode:
			n = v.Value
		case *ast.AliasNode:
			target, ok := l.anchors[v.Value.GetToken().Value]
			if !ok {
				l.fail(at, "alias *%s has no anchor", v.Value.GetToken().Value)
				return nil
			}
			n = target
		case *ast.TagNode:
			l.fail(at, "tags such as %s are not used in scenarios", v.Start.Value)
			return nil
		default:
			if l.nodes++; l.nodes == maxNodes {
				l.fail(at, "aliases expand to more than %d values", maxNodes)
			}
			if l.nodes >= maxNodes {
				return nil
			}
			return l.substitute(n)
		}
	}
	l.fail(at, "alias refers to itself")
	return nil
}

// pairs lists the entries of a mapping, with merge keys expanded behind the keys that stand there in full.
func (l *loader) pairs(n ast.Node, depth int) (own, merged []*ast.MappingValueNode) {
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	}
	for _, v := range values {
		if _, ok := v.Key.(*ast.MergeKeyNode); !ok {
			own = append(own, v)
			continue
		}
		from := l.resolve(v.Value)
		if from == nil || depth >= maxDepth {
			continue
		}
		if !isMapping(from) {
			l.fail(nodePlace(v.Value), "<< takes a mapping, is %s", kindOf(from))
			continue
		}
		a, b := l.pairs(from, depth+1)
		merged = append(append(merged, a...), b...)
	}
	return own, merged
}

// entries reads the fields of a mapping: duplicate keys are reported, keys that begin with x- are skipped.
func (l *loader) entries(n ast.Node, path, what string) []field {
	own, merged := l.pairs(n, 0)
	first := map[string]Place{}
	var fields []field
	for i, v := range append(own, merged...) {
		key, at := v.Key.GetToken().Value, nodePlace(v.Key)
		if before, twice := first[key]; twice {
			if i < len(own) {
				l.fail(at, "key %q is given twice%s, first at %s:%d:%d", key, in(what), l.file, before.Line, before.Column)
			}
			continue
		}
		first[key] = at
		if strings.HasPrefix(key, "x-") {
			continue
		}
		f := field{key: key, path: join(path, key), at: at, value: l.resolve(v.Value), where: nodePlace(v.Value)}
		l.places[f.path] = f.where
		if f.value == nil {
			continue
		}
		if _, null := f.value.(*ast.NullNode); null {
			l.fail(at, "key %q%s has no value", key, in(what))
			continue
		}
		fields = append(fields, f)
	}
	return fields
}

// object reads a mapping whose keys are those of a block (keys.go) and reports the needed ones that are missing. what names
// it in messages ("job", "phase steady"). ok is false when n is no mapping, which has been reported then.
func (l *loader) object(n ast.Node, path, blockPath, what string) (o object, ok bool) {
	o = object{l: l, path: path, what: what, at: nodePlace(n)}
	keys := block(blockPath)
	if !isMapping(n) {
		l.fail(o.at, "%s must be a mapping, is %s", orFile(what), kindOf(n))
		return o, false
	}
	for _, f := range l.entries(n, path, what) {
		i := slices.IndexFunc(keys, func(k key) bool { return k.name == f.key })
		switch {
		case i >= 0:
			f.spec = keys[i]
			o.fields = append(o.fields, f)
		case slices.Contains(later(blockPath), f.key):
			l.fail(f.at, "key %q%s %s", f.key, in(what), notYet)
		default:
			l.fail(f.at, "%s", unknownKey(f.key, what, names(keys)))
		}
	}
	for _, k := range keys {
		if k.need {
			o.need(k.name)
		}
	}
	return o, true
}

// find returns the field of a key.
func (o object) find(key string) (field, bool) {
	for _, f := range o.fields {
		if f.key == key {
			return f, true
		}
	}
	return field{}, false
}

// keys are the keys that are given.
func (o object) keys() (keys []string) {
	for _, f := range o.fields {
		keys = append(keys, f.key)
	}
	return keys
}

// has tells whether a key is given.
func (o object) has(key string) bool { _, ok := o.find(key); return ok }

// need reports a key that must be there and is not.
func (o object) need(keys ...string) bool {
	all := true
	for _, k := range keys {
		if !o.has(k) && !o.l.tried(join(o.path, k)) {
			o.l.fail(o.at, "%s has no key %q", orFile(o.what), k)
			all = false
		}
	}
	return all
}

// tried tells whether the key stands in the file; when its value could not be read, that has been reported.
func (l *loader) tried(path string) bool { _, ok := l.places[path]; return ok }

// unknownKey is the message for a key that does not exist.
func unknownKey(key, what string, allowed []string) string {
	s := fmt.Sprintf("unknown key %q%s", key, in(what))
	if what == "" {
		s += " at the top level"
	}
	if near := registry.Nearest(key, allowed); near != "" {
		return s + fmt.Sprintf("; did you mean %q?", near)
	}
	if len(allowed) == 0 {
		return s + "; it takes none"
	}
	return s + "; there are " + strings.Join(allowed, ", ")
}

func in(what string) string {
	if what == "" {
		return ""
	}
	return " in " + what
}

func orFile(what string) string {
	if what == "" {
		return "the scenario"
	}
	return what
}

// join makes the path of a key below path.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func isMapping(n ast.Node) bool {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	}
	return false
}

// nodePlace is where a node begins. The token of a block mapping is the colon behind its first key: it begins at that key.
func nodePlace(n ast.Node) Place {
	switch v := n.(type) {
	case *ast.MappingNode:
		if !v.IsFlowStyle && len(v.Values) > 0 {
			return nodePlace(v.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return nodePlace(v.Key)
	}
	return placeOf(n.GetToken())
}

func placeOf(t *token.Token) Place {
	return Place{Line: max(t.Position.Line, 1), Column: max(t.Position.Column, 1)}
}

// kindOf names the kind of a node for messages.
func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "the number " + n.GetToken().Value
	case *ast.BoolNode:
		return n.GetToken().Value
	case *ast.NullNode:
		return "empty"
	}
	return fmt.Sprintf("%q", n.GetToken().Value)
}
