package workloads

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sort"
	"strings"

	"statebench.dev/bench/internal/registry"
)

// Values that JSON writes as text with a unit and that may be given as a number where no unit is needed; without these a
// number would be refused for its type, not for its missing unit.
type (
	share struct{ registry.Share }
	span  struct{ registry.Duration }
	size  struct{ registry.Bytes }
)

// UnmarshalJSON reads 0.05, "0.05" or "5%".
func (s *share) UnmarshalJSON(b []byte) error { return fromJSON(b, s) }

// UnmarshalJSON reads "250ms" or 0.
func (s *span) UnmarshalJSON(b []byte) error { return fromJSON(b, s) }

// UnmarshalJSON reads "4KiB".
func (s *size) UnmarshalJSON(b []byte) error { return fromJSON(b, s) }

func fromJSON(b []byte, into encoding.TextUnmarshaler) error {
	if len(b) > 0 && b[0] != '"' {
		return into.UnmarshalText(b)
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	return into.UnmarshalText([]byte(text))
}

// decodeOptions reads strict JSON over the defaults that into holds. It reports all unknown keys at once.
func decodeOptions(options json.RawMessage, into any) error {
	if len(bytes.TrimSpace(options)) == 0 {
		return nil
	}
	var raw any
	d := json.NewDecoder(bytes.NewReader(options))
	if err := d.Decode(&raw); err != nil {
		return fmt.Errorf("options are not JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("options go on after their end")
	}
	if err := errors.Join(unknownKeys(raw, reflect.TypeOf(into).Elem(), "")...); err != nil {
		return err
	}
	var wrong *json.UnmarshalTypeError
	switch err := json.Unmarshal(options, into); {
	case errors.As(err, &wrong):
		return fmt.Errorf("option %q is a %s, want %s", wrong.Field, wrong.Value, wrong.Type)
	case err != nil:
		return err
	}
	return nil
}

// unknownKeys compares the keys of JSON objects with the fields of the structs they are read into.
func unknownKeys(raw any, t reflect.Type, path string) (problems []error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	object, ok := raw.(map[string]any)
	if !ok || t.Kind() != reflect.Struct {
		return nil
	}
	fields, names := map[string]reflect.Type{}, []string{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name], names = f.Type, append(names, name)
	}
	keys := make([]string, 0, len(object))
	for k := range object { // order-free: sorted below
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		field, known := fields[k]
		if known {
			problems = append(problems, unknownKeys(object[k], field, path+k+".")...)
			continue
		}
		problems = append(problems, &registry.UnknownError{What: "option", Name: path + k, Nearest: prefixed(path, registry.Nearest(k, names))})
	}
	return problems
}

func prefixed(path, name string) string {
	if name == "" {
		return ""
	}
	return path + name
}

// limitOf is how many of the first total records of a source that deals them out in turn go to a partition.
func limitOf(partition, partitions int, total int64) int64 {
	if total <= int64(partition) {
		return 0
	}
	return (total-int64(partition)-1)/int64(partitions) + 1
}
