package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"statebench.dev/bench/internal/plan"
)

// TestShippedPricesAreTheDefault: who copies the shipped list gets what a plan without one is billed at.
func TestShippedPricesAreTheDefault(t *testing.T) {
	p, err := LoadPrices("profiles/prices.yaml")
	if err != nil || p != plan.StandardPrices() {
		t.Errorf("%+v, %v, want %+v", p, err, plan.StandardPrices())
	}
}

// TestPricesReachThePlan from the flag and from the resolved scenario, which needs no file.
func TestPricesReachThePlan(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(path, []byte("apiVersion: bench/v1\nkind: StorePrices\nname: mine\nwrite: 0.01\nread: 0.001\nstored: 0.05\nreceived: 0.09\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := plan.Prices{Name: "mine", Write: 0.01, Read: 0.001, Stored: 0.05, Received: 0.09}
	s, plans := load(t, "testdata/good/standard.yaml", testTables(), Overrides{Prices: path})
	if got := plans[0].Store.Prices; got == nil || *got != want || s.Origin("env.store.prices") != "flag --prices" {
		t.Errorf("%+v from %s", got, s.Origin("env.store.prices"))
	}
	_, again := loadSource(t, "again.yaml", Resolved(s), testTables(), Overrides{})
	if got := again[0].Store.Prices; got == nil || *got != want {
		t.Errorf("resolved: %+v\n%s", got, Resolved(s))
	}
}

// TestBadPricesAreRefused with the place and the key.
func TestBadPricesAreRefused(t *testing.T) {
	const head = "apiVersion: bench/v1\nkind: StorePrices\nname: mine\n"
	for _, c := range []struct{ src, says string }{
		{head + "write: 0.01\nread: 0.001\n", "stored"},
		{head + "write: -1\nread: 0.001\nstored: 0.05\n", "write"},
		{head + "write: cheap\nread: 0.001\nstored: 0.05\n", "write"},
		{head + "writes: 1\nread: 0.001\nstored: 0.05\n", "writes"},
		{head + "write: .nan\nread: 0.001\nstored: 0.05\n", "write"},
		{"apiVersion: bench/v1\nkind: StoreProfile\nname: mine\nwrite: 1\nread: 1\nstored: 1\n", "StorePrices"},
		{"", "empty"},
	} {
		if _, problems := ReadPrices("mine.yaml", []byte(c.src)); len(problems) == 0 || !strings.Contains(Format(problems), c.says) {
			t.Errorf("%q: %s, want something about %s", c.src, Format(problems), c.says)
		}
	}
}
