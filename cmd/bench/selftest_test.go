package main

import (
	"os"
	"strings"
	"testing"

	"statebench.dev/bench/internal/explore"
)

// TestSelftestTellsSurvivors: a bug that no seed shows, or whose plan does not pass without it, ends the command with code 1.
func TestSelftestTellsSurvivors(t *testing.T) {
	found := explore.Kill{Mutant: explore.Mutant{Name: "one", Area: "log", About: "it loses", Must: []string{"S1"}}, Failed: []string{"S1", "F5"}, Seed: 3}
	missed := explore.Kill{Mutant: explore.Mutant{Name: "two", Area: "log", About: "it stays", Must: []string{"S1", "F5"}}, Failed: []string{"S1"}}
	wrong := found
	wrong.Wrong = "it fails"
	for _, c := range []struct {
		kills []explore.Kill
		code  int
		want  []string
	}{
		{[]explore.Kill{found}, exitPass, []string{"one          log   X   x   3", "1 planted bug, all found"}},
		{[]explore.Kill{found, missed}, exitViolation, []string{"two          log   X   .   0", "survived  two: S1, F5 had to fail, there failed S1"}},
		{[]explore.Kill{wrong}, exitViolation, []string{"its plan does not pass without the bug: it fails"}},
	} {
		for _, markdown := range []bool{false, true} {
			var out, errs strings.Builder
			s := selftesting{markdown: markdown, seeds: 12, stdout: &out, stderr: &errs}
			code := exitPass
			if err := s.conclude(c.kills); err != nil {
				code = codeOf(err)
			}
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			text := out.String() + errs.String()
			for _, w := range c.want {
				if !markdown && !strings.Contains(text, w) {
					t.Errorf("%q is not in\n%s", w, text)
				}
			}
			if markdown && (!strings.HasPrefix(out.String(), "# ") || !strings.Contains(out.String(), "| `one` | log | it loses | X |")) {
				t.Errorf("the page is\n%s", out.String())
			}
		}
	}
}

// TestSelftestPageIsOfToday: docs/selftest.md has every planted bug, each found.
func TestSelftestPageIsOfToday(t *testing.T) {
	page, err := os.ReadFile("../../docs/selftest.md")
	if err != nil {
		t.Fatal(err)
	}
	all := explore.Mutants()
	if len(all) < 25 {
		t.Errorf("%d planted bugs", len(all))
	}
	for _, m := range all {
		row := "| `" + m.Name + "` | " + m.Area + " | " + m.About + " |"
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/selftest.md has no row %s; make it again with `bench selftest --markdown`", row)
		}
	}
	if n := strings.Count(string(page), "\n| `"); n != len(all) || strings.Contains(string(page), "| 0 |\n") {
		t.Errorf("docs/selftest.md has %d rows for %d bugs, or one that survives", n, len(all))
	}
}
