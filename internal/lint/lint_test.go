package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the folder of the project's go.mod.
const root = "../.."

// TestRulesHold checks the whole project, as it is built without and with the planted bugs.
func TestRulesHold(t *testing.T) {
	for _, tags := range [][]string{nil, {"mutants"}} {
		tree, err := Load(root, tags...)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range tree.Errors {
			t.Errorf("tags %v: %v", tags, err)
		}
		reasons := map[string]string{}
		for _, r := range Rules() {
			reasons[r.Name] = r.Reason
		}
		for _, p := range Check(tree, Rules()) {
			t.Errorf("%v\n\tbecause %s", p, reasons[p.Rule])
		}
		if t.Failed() {
			return // the other build would say the same again
		}
	}
}

// TestRulesFindWhatIsMarked proves each rule on the bad examples: exactly the marked lines are found.
func TestRulesFindWhatIsMarked(t *testing.T) {
	tree, err := Load("testdata/bad")
	if err != nil {
		t.Fatal(err)
	}
	tree.Limits = Limits{File: 60, Func: 17}
	got := map[string]bool{}
	for _, p := range Check(tree, Rules()) {
		got[p.String()[:strings.Index(p.String(), " ")]+" "+p.Rule] = true
	}
	want := wanted(t, "testdata/bad")
	for w := range want {
		if !got[w] {
			t.Errorf("not found: %s", w)
		}
	}
	for g := range got {
		if !want[g] {
			t.Errorf("found, but not marked: %s", g)
		}
	}
	for _, r := range Rules() {
		if !slices.ContainsFunc(keys(want), func(w string) bool { return strings.HasSuffix(w, ": "+r.Name) }) {
			t.Errorf("rule %s is not proven by an example", r.Name)
		}
	}
}

// wanted reads the marks `want: rule, rule` of all files below a folder.
func wanted(t *testing.T, folder string) map[string]bool {
	t.Helper()
	mark := regexp.MustCompile(`want: ([a-z, -]*[a-z])`)
	want := map[string]bool{}
	err := filepath.WalkDir(folder, func(full string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		src, err := os.ReadFile(full)
		if err != nil {
			return err
		}
		short, err := filepath.Rel(folder, full)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(src), "\n") {
			if m := mark.FindStringSubmatch(line); m != nil {
				for _, rule := range strings.Split(m[1], ",") {
					p := Problem{File: filepath.ToSlash(short), Line: i + 1}
					want[p.String()[:strings.Index(p.String(), " ")]+" "+strings.TrimSpace(rule)] = true
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return want
}

func keys(m map[string]bool) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	return all
}
