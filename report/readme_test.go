package report

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/sinks"
)

// TestReadmeNamesEverything holds results/README.md to its word: every file, column and key of the results is in it.
func TestReadmeNamesEverything(t *testing.T) {
	b, err := os.ReadFile("../results/README.md")
	must(t, err)
	readme := string(b)
	section := func(heading string) string {
		_, rest, ok := strings.Cut(readme, "### "+heading)
		if !ok {
			t.Errorf("results/README.md has no section %q", heading)
		}
		body, _, _ := strings.Cut(rest, "\n### ")
		return body
	}
	columns := func(file, tag string, row any) {
		text := section(file)
		for _, name := range tags(reflect.TypeOf(row), tag) {
			if !strings.Contains(text, "`"+name+"`") {
				t.Errorf("results/README.md, %s: `%s` is not documented", file, name)
			}
		}
	}
	columns(results.CheckpointsFile, "csv", results.CheckpointRow{})
	columns(results.RecoveriesFile, "csv", results.RecoveryRow{})
	columns(results.SeriesFile, "csv", results.SeriesRow{})
	columns(results.ManifestFile, "json", results.Manifest{})
	columns(results.ManifestFile, "json", results.RunEntry{})
	columns(results.ManifestFile, "json", results.Build{})
	columns(results.ManifestFile, "json", results.Host{})
	columns(results.PlanFile, "json", plan.Plan{})
	columns(results.HistoryFile, "json", history.Event{})
	columns(results.HistoryFile, "json", history.Sizes{})
	columns(results.HistoryFile, "json", history.GroupDigest{})
	columns(results.ObjectsFile, "json", history.Request{})
	columns(results.RefsFile, "json", checkpoint.RefsChange{})
	columns(results.RefsFile, "json", checkpoint.ObjectUse{})
	columns(results.ListingFile, "json", results.Listed{})
	columns(results.CoordLogFile, "json", results.LogLine{})
	columns(results.StatesFile, "json", results.StateLine{})
	columns(results.StatesFile, "json", results.RestoreLine{})
	columns(results.StatesFile, "json", results.GroupLine{})
	columns(results.OutputFile, "json", sinks.Result{})
	columns(results.OutputFile, "json", sinks.GroupResult{})
	columns(results.OutputFile, "json", sinks.Identity{})
	columns(results.VerdictsFile, "json", results.Verdict{})
	columns(results.ExpectFile, "json", results.Expectation{})
	columns(results.LatenciesFile, "csv", results.LatencyRow{})
	for _, name := range fileNames(t) {
		if !strings.Contains(readme, name) {
			t.Errorf("results/README.md does not name %s", name)
		}
	}
	if !strings.Contains(readme, "schema "+strconv.Itoa(results.Schema)) {
		t.Errorf("results/README.md does not describe schema %d", results.Schema)
	}
	for _, c := range Charts() {
		if !strings.Contains(readme, "`"+c+"`") {
			t.Errorf("results/README.md does not name chart %s", c)
		}
	}
}

// tags are the names that fields of a struct have in a file.
func tags(typ reflect.Type, tag string) (names []string) {
	for i := range typ.NumField() {
		if name, _, _ := strings.Cut(typ.Field(i).Tag.Get(tag), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// fileNames are the values of the constants …File and …Dir of package results.
func fileNames(t *testing.T) (names []string) {
	f, err := parser.ParseFile(token.NewFileSet(), "../internal/results/results.go", nil, 0)
	must(t, err)
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, id := range v.Names {
			if !strings.HasSuffix(id.Name, "File") && !strings.HasSuffix(id.Name, "Dir") {
				continue
			}
			lit, ok := v.Values[i].(*ast.BasicLit)
			if !ok {
				t.Fatalf("%s is no literal", id.Name)
			}
			name, err := strconv.Unquote(lit.Value)
			must(t, err)
			names = append(names, name)
		}
		return true
	})
	if len(names) < 15 {
		t.Fatalf("only %d names found", len(names))
	}
	return names
}
