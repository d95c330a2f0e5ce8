package scenario

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// compiled is the schema of some tables, checked against the meta-schema.
func compiled(t *testing.T, tables Tables) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema(tables)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(SchemaID)
	if err != nil {
		t.Fatal(err)
	}
	return s
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

// TestSchemaTakesWhatLoads: what the loader takes passes, in the form it was written and in the resolved one.
func TestSchemaTakesWhatLoads(t *testing.T) {
	test, real := compiled(t, testTables()), compiled(t, realTables())
	for _, c := range []struct {
		pattern string
		schema  *jsonschema.Schema
	}{{"testdata/good/*.yaml", test}, {"testdata/good/*.resolved.txt", test}, {"../../scenarios/*.yaml", real}, {"testdata/shipped/*.resolved.txt", real}} {
		for _, file := range files(t, c.pattern) {
			if err := c.schema.Validate(asJSON(t, mustRead(t, file))); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

// TestSchemaRefusesWhatIsBrokenByItself: everything but what only shows when several places are read together, or files.
func TestSchemaRefusesWhatIsBrokenByItself(t *testing.T) {
	schema := compiled(t, testTables())
	for _, name := range strings.Fields(`charts container-values expect fault-later fault-options fault-unknown later-keys missing-keys names
		no-unit ranges restart restart-strategy sim steps triggers unknown-keys workload-options workload-unknown wrong-types arms-workload params`) {
		file := filepath.Join("testdata/broken", name+".yaml")
		if err := schema.Validate(asJSON(t, mustRead(t, file))); err == nil {
			t.Errorf("%s is broken, and passes the schema", file)
		}
	}
}

// TestSchemaKnowsEachKeyOfEachBlock: a kind that has no definition would be a dangling reference, which does not compile; a
// block that is not reached would say nothing.
func TestSchemaKnowsEachKeyOfEachBlock(t *testing.T) {
	text := string(Schema(testTables()))
	for _, path := range []string{"", "env", "env.store", "job", "job.checkpoint", "job.restart", "arm", "changelog", "phases", "phases.heal",
		"phases.drain", "phases.verify", "phases.steps", "phases.faults", "phases.rescale", "phases.at", "expect.statement", "sim", "report", "profile"} {
		for _, k := range block(path) {
			if !strings.Contains(text, `"`+k.name+`": {`) {
				t.Errorf("the schema has no key %s of %s", k.name, path)
			}
		}
	}
}
