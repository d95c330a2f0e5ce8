package scenario

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// SchemaID names the schema; nothing is fetched from there.
const SchemaID = "https://statebench.dev/bench/scenario.schema.json"

// Schema returns the JSON Schema (draft 2020-12) of scenario files, made from the keys that the loader reads and the tables
// of what can be named. It serves editors: it sees each value for itself, while Load also sees what they say together. The
// same tables give the same bytes.
func Schema(t Tables) []byte {
	g := schema{t}
	root := g.block("")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = SchemaID
	root["title"] = "A scenario of bench"
	root["$defs"] = g.definitions()
	root["allOf"] = g.workloads()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(root); err != nil {
		panic("scenario: the schema has no JSON: " + err.Error())
	}
	return b.Bytes()
}

// node is a part of a schema.
type node = map[string]any

// schema makes the parts.
type schema struct{ t Tables }

func ref(name string) node { return node{"$ref": "#/$defs/" + name} }

// mapping is a block with the given keys and those of the user.
func mapping(properties node, need []string) node {
	out := node{"type": "object", "properties": properties, "additionalProperties": false, "patternProperties": node{"^x-": true}}
	if len(need) > 0 {
		out["required"] = need
	}
	return out
}

// block is the schema of a block of the format.
func (g schema) block(path string) node {
	properties := node{}
	var need []string
	for _, k := range block(path) {
		properties[k.name] = g.value(k)
		if k.need {
			need = append(need, k.name)
		}
	}
	return mapping(properties, need)
}

// value is the schema of a key's value.
func (g schema) value(k key) node {
	out := g.kind(k, k.kind)
	if k.about != "" {
		out["description"] = k.about
	}
	return out
}

func (g schema) kind(k key, kind string) node {
	if element, list := strings.CutPrefix(kind, "[]"); list {
		return node{"type": "array", "items": g.kind(k, element)}
	}
	if path, nested := strings.CutPrefix(kind, "@"); nested {
		return ref(definition(path))
	}
	switch kind {
	case "word":
		return words(k.words)
	case "int":
		return node{"anyOf": []any{node{"type": "integer", "minimum": k.lo, "maximum": k.hi}, ref("digits"), ref("param")}}
	case "text", "options", "with":
		return node{"type": map[string]string{"text": "string", "options": "object", "with": "object"}[kind]}
	case "backend":
		return words(g.t.Backends)
	case "fault":
		return words(g.t.Faults.Names())
	case "chart":
		return words(g.t.Charts)
	case "event":
		return words(Events())
	case "checks":
		return node{"anyOf": []any{words([]string{"all"}), node{"type": "array", "items": words(g.t.Checks)}}}
	}
	return ref(kind)
}

// words is one of a few words, or a parameter.
func words(list []string) node {
	return node{"anyOf": []any{node{"enum": list}, ref("param")}}
}

// definition is the name of a block among the definitions.
func definition(path string) string { return strings.ReplaceAll(path, ".", "-") }

// unit is a number with a unit, or one of the others.
func unit(pattern string, others ...any) node {
	return node{"anyOf": append([]any{node{"type": "string", "pattern": pattern}, ref("param")}, others...)}
}

// definitions are the value types, the blocks, and what depends on the tables.
func (g schema) definitions() node {
	const number = `[0-9][0-9_]*(\.[0-9]+)?`
	zero := node{"const": 0}
	defs := node{
		"param":           node{"type": "string", "pattern": `\$\{[a-zA-Z][a-zA-Z0-9-]*\}`, "description": "a parameter"},
		"digits":          node{"type": "string", "pattern": `^-?[0-9]+(_[0-9]+)*$`, "description": "200_000, which is text to some readers of YAML"},
		"name":            node{"anyOf": []any{node{"type": "string", "pattern": kebab.String(), "maxLength": 100}, ref("param")}},
		"seed":            node{"anyOf": []any{node{"type": "integer", "minimum": 0}, ref("digits"), ref("param")}},
		"bool":            node{"anyOf": []any{node{"type": "boolean"}, ref("param")}},
		"number":          node{"anyOf": []any{node{"type": "number"}, node{"type": "string", "pattern": "^-?" + number + "$"}, ref("param")}},
		"int":             node{"anyOf": []any{node{"type": "integer"}, ref("digits"), ref("param")}},
		"duration":        unit(`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`, zero),
		"size":            unit("^"+number+` ?([kKMGTPE]i?)?B$`, node{"type": "string", "pattern": "^" + number + ` ?([kmgtpe]i?)?b$`}),
		"rate":            unit("^" + number + `/s$`),
		"bandwidth":       unit("^" + number + ` ?([kKMGTPE]i?)?B/s$`),
		"share":           unit("^"+number+`%?$`, node{"type": "number", "minimum": 0, "maximum": 1}),
		"share-or-off":    node{"anyOf": []any{ref("share"), node{"const": "off"}}},
		"duration-or-off": node{"anyOf": []any{ref("duration"), node{"const": "off"}}},
		"statement":       node{"type": "string", "pattern": `^\s*(<=|>=|==|<|>)\s*\S`},
		"params": node{"type": "object", "propertyNames": node{"pattern": paramName.String()},
			"additionalProperties": node{"type": []string{"string", "number", "boolean"}}},
		"profile":  node{"anyOf": []any{node{"type": "string"}, ref("profile-figures")}},
		"prices":   node{"anyOf": []any{node{"type": "string"}, ref("price-list")}},
		"workload": node{"type": "object", "required": []string{"name"}, "properties": node{"name": words(g.t.Workloads.Names())}},
		"arms": node{"type": "object", "minProperties": 1, "propertyNames": node{"pattern": kebab.String(), "maxLength": 100},
			"additionalProperties": ref("arm")},
		"phases": node{"type": "array", "minItems": 1, "items": g.phase()},
		"expect": g.expect(), "statements": g.statements(),
	}
	for _, path := range nested() {
		defs[definition(path)] = g.block(path)
	}
	defs["profile-figures"], defs["price-list"] = g.block("profile"), g.block("prices")
	exactlyOne(defs["phases-steps"].(node), "savepoint", "stop", "start")
	exactlyOne(defs["phases-at"].(node), "time", "record", "event", "phase")
	defs["phases-faults"].(node)["allOf"] = g.faults()
	return defs
}

// nested are the blocks that keys of others refer to.
func nested() []string {
	return []string{"env", "env.store", "env.store.limits", "env.workers", "env.workers.heartbeat", "job", "job.checkpoint",
		"job.restart", "arm", "lsm", "changelog", "changelog.materialize", "changelog.batch", "changelog.upload", "phases.steps", "phases.steps.stop",
		"phases.steps.start", "phases.faults", "phases.rescale", "phases.at", "sim", "report", "profile.operation",
		"profile.bandwidth", "profile.requests"}
}

// exactlyOne wants one of the keys of a block.
func exactlyOne(block node, keys ...string) {
	var forms []any
	for _, k := range keys {
		forms = append(forms, node{"required": []string{k}})
	}
	block["oneOf"] = forms
}

// given is the condition that a key has a value.
func given(key, value string) node {
	return node{"properties": node{key: node{"const": value}}, "required": []string{key}}
}

// phase is one phase: a closing one by its name, or one of the user's own.
func (g schema) phase() node {
	own := g.block("phases")
	exactlyOne(own, "for", "records", "steps")
	closing := func(name string) node { return g.block("phases." + name) }
	return node{
		"if": given("name", healName), "then": closing(healName),
		"else": node{"if": given("name", drainName), "then": closing(drainName),
			"else": node{"if": given("name", verifyName), "then": closing(verifyName), "else": own}},
	}
}

// expect maps phases to metrics to statements.
func (g schema) expect() node {
	metrics := node{}
	for _, e := range g.t.Metrics.Entries() {
		metrics[e.Name] = node{"$ref": "#/$defs/statements", "description": e.About}
	}
	return node{"type": "object", "patternProperties": node{"^x-": true}, "additionalProperties": mapping(metrics, nil)}
}

// statements are one statement on a metric, or a list.
func (g schema) statements() node {
	one := node{"anyOf": []any{ref("statement"), ref("param"), g.block("expect.statement")}}
	return node{"anyOf": []any{one, node{"type": "array", "minItems": 1, "items": one}}}
}

// faults are the options of each fault.
func (g schema) faults() []any {
	var out []any
	for _, e := range g.t.Faults.Entries() {
		out = append(out, node{"if": given("fault", e.Name), "then": node{"properties": node{"with": g.options(e.New.Options, nil)}}})
	}
	return out
}

// workloads are the options of each workload, for the workload itself and for arms.
func (g schema) workloads() []any {
	var out []any
	for _, e := range g.t.Workloads.Entries() {
		options := e.New.Options
		if options == nil && e.New.Resolve != nil {
			continue // its own affair
		}
		source := node{"openLoop": node{"const": true}, "partitions": ref("int")}
		common := node{"name": node{"const": e.Name}, "source": mapping(source, nil)}
		if !e.New.Scheduled {
			stepped := mapping(node{"steps": node{"type": "array", "minItems": 1, "maxItems": 1}}, []string{"steps"})
			source["rate"] = node{"anyOf": []any{ref("rate"), stepped}}
			common["rate"] = ref("rate")
		}
		whole := g.options(options, common)
		whole["required"] = []string{"name"}
		differs := slices.DeleteFunc(slices.Clone(options), func(o Option) bool { return o.Name == "partitions" })
		byArm := node{"additionalProperties": node{"properties": node{"workload": g.options(differs, nil)}}}
		out = append(out, node{
			"if":   node{"properties": node{"workload": given("name", e.Name)}, "required": []string{"workload"}},
			"then": node{"properties": node{"workload": whole, "arms": byArm}},
		})
	}
	return out
}

// options is a block of options, dotted names nested, beside the given keys.
func (g schema) options(options []Option, beside node) node {
	properties := node{}
	maps.Copy(properties, beside)
	below := map[string][]Option{}
	for _, o := range options {
		first, rest, nested := strings.Cut(o.Name, ".")
		if !nested {
			properties[o.Name] = option(o)
			continue
		}
		o.Name = rest
		below[first] = append(below[first], o)
	}
	for _, name := range slices.Sorted(maps.Keys(below)) {
		properties[name] = g.options(below[name], nil)
	}
	return mapping(properties, nil)
}

// option is the schema of one option.
func option(o Option) node {
	out := node{}
	switch element, list := strings.CutPrefix(o.Kind, "[]"); {
	case list:
		out = node{"type": "array", "items": option(Option{Kind: element})}
	case o.Kind == "text":
		out["type"] = "string"
	case o.Kind != "":
		out = ref(o.Kind)
	}
	if o.About != "" {
		out["description"] = o.About
	}
	return out
}
