package scenario

import (
	"strings"
	"testing"
)

// FuzzLoad looks for files that make the loader panic, and for good ones that it cannot write back.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/broken/*.yaml"} {
		for _, file := range files(f, pattern) {
			f.Add(string(mustRead(f, file)))
		}
	}
	f.Fuzz(func(t *testing.T, src string) {
		const file = "testdata/good/fuzz.yaml"
		s, problems := Load(file, []byte(src), testTables(), Overrides{})
		if s == nil && len(problems) == 0 {
			t.Fatal("neither a scenario nor a problem")
		}
		for _, p := range problems {
			if p.Message == "" || strings.Contains(p.Message, "\n") {
				t.Errorf("message %q is not one line", p.Message)
			}
		}
		if s == nil {
			return
		}
		plans, err := Plans(s)
		if err != nil {
			t.Fatal(err)
		}
		_ = Explain(s, plans)
		if _, problems := Load(file, Resolved(s), testTables(), Overrides{World: s.World}); len(problems) > 0 {
			t.Fatalf("the resolved scenario does not load:\n%s\n%s", Format(problems), Resolved(s))
		}
	})
}
