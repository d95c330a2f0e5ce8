package scenario

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pmezard/go-difflib/difflib"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with a golden file.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; go test ./internal/scenario -update writes it", err)
	}
	if !bytes.Equal(got, want) {
		diff, _ := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: difflib.SplitLines(string(want)), B: difflib.SplitLines(string(got)),
			FromFile: file, ToFile: "now", Context: 2})
		t.Errorf("differs from the golden file:\n%s", diff)
	}
}

func files(t testing.TB, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(found), err)
	}
	return found
}

func mustRead(t testing.TB, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBrokenScenariosReportEveryProblem(t *testing.T) {
	found := files(t, "testdata/broken/*.yaml")
	if len(found) < 30 {
		t.Errorf("%d broken scenarios, want 30 at least", len(found))
	}
	for _, file := range found {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			s, problems := Load(file, mustRead(t, file), testTables(), Overrides{Drawn: 1})
			if s != nil || len(problems) == 0 {
				t.Fatalf("loads without a problem")
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", []byte(Format(problems)))
		})
	}
}
