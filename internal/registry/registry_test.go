package registry

import (
	"strings"
	"testing"
)

func TestValuesAreReadAsWritten(t *testing.T) {
	for _, s := range []string{"250ms", "1s", "1m30s"} {
		d, err := ParseDuration(s)
		if err != nil || d.String() != s {
			t.Errorf("%q: %v, %v", s, d, err)
		}
	}
	for s, want := range map[string]Bytes{"4KiB": 4096, "10MiB": 10 << 20, "500B": 500, "4KB": 4000, "1_024B": 1024} {
		b, err := ParseBytes(s)
		if err != nil || b != want {
			t.Errorf("%q: %d, %v, want %d", s, b, err, want)
		}
		if again, err := ParseBytes(b.String()); err != nil || again != b {
			t.Errorf("%q is written %q, which reads %d, %v", s, b, again, err)
		}
	}
	if r, err := ParseRate("40_000/s"); err != nil || r != 40000 {
		t.Errorf("rate: %v, %v", r, err)
	}
	if s, err := ParseShare("5%"); err != nil || s != 0.05 {
		t.Errorf("share: %v, %v", s, err)
	}
}

func TestBadValuesSayWhatToWrite(t *testing.T) {
	for _, c := range []struct {
		err  func() error
		want string
	}{
		{func() error { _, err := ParseDuration("600"); return err }, "write 600s or 10m"},
		{func() error { _, err := ParseDuration("-1s"); return err }, "negative"},
		{func() error { _, err := ParseBytes("4M"); return err }, "write 4MiB or 4MB"},
		{func() error { _, err := ParseBytes("10"); return err }, "write 10B or 10KiB"},
		{func() error { _, err := ParseRate("10"); return err }, "40_000/s"},
		{func() error { _, err := ParseRate("-1/s"); return err }, "40_000/s"},
		{func() error { _, err := ParseShare("120%"); return err }, "between"},
	} {
		if err := c.err(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one that says %q", err, c.want)
		}
	}
}

func TestUnknownNamesSuggestTheNearest(t *testing.T) {
	tab := NewTable("fault", Entry[int]{Name: "worker-crash"}, Entry[int]{Name: "store-errors"})
	_, err := tab.Find("worker-crsh")
	if err == nil || err.Error() != `fault "worker-crsh" does not exist; did you mean "worker-crash"?` {
		t.Fatalf("got %v", err)
	}
	if _, err := tab.Find("zzz"); err == nil || strings.Contains(err.Error(), "mean") {
		t.Fatalf("got %v", err)
	}
}
