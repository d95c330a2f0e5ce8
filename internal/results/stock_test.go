package results_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"statebench.dev/bench/internal/results"
)

// TestStockListsInvocationsOnly: the newest first, what cannot be read with its reason, and nothing that is not an invocation's.
func TestStockListsInvocationsOnly(t *testing.T) {
	out := t.TempDir()
	noError := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	old, err := results.Create(out, "a", at, 42)
	noError(err)
	noError(results.WriteJSON(old.Path(results.ManifestFile), results.Manifest{Schema: results.Schema, Scenario: "a", Outcome: "pass"}))
	cut, err := results.Create(out, "b", at.Add(time.Hour), 1)
	noError(err)
	noError(os.WriteFile(cut.Path(results.ManifestFile), []byte("{"), 0o600))
	for _, other := range []string{"a/notes", "a/20260304T050607Z", "a/20260304T050607Z-x", "photos/2026"} {
		noError(os.MkdirAll(filepath.Join(out, other), 0o755))
	}
	noError(os.WriteFile(filepath.Join(out, "a", "20260304T050607Z-7"), nil, 0o600)) // a file

	all, err := results.Stock(out, "")
	noError(err)
	if len(all) != 2 || all[0].Dir != cut || all[0].Problem == nil || all[1].Dir != old || all[1].Problem != nil || all[1].Manifest.Outcome != "pass" || all[1].Bytes == 0 {
		t.Fatalf("%+v", all)
	}
	if only, err := results.Stock(out, "a"); err != nil || len(only) != 1 || only[0].Dir != old {
		t.Errorf("%+v, %v", only, err)
	}
	noError(all[0].Remove())
	noError(all[1].Remove())
	if left, err := results.Stock(out, ""); err != nil || len(left) != 0 {
		t.Errorf("%+v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(out, "a", "notes")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(out, "b")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the empty folder of a scenario is left: %v", err)
	}
	if _, err := results.Stock(filepath.Join(out, "none"), ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}
