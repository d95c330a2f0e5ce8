package scenario

import (
	"encoding"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/registry"
)

// Tables say which workloads, faults, backends, checks and charts there are. They are filled once and only read.
type Tables struct {
	Workloads registry.Table[WorkloadInfo]
	Faults    registry.Table[FaultInfo]
	Metrics   registry.Table[MetricInfo]
	Backends  []string // names, in order
	Checks    []string // names of the checks of a run, in the order in which they run
	Charts    []string // names, in the order in which they are drawn
}

// WorkloadInfo is what a scenario has to know of a workload.
type WorkloadInfo struct {
	// Options are the options that the workload takes, by dotted name (OptionsOf lists those of a struct). An unknown
	// one is refused and each value is checked by its kind before Resolve sees it. Nil: kinds are taken from the defaults
	// that Resolve fills in, and unknown keys are left to Resolve.
	Options []Option
	// Resolve checks the options, which are JSON with sorted keys, and returns them complete, with every default filled
	// in. Several errors may be joined; one with a method Option() string, or that begins with the dotted name of an
	// option or with option and that name, is reported where that option stands. Nil: the options are taken as they are.
	Resolve func(options json.RawMessage) (json.RawMessage, error)
	// Inputs lists the files that the resolved options read, as the options name them. Nil: none.
	Inputs func(options json.RawMessage) ([]string, error)
	// Check looks at a finished plan: whether the input is long enough, say. Its inputs have been found and hashed. Nil: nothing to check.
	Check func(p *plan.Plan) error
	// Sim maps the keys keys, sizes, speed and duration of a scenario's sim block to the dotted names of the options they override.
	Sim map[string]string
	// Scheduled workloads carry their own schedule, as a trace does: a rate is refused.
	Scheduled bool
	// Schemas is in how many schemas the workload can store its state; 0 is 1.
	Schemas int
}

// FaultInfo is what a scenario has to know of a kind of fault.
type FaultInfo struct {
	// Options are the names of the options under with; those with a kind are checked by it.
	Options []Option
	// Check says what is wrong with a place (worker/1, worker/any, subtask/any, store, ...) and the options, JSON with
	// sorted keys or nil when there are none. Errors are placed like those of WorkloadInfo.Resolve; "where" stands for the place.
	Check func(where string, with json.RawMessage) error
	// Crash marks faults that take a worker away, so that the rest must hold the job until it is back.
	Crash bool
	// Container marks faults that act on the container behind the store: they need the real world and store minio.
	Container bool
}

// Option is one option of a workload or a fault.
type Option struct {
	// Name is dotted when the option is nested: keys.count.
	Name string
	// Kind is duration, size, rate, share, int, number, bool, text, or any of these with [] in front for a list; empty: any value.
	Kind string
	// About is one line for `bench describe`.
	About string
}

// OptionsOf lists the options that a struct (or a pointer to one) decodes from JSON, with kinds from the types of its fields: the
// value types of package registry, numbers, bools, strings, slices of these and nested structs. A field tag `about:"..."`
// describes it. It panics when v is not a struct.
func OptionsOf(v any) []Option {
	t := reflect.TypeOf(v)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return appendOptions(nil, t, "")
}

func appendOptions(out []Option, t reflect.Type, prefix string) []Option {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		ft := f.Type
		for ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		if f.Anonymous && name == "" && ft.Kind() == reflect.Struct {
			out = appendOptions(out, ft, prefix)
			continue
		}
		if name == "" {
			name = f.Name
		}
		if ft.Kind() == reflect.Struct && !isText(ft) {
			out = appendOptions(out, ft, prefix+name+".")
			continue
		}
		out = append(out, Option{Name: prefix + name, Kind: kindOfType(ft), About: f.Tag.Get("about")})
	}
	return out
}

func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) ||
		reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

func kindOfType(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[registry.Duration]():
		return "duration"
	case reflect.TypeFor[registry.Bytes]():
		return "size"
	case reflect.TypeFor[registry.Rate]():
		return "rate"
	case reflect.TypeFor[registry.Share]():
		return "share"
	}
	if t.Kind() == reflect.Struct && t.NumField() == 1 && t.Field(0).Anonymous {
		return kindOfType(t.Field(0).Type) // a value type with a method more
	}
	if isText(t) {
		return ""
	}
	switch t.Kind() {
	case reflect.Bool:
		return "bool"
	case reflect.String:
		return "text"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "int"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Slice:
		if k := kindOfType(t.Elem()); k != "" {
			return "[]" + k
		}
	}
	return ""
}

// OptionsFrom lists the options that stand in resolved options, with kinds from the form of their values: "250ms" is a
// duration, "4KiB" a size, "5%" a share, "100/s" a rate.
func OptionsFrom(resolved json.RawMessage) []Option {
	return fromValue(nil, value(resolved), "")
}

func fromValue(out []Option, v any, name string) []Option {
	object, nested := v.(map[string]any)
	if nested && len(object) > 0 {
		for _, k := range slices.Sorted(maps.Keys(object)) {
			out = fromValue(out, object[k], join(name, k))
		}
		return out
	}
	return append(out, Option{Name: name, Kind: kindOfValue(v)})
}

func kindOfValue(v any) string {
	switch v := v.(type) {
	case bool:
		return "bool"
	case json.Number:
		return "number"
	case string:
		if _, err := registry.ParseDuration(v); err == nil && v != "" {
			return "duration"
		}
		if _, err := registry.ParseBytes(v); err == nil {
			return "size"
		}
		if _, err := registry.ParseRate(v); err == nil {
			return "rate"
		}
		if _, err := registry.ParseShare(v); err == nil && strings.HasSuffix(v, "%") {
			return "share"
		}
		return "text"
	}
	return ""
}
