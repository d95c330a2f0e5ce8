package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/scenario"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	schemaFile = "../../scenarios/scenario.schema.json"
	modeline   = "# yaml-language-server: $schema=scenario.schema.json"
)

// TestTheSchemaFileIsCurrent holds the file to what the program says, and each shipped scenario to the file.
func TestTheSchemaFileIsCurrent(t *testing.T) {
	file, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(file, scenario.Schema(catalog.Scenario())) {
		t.Error("scenarios/scenario.schema.json is old: go run ./cmd/bench schema > scenarios/scenario.schema.json")
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(scenario.SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile(scenario.SchemaID)
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := filepath.Glob("../../scenarios/*.yaml")
	if err != nil || len(shipped) == 0 {
		t.Fatal(shipped, err)
	}
	for _, path := range shipped {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(src), modeline+"\n") {
			t.Errorf("%s does not begin with %s", path, modeline)
		}
		if err := schema.Validate(asJSON(t, src)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		for old, wrong := range map[string]string{"apiVersion: bench/v1": "apiVersion: bench/v2", "\njob:": "\njobs:", "backend: ": "backend: no-", "\n  name: ": "\n  name: no-", "records: ": "records: -"} {
			if err := schema.Validate(asJSON(t, []byte(strings.Replace(string(src), old, wrong, 1)))); err == nil {
				t.Errorf("%s with %q for %q passes", path, wrong, old)
			}
		}
	}
}

// asJSON is a YAML document as an editor sees it.
func asJSON(t *testing.T, src []byte) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal(src, &v); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}
